/* seq.c - one sequence. */
#include "seq.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "log.h"
#include "number.h"
#include "seq_admin.h"

#define RATE_MS 1000

uint64_t seq_start_position(struct lane l, const struct counter_attr *attr)
{
    return lane_first_above(l, attr->start - 1);
}

uint64_t seq_limit(struct lane l, const struct counter_attr *attr)
{
    return lane_first_above(l, attr->max);
}

void seq_init(struct seq *s, struct seq_env *env, const char *name, size_t name_len,
              const struct counter_attr *attr)
{
    *s = (struct seq){
        .env = env, .attr = *attr, .name = name, .name_len = (uint32_t)name_len};
}

void seq_free(struct seq *s)
{
    while (s->head != NULL) {
        struct request *r = s->head;

        s->head = r->next;
        request_free(&s->env->pool, r);
    }
    free(s);
}

/* At every grant: so first the part of the condition that costs nothing. */
static void check_near_end(struct seq *s)
{
    if (s->alloc.used < s->alloc.limit / 100 * SEQ_NEAR_END_PERCENT)
        return;
    if (s->warned || seq_used_percent(s) < SEQ_NEAR_END_PERCENT)
        return;
    s->warned = true;
    s->env->near_end++;
    log_limited(
        &s->env->near_end_log, LOG_WARNING,
        "sequence %s: %u %% of its ids are used, %" PRIu64 " are left up to its MAX "
        "%" PRIu64 ". If more fit: SEQ ALTER %s MAX n",
        s->name, seq_used_percent(s), alloc_remaining(&s->alloc), s->attr.max, s->name);
}

void seq_go_live(struct seq *s, uint64_t counter, uint64_t mark)
{
    s->counter = counter;
    s->state = SEQ_LIVE;
    alloc_init(&s->alloc, mark, seq_limit(s->env->lane, &s->attr), s->attr.each);
    check_near_end(s);
}

/* --- reading --- */

uint64_t seq_last(const struct seq *s)
{
    struct lane l = s->env->lane;
    uint64_t used = s->alloc.used, id;

    if (s->state != SEQ_LIVE || used <= seq_start_position(l, &s->attr) ||
        !lane_id_at(l, used - 1, &id))
        return 0;
    return id;
}

uint64_t seq_rate(const struct seq *s, int64_t now_ms)
{
    int64_t elapsed = now_ms - s->recent_ms;

    if (elapsed < RATE_MS)
        return s->rate;
    return s->recent * 1000 / (uint64_t)elapsed;
}

unsigned seq_used_percent(const struct seq *s)
{
    uint64_t start = seq_start_position(s->env->lane, &s->attr);
    uint64_t all = s->alloc.limit > start ? s->alloc.limit - start : 0;
    uint64_t left = alloc_remaining(&s->alloc);
    uint64_t used = left < all ? all - left : 0;

    if (all == 0)
        return 100;
    return (unsigned)(all > UINT64_MAX / 100 ? used / (all / 100) : used * 100 / all);
}

/* --- grants --- */

static void count_grants(struct seq *s, uint64_t n, uint64_t ids, int64_t now_ms)
{
    int64_t elapsed = now_ms - s->recent_ms;

    if (elapsed >= RATE_MS) {
        s->rate = s->recent * 1000 / (uint64_t)elapsed;
        s->peak = s->rate > s->peak ? s->rate : s->peak;
        s->recent = 0;
        s->recent_ms = now_ms;
    }
    s->recent += ids;
    s->granted += ids;
    s->env->grants += n;
    s->env->ids += ids;
    check_near_end(s);
}

static void refuse_grant(struct seq *s, struct request *r, enum alloc_verdict verdict,
                         int64_t now_ms)
{
    uint64_t next = 0;

    lane_id_at(s->env->lane, alloc_next(&s->alloc), &next);
    if (verdict == ALLOC_EXHAUSTED) {
        request_refuse(r, HILO_EEXHAUSTED,
                       "sequence '%s' has %" PRIu64 " ids left up to its MAX %" PRIu64
                       ", fewer than this needs; raise it with: SEQ ALTER %s MAX n",
                       s->name, alloc_remaining(&s->alloc), s->attr.max, s->name);
    } else if (verdict == ALLOC_CAPPED) {
        request_refuse(
            r, HILO_EERR,
            "the ids of '%s' have passed int_reply_max, above which many clients "
            "round integers; NEXT %s answers a string, which is exact",
            s->name, s->name);
    } else {
        s->env->floors_refused++;
        request_refuse(
            r, HILO_EREGRESS,
            "sequence '%s' would continue at %" PRIu64 " but FLOOR is %" PRIu64
            ", further than the %" PRIu64 " ids a floor may skip now: either this "
            "server went back or the floor is wrong. To move it on purpose: SEQ "
            "ADVANCE %s %" PRIu64,
            s->name, next, r->id, alloc_jump_left(&s->alloc, now_ms), s->name, r->id);
        log_limited(&s->env->regress_log, LOG_WARNING, "possible regress: %s",
                    request_why(r));
    }
}

