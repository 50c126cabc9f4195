/* alloc_test.c - the allocator: random operations against a naive model that keeps the
 * state of every position, then directed tests of each rule. HILO_SEED=n replays the
 * run that printed n. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "alloc.h"
#include "number.h"

#define WINDOW       2048 /* positions the model keeps a state of */
#define QUEUE        8
#define RUNS         500 /* eight times as many with HILO_LONG=1 */
#define STEPS        150
#define DEFAULT_SEED 20240229

/* --- the world: a store, requests that wait, and the state of every position --- */

enum state { NOT_OURS, IN_HAND, GRANTED };

struct world {
    uint64_t seed, rng;
    unsigned step;
    struct lane lane;
    struct alloc a;
    bool shared;             /* somebody else reserves from the same counter */
    uint64_t base;           /* the model's window begins here */
    uint8_t state[WINDOW];   /* of base, base + 1, ... */
    uint64_t durable;        /* the store's mark */
    uint64_t heard;          /* the mark as the allocator has to know it */
    uint64_t limit, granted; /* the bound; end of the highest grant or skip */
    bool fetching, failed;
    struct alloc_fetch fetch;
    uint64_t fetch_limit; /* what the store was told */
    int64_t failed_ms, now_ms;
    int64_t jump_ms;
    uint64_t jumped;
    uint64_t jump_to; /* the floor of the first request that was fetched for */
    struct alloc_request queue[QUEUE];
    bool planned[QUEUE];
    unsigned queued;
    uint64_t *ops, *grants; /* counted over all runs */
};

