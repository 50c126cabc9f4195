/* run.h - a run of ids: first, first+step, ..., last. A block is a run that was
 * granted. */
#ifndef HILO_RUN_H
#define HILO_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include "lane.h"

struct run {
    uint64_t first;
    uint64_t last; /* at least first, and on its step */
    uint64_t step; /* 1 or more */
};

/* The run of count positions from first on. They have to lie in one stripe (see
 * lane_boundary); false, and nothing written, when they don't, when count is 0, or when
 * the last id would pass HILO_ID_MAX. */
bool run_at(struct lane l, uint64_t first, uint64_t count, struct run *ret);

/* How many ids the run holds. */
uint64_t run_count(struct run r);

/* Whether the id is one of the run's. */
bool run_has(struct run r, uint64_t id);

#endif