/* A retired sequence reserves nothing, whatever is left of its demand. */
static bool wants_ahead(const struct seq *s)
{
    return !s->attr.retired && alloc_wants_ahead(&s->alloc);
}

/* True when the grant is decided, either way. */
static bool try_grant(struct seq *s, struct request *r, int64_t now_ms)
{
    enum alloc_verdict verdict;

    if (__builtin_expect(s->attr.retired, 0)) {
        request_refuse(
            r, HILO_ENOSEQ,
            "sequence '%s' is retired; to go on above its last id: SEQ CREATE %s",
            s->name, s->name);
        return true;
    }
    verdict = alloc_take(&s->alloc, s->env->lane, &r->want, now_ms, &r->grant);
    if (__builtin_expect(verdict == ALLOC_GRANTED, 1)) {
        r->decided = true;
        count_grants(s, 1, r->grant.count, now_ms);
        return true;
    }
    if (verdict == ALLOC_FETCH || verdict == ALLOC_WAIT)
        return false;
    refuse_grant(s, r, verdict, now_ms);
    return true;
}

uint64_t seq_ones(const struct seq *s, uint64_t cap)
{
    if (s->state != SEQ_LIVE || s->head != NULL || s->attr.retired || s->env->ended)
        return 0;
    return alloc_ones(&s->alloc, cap);
}

uint64_t seq_take_ones(struct seq *s, uint64_t n, int64_t now_ms)
{
    uint64_t first = alloc_take_ones(&s->alloc, n);

    count_grants(s, n, n, now_ms);
    if (wants_ahead(s))
        s->env->want_fn(s->env, s);
    return first;
}

bool seq_submit(struct seq *s, struct request *r, int64_t now_ms)
{
    if (__builtin_expect(s->env->ended, 0)) {
        request_refuse(r, HILO_ESTORAGE, "%s", s->env->why);
        return true;
    }
    if (s->state != SEQ_LIVE || s->head != NULL || !request_is_grant(r) ||
        r->token != NULL)
        return false;
    if (!try_grant(s, r, now_ms))
        return false;
    if (wants_ahead(s))
        s->env->want_fn(s->env, s);
    return true;
}

void seq_enqueue(struct seq *s, struct request *r)
{
    r->next = NULL;
    r->planned = false;
    if (s->tail != NULL)
        s->tail->next = r;
    else
        s->head = r;
    s->tail = r;
    s->env->waiting++;
    s->env->want_fn(s->env, s);
}

/* --- the queue --- */

static void pop(struct seq *s)
{
    struct request *r = s->head;

    s->head = r->next;
    if (s->head == NULL)
        s->tail = NULL;
    s->env->waiting--;
    if (r->token != NULL)
        s->env->token_fn(s->env, r);
    else if (r->owner == NULL)
        request_free(&s->env->pool, r);
    else
        r->decided_fn(r);
}

/* A caller that is gone gets nothing; what it waited for goes to the next one. One with
 * a token may come back for it. */
static bool abandoned(const struct request *r)
{
    return r->owner == NULL && !r->decided && r->token == NULL;
}

/* Decides grants from the head on, as far as what is in hand goes. */
static void serve(struct seq *s, int64_t now_ms)
{
    while (s->head != NULL && request_is_grant(s->head)) {
        if (!abandoned(s->head) && !try_grant(s, s->head, now_ms))
            return;
        pop(s);
    }
}

static bool make_create(struct seq *s, struct store_op *op)
{
    op->kind = STORE_CREATE;
    op->name = s->name;
    op->name_len = s->name_len;
    op->attr = s->attr;
    op->floor = seq_start_position(s->env->lane, &s->attr);
    return true;
}

static bool make_reserve(struct seq *s, struct store_op *op,
                         const struct alloc_fetch *f)
{
    s->op_is_fetch = true;
    op->kind = STORE_RESERVE;
    op->counter = s->counter;
    op->floor = f->floor;
    op->min = f->min;
    op->count = f->count;
    op->limit = s->alloc.limit;
    return true;
}

/* One fetch for all grants that wait, up to the next piece of administration. */
static bool make_fetch(struct seq *s, struct store_op *op, int64_t now_ms)
{
    struct request *r = s->head;
    struct alloc_plan plan;
    struct alloc_fetch f;

    alloc_plan_begin(&s->alloc, &plan);
    for (; r != NULL && request_is_grant(r); r = r->next) {
        if (!abandoned(r) && !alloc_plan_add(&s->alloc, s->env->lane, &plan, &r->want))
            break;
        r->planned = true;
    }
    for (; r != NULL && r->planned; r = r->next)
        r->planned = false; /* an earlier fetch had counted on it */
    alloc_plan_fetch(&s->alloc, &plan, now_ms, &f);
    return make_reserve(s, op, &f);
}