#define CHECK(w, cond)                  \
    do {                                \
        if (!(cond))                    \
            broken(w, #cond, __LINE__); \
    } while (0)

static void broken(const struct world *w, const char *what, int line)
{
    const struct alloc *a = &w->a;

    print_error("lane %u/%u stripe %" PRIu64 " base %" PRIu64 " limit %" PRIu64
                " heard %" PRIu64 " durable %" PRIu64 " granted %" PRIu64 "\n",
                w->lane.number, w->lane.lanes, w->lane.stripe, w->base, w->limit,
                w->heard, w->durable, w->granted);
    print_error("alloc: [%" PRIu64 ",%" PRIu64 ") [%" PRIu64 ",%" PRIu64
                ") mark %" PRIu64 " used %" PRIu64 " each %d fetching %d\n",
                a->next, a->end, a->ahead, a->ahead_end, a->mark, a->used, a->each,
                a->fetching);
    fail_msg("line %d: %s; replay with HILO_SEED=%" PRIu64 ", it is step %u of run 1",
             line, what, w->seed, w->step);
}

static uint64_t rnd(struct world *w)
{
    uint64_t z = w->rng += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 .. n-1 */
static uint64_t below(struct world *w, uint64_t n)
{
    return rnd(w) % n;
}

static bool one_in(struct world *w, uint64_t n)
{
    return below(w, n) == 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t seed_from_env(void)
{
    const char *text = getenv("HILO_SEED");

    return text != NULL ? strtoull(text, NULL, 10) : DEFAULT_SEED;
}

/* --- the model --- */

static enum state state_at(const struct world *w, uint64_t p)
{
    return p < w->base || p - w->base >= WINDOW ? NOT_OURS : w->state[p - w->base];
}

static bool in_hand(const struct world *w, uint64_t p)
{
    return state_at(w, p) == IN_HAND;
}

/* Takes the positions of [from, to) out of the hand. */
static void forget(struct world *w, uint64_t from, uint64_t to)
{
    for (uint64_t p = most(from, w->base); p < least(to, w->base + WINDOW); p++) {
        if (in_hand(w, p))
            w->state[p - w->base] = NOT_OURS;
    }
}

/* The lowest position in hand, or the mark. */
static uint64_t model_next(const struct world *w)
{
    uint64_t end = least(w->heard, w->base + WINDOW);

    for (uint64_t p = most(w->granted, w->base); p < end; p++) {
        if (in_hand(w, p))
            return p;
    }
    return w->heard;
}

static uint64_t model_in_hand(const struct world *w)
{
    uint64_t n = 0, end = least(w->heard, w->base + WINDOW);

    for (uint64_t p = most(w->granted, w->base); p < end; p++)
        n += in_hand(w, p);
    return n;
}

/* Where the run of positions in hand that ends at the mark begins; the mark if none. */
static uint64_t model_tail(const struct world *w)
{
    uint64_t p = w->heard;

    while (p > 0 && in_hand(w, p - 1))
        p--;
    return p;
}

/* Two chunks are held: of three the oldest is let go. */
static void keep_two_chunks(struct world *w)
{
    uint64_t begin[8], end[8], stop = least(w->heard, w->base + WINDOW);
    unsigned n = 0;

    for (uint64_t p = w->base; p < stop; p++) {
        if (!in_hand(w, p))
            continue;
        CHECK(w, n < 8);
        begin[n] = p;
        while (p < stop && in_hand(w, p))
            p++;
        end[n++] = p;
    }
    if (n > 2)
        forget(w, begin[0], end[n - 3]);
}

/* Could be granted now or after a fetch. */
static bool available(const struct world *w, uint64_t p)
{
    return p < w->limit && (in_hand(w, p) || p >= w->heard);
}

/* Whether blocks have a boundary, straight from DESIGN.md. */
static bool striped(const struct world *w, const struct alloc_request *rq)
{
    return !rq->span && w->lane.lanes > 1 && w->lane.stripe > 1;
}

static uint64_t stripe_rest(const struct world *w, uint64_t p)
{
    return w->lane.stripe - p % w->lane.stripe;
}

/* How many ids a block from p on would have, bounds considered; 0 if too few. */
static uint64_t wanted_at(const struct world *w, const struct alloc_request *rq,
                          uint64_t p)
{
    uint64_t n = rq->count;

    if (p >= w->limit)
        return 0;
    n = least(n, w->limit - p);
    if (striped(w, rq))
        n = least(n, stripe_rest(w, p));
    return n < rq->atleast ? 0 : n;
}

/* Finds the grant that can be made out of the hand by trying every position. */
static bool model_grant(const struct world *w, const struct alloc_request *rq,
                        struct alloc_grant *ret)
{
    uint64_t p = most(model_next(w), rq->floor), stop = least(w->heard, w->limit);

    for (; p < stop && p < w->base + WINDOW; p++) {
        uint64_t want = wanted_at(w, rq, p), n = 0;

        if (want == 0 || !in_hand(w, p))
            continue;
        while (n < want && in_hand(w, p + n))
            n++;
        /* A chunk that ends at the mark may go on: then it is worth waiting. */
        if (n == want || (n >= rq->atleast && (rq->settle || p + n != w->heard))) {
            *ret = (struct alloc_grant){.first = p, .count = n};
            return true;
        }
    }
    return false;
}

/* Whether there is a place for atleast ids anywhere. */
static bool model_has_room(const struct world *w, const struct alloc_request *rq)
{
    uint64_t p = most(model_next(w), rq->floor);

    for (; p < w->limit; p++) {
        uint64_t n = 0;

        if (wanted_at(w, rq, p) == 0)
            continue;
        while (n < rq->atleast && available(w, p + n))
            n++;
        if (n == rq->atleast)
            return true;
    }
    return false;
}

/* The end of the block as it would be after a fetch. */
static uint64_t model_fetched_end(const struct world *w, const struct alloc_request *rq)
{
    uint64_t p = most(model_tail(w), rq->floor);

    while (p < w->limit && wanted_at(w, rq, p) == 0)
        p++;
    return p + wanted_at(w, rq, p);
}

static uint64_t model_jump_left(const struct world *w)
{
    uint64_t left = model_in_hand(w) + (w->limit > w->heard ? w->limit - w->heard : 0);
    uint64_t all = least(1000000000, left / 1000);
    bool over = w->now_ms < w->jump_ms || w->now_ms - w->jump_ms >= 60000;
    uint64_t jumped = over ? 0 : w->jumped;

    return all > jumped ? all - jumped : 0;
}

/* What can be read from outside agrees with the model. */
static void check_readings(struct world *w)
{
    uint64_t hand = model_in_hand(w), tail = model_tail(w), from = 77;
    uint64_t rest = w->limit > w->heard ? w->limit - w->heard : 0;
    bool has_tail = alloc_tail(&w->a, &from);

    CHECK(w, alloc_in_hand(&w->a) == hand);
    CHECK(w, alloc_remaining(&w->a) == hand + rest);
    CHECK(w, alloc_next(&w->a) == model_next(w));
    CHECK(w, w->a.mark == w->heard);
    CHECK(w, has_tail == (tail < w->heard));
    CHECK(w, from == (has_tail ? tail : 77));
    CHECK(w, alloc_jump_left(&w->a, w->now_ms) == model_jump_left(w));
    CHECK(w, w->a.fetching == w->fetching);
    if (alloc_wants_ahead(&w->a))
        CHECK(w, !w->a.each && !w->fetching && w->heard < w->limit);
}

/* --- taking --- */

static void check_grant(struct world *w, const struct alloc_request *rq,
                        const struct alloc_grant *g)
{
    uint64_t end = g->first + g->count;

    CHECK(w, g->count >= rq->atleast && g->count <= rq->count);
    CHECK(w, g->first >= rq->floor && g->first >= w->granted);
    CHECK(w, end <= w->limit && end <= rq->cap && end <= w->durable);
    for (uint64_t p = g->first; p < end; p++) {
        CHECK(w, in_hand(w, p));
        w->state[p - w->base] = GRANTED;
    }
    if (striped(w, rq))
        CHECK(w, g->first / w->lane.stripe == (end - 1) / w->lane.stripe);
    if (g->count < rq->count)
        CHECK(w, end == w->limit || rq->settle || end != w->heard ||
                     (striped(w, rq) && end % w->lane.stripe == 0));
    forget(w, 0, g->first);
    w->granted = end;
    ++*w->grants;
}

/* Ids are charged for when they have been skipped, not before. */
static void model_charge(struct world *w, uint64_t floor, uint64_t next)
{
    if (floor <= next)
        return;
    if (w->jumped == 0 || w->now_ms < w->jump_ms || w->now_ms - w->jump_ms >= 60000) {
        w->jump_ms = w->now_ms;
        w->jumped = 0;
    }
    w->jumped += floor - next;
}

/* A refusal, or a wait, leaves all as it was. */
static void check_unmoved(struct world *w, const struct alloc *before)
{
    CHECK(w, memcmp(&w->a, before, sizeof *before) == 0);
}

static enum alloc_verdict take(struct world *w, const struct alloc_request *rq)
{
    struct alloc before = w->a;
    struct alloc_grant g = {77, 78}, want = {77, 78};
    bool possible = model_grant(w, rq, &want);
    uint64_t next = model_next(w), left = model_jump_left(w);
    enum alloc_verdict v = alloc_take(&w->a, w->lane, rq, w->now_ms, &g);
    bool regress = rq->floor > next && rq->floor - next > left;

    ++*w->ops;
    if (v == ALLOC_GRANTED) {
        CHECK(w, possible && g.first == want.first && g.count == want.count);
        CHECK(w, !regress);
        check_grant(w, rq, &g);
        model_charge(w, rq->floor, next);
    } else {
        CHECK(w, g.first == 77 && g.count == 78);
        check_unmoved(w, &before);
    }
    if (v == ALLOC_EXHAUSTED)
        CHECK(w, !model_has_room(w, rq));
    if (v == ALLOC_CAPPED)
        CHECK(w, model_fetched_end(w, rq) > rq->cap);
    if (v == ALLOC_REGRESS)
        CHECK(w, regress);
    if (v == ALLOC_FETCH || v == ALLOC_WAIT) {
        CHECK(w, !possible && !regress && model_has_room(w, rq));
        CHECK(w, model_fetched_end(w, rq) <= rq->cap);
        CHECK(w, w->fetching == (v == ALLOC_WAIT));
    }
    check_readings(w);
    return v;
}

/* A random request near what is next. */
static struct alloc_request make_request(struct world *w)
{
    uint64_t top = one_in(w, 4) ? 200 : 12, next = alloc_next(&w->a);
    struct alloc_request rq = {.cap = ALLOC_NO_CAP};

    rq.span = one_in(w, 4);
    if (w->lane.lanes > 1 && w->lane.stripe > 1 && !rq.span)
        top = least(top, w->lane.stripe);
    rq.count = 1 + below(w, top);
    rq.atleast = one_in(w, 2) ? rq.count : 1 + below(w, rq.count);
    if (one_in(w, 4))
        rq.floor = next - least(next, 5) + below(w, one_in(w, 3) ? 150 : 12);
    if (one_in(w, 40))
        rq.floor = next + below(w, 3000000000);
    if (one_in(w, 6))
        rq.cap = next + below(w, 300);
    rq.settle = one_in(w, 8);
    return rq;
}

/* --- the queue and the store --- */

static void unqueue(struct world *w, unsigned at)
{
    w->queued--;
    for (unsigned i = at; i < w->queued; i++) {
        w->queue[i] = w->queue[i + 1];
        w->planned[i] = w->planned[i + 1];
    }
}

/* Decides from the head on as far as it goes. */
static enum alloc_verdict serve(struct world *w)
{
    enum alloc_verdict v = ALLOC_GRANTED;

    while (w->queued > 0) {
        v = take(w, &w->queue[0]);
        if (v == ALLOC_FETCH || v == ALLOC_WAIT)
            break;
        unqueue(w, 0);
    }
    return v;
}

static void check_fetch(struct world *w, const struct alloc_fetch *f)
{
    CHECK(w, f->min >= 1 && f->count >= f->min && f->floor >= w->heard);
    CHECK(w, f->floor < w->limit && f->count <= w->limit - f->floor);
    w->fetching = true;
    w->failed = false;
    w->fetch = *f;
    w->fetch_limit = w->limit;
}

/* A fill of just what was asked, where it was asked, grants all that were planned, the
 * first of all. In "each" with nothing in hand it leaves nothing. */
static void check_exact_fill(struct world *w, unsigned planned, bool was_empty)
{
    struct alloc copy = w->a;
    struct alloc_grant g;

    CHECK(w, alloc_filled(&copy, w->fetch.floor, w->fetch.min, w->now_ms));
    for (unsigned i = 0; i < planned; i++) {
        struct alloc_request rq = w->queue[i];

        CHECK(w, alloc_take(&copy, w->lane, &rq, w->now_ms, &g) == ALLOC_GRANTED);
    }
    if (copy.each && was_empty)
        CHECK(w, alloc_in_hand(&copy) == 0);
}

static void begin_fetch(struct world *w)
{
    struct alloc_plan plan;
    struct alloc_fetch f;
    unsigned n = 0;
    bool was_empty = alloc_in_hand(&w->a) == 0;

    alloc_plan_begin(&w->a, &plan);
    while (n < w->queued && alloc_plan_add(&w->a, w->lane, &plan, &w->queue[n]))
        w->planned[n++] = true;
    CHECK(w, n > 0);
    w->jump_to = w->queue[0].floor;
    alloc_plan_fetch(&w->a, &plan, w->now_ms, &f);
    check_fetch(w, &f);
    if (w->a.each)
        CHECK(w, f.count == f.min);
    check_exact_fill(w, n, was_empty);
    check_readings(w);
}

static void begin_ahead(struct world *w)
{
    struct alloc_fetch f;
    bool wants = alloc_wants_ahead(&w->a);
    bool soon = w->failed && w->now_ms - w->failed_ms < 100;
    bool begun = alloc_ahead(&w->a, w->now_ms, &f);

    CHECK(w, begun == (wants && !soon));
    if (!begun)
        return;
    CHECK(w, f.floor == w->heard);
    w->jump_to = 0;
    check_fetch(w, &f);
}

/* The store's part; false when it has not enough. */
static bool reserve(struct world *w, uint64_t *ret_first, uint64_t *ret_count)
{
    uint64_t first;

    if (w->shared && one_in(w, 2))
        w->durable += below(w, 40);
    first = most(w->durable, w->fetch.floor);
    if (first >= w->fetch_limit || w->fetch_limit - first < w->fetch.min)
        return false;
    *ret_first = first;
    *ret_count = least(w->fetch.count, w->fetch_limit - first);
    if (one_in(w, 4))
        *ret_count = w->fetch.min;
    w->durable = first + *ret_count;
    return true;
}

static void end_failed(struct world *w)
{
    alloc_failed(&w->a, w->now_ms);
    w->fetching = false;
    w->failed = true;
    w->failed_ms = w->now_ms;
    check_readings(w);
    if (one_in(w, 2))
        return; /* they go on waiting */
    while (w->queued > 0 && w->planned[0]) {
        w->queue[0].settle = true;
        take(w, &w->queue[0]);
        unqueue(w, 0);
    }
}

static void end_fetch(struct world *w)
{
    uint64_t first, count;

    if (!reserve(w, &first, &count) || one_in(w, 6)) {
        end_failed(w);
        return;
    }
    model_charge(w, w->jump_to, model_next(w));
    forget(w, 0, w->jump_to);
    CHECK(w, alloc_filled(&w->a, first, count, w->now_ms));
    w->fetching = false;
    w->heard = first + count;
    for (uint64_t p = first; p < least(w->heard, w->limit); p++) {
        if (p - w->base < WINDOW)
            w->state[p - w->base] = IN_HAND;
    }
    if (w->heard - w->base > WINDOW)
        return; /* the end of this run */
    keep_two_chunks(w);
    check_readings(w);
    serve(w);
}

/* --- administration --- */

/* Not while a fetch is on its way: that is a test of its own. */
static void skip_ahead(struct world *w)
{
    uint64_t to = alloc_next(&w->a) + below(w, 60);

    if (w->fetching || one_in(w, 2))
        return;
    w->durable = most(w->durable, to);
    alloc_skip(&w->a, to);
    w->heard = most(w->heard, to);
    w->granted = most(w->granted, to);
    forget(w, 0, to);
}

static void set_limit(struct world *w)
{
    uint64_t limit = alloc_next(&w->a) + below(w, 400);

    if (limit > HILO_ID_MAX)
        limit = HILO_ID_MAX;
    if (one_in(w, 2))
        limit = most(limit, w->limit);
    alloc_set_limit(&w->a, limit);
    w->limit = limit;
    forget(w, limit, UINT64_MAX);
}

static void administrate(struct world *w)
{
    switch (below(w, 6)) {
    case 0:
        alloc_drop(&w->a);
        forget(w, 0, UINT64_MAX);
        break;
    case 1:
        skip_ahead(w);
        break;
    case 2:
    case 3:
        set_limit(w);
        break;
    case 4:
        alloc_set_each(&w->a, true);
        forget(w, 0, UINT64_MAX);
        break;
    default:
        alloc_set_each(&w->a, false);
        break;
    }
    check_readings(w);
}

static void step(struct world *w)
{
    uint64_t what = below(w, 100);
    struct alloc_request rq;

    w->now_ms += (int64_t)(one_in(w, 100) ? 60000 : below(w, one_in(w, 2) ? 3 : 300));
    if (what < 60) {
        enum alloc_verdict v = ALLOC_WAIT;

        rq = make_request(w);
        if (w->queued == 0 || one_in(w, 2)) /* also past those that wait */
            v = take(w, &rq);
        if ((v == ALLOC_FETCH || v == ALLOC_WAIT) && w->queued < QUEUE) {
            w->planned[w->queued] = false;
            w->queue[w->queued++] = rq;
        }
    } else if (what < 90) {
        if (w->fetching)
            end_fetch(w);
        else if (serve(w) == ALLOC_FETCH && w->queued > 0)
            begin_fetch(w);
    } else if (what < 97) {
        begin_ahead(w);
    } else {
        administrate(w);
    }
}

static void begin_world(struct world *w)
{
    static const uint64_t stripes[] = {1, 2, 3, 5, 7, 16, 64, 100, 1000};
    uint64_t room = 200 + below(w, WINDOW);

    w->lane.lanes = one_in(w, 3) ? 1 : (uint32_t)(1 + below(w, 5));
    w->lane.number = (uint32_t)(1 + below(w, w->lane.lanes));
    w->lane.stripe = stripes[below(w, sizeof stripes / sizeof *stripes)];
    w->shared = one_in(w, 3);
    w->base = one_in(w, 2) ? 0 : below(w, 1000);
    w->limit = one_in(w, 2) ? HILO_ID_MAX : w->base + room;
    if (one_in(w, 5)) { /* at the far end */
        w->base = HILO_ID_MAX - room;
        w->limit = HILO_ID_MAX;
    }
    w->durable = w->heard = w->granted = w->base;
    w->now_ms = (int64_t)below(w, 100000);
    alloc_init(&w->a, w->base, w->limit, one_in(w, 4));
    check_readings(w);
}

static void test_random(void **state)
{
    static struct world w;
    const char *is_long = getenv("HILO_LONG");
    unsigned runs = is_long != NULL && strcmp(is_long, "1") == 0 ? 8 * RUNS : RUNS;
    uint64_t seed = seed_from_env(), ops = 0, grants = 0;

    (void)state;
    print_message("HILO_SEED=%" PRIu64 "\n", seed);
    for (unsigned run = 0; run < runs; run++) {
        w = (struct world){.seed = seed + run, .rng = seed + run};
        w.ops = &ops;
        w.grants = &grants;
        begin_world(&w);
        for (w.step = 0; w.step < STEPS && w.heard - w.base <= WINDOW - 100; w.step++)
            step(&w);
    }
    print_message("%" PRIu64 " takes, %" PRIu64 " grants\n", ops, grants);
    assert_true(grants > 20 * runs);
}

/* --- directed tests --- */

static const struct lane one = {1, 1, STRIPE_DEFAULT};

static struct alloc_request want(uint64_t count)
{
    return (struct alloc_request){
        .count = count, .atleast = count, .cap = ALLOC_NO_CAP};
}

static struct alloc_request want_floor(uint64_t count, uint64_t floor)
{
    struct alloc_request rq = want(count);

    rq.floor = floor;
    return rq;
}

static void assert_granted(struct alloc *a, struct lane l, struct alloc_request rq,
                           uint64_t first, uint64_t count)
{
    struct alloc_grant g;

    assert_int_equal(alloc_take(a, l, &rq, 1000, &g), ALLOC_GRANTED);
    assert_int_equal(g.first, first);
    assert_int_equal(g.count, count);
}

static void assert_verdict(struct alloc *a, struct lane l, struct alloc_request rq,
                           int64_t now_ms, enum alloc_verdict v)
{
    struct alloc_grant g;

    assert_int_equal(alloc_take(a, l, &rq, now_ms, &g), v);
}

/* Fetches for one request; the caller fills. */
static struct alloc_fetch fetch_for(struct alloc *a, struct lane l,
                                    struct alloc_request rq, int64_t now_ms)
{
    struct alloc_plan plan;
    struct alloc_fetch f;
    struct alloc_grant g;

    assert_int_equal(alloc_take(a, l, &rq, now_ms, &g), ALLOC_FETCH);
    alloc_plan_begin(a, &plan);
    assert_true(alloc_plan_add(a, l, &plan, &rq));
    alloc_plan_fetch(a, &plan, now_ms, &f);
    return f;
}

static void fill(struct alloc *a, struct alloc_fetch f)
{
    assert_true(alloc_filled(a, f.floor, f.count, 1000));
}

static void test_from_one(void **state)
{
    struct alloc a;
    uint64_t id;

    (void)state;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    fill(&a, fetch_for(&a, one, want(1), 1000));
    for (uint64_t i = 0; i < 3; i++) {
        assert_granted(&a, one, want(1), i, 1);
        assert_true(lane_id_at(one, i, &id));
        assert_int_equal(id, i + 1);
    }
    assert_int_equal(alloc_in_hand(&a), ALLOC_CHUNK_MIN - 3);
}

/* A start of 1000 is a mark of 999 positions on one lane. */
static void test_from_start(void **state)
{
    struct alloc a;

    (void)state;
    alloc_init(&a, lane_first_above(one, 999), HILO_ID_MAX, false);
    fill(&a, fetch_for(&a, one, want(2), 1000));
    assert_granted(&a, one, want(2), 999, 2);
}

static void test_each_exact(void **state)
{
    struct alloc_request rq[3] = {want(5), want(1), want(7)};
    struct alloc_plan plan;
    struct alloc_fetch f;
    struct alloc a;

    (void)state;
    alloc_init(&a, 10, HILO_ID_MAX, true);
    assert_verdict(&a, one, rq[0], 1000, ALLOC_FETCH);
    alloc_plan_begin(&a, &plan);
    for (int i = 0; i < 3; i++)
        assert_true(alloc_plan_add(&a, one, &plan, &rq[i]));
    alloc_plan_fetch(&a, &plan, 1000, &f);
    assert_int_equal(f.floor, 10);
    assert_int_equal(f.min, 13);
    assert_int_equal(f.count, 13);
    assert_false(alloc_wants_ahead(&a));
    fill(&a, f);
    assert_granted(&a, one, rq[0], 10, 5);
    assert_granted(&a, one, rq[1], 15, 1);
    assert_granted(&a, one, rq[2], 16, 7);
    assert_int_equal(alloc_in_hand(&a), 0);
    assert_false(alloc_wants_ahead(&a));
    assert_false(alloc_ahead(&a, 9000, &f));
}

/* In "each" a stripe's rest that a request skips is reserved with it, not granted. */
static void test_each_stripe(void **state)
{
    const struct lane l = {2, 3, 10};
    struct alloc_fetch f;
    struct alloc a;

    (void)state;
    alloc_init(&a, 7, HILO_ID_MAX, true);
    f = fetch_for(&a, l, want(4), 1000);
    assert_int_equal(f.floor, 10);
    assert_int_equal(f.count, 4);
    fill(&a, f);
    assert_granted(&a, l, want(4), 10, 4);
    assert_int_equal(alloc_in_hand(&a), 0);
}

static void test_set_each_drops(void **state)
{
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    fill(&a, fetch_for(&a, one, want(1), 1000));
    assert_granted(&a, one, want(1), 0, 1);
    alloc_set_each(&a, true);
    assert_int_equal(alloc_in_hand(&a), 0);
    assert_int_equal(alloc_next(&a), ALLOC_CHUNK_MIN);
    assert_int_equal(fetch_for(&a, one, want(2), 1000).count, 2);
}

/* Uses up what is in hand, then fetches at now_ms; returns the chunk's size. */
static uint64_t next_chunk(struct alloc *a, int64_t now_ms)
{
    struct alloc_fetch f;
    uint64_t hand = alloc_in_hand(a);

    if (hand > 0)
        assert_granted(a, one, want(hand), alloc_next(a), hand);
    assert_true(alloc_ahead(a, now_ms, &f));
    fill(a, f);
    return f.count;
}

static void test_chunk_follows_demand(void **state)
{
    int64_t now = 1000;
    uint64_t size, last;
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    last = next_chunk(&a, now);
    assert_int_equal(last, ALLOC_CHUNK_MIN);
    for (int i = 0; i < 20; i++) { /* as fast as can be: eight times, up to the top */
        size = next_chunk(&a, now);
        assert_int_equal(size, least(last * ALLOC_GROWTH, ALLOC_CHUNK_MAX));
        last = size;
    }
    assert_int_equal(last, ALLOC_CHUNK_MAX);
    for (int i = 0; i < 3; i++) { /* one chunk a second: it stays */
        now += 1000;
        assert_int_equal(next_chunk(&a, now), last);
    }
    now += 4000; /* a quarter of it a second */
    assert_int_equal(next_chunk(&a, now), last / 4);
    now += 1000000000; /* hardly any */
    assert_int_equal(next_chunk(&a, now), ALLOC_CHUNK_MIN);
}

/* A request larger than the chunk gets what it needs; the bound is not passed. */
static void test_chunk_bounds(void **state)
{
    struct alloc_fetch f;
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    assert_int_equal(fetch_for(&a, one, want(1000), 1000).count, 1000);
    alloc_init(&a, 0, 20, false);
    f = fetch_for(&a, one, want(3), 1000);
    assert_int_equal(f.min, 3);
    assert_int_equal(f.count, 20);
    fill(&a, f);
    assert_granted(&a, one, want(20), 0, 20);
    assert_false(alloc_wants_ahead(&a));
    assert_verdict(&a, one, want(1), 1000, ALLOC_EXHAUSTED);
}

static void test_wants_ahead(void **state)
{
    struct alloc_fetch f;
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    fill(&a, fetch_for(&a, one, want(1), 1000));
    assert_granted(&a, one, want(32), 0, 32);
    assert_false(alloc_wants_ahead(&a));
    assert_false(alloc_ahead(&a, 1000, &f));
    assert_granted(&a, one, want(1), 32, 1);
    assert_true(alloc_ahead(&a, 1000, &f));
    assert_int_equal(f.floor, 64);
    assert_int_equal(f.min, 1);
    assert_false(alloc_wants_ahead(&a));
    assert_granted(&a, one, want(31), 33, 31);
    assert_verdict(&a, one, want(1), 1000, ALLOC_WAIT);
    fill(&a, f);
    assert_granted(&a, one, want(1), 64, 1);
}

static void test_failed_backs_off(void **state)
{
    struct alloc_fetch f;
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    assert_true(alloc_ahead(&a, 1000, &f));
    alloc_failed(&a, 1500);
    assert_true(alloc_wants_ahead(&a));
    assert_false(alloc_ahead(&a, 1500, &f));
    assert_false(alloc_ahead(&a, 1500 + ALLOC_RETRY_MS - 1, &f));
    assert_true(alloc_ahead(&a, 1500 + ALLOC_RETRY_MS, &f));
    alloc_failed(&a, 2000);
    /* A caller's need is not held back. */
    f = fetch_for(&a, one, want(1), 2000);
    assert_int_equal(f.floor, 0);
    assert_int_equal(f.count, ALLOC_CHUNK_MIN);
    fill(&a, f);
    assert_granted(&a, one, want(1), 0, 1);
}

/* A failed fetch whose outcome is unknown: what the store did reserve is burnt. */
static void test_failed_burns(void **state)
{
    struct alloc_fetch f;
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    f = fetch_for(&a, one, want(5), 1000);
    alloc_failed(&a, 1000);
    assert_int_equal(alloc_in_hand(&a), 0);
    assert_int_equal(fetch_for(&a, one, want(5), 1000).floor, 0);
    assert_true(
        alloc_filled(&a, f.floor + f.count, 64, 1000)); /* the store is further on */
    assert_granted(&a, one, want(5), 64, 5);
}

/* --- floors --- */

static void test_jump_budget(uint64_t limit, uint64_t budget)
{
    const int64_t minute = ALLOC_JUMP_MS;
    struct alloc_fetch f;
    struct alloc a;
    uint64_t next;

    alloc_init(&a, 0, limit, false);
    assert_int_equal(alloc_jump_left(&a, 5000), budget);
    assert_verdict(&a, one, want_floor(1, budget + 1), 5000, ALLOC_REGRESS);
    assert_int_equal(alloc_jump_left(&a, 5000), budget);
    assert_int_equal(alloc_next(&a), 0);
    f = fetch_for(&a, one, want_floor(1, budget), 5000);
    assert_int_equal(f.floor, budget);
    assert_true(alloc_filled(&a, f.floor, f.count, 5000));
    assert_granted(&a, one, want(1), budget, 1);
    next = alloc_next(&a);
    /* Nothing is left of this minute but for what was counted too much. */
    assert_int_equal(alloc_jump_left(&a, 5000), 0);
    assert_verdict(&a, one, want_floor(1, next + 1), 5000, ALLOC_REGRESS);
    assert_verdict(&a, one, want_floor(1, next + 1), 5000 + minute - 1, ALLOC_REGRESS);
    assert_verdict(&a, one, want_floor(1, next + 1), 5000 + minute, ALLOC_GRANTED);
    assert_int_equal(alloc_next(&a), next + 2);
    assert_true(alloc_jump_left(&a, 5000 + minute) > 0);
}

static void test_jump_share(void **state)
{
    (void)state;
    test_jump_budget(1000000, 1000);
    test_jump_budget(123456, 123);
}

static void test_jump_ids(void **state)
{
    (void)state;
    test_jump_budget(HILO_ID_MAX, 1000000000);
    test_jump_budget(UINT64_C(1000000000000), 1000000000);
}

/* Small jumps of one minute add up, in hand and beyond it. */
static void test_jumps_add_up(void **state)
{
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, 10000, false);
    fill(&a, fetch_for(&a, one, want(1), 1000));
    for (uint64_t i = 0; i < 9; i++)
        assert_granted(&a, one, want_floor(1, 2 * i + 1), 2 * i + 1, 1);
    assert_int_equal(alloc_jump_left(&a, 1000), 0); /* 9, and 9.98 are allowed */
    assert_verdict(&a, one, want_floor(1, 19), 1000, ALLOC_REGRESS);
    assert_granted(&a, one, want_floor(1, 18), 18, 1);
    assert_granted(&a, one, want_floor(1, 3), 19, 1);
}

/* A floor is charged for when it has skipped something: not by being tried, nor by a
 * fetch that fails; and not a second time by the grant. */
static void test_jump_charged_when_made(void **state)
{
    struct alloc_request rq = want_floor(1, 700);
    struct alloc_fetch f;
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, 1000000, false);
    for (int i = 0; i < 3; i++) {
        f = fetch_for(&a, one, rq, 1000);
        assert_int_equal(f.floor, 700);
        assert_int_equal(alloc_jump_left(&a, 1000), 1000);
        alloc_failed(&a, 1000);
    }
    assert_int_equal(alloc_jump_left(&a, 1000), 1000);
    fill(&a, fetch_for(&a, one, rq, 1000));
    assert_int_equal(alloc_jump_left(&a, 1000), 299);
    assert_granted(&a, one, rq, 700, 1);
    assert_int_equal(alloc_jump_left(&a, 1000), 299);
}

/* What was in hand below a floor that was fetched for is let go with the skip, also
 * when its request has gone away meanwhile. */
static void test_jump_lets_go_what_is_below(void **state)
{
    struct alloc_fetch f;
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, 1000000, false);
    fill(&a, fetch_for(&a, one, want(1), 1000));
    f = fetch_for(&a, one, want_floor(1, 500), 1000);
    assert_int_equal(alloc_next(&a), 0);
    fill(&a, f);
    assert_int_equal(alloc_jump_left(&a, 1000), 499);
    assert_granted(&a, one, want(1), 500, 1);
}

