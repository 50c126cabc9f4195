/* catalog.h - all sequences, by name and in the order they came to be. Whoever has
 * the loop only.
 *
 * Most of a million sequences are asleep: nobody has asked for them since the start,
 * and all there is of them is what the store said. The first who asks wakes one, which
 * makes its struct seq; that stays. */
#ifndef HILO_CATALOG_H
#define HILO_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "seq.h"

struct entry {
    struct entry *next; /* in its chain */
    struct seq *seq;    /* NULL while it sleeps; then the rest tells what it is */
    uint64_t counter, mark, start, max;
    uint32_t hash;
    uint8_t name_len;
    bool each, retired;
    char name[]; /* with a terminating zero; the sequence's own, too */
};

struct catalog {
    struct seq_env *env;
    struct entry **buckets; /* chains by hash */
    uint64_t n_buckets;     /* a power of two */
    uint64_t n_named;       /* sequences in the chains */
    struct entry **live;    /* those the store knows, by order of creation */
    uint64_t n_live, live_cap;
    uint64_t seed;
};

/* False when memory is out. */
bool catalog_init(struct catalog *c, struct seq_env *env, uint64_t seed);
void catalog_free(struct catalog *c);

/* NULL if there is none of that name, valid or not, or no memory to wake it. */
struct seq *catalog_find(struct catalog *c, const char *name, size_t len);

/* Whether there is one, asleep or not. */
bool catalog_knows(const struct catalog *c, const char *name, size_t len);

/* Adds a sequence that is not in the store yet and whose name is new; NULL when memory
 * is out. */
struct seq *catalog_add(struct catalog *c, const char *name, size_t len,
                        const struct counter_attr *attr);

/* Adds a sequence that the store knows; it sleeps, unless it is near its end. False
 * when memory is out. */
bool catalog_load(struct catalog *c, uint64_t counter, const char *name, size_t len,
                  const struct counter_attr *attr, uint64_t mark);

/* Lists a sequence that has become live; room for it was made when it was added. */
void catalog_list(struct catalog *c, const struct seq *s);

/* Forgets and frees a sequence that never became live. */
void catalog_forget(struct catalog *c, struct seq *s);

/* To look at what is listed at i, below n_live, without waking it: *room is used for
 * one that sleeps. */
const struct seq *catalog_look(const struct catalog *c, uint64_t i, struct seq *room);

#endif