bool seq_make_op(struct seq *s, struct store_op *op, int64_t now_ms)
{
    struct alloc_fetch f;

    s->op_is_fetch = false;
    if (s->state == SEQ_NEW)
        return make_create(s, op);
    for (;;) {
        serve(s, now_ms);
        if (s->head == NULL || request_is_grant(s->head))
            break;
        if (!abandoned(s->head) && seq_admin_begin(s, s->head, op))
            return true;
        *op = (struct store_op){0};
        pop(s);
    }
    if (s->head != NULL)
        return make_fetch(s, op, now_ms);
    return wants_ahead(s) && alloc_ahead(&s->alloc, now_ms, &f) &&
           make_reserve(s, op, &f);
}

/* The fetch brought nothing. Grants content with less take what is in hand; the others
 * that counted on it are told why. */
static void refuse_planned(struct seq *s, int err, const char *why, int64_t now_ms)
{
    while (s->head != NULL && s->head->planned) {
        struct request *r = s->head;

        r->want.settle = true;
        if (!abandoned(r) && (s->env->ended || !try_grant(s, r, now_ms)))
            request_refuse(r, err, "%s", why);
        pop(s);
    }
}

static void take_fetched(struct seq *s, const struct store_op *op, const char *why,
                         int64_t now_ms)
{
    char text[STORE_TEXT_MAX];
    uint64_t expected = s->alloc.mark;

    if (op->err == HILO_EEXHAUSTED && op->mark > expected) {
        /* Others, or a range that was burnt, took what was thought to be left: all that
         * wait are judged by what is. */
        alloc_refused(&s->alloc, op->mark, now_ms);
    } else if (op->err != 0) {
        alloc_failed(&s->alloc, now_ms);
        refuse_planned(s, op->err, op->err == HILO_ESTORAGE ? why : error_text(op->err),
                       now_ms);
    } else if (!alloc_filled(&s->alloc, op->first, op->count, now_ms)) {
        snprintf(text, sizeof text,
                 "the store answered position %" PRIu64
                 " for sequence '%s', below %" PRIu64
                 ", which it had reserved before: it has gone back",
                 op->first, s->name, expected);
        log_limited(&s->env->regress_log, LOG_ERROR, "%s", text);
        refuse_planned(s, HILO_EREGRESS, text, now_ms);
    }
}

static void take_created(struct seq *s, const struct store_op *op, const char *why)
{
    if (op->err != 0) {
        s->state = SEQ_VOID;
        seq_refuse_all(s, op->err,
                       op->err == HILO_ESTORAGE ? why : error_text(op->err));
        return;
    }
    seq_go_live(s, op->counter, op->mark);
}

static void take_admin(struct seq *s, const struct store_op *op, const char *why)
{
    struct request *r = s->head;

    s->unsure |= op->kind == STORE_ALTER && op->err == HILO_ESTORAGE;
    if (op->err != 0)
        request_refuse(r, op->err, "%s",
                       op->err == HILO_ESTORAGE ? why : error_text(op->err));
    else
        seq_admin_finish(s, r, op);
    pop(s);
}

void seq_take_answer(struct seq *s, const struct store_op *op, const char *why,
                     int64_t now_ms)
{
    if (s->state == SEQ_NEW) {
        take_created(s, op, why);
    } else if (s->op_is_fetch) {
        take_fetched(s, op, why, now_ms);
        if (!s->env->ended)
            serve(s, now_ms);
        if (s->attr.each)
            alloc_drop(&s->alloc);
        check_near_end(s);
    } else {
        take_admin(s, op, why);
    }
    if (s->state == SEQ_LIVE && (s->head != NULL || wants_ahead(s)))
        s->env->want_fn(s->env, s);
}

void seq_refuse_all(struct seq *s, int err, const char *why)
{
    while (s->head != NULL) {
        request_refuse(s->head, err, "%s", why);
        pop(s);
    }
}

void seq_refuse_others(struct seq *s, int err, const char *why)
{
    struct request *kept = NULL;

    if (s->state == SEQ_LIVE && !s->op_is_fetch) {
        kept = s->head;
        s->head = kept->next;
        if (s->head == NULL)
            s->tail = NULL;
    }
    seq_refuse_all(s, err, why);
    if (kept != NULL) {
        kept->next = NULL;
        s->head = s->tail = kept;
    }
}

void seq_describe(const struct seq *s, struct store_op *op)
{
    op->name = s->name;
    op->name_len = s->name_len;
    if (op->kind == STORE_RESERVE || op->kind == STORE_GIVE_BACK)
        op->attr = s->attr;
    /* A chunk is about a second's worth, which counts before a second has been
     * measured. */
    op->rate = op->kind == STORE_RESERVE && op->count > s->peak ? op->count : s->peak;
}

bool seq_make_give_back(const struct seq *s, struct store_op *op)
{
    if (s->state != SEQ_LIVE || !alloc_tail(&s->alloc, &op->floor))
        return false;
    op->kind = STORE_GIVE_BACK;
    op->counter = s->counter;
    op->mark = s->alloc.mark;
    return true;
}
