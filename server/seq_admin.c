/* seq_admin.c - creating, altering, advancing and retiring a sequence. */
#include "seq_admin.h"

#include <inttypes.h>
#include "error.h"
#include "log.h"

static bool same_attr(const struct counter_attr *a, const struct counter_attr *b)
{
    return a->start == b->start && a->max == b->max && a->each == b->each;
}

static const char *durability(bool each)
{
    return each ? "each" : "ahead";
}

/* For all but creation there has to be a sequence that is in use. */
static bool refuse_retired(const struct seq *s, struct request *r)
{
    if (!s->attr.retired || r->kind == REQUEST_CREATE)
        return false;
    if (r->kind == REQUEST_RETIRE && s->unsure)
        return false; /* a failed creation may have brought it back */
    if (r->kind == REQUEST_RETIRE)
        r->decided = true; /* it is what was asked for */
    else
        request_refuse(
            r, HILO_ENOSEQ,
            "sequence '%s' is retired; to go on above its last id: SEQ CREATE %s",
            s->name, s->name);
    return true;
}

static bool begin_create(struct seq *s, struct request *r, struct store_op *op)
{
    const struct counter_attr *have = &s->attr;

    op->kind = STORE_ALTER;
    op->attr = r->attr;
    if (!have->retired && same_attr(have, &r->attr)) {
        r->decided = !s->unsure;
        return s->unsure; /* what is acknowledged has to be in the store */
    }
    if (!have->retired) {
        request_refuse(r, HILO_EBADARG,
                       "sequence '%s' exists with START %" PRIu64 " MAX %" PRIu64
                       " DURABILITY %s; to change it: SEQ ALTER %s",
                       s->name, have->start, have->max, durability(have->each),
                       s->name);
        return false;
    }
    op->floor = seq_start_position(s->env->lane, &r->attr);
    if (op->floor < s->alloc.mark)
        op->floor = s->alloc.mark;
    if (op->floor < seq_limit(s->env->lane, &r->attr))
        return true;
    request_refuse(r, HILO_EBADARG,
                   "MAX %" PRIu64
                   " leaves no id to sequence '%s', which was retired after "
                   "%" PRIu64,
                   r->attr.max, s->name, seq_last(s));
    return false;
}

static bool begin_alter(struct seq *s, struct request *r, struct store_op *op)
{
    uint64_t last = seq_last(s);

    op->kind = STORE_ALTER;
    op->attr = s->attr;
    if (r->set_each)
        op->attr.each = r->attr.each;
    if (r->set_max)
        op->attr.max = r->attr.max;
    if (op->attr.max >= last && op->attr.max >= s->attr.start)
        return true;
    request_refuse(
        r, HILO_EBADARG, "MAX %" PRIu64 " of sequence '%s' would lie below %s %" PRIu64,
        op->attr.max, s->name, last > s->attr.start ? "the granted id" : "START",
        last > s->attr.start ? last : s->attr.start);
    return false;
}

static bool begin_advance(struct seq *s, struct request *r, struct store_op *op)
{
    uint64_t position = lane_first_above(s->env->lane, r->id);
    struct alloc after = s->alloc;

    alloc_skip(&after, position);
    if (alloc_next(&after) >= after.limit) {
        request_refuse(r, HILO_EBADARG,
                       "there is no id left above %" PRIu64
                       " for sequence '%s', whose MAX is "
                       "%" PRIu64 "; first: SEQ ALTER %s MAX n",
                       r->id, s->name, s->attr.max, s->name);
        return false;
    }
    op->kind = STORE_RESERVE;
    op->floor = position;
    op->limit = s->alloc.limit;
    return true;
}

bool seq_admin_begin(struct seq *s, struct request *r, struct store_op *op)
{
    if (refuse_retired(s, r))
        return false;
    op->counter = s->counter;
    switch (r->kind) {
    case REQUEST_CREATE:
        return begin_create(s, r, op);
    case REQUEST_ALTER:
        return begin_alter(s, r, op);
    case REQUEST_ADVANCE:
        return begin_advance(s, r, op);
    default: /* REQUEST_RETIRE */
        op->kind = STORE_ALTER;
        op->attr = s->attr;
        op->attr.retired = true;
        return true;
    }
}

void seq_admin_finish(struct seq *s, struct request *r, const struct store_op *op)
{
    struct lane l = s->env->lane;
    bool was_retired = s->attr.retired;

    r->decided = true;
    if (r->kind == REQUEST_ADVANCE) {
        alloc_skip(&s->alloc, op->floor);
        r->grant.first = alloc_next(&s->alloc);
        log_limited(&s->env->admin_log, LOG_INFO,
                    "sequence %s: advanced above %" PRIu64, s->name, r->id);
        return;
    }
    s->unsure = false;
    s->attr = op->attr;
    alloc_set_limit(&s->alloc, seq_limit(l, &s->attr));
    alloc_set_each(&s->alloc, s->attr.each);
    if (s->attr.retired)
        alloc_drop(&s->alloc);
    if (was_retired)
        alloc_skip(&s->alloc, op->mark);
    if (s->warned && seq_used_percent(s) < SEQ_NEAR_END_PERCENT) {
        s->warned = false;
        s->env->near_end--;
    }
    log_limited(&s->env->admin_log, LOG_INFO,
                "sequence %s: MAX %" PRIu64 ", DURABILITY %s%s", s->name, s->attr.max,
                durability(s->attr.each), s->attr.retired ? ", retired" : "");
}
