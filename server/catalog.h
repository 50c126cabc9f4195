/* catalog.h - all sequences, by name and in the order they came to be. Loop thread
 * only. */
#ifndef HILO_CATALOG_H
#define HILO_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "seq.h"

struct catalog {
    struct seq **buckets; /* chains by hash */
    uint64_t n_buckets;   /* a power of two */
    uint64_t n_named;     /* sequences in the chains */
    struct seq **live;    /* those the store knows, by order of creation */
    uint64_t n_live, live_cap;
    uint64_t seed;
};

/* False when memory is out. */
bool catalog_init(struct catalog *c, uint64_t seed);
void catalog_free(struct catalog *c);

/* NULL if there is none of that name, valid or not. */
struct seq *catalog_find(const struct catalog *c, const char *name, size_t len);

/* Adds a sequence, whose name must be new; false when memory is out. */
bool catalog_add(struct catalog *c, struct seq *s);

/* Lists a sequence that has become live; room for it was made when it was added. */
void catalog_list(struct catalog *c, struct seq *s);

/* Forgets and frees a sequence that never became live. */
void catalog_forget(struct catalog *c, struct seq *s);

#endif
