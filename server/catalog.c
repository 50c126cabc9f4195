/* catalog.c - all sequences. */
#include "catalog.h"

#include <stdlib.h>
#include <string.h>
#include "name.h"

#define FIRST_BUCKETS 64

bool catalog_init(struct catalog *c, uint64_t seed)
{
    *c = (struct catalog){.n_buckets = FIRST_BUCKETS, .seed = seed};
    c->buckets = calloc(c->n_buckets, sizeof *c->buckets);
    return c->buckets != NULL;
}

void catalog_free(struct catalog *c)
{
    for (uint64_t i = 0; i < c->n_buckets; i++) {
        struct seq *s = c->buckets[i];

        while (s != NULL) {
            struct seq *next = s->next_hash;

            seq_free(s);
            s = next;
        }
    }
    free(c->buckets);
    free(c->live);
    *c = (struct catalog){0};
}

static struct seq **bucket(const struct catalog *c, uint64_t hash)
{
    return &c->buckets[hash & (c->n_buckets - 1)];
}

struct seq *catalog_find(const struct catalog *c, const char *name, size_t len)
{
    uint64_t hash = name_hash(name, len, c->seed);
    struct seq *s = *bucket(c, hash);

    while (s != NULL &&
           (s->hash != hash || s->name_len != len || memcmp(s->name, name, len) != 0))
        s = s->next_hash;
    return s;
}

static bool grow_buckets(struct catalog *c)
{
    struct catalog bigger = {.n_buckets = 2 * c->n_buckets};

    bigger.buckets = calloc(bigger.n_buckets, sizeof *bigger.buckets);
    if (bigger.buckets == NULL)
        return false;
    for (uint64_t i = 0; i < c->n_buckets; i++) {
        struct seq *s = c->buckets[i];

        while (s != NULL) {
            struct seq *next = s->next_hash, **to = bucket(&bigger, s->hash);

            s->next_hash = *to;
            *to = s;
            s = next;
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
    struct seq **live = realloc(c->live, cap * sizeof(struct seq *));

    if (live == NULL)
        return false;
    c->live = live;
    c->live_cap = cap;
    return true;
}

bool catalog_add(struct catalog *c, struct seq *s)
{
    struct seq **to;

    if (c->n_named >= c->n_buckets && !grow_buckets(c))
        return false;
    if (c->n_named >= c->live_cap && !grow_live(c))
        return false;
    s->hash = name_hash(s->name, s->name_len, c->seed);
    to = bucket(c, s->hash);
    s->next_hash = *to;
    *to = s;
    c->n_named++;
    return true;
}

void catalog_list(struct catalog *c, struct seq *s)
{
    c->live[c->n_live++] = s;
}

void catalog_forget(struct catalog *c, struct seq *s)
{
    struct seq **link = bucket(c, s->hash);

    while (*link != s)
        link = &(*link)->next_hash;
    *link = s->next_hash;
    c->n_named--;
    seq_free(s);
}