/* The store has fewer left than was thought. */
static void test_refused(void **state)
{
    struct alloc_request some = want(50);
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, 100, true);
    fetch_for(&a, one, want(50), 1000);
    alloc_refused(&a, 80, 1000);
    assert_int_equal(alloc_remaining(&a), 20);
    assert_verdict(&a, one, some, 1000, ALLOC_EXHAUSTED);
    some.atleast = 5;
    fetch_for(&a, one, some, 1000);
    alloc_refused(&a, 70, 1000); /* never back */
    assert_int_equal(alloc_remaining(&a), 20);
}

/* A floor beyond all ids moves nothing, whatever the stripe makes of it. */
static void test_floor_beyond(void **state)
{
    const struct lane l = {1, 2, 10};
    struct alloc a, before;
    struct alloc_grant g;

    (void)state;
    alloc_init(&a, 5, HILO_ID_MAX, false);
    for (uint64_t i = 0; i < 20; i++) {
        struct alloc_request rq = want_floor(7, UINT64_MAX - i);
        enum alloc_verdict v;

        memcpy(&before, &a, sizeof a);
        v = alloc_take(&a, l, &rq, 1000, &g);
        assert_true(v == ALLOC_EXHAUSTED || v == ALLOC_REGRESS);
        assert_memory_equal(&before, &a, sizeof a);
    }
    assert_verdict(&a, l, want_floor(1, HILO_ID_MAX), 1000, ALLOC_EXHAUSTED);
    assert_verdict(&a, l, want_floor(1, HILO_ID_MAX - 1), 1000, ALLOC_REGRESS);
}

