/* cache.h - a client's cache of blocks for one sequence: how many ids to ask for, when.
 *
 * The other half of hi-lo (alloc.h is the server's). Ids are used from one block, the
 * one in hand, while further ones stand in a queue; what is in hand and in the queue
 * together is the stock. When the stock falls to the refill point, a block is asked
 * for; only one request is on its way at a time, so blocks come in the order in which
 * they were asked for.
 *
 *              stock > point            stock <= point
 *     idle ───────────────▶ idle      ───────────────▶ asked ──▶ filled, failed ──▶
 * idle
 *
 * The size of a block follows demand: about a second's worth, or a quarter of what has
 * to be held. It grows up to eightfold when callers ran dry, halves when demand has
 * gone down, and stays between block_min and block_max. The refill point is what will
 * be used in hold_ms and four round trips, and half a block more.
 *
 * Pure: no clock, no lock, no memory of its own. The owner tells the time and how many
 * ids were taken in all. Not thread-safe. */
#ifndef HILO_CACHE_H
#define HILO_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "run.h"

#define CACHE_BLOCKS     64   /* in the queue at most */
#define CACHE_GROWTH     8    /* a block is at most so many times the last one */
#define CACHE_BLOCK_MS   1000 /* a block lasts about this long */
#define CACHE_MEASURE_MS 100  /* demand is measured over at least this long */

struct cache_limits {
    uint64_t block_min; /* 1 <= block_min <= block_max */
    uint64_t block_max;
    uint64_t hold_ms; /* the stock lasts so long at the present rate, if it may */
    bool on_demand;   /* nothing is asked for before callers wait for it */
};

struct cache {
    struct cache_limits limits;
    struct run queue[CACHE_BLOCKS];
    size_t head, n;
    uint64_t queued;     /* ids in the queue */
    uint64_t block;      /* size of the last block asked for */
    double rate;         /* ids a millisecond */
    uint64_t taken;      /* at the last measurement */
    int64_t measured_ms; /* when that was; 0 for never */
    int64_t asked_us;    /* when the request on its way was made */
    int64_t round_us;    /* a smoothed round trip */
    bool asking;
    bool dry; /* callers waited since the last request was made */
};

void cache_init(struct cache *c, const struct cache_limits *l);

/* Callers wait, or were turned away: the next block has to be larger. */
void cache_ran_dry(struct cache *c);

/* How many ids to ask for now, or 0 where nothing has to be asked. in_hand is what is
 * left of the block in use; waiting, how many ids callers wait for; taken, how many ids
 * were ever taken. Anything but 0 begins a request, which has to end with one of the
 * two functions below. */
uint64_t cache_ask(struct cache *c, uint64_t in_hand, uint64_t waiting, uint64_t taken,
                   int64_t now_us);

/* The request has ended: with a block, which joins the queue, or without one. */
void cache_filled(struct cache *c, struct run r, int64_t now_us);
void cache_failed(struct cache *c);

/* The next block to use; false when the queue is empty. */
bool cache_pop(struct cache *c, struct run *ret);

/* How far the block in use, of count ids, may be used up before cache_ask has to be
 * called: at its id number n, from 0; count for never. */
uint64_t cache_refill_at(const struct cache *c, uint64_t count);

#endif
