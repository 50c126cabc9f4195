/* catalog.c - all sequences. */
#include "catalog.h"

#include <stdlib.h>
#include <string.h>
#include "name.h"

#define FIRST_BUCKETS 64

bool catalog_init(struct catalog *c, struct seq_env *env, uint64_t seed)
{
    *c = (struct catalog){.env = env, .n_buckets = FIRST_BUCKETS, .seed = seed};
    c->buckets = calloc(c->n_buckets, sizeof *c->buckets);
    return c->buckets != NULL;
}

static void entry_free(struct entry *e)
{
    if (e->seq != NULL)
        seq_free(e->seq);
    free(e);
}

void catalog_free(struct catalog *c)
{
    for (uint64_t i = 0; i < c->n_buckets; i++) {
        struct entry *e = c->buckets[i];

        while (e != NULL) {
            struct entry *next = e->next;

            entry_free(e);
            e = next;
        }
    }
    free(c->buckets);
    free(c->live);
    *c = (struct catalog){0};
}

/* --- finding --- */

static uint32_t hash_of(const struct catalog *c, const char *name, size_t len)
{
    return (uint32_t)name_hash(name, len, c->seed);
}

static struct entry **bucket(const struct catalog *c, uint32_t hash)
{
    return &c->buckets[hash & (c->n_buckets - 1)];
}

static struct entry *find(const struct catalog *c, const char *name, size_t len)
{
    uint32_t hash = hash_of(c, name, len);
    struct entry *e = *bucket(c, hash);

    while (e != NULL &&
           (e->hash != hash || e->name_len != len || memcmp(e->name, name, len) != 0))
        e = e->next;
    return e;
}

/* As the store said it is. */
static void make_live(const struct catalog *c, const struct entry *e, struct seq *s)
{
    const struct counter_attr attr = {
        .start = e->start, .max = e->max, .each = e->each, .retired = e->retired};

    seq_init(s, c->env, e->name, e->name_len, &attr);
    seq_go_live(s, e->counter, e->mark);
}

static struct seq *wake(const struct catalog *c, struct entry *e)
{
    struct seq *s = malloc(sizeof *s);

    if (s == NULL)
        return NULL;
    make_live(c, e, s);
    e->seq = s;
    return s;
}

struct seq *catalog_find(struct catalog *c, const char *name, size_t len)
{
    struct entry *e = find(c, name, len);

    if (e == NULL)
        return NULL;
    return __builtin_expect(e->seq != NULL, 1) ? e->seq : wake(c, e);
}

bool catalog_knows(const struct catalog *c, const char *name, size_t len)
{
    return find(c, name, len) != NULL;
}

const struct seq *catalog_look(const struct catalog *c, uint64_t i, struct seq *room)
{
    const struct entry *e = c->live[i];

    if (e->seq != NULL)
        return e->seq;
    make_live(c, e, room);
    return room;
}

/* --- adding --- */

static bool grow_buckets(struct catalog *c)
{
    struct catalog bigger = {.n_buckets = 2 * c->n_buckets};

    bigger.buckets = calloc(bigger.n_buckets, sizeof *bigger.buckets);
    if (bigger.buckets == NULL)
        return false;
    for (uint64_t i = 0; i < c->n_buckets; i++) {
        struct entry *e = c->buckets[i];

        while (e != NULL) {
            struct entry *next = e->next, **to = bucket(&bigger, e->hash);

            e->next = *to;
            *to = e;
            e = next;
        }
    }
    free(c->buckets);
    c->buckets = bigger.buckets;
    c->n_buckets = bigger.n_buckets;
    return true;
}

static bool grow_live(struct catalog *c)
{
    uint64_t cap = c->live_cap ? 2 * c->live_cap : FIRST_BUCKETS;
    struct entry **live = realloc(c->live, cap * sizeof(struct entry *));

    if (live == NULL)
        return false;
    c->live = live;
    c->live_cap = cap;
    return true;
}

static struct entry *add_entry(struct catalog *c, const char *name, size_t len)
{
    struct entry *e, **to;

    if (c->n_named >= c->n_buckets && !grow_buckets(c))
        return NULL;
    if (c->n_named >= c->live_cap && !grow_live(c))
        return NULL;
    e = calloc(1, sizeof *e + len + 1);
    if (e == NULL)
        return NULL;
    memcpy(e->name, name, len);
    e->name_len = (uint8_t)len;
    e->hash = hash_of(c, name, len);
    to = bucket(c, e->hash);
    e->next = *to;
    *to = e;
    c->n_named++;
    return e;
}

static void remove_entry(struct catalog *c, struct entry *e)
{
    struct entry **link = bucket(c, e->hash);

    while (*link != e)
        link = &(*link)->next;
    *link = e->next;
    c->n_named--;
    entry_free(e);
}

struct seq *catalog_add(struct catalog *c, const char *name, size_t len,
                        const struct counter_attr *attr)
{
    struct entry *e = add_entry(c, name, len);

    if (e == NULL)
        return NULL;
    e->seq = malloc(sizeof *e->seq);
    if (e->seq == NULL) {
        remove_entry(c, e);
        return NULL;
    }
    seq_init(e->seq, c->env, e->name, len, attr);
    return e->seq;
}

bool catalog_load(struct catalog *c, uint64_t counter, const char *name, size_t len,
                  const struct counter_attr *attr, uint64_t mark)
{
    struct entry *e = add_entry(c, name, len);
    struct seq *s;

    if (e == NULL)
        return false;
    e->counter = counter;
    e->mark = mark;
    e->start = attr->start;
    e->max = attr->max;
    e->each = attr->each;
    e->retired = attr->retired;
    c->live[c->n_live++] = e;
    s = wake(c, e);
    if (s == NULL)
        return false;
    if (!s->warned) {
        seq_free(s);
        e->seq = NULL;
    }
    return true;
}

void catalog_list(struct catalog *c, const struct seq *s)
{
    c->live[c->n_live++] = find(c, s->name, s->name_len);
}

void catalog_forget(struct catalog *c, struct seq *s)
{
    remove_entry(c, find(c, s->name, s->name_len));
}