/* --- stripes --- */

static void test_stripe_rest(void **state)
{
    const struct lane l = {1, 2, 10};
    struct alloc_request some = want(8);
    struct alloc a;

    (void)state;
    some.atleast = 2;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    fill(&a, fetch_for(&a, l, want(1), 1000));
    assert_granted(&a, l, want(6), 0, 6);
    assert_granted(&a, l, want(6), 10, 6); /* 6..9 are skipped */
    assert_granted(&a, l, some, 16, 4);    /* the rest is enough */
    assert_granted(&a, l, want(9), 20, 9);
    assert_granted(&a, l, some, 30, 8); /* a rest of one is not */
    some.atleast = 8;
    some.span = true;
    assert_granted(&a, l, some, 38, 8); /* over the boundary */
}

/* Stripe 1 and a single lane have no boundary. */
static void test_no_boundary(void **state)
{
    const struct lane flickr = {2, 2, 1}, single = {1, 1, 10};
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    fill(&a, fetch_for(&a, flickr, want(1), 1000));
    assert_granted(&a, flickr, want(25), 0, 25);
    assert_granted(&a, single, want(25), 25, 25);
}

/* --- both ends --- */

static void test_last_id(void **state)
{
    struct alloc a;
    uint64_t limit = lane_first_above(one, HILO_ID_MAX), id;

    (void)state;
    assert_int_equal(limit, HILO_ID_MAX);
    alloc_init(&a, limit - 3, limit, false);
    assert_int_equal(alloc_remaining(&a), 3);
    assert_verdict(&a, one, want(4), 1000, ALLOC_EXHAUSTED);
    fill(&a, fetch_for(&a, one, want(1), 1000));
    assert_granted(&a, one, want(2), limit - 3, 2);
    assert_verdict(&a, one, want(2), 1000, ALLOC_EXHAUSTED);
    assert_granted(&a, one, want(1), limit - 1, 1);
    assert_true(lane_id_at(one, limit - 1, &id));
    assert_int_equal(id, HILO_ID_MAX);
    assert_verdict(&a, one, want(1), 1000, ALLOC_EXHAUSTED);
    assert_int_equal(alloc_remaining(&a), 0);
    assert_false(alloc_wants_ahead(&a));
}

