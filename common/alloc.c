/* alloc.c - the allocator of one sequence. */
#include "alloc.h"
#include "number.h"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool has_hand(const struct alloc *a)
{
    return a->next < a->end;
}

static bool has_ahead(const struct alloc *a)
{
    return a->ahead < a->ahead_end;
}

/* The end of the last chunk; where it is the mark, the next chunk continues it (unless
 * somebody else shares the counter, which is seen when the chunk arrives). */
static uint64_t last_end(const struct alloc *a)
{
    return has_ahead(a) ? a->ahead_end : has_hand(a) ? a->end : a->mark;
}

uint64_t alloc_next(const struct alloc *a)
{
    return has_hand(a) ? a->next : has_ahead(a) ? a->ahead : a->mark;
}

/* Where a request lies that needs a fetch: it may begin in the last chunk, if the next
 * one continues that. */
static uint64_t plan_from(const struct alloc *a)
{
    if (last_end(a) != a->mark)
        return a->mark;
    return has_ahead(a) ? a->ahead : alloc_next(a);
}

uint64_t alloc_in_hand(const struct alloc *a)
{
    return a->end - a->next + (a->ahead_end - a->ahead);
}

uint64_t alloc_remaining(const struct alloc *a)
{
    uint64_t unreserved = a->limit > a->mark ? a->limit - a->mark : 0;

    return alloc_in_hand(a) + unreserved;
}

void alloc_init(struct alloc *a, uint64_t mark, uint64_t limit, bool each)
{
    *a = (struct alloc){
        .next = mark,
        .end = mark,
        .mark = mark,
        .used = mark,
        .limit = limit,
        .chunk = ALLOC_CHUNK_MIN,
        .each = each,
    };
}

/* Where a request lies when positions are free from `from` on: the one place that knows
 * about stripes, bounds and caps. ALLOC_GRANTED and *ret, or the refusal. */
static enum alloc_verdict place(const struct alloc *a, struct lane l, uint64_t from,
                                const struct alloc_request *rq, struct alloc_grant *ret)
{
    uint64_t start = most(from, rq->floor), count = rq->count;

    if (!rq->span) {
        uint64_t rest = lane_boundary(l, start) - start;

        if (rest < rq->atleast)
            start += rest;
        else
            count = least(count, rest);
    }
    if (start >= a->limit || a->limit - start < rq->atleast)
        return ALLOC_EXHAUSTED;
    count = least(count, a->limit - start);
    if (start >= rq->cap || rq->cap - start < count)
        return ALLOC_CAPPED;
    ret->first = start;
    ret->count = count;
    return ALLOC_GRANTED;
}

static bool new_minute(const struct alloc *a, int64_t now_ms)
{
    return a->jumped == 0 || now_ms - a->jump_ms >= ALLOC_JUMP_MS ||
           now_ms < a->jump_ms;
}

uint64_t alloc_jump_left(const struct alloc *a, int64_t now_ms)
{
    uint64_t jumped = new_minute(a, now_ms) ? 0 : a->jumped;
    uint64_t jump = least(ALLOC_JUMP_IDS, alloc_remaining(a) / ALLOC_JUMP_SHARE);

    return jump > jumped ? jump - jumped : 0;
}

/* What the floor skips, once ids above it are granted. */
static uint64_t jump_over(const struct alloc *a, uint64_t floor)
{
    uint64_t from = alloc_next(a);

    return floor > from ? floor - from : 0;
}

/* Accounts for ids that have been skipped. */
static void charge(struct alloc *a, uint64_t ids, int64_t now_ms)
{
    if (ids == 0)
        return;
    if (new_minute(a, now_ms)) {
        a->jump_ms = now_ms;
        a->jumped = 0;
    }
    a->jumped += ids;
}

/* Grants *g, placed from `from` on, out of [from, end) if it fits, or as much of it as
 * the request is content with where waiting would bring no more. */
static bool grant_from(struct alloc *a, uint64_t end, bool final,
                       const struct alloc_request *rq, int64_t now_ms,
                       struct alloc_grant *g)
{
    if (g->first >= end)
        return false;
    if (end - g->first < g->count) {
        if (!final || end - g->first < rq->atleast)
            return false;
        g->count = end - g->first;
    }
    charge(a, jump_over(a, rq->floor), now_ms);
    a->next = g->first + g->count;
    a->end = end;
    a->used = a->next;
    a->taken += g->count;
    return true;
}

enum alloc_verdict alloc_take(struct alloc *a, struct lane l,
                              const struct alloc_request *rq, int64_t now_ms,
                              struct alloc_grant *ret_grant)
{
    struct alloc_grant g;
    enum alloc_verdict verdict = place(a, l, alloc_next(a), rq, &g);
    if (verdict != ALLOC_GRANTED)
        return verdict;
    if (rq->floor > 0 && jump_over(a, rq->floor) > alloc_jump_left(a, now_ms))
        return ALLOC_REGRESS;
    if (has_hand(a)) {
        bool final = rq->settle || has_ahead(a) || a->end != a->mark;

        if (grant_from(a, a->end, final, rq, now_ms, &g)) {
            *ret_grant = g;
            return ALLOC_GRANTED;
        }
    }
    if (has_ahead(a)) {
        bool final = rq->settle || a->ahead_end != a->mark;

        verdict = place(a, l, a->ahead, rq, &g);
        if (verdict == ALLOC_CAPPED)
            return verdict; /* and so is all that lies behind */
        if (verdict == ALLOC_GRANTED &&
            grant_from(a, a->ahead_end, final, rq, now_ms, &g)) {
            a->ahead = a->ahead_end;
            *ret_grant = g;
            return ALLOC_GRANTED;
        }
    }
    verdict = place(a, l, plan_from(a), rq, &g);
    if (verdict != ALLOC_GRANTED)
        return verdict;
    return a->fetching ? ALLOC_WAIT : ALLOC_FETCH;
}

