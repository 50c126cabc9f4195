/* hot.h - the block in use, shared by threads without a lock.
 *
 * The cursor holds a generation (upper half) and how many ids of that generation's
 * block were taken. To take one is to add 1: whoever gets the number n owns the id
 * first + n*step. Blocks lie in two slots, that of generation g in slot g mod 2.
 *
 * Why no id comes twice: numbers don't, and each is looked up in the slot of its own
 * generation or burnt. A slot says whose it is, and no longer says so from before it is
 * written for generation g+2 on, which happens when g is used up. A reader looks at the
 * block first and then whose it is: stores to a slot release and loads from it acquire,
 * so one who has read anything of the next block also sees that it is no longer his.
 *
 * Those who find nothing left have added too; the slow way takes that back
 * (hot_settle), so that it can't add up to another generation.
 *
 * Generations wrap after 2^32 blocks: a thread would have to sleep through exactly that
 * many, between two instructions, to be misled.
 *
 * fork: this page is wiped in a child (MADV_WIPEONFORK). There every slot says "no ids"
 * and the serial is 0, so that a child can't take an id of its parent's, at no cost to
 * the fast path. Where the kernel has no such thing, `pid` is kept and compared. */
#ifndef HILO_HOT_H
#define HILO_HOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "run.h"

struct hot_slot {
    _Atomic uint64_t first;
    _Atomic uint64_t step;
    _Atomic uint32_t count;
    _Atomic uint32_t refill_at; /* who takes this number tells the cache */
    _Atomic uint32_t owner;     /* the generation it holds */
};

/* Three cache lines: one that every taker writes, one that all of them read, and one
 * for what never changes. */
struct hot {
    _Alignas(64) _Atomic uint64_t cursor;
    _Alignas(64) struct hot_slot slot[2];
    _Alignas(64) uint64_t serial; /* of this sequence in this process; 0 in a child */
};

enum hot_result {
    HOT_TAKEN,
    HOT_REFILL, /* taken, and it is time to tell the cache */
    HOT_EMPTY,  /* nothing left, or nothing had: it may be tried again */
};

/* NULL when there is no memory. *ret_pid is 0, or this process where the page can't be
 * wiped. */
struct hot *hot_new(int32_t *ret_pid);
void hot_free(struct hot *h);

/* Whether this process is the one that made it. */
bool hot_is_ours(const struct hot *h, int32_t pid);

/* Up to n ids, at least one: a run. */
enum hot_result hot_take_run(struct hot *h, uint32_t n, struct run *ret);

/* Ids left; ids of this block that were taken. */
uint32_t hot_left(struct hot *h);
uint32_t hot_taken(struct hot *h);

/* The next block, once none is left of the present one; one caller at a time. */
void hot_publish(struct hot *h, struct run r, uint64_t refill_at);

/* Takes back what those have added who found nothing; needs the writer's lock. */
void hot_settle(struct hot *h);

/* Another refill point for the block in use; true when it has been passed already. */
bool hot_set_refill(struct hot *h, uint64_t refill_at);

#define HOT_GENERATION(cursor) ((uint32_t)((cursor) >> 32))
#define HOT_OFFSET(cursor)     ((uint32_t)(cursor))

static inline enum hot_result hot_take(struct hot *h, uint64_t *ret)
{
    uint64_t ticket = atomic_fetch_add_explicit(&h->cursor, 1, memory_order_acq_rel);
    struct hot_slot *slot = &h->slot[HOT_GENERATION(ticket) & 1];
    uint64_t first = atomic_load_explicit(&slot->first, memory_order_acquire);
    uint64_t step = atomic_load_explicit(&slot->step, memory_order_acquire);
    uint32_t count = atomic_load_explicit(&slot->count, memory_order_acquire);
    uint32_t refill_at = atomic_load_explicit(&slot->refill_at, memory_order_acquire);
    uint32_t owner = atomic_load_explicit(&slot->owner, memory_order_acquire);

    if (__builtin_expect(owner != HOT_GENERATION(ticket) || HOT_OFFSET(ticket) >= count,
                         0))
        return HOT_EMPTY;
    *ret = first + HOT_OFFSET(ticket) * step;
    return __builtin_expect(HOT_OFFSET(ticket) == refill_at, 0) ? HOT_REFILL
                                                                : HOT_TAKEN;
}

#endif