/* With ATLEAST the last ids go out though fewer than count. */
static void test_last_ids_atleast(void **state)
{
    struct alloc_request some = want(10);
    struct alloc a;

    (void)state;
    some.atleast = 3;
    alloc_init(&a, 0, 13, false);
    fill(&a, fetch_for(&a, one, some, 1000));
    assert_granted(&a, one, some, 0, 10);
    assert_granted(&a, one, some, 10, 3);
    assert_verdict(&a, one, some, 1000, ALLOC_EXHAUSTED);
}

static void test_cap(void **state)
{
    struct alloc_request rq = want(3);
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    fill(&a, fetch_for(&a, one, want(1), 1000));
    rq.cap = 5;
    assert_granted(&a, one, rq, 0, 3);
    assert_verdict(&a, one, rq, 1000, ALLOC_CAPPED);
    rq.count = rq.atleast = 2;
    assert_granted(&a, one, rq, 3, 2);
    rq.count = rq.atleast = 1;
    assert_verdict(&a, one, rq, 1000, ALLOC_CAPPED);
    assert_granted(&a, one, want(1), 5, 1);
}

/* --- chunks that do not continue, limits, skips, tails --- */

static void test_shared_chunks(void **state)
{
    struct alloc_request some = want(10);
    struct alloc a;
    uint64_t from;

    (void)state;
    some.atleast = 2;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    assert_true(alloc_filled(&a, 0, 8, 1000));
    assert_verdict(&a, one, some, 1000, ALLOC_FETCH); /* might continue: worth it */
    assert_true(alloc_filled(&a, 20, 12, 1000));
    assert_int_equal(alloc_in_hand(&a), 20);
    assert_true(alloc_tail(&a, &from));
    assert_int_equal(from, 20);
    assert_granted(&a, one, some, 0, 8); /* does not */
    assert_granted(&a, one, some, 20, 10);
    assert_verdict(&a, one, some, 1000, ALLOC_FETCH);
    some.settle = true;
    assert_granted(&a, one, some, 30, 2);
    assert_verdict(&a, one, some, 1000, ALLOC_FETCH);
}

