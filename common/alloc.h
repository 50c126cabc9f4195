/* alloc.h - the allocator of one sequence: hi-lo as a state machine.
 *
 * Positions (lane.h) are reserved from a store in chunks, "hi", and granted out of
 * them, "lo". The allocator decides; it calls nobody and reads no clock. Its owner
 * carries requests to the store and tells it the outcome:
 *
 *         alloc_take ──▶ ALLOC_GRANTED        the ids are the caller's, for ever
 *              │
 *              ├──▶ ALLOC_FETCH ── alloc_plan_*, alloc_fetch ──▶ store ──┬─▶
 * alloc_filled │                                                        └─▶
 * alloc_failed ├──▶ ALLOC_WAIT           a fetch is on its way: ask again after it └──▶
 * anything else        refused; nothing has moved
 *
 * At most one fetch is on its way. A chunk counts only from alloc_filled on, which the
 * owner calls after the store has made it durable: so no grant can lie above a durable
 * mark.
 *
 * Two ways of working. "Ahead": chunks follow demand, about a second's worth, and the
 * next one is fetched before the present one is used up (alloc_ahead), so that a caller
 * seldom waits. "Each": a fetch is exactly what the waiting requests need and nothing
 * stays in hand.
 *
 * Not thread-safe; one owner at a time. Holds no pointers: plain data. */
#ifndef HILO_ALLOC_H
#define HILO_ALLOC_H

#include <stdbool.h>
#include <stdint.h>
#include "lane.h"

#define ALLOC_CHUNK_MIN  64
#define ALLOC_CHUNK_MAX  (UINT64_C(1) << 24)
#define ALLOC_GROWTH     8 /* a chunk is at most this many times the last one */
#define ALLOC_JUMP_IDS   1000000000 /* what floors may skip together, at most, ... */
#define ALLOC_JUMP_SHARE 1000  /* ... and as a share of what is left: 1/1000, ... */
#define ALLOC_JUMP_MS    60000 /* ... in a minute. */
#define ALLOC_RETRY_MS   100   /* after a failed fetch none is made ahead of need */
#define ALLOC_NO_CAP     UINT64_MAX

struct alloc {
    uint64_t next, end;        /* the chunk in hand: [next, end) */
    uint64_t ahead, ahead_end; /* a second one that does not continue the first */
    uint64_t mark;             /* the store's mark, as last heard */
    uint64_t used;             /* above all that was granted or skipped on purpose */
    uint64_t limit;            /* first position out of bounds */
    uint64_t chunk;            /* size of the last chunk fetched, by demand */
    uint64_t taken;            /* positions granted since then */
    uint64_t jumped;           /* skipped for callers' floors in this minute */
    uint64_t jump_to;          /* the floor that the fetch on its way skips to */
    int64_t fetched_ms;        /* when the last fetch began, or failed */
    int64_t jump_ms;           /* when this minute began */
    bool each;
    bool fetching;
    bool failed; /* the last fetch did */
};

enum alloc_verdict {
    ALLOC_GRANTED,
    ALLOC_FETCH,
    ALLOC_WAIT,
    ALLOC_EXHAUSTED, /* fewer ids are left than the request needs */
    ALLOC_CAPPED,    /* the block would pass the request's own cap */
    ALLOC_REGRESS,   /* the floor would skip more than floors may */
};

/* What is asked for. 1 <= atleast <= count, and count at most a stripe where blocks
 * have a boundary, unless span is set. */
struct alloc_request {
    uint64_t count;
    uint64_t
        atleast;    /* fewer than count are fine at the end of a stripe or of the ids */
    uint64_t floor; /* no position below this one; 0 for none */
    uint64_t cap;   /* no position at or above this one; ALLOC_NO_CAP for none */
    bool span;      /* the positions may lie in several stripes */
    bool settle;    /* take what is in hand rather than wait, if it is enough */
};

struct alloc_grant {
    uint64_t first;
    uint64_t count;
};

