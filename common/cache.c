/* cache.c - a client's cache of blocks. */
#include "cache.h"

void cache_init(struct cache *c, const struct cache_limits *l)
{
    *c = (struct cache){.limits = *l, .block = l->block_min};
}

void cache_ran_dry(struct cache *c)
{
    c->dry = true;
}

/* Demand rises at once and falls by halves, so that a pause doesn't empty the stock. */
static void measure(struct cache *c, uint64_t taken, int64_t now_ms)
{
    int64_t ms = now_ms - c->measured_ms;
    double now;

    if (c->measured_ms != 0 && ms < CACHE_MEASURE_MS)
        return;
    if (c->measured_ms != 0) {
        now = (double)(taken - c->taken) / (double)ms;
        c->rate = now > c->rate ? now : (now + c->rate) / 2;
    }
    c->measured_ms = now_ms;
    c->taken = taken;
}

/* Ids that will be used in so many milliseconds; what is absurd is cut. */
static uint64_t demand(const struct cache *c, double ms)
{
    double ids = c->rate * ms;

    return ids < 1e15 ? (uint64_t)ids : UINT64_C(1000000000000000);
}

static uint64_t clamp(uint64_t n, uint64_t least, uint64_t most)
{
    return n < least ? least : n > most ? most : n;
}

static uint64_t refill_point(const struct cache *c)
{
    double trips_ms = (double)c->round_us * 4 / 1000;

    return demand(c, (double)c->limits.hold_ms + trips_ms) + c->block / 2;
}

/* Whether there is enough, with so many callers waiting. */
static bool suffices(const struct cache *c, uint64_t stock, uint64_t waiting)
{
    if (waiting > stock || c->limits.on_demand)
        return waiting <= stock;
    return stock > refill_point(c);
}

static uint64_t block_size(const struct cache *c)
{
    uint64_t hold_ms = c->limits.hold_ms / 4;
    double ms = (double)(hold_ms > CACHE_BLOCK_MS ? hold_ms : CACHE_BLOCK_MS);
    uint64_t most = c->block * CACHE_GROWTH, n = demand(c, ms);

    if (c->dry && n < most)
        n = most;
    n = clamp(n, c->block / 2, most);
    return clamp(n, c->limits.block_min, c->limits.block_max);
}

uint64_t cache_ask(struct cache *c, uint64_t in_hand, uint64_t waiting, uint64_t taken,
                   int64_t now_us)
{
    uint64_t stock = in_hand + c->queued, n;
    bool first = c->measured_ms == 0;

    measure(c, taken, now_us / 1000);
    if (c->asking || c->n == CACHE_BLOCKS || suffices(c, stock, waiting))
        return 0;
    if (!first && !c->limits.on_demand)
        c->block = block_size(c);
    n = clamp(waiting, c->block, c->limits.block_max);
    c->asking = true;
    c->asked_us = now_us;
    c->dry = false;
    return n;
}

void cache_filled(struct cache *c, struct run r, int64_t now_us)
{
    int64_t round_us = now_us - c->asked_us;

    c->asking = false;
    c->round_us = c->round_us == 0 ? round_us : (c->round_us * 7 + round_us) / 8;
    c->queue[(c->head + c->n) % CACHE_BLOCKS] = r;
    c->n++;
    c->queued += run_count(r);
}

void cache_failed(struct cache *c)
{
    c->asking = false;
}

bool cache_pop(struct cache *c, struct run *ret)
{
    if (c->n == 0)
        return false;
    *ret = c->queue[c->head];
    c->head = (c->head + 1) % CACHE_BLOCKS;
    c->n--;
    c->queued -= run_count(*ret);
    return true;
}

uint64_t cache_refill_at(const struct cache *c, uint64_t count)
{
    uint64_t point = refill_point(c);

    if (c->limits.on_demand || c->queued > point || c->n == CACHE_BLOCKS)
        return count;
    point -= c->queued;
    return point >= count ? 0 : count - point;
}