/* A store that went back: nothing of its answer is used. */
static void test_unsound_store(void **state)
{
    struct alloc_fetch f;
    struct alloc a;

    (void)state;
    alloc_init(&a, 100, HILO_ID_MAX, false);
    fill(&a, fetch_for(&a, one, want(1), 1000));
    assert_granted(&a, one, want(10), 100, 10);
    alloc_drop(&a);
    f = fetch_for(&a, one, want(5), 1000);
    assert_false(alloc_filled(&a, f.floor - 1, 64, 1000));
    assert_int_equal(alloc_in_hand(&a), 0);
    f = fetch_for(&a, one, want(5), 1000);
    assert_false(alloc_filled(&a, 0, 64, 1000));
    assert_int_equal(alloc_next(&a), 164);
}

static void test_tail(void **state)
{
    struct alloc a;
    uint64_t from = 77;

    (void)state;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    assert_false(alloc_tail(&a, &from));
    assert_int_equal(from, 77);
    fill(&a, fetch_for(&a, one, want(1), 1000));
    assert_granted(&a, one, want(5), 0, 5);
    assert_true(alloc_tail(&a, &from));
    assert_int_equal(from, 5);
    alloc_set_limit(&a, 60); /* 60..63 stay reserved, below them nothing can go back */
    from = 77;
    assert_false(alloc_tail(&a, &from));
    assert_int_equal(from, 77);
    alloc_drop(&a);
    assert_false(alloc_tail(&a, &from));
}