/* What a store has to reserve: count positions, at least min, none below floor. */
struct alloc_fetch {
    uint64_t floor;
    uint64_t min;
    uint64_t count;
};

/* What the waiting requests need together; made afresh for each fetch. */
struct alloc_plan {
    uint64_t start; /* of the first request */
    uint64_t floor; /* of the first request */
    uint64_t to;    /* end of the last one */
    bool any;
};

/* A counter that stands at mark and may grant positions below limit. */
void alloc_init(struct alloc *a, uint64_t mark, uint64_t limit, bool each);

/* Tries to grant; *ret_grant is written with ALLOC_GRANTED only. now_ms: a steady
 * clock. */
enum alloc_verdict alloc_take(struct alloc *a, struct lane l,
                              const struct alloc_request *rq, int64_t now_ms,
                              struct alloc_grant *ret_grant);

/* The short way for requests of one position each and no floor: how many of them the
 * chunk in hand can answer below cap, which no other bound and no stripe can touch.
 * Where that is none, alloc_take says why. */
static inline uint64_t alloc_ones(const struct alloc *a, uint64_t cap)
{
    uint64_t end = a->end < cap ? a->end : cap;

    return a->next < end ? end - a->next : 0;
}

/* Grants n of those, one to each request, from the position returned on. */
static inline uint64_t alloc_take_ones(struct alloc *a, uint64_t n)
{
    uint64_t first = a->next;

    a->next += n;
    a->used = a->next;
    a->taken += n;
    return first;
}

/* After ALLOC_FETCH: begin a plan, add the waiting requests in their order as long as
 * alloc_plan_add says true, then turn it into a fetch. A request that was not added
 * stays waiting. The first one always fits. */
void alloc_plan_begin(const struct alloc *a, struct alloc_plan *p);
bool alloc_plan_add(const struct alloc *a, struct lane l, struct alloc_plan *p,
                    const struct alloc_request *rq);
void alloc_plan_fetch(struct alloc *a, const struct alloc_plan *p, int64_t now_ms,
                      struct alloc_fetch *ret);

/* Whether it is time to fetch ahead of need; and, unless a fetch has just failed, its
 * begin. */
bool alloc_wants_ahead(const struct alloc *a);
bool alloc_ahead(struct alloc *a, int64_t now_ms, struct alloc_fetch *ret);

/* The fetch has ended: count positions from first on are reserved, durably. False when
 * they begin below what was reserved or granted before, which no sound store does: then
 * nothing of them is used. */
bool alloc_filled(struct alloc *a, uint64_t first, uint64_t count, int64_t now_ms);

/* The fetch has ended: nothing was had, or nobody knows, which is the same. */
void alloc_failed(struct alloc *a, int64_t now_ms);

/* The same, and the store says where its mark stands. */
void alloc_refused(struct alloc *a, uint64_t mark, int64_t now_ms);

/* Drops what is in hand: it is never granted. */
void alloc_drop(struct alloc *a);

/* From now on nothing below position (an administrator's floor; no limit on the jump).
 */
void alloc_skip(struct alloc *a, uint64_t position);

/* A new bound. What is in hand at or above it is dropped. */
void alloc_set_limit(struct alloc *a, uint64_t limit);

/* The other way of working. What is in hand is dropped on the way to "each". */
void alloc_set_each(struct alloc *a, bool each);

/* The unused end of what is reserved, [*ret_from, mark), which may go back to the store
 * once granting has ended for good. False where there is none. */
bool alloc_tail(const struct alloc *a, uint64_t *ret_from);

/* Positions reserved and not granted; positions still to grant, those included. */
uint64_t alloc_in_hand(const struct alloc *a);
uint64_t alloc_remaining(const struct alloc *a);

/* How many positions callers' floors may skip at this moment. */
uint64_t alloc_jump_left(const struct alloc *a, int64_t now_ms);

/* The position the next grant would begin at, if nobody else reserved meanwhile. */
uint64_t alloc_next(const struct alloc *a);

#endif
