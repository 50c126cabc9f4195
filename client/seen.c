/* seen.c - the ids that were had. */
#include "seen.h"

#include <stdlib.h>
#include <string.h>

/* The roster has no room for more stores than there are rows. */
#define ROWS_MAX (ROSTER_STORES + HILO_SERVERS_MAX)

struct place {
    uint64_t epoch;
    uint32_t lane;
    unsigned server; /* its number + 1 on a shared engine, or 0 */
};

struct seen {
    struct seen *next;
    char name[HILO_NAME_MAX + 1];
    size_t n;
    struct {
        struct place at;
        uint64_t highest;
    } rows[ROWS_MAX];
    struct {
        struct place at;
        uint64_t last;
    } servers[HILO_SERVERS_MAX];
};

static struct place place_of(const struct identity *id, unsigned server)
{
    return (struct place){.epoch = id->epoch,
                          .lane = id->lane.number,
                          .server = id->shared ? server + 1 : 0};
}

static bool is_same(struct place a, struct place b)
{
    return a.epoch == b.epoch && a.lane == b.lane && a.server == b.server;
}

struct seen *seen_of(struct seen **list, const char *name)
{
    struct seen *s = *list;

    while (s != NULL && strcmp(s->name, name) != 0)
        s = s->next;
    if (s != NULL)
        return s;
    s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    memcpy(s->name, name, strlen(name) + 1);
    s->next = *list;
    *list = s;
    return s;
}

void seen_free(struct seen *list)
{
    struct seen *s;

    while ((s = list) != NULL) {
        list = s->next;
        free(s);
    }
}

uint64_t seen_highest(const struct seen *s, const struct identity *id, unsigned server)
{
    struct place at = place_of(id, server);
    uint64_t before = 0;

    for (size_t i = 0; i < s->n; i++) {
        if (is_same(s->rows[i].at, at))
            return s->rows[i].highest;
        if (s->rows[i].at.epoch < at.epoch && s->rows[i].highest > before)
            before = s->rows[i].highest;
    }
    return before;
}

uint64_t seen_last(const struct seen *s, const struct identity *id, unsigned server)
{
    return is_same(s->servers[server].at, place_of(id, server))
               ? s->servers[server].last
               : 0;
}

void seen_note(struct seen *s, const struct identity *id, unsigned server,
               uint64_t last)
{
    struct place at = place_of(id, server);
    uint64_t highest = seen_highest(s, id, server);
    size_t i = 0;

    s->servers[server].at = at;
    s->servers[server].last = last;
    while (i < s->n && !is_same(s->rows[i].at, at))
        i++;
    if (i == ROWS_MAX)
        i--;
    else if (i == s->n)
        s->n++;
    s->rows[i].at = at;
    s->rows[i].highest = last > highest ? last : highest;
}