static void test_set_limit(void **state)
{
    struct alloc_fetch f;
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    f = fetch_for(&a, one, want(40), 1000);
    alloc_set_limit(&a, 30); /* while the chunk is on its way */
    fill(&a, f);
    assert_int_equal(alloc_in_hand(&a), 30);
    assert_verdict(&a, one, want(31), 1000, ALLOC_EXHAUSTED);
    assert_granted(&a, one, want(20), 0, 20);
    alloc_set_limit(&a, 25);
    assert_int_equal(alloc_remaining(&a), 5);
    alloc_set_limit(&a, 1000); /* what was dropped does not come back */
    assert_int_equal(alloc_in_hand(&a), 5);
    assert_granted(&a, one, want(5), 20, 5);
    assert_int_equal(fetch_for(&a, one, want(1), 1000).floor, 64);
}

static void test_skip(void **state)
{
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    fill(&a, fetch_for(&a, one, want(1), 1000));
    alloc_skip(&a, 10);
    assert_granted(&a, one, want(1), 10, 1);
    alloc_skip(&a, 3); /* forward only */
    assert_granted(&a, one, want(1), 11, 1);
    alloc_skip(&a, UINT64_C(1) << 40);
    assert_int_equal(alloc_in_hand(&a), 0);
    assert_int_equal(fetch_for(&a, one, want(1), 1000).floor, UINT64_C(1) << 40);
}