void alloc_plan_begin(const struct alloc *a, struct alloc_plan *p)
{
    *p = (struct alloc_plan){.to = plan_from(a)};
}

bool alloc_plan_add(const struct alloc *a, struct lane l, struct alloc_plan *p,
                    const struct alloc_request *rq)
{
    struct alloc_grant g;

    if (place(a, l, p->to, rq, &g) != ALLOC_GRANTED)
        return false;
    if (p->any && rq->floor > p->to)
        return false; /* its turn to be judged comes when it is the first */
    if (!p->any) {
        p->start = g.first;
        p->floor = rq->floor;
    }
    p->any = true;
    p->to = g.first + g.count;
    return true;
}

/* The size of the next chunk: what was granted in the last second, within bounds. */
static uint64_t demand(const struct alloc *a, int64_t now_ms)
{
    int64_t elapsed = now_ms - a->fetched_ms;
    uint64_t rate;

    if (a->failed || a->fetched_ms == 0)
        return ALLOC_CHUNK_MIN;
    if (!number_mul(a->taken, 1000, &rate))
        rate = UINT64_MAX;
    rate /= (uint64_t)(elapsed < 1 ? 1 : elapsed);
    rate = least(rate, least(a->chunk * ALLOC_GROWTH, ALLOC_CHUNK_MAX));
    return most(rate, ALLOC_CHUNK_MIN);
}

/* Begins the fetch of at least min positions from start on. */
static void fetch(struct alloc *a, uint64_t start, uint64_t min, int64_t now_ms,
                  struct alloc_fetch *ret)
{
    uint64_t count = min;

    if (!a->each) {
        a->chunk = demand(a, now_ms);
        count = most(min, least(a->chunk, a->limit - start));
    }
    a->taken = 0;
    a->jump_to = 0;
    a->fetched_ms = now_ms;
    a->failed = false;
    a->fetching = true;
    *ret = (struct alloc_fetch){.floor = start, .min = min, .count = count};
}

void alloc_plan_fetch(struct alloc *a, const struct alloc_plan *p, int64_t now_ms,
                      struct alloc_fetch *ret)
{
    uint64_t start = most(p->start, a->mark);

    fetch(a, start, p->to - start, now_ms, ret);
    a->jump_to = p->floor;
}

bool alloc_wants_ahead(const struct alloc *a)
{
    return !a->each && !a->fetching && alloc_in_hand(a) < a->chunk / 2 &&
           a->mark < a->limit;
}

bool alloc_ahead(struct alloc *a, int64_t now_ms, struct alloc_fetch *ret)
{
    if (!alloc_wants_ahead(a))
        return false;
    if (a->failed && now_ms - a->fetched_ms < ALLOC_RETRY_MS)
        return false;
    fetch(a, a->mark, 1, now_ms, ret);
    return true;
}

/* Cuts both chunks to [low, high). */
static void clip(struct alloc *a, uint64_t low, uint64_t high)
{
    a->next = most(a->next, low);
    a->end = most(a->next, least(a->end, high));
    a->ahead = most(a->ahead, low);
    a->ahead_end = most(a->ahead, least(a->ahead_end, high));
}

bool alloc_filled(struct alloc *a, uint64_t first, uint64_t count, int64_t now_ms)
{
    uint64_t end = first + count;

    a->fetching = false;
    if (first < a->mark)
        return false;
    charge(a, jump_over(a, a->jump_to), now_ms);
    clip(a, a->jump_to, UINT64_MAX);
    /* A floor that came meanwhile acts on what was on its way. */
    a->mark = most(end, a->used);
    first = most(first, a->used);
    end = least(end, a->limit);
    if (first >= end)
        return true;
    if (!has_hand(a) && !has_ahead(a)) {
        a->next = first;
        a->end = end;
    } else if (!has_ahead(a) && first == a->end) {
        a->end = end;
    } else if (has_ahead(a) && first == a->ahead_end) {
        a->ahead_end = end;
    } else {
        if (has_ahead(a)) {
            a->next = a->ahead;
            a->end = a->ahead_end;
        }
        a->ahead = first;
        a->ahead_end = end;
    }
    return true;
}

void alloc_failed(struct alloc *a, int64_t now_ms)
{
    a->fetching = false;
    a->failed = true;
    a->fetched_ms = now_ms;
}

void alloc_refused(struct alloc *a, uint64_t mark, int64_t now_ms)
{
    a->mark = most(a->mark, mark);
    alloc_failed(a, now_ms);
}

void alloc_drop(struct alloc *a)
{
    clip(a, UINT64_MAX, 0);
}

void alloc_skip(struct alloc *a, uint64_t position)
{
    a->used = most(a->used, position);
    if (!a->fetching)
        a->mark = most(a->mark, position);
    clip(a, position, UINT64_MAX);
}

void alloc_set_limit(struct alloc *a, uint64_t limit)
{
    a->limit = limit;
    clip(a, 0, limit);
}

void alloc_set_each(struct alloc *a, bool each)
{
    a->each = each;
    if (each)
        alloc_drop(a);
}

bool alloc_tail(const struct alloc *a, uint64_t *ret_from)
{
    if (alloc_in_hand(a) == 0 || last_end(a) != a->mark)
        return false;
    *ret_from = has_ahead(a) ? a->ahead : a->next;
    return true;
}