/* DESIGN.md 3: a floor acts on chunks on their way as well. The store did nothing
 * unsound, so its answer has to be taken, as far as it lies above the floor. */
static void test_skip_while_fetching(void **state)
{
    struct alloc_fetch f;
    struct alloc a;

    (void)state;
    alloc_init(&a, 0, HILO_ID_MAX, false);
    f = fetch_for(&a, one, want(1), 1000);
    alloc_skip(&a, 10);
    assert_int_equal(f.floor, 0);
    assert_true(alloc_filled(&a, f.floor, f.count, 1000));
    assert_int_equal(alloc_in_hand(&a), 54);
    assert_granted(&a, one, want(1), 10, 1);
}

/* A waiting request with a floor far ahead is not planned behind others: it would make
 * a gap nobody has accounted for. */
static void test_plan_leaves_far_floor(void **state)
{
    struct alloc_request first = want(3), far = want_floor(1, 500), near = want(2);
    struct alloc_plan plan;
    struct alloc_fetch f;
    struct alloc a;

    (void)state;
    near.floor = 3;
    alloc_init(&a, 0, 1000000, true);
    alloc_plan_begin(&a, &plan);
    assert_true(alloc_plan_add(&a, one, &plan, &first));
    assert_true(alloc_plan_add(&a, one, &plan, &near));
    assert_false(alloc_plan_add(&a, one, &plan, &far));
    alloc_plan_fetch(&a, &plan, 1000, &f);
    assert_int_equal(f.floor, 0);
    assert_int_equal(f.count, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_from_one),
        cmocka_unit_test(test_from_start),
        cmocka_unit_test(test_each_exact),
        cmocka_unit_test(test_each_stripe),
        cmocka_unit_test(test_set_each_drops),
        cmocka_unit_test(test_chunk_follows_demand),
        cmocka_unit_test(test_chunk_bounds),
        cmocka_unit_test(test_wants_ahead),
        cmocka_unit_test(test_failed_backs_off),
        cmocka_unit_test(test_failed_burns),
        cmocka_unit_test(test_jump_share),
        cmocka_unit_test(test_jump_ids),
        cmocka_unit_test(test_jumps_add_up),
        cmocka_unit_test(test_jump_charged_when_made),
        cmocka_unit_test(test_jump_lets_go_what_is_below),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_floor_beyond),
        cmocka_unit_test(test_stripe_rest),
        cmocka_unit_test(test_no_boundary),
        cmocka_unit_test(test_last_id),
        cmocka_unit_test(test_last_ids_atleast),
        cmocka_unit_test(test_cap),
        cmocka_unit_test(test_shared_chunks),
        cmocka_unit_test(test_unsound_store),
        cmocka_unit_test(test_tail),
        cmocka_unit_test(test_set_limit),
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_skip_while_fetching),
        cmocka_unit_test(test_plan_leaves_far_floor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
