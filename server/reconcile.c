/* reconcile.c - a store and its witness are made to agree. */
#include "reconcile.h"

#include <inttypes.h>
#include <string.h>
#include "log.h"
#include "number.h"
#include "name.h"

#define SLICE          10000 /* operations in one batch */
#define LINES_TO_SPARE 10000 /* a witness may have, beside three for each counter */

/* What has to be done to make the two agree. */
struct agreement {
    struct guard *guard;
    const struct guard_acts *acts;
    struct store_batch ops;
    uint64_t counters; /* in the store */
    uint64_t unknown;  /* to the witness */
    uint64_t missing;  /* in the store */
    uint64_t behind;
    uint64_t altered; /* counters whose last change the store has lost */
    bool raise, failed;
    bool older;                   /* the witness is, somewhere */
    char first[NAME_MAX_LEN + 1]; /* of those behind */
    uint64_t first_store, first_witness;
};

static struct counter_attr attr_of(const struct record *r)
{
    return (struct counter_attr){
        .start = r->start, .max = r->max, .each = r->each, .retired = r->retired};
}

static uint64_t add_capped(uint64_t a, uint64_t b, uint64_t most)
{
    return a >= most || b > most - a ? most : a + b;
}

/* Where a counter goes on, given the position that is known to be free. The margin ends
 * at the highest MAX that is known, for a witness knows of each change of it. What an
 * administrator skips does not: the MAX may have been higher, and may be again. */
static uint64_t goes_on(const struct agreement *a, uint64_t max, uint64_t from,
                        uint64_t rate)
{
    struct lane l = a->guard->id.lane;
    uint64_t limit = lane_first_above(l, max), to = from;

    if (a->raise && from < limit) {
        for (int i = 0; i < GUARD_MARGIN_S; i++)
            to = add_capped(to, rate, limit);
    }
    return add_capped(to, a->acts->skip, lane_first_above(l, HILO_ID_MAX));
}

static bool same_attr(const struct counter_attr *attr, const struct record *r)
{
    const struct counter_attr known = attr_of(r);

    return counter_attr_same(attr, &known);
}

/* Whether the witness knows of a change that the store has lost. What the store alone
 * knows was never answered, unless it was used without this witness. */
static bool is_altered(const struct agreement *a, const struct record *r,
                       const struct counter_attr *attr, uint64_t mark)
{
    return a->guard->id.witnessed != 0 && !same_attr(attr, r) &&
           lane_first_above(a->guard->id.lane, r->last) == mark;
}

/* Where the store is ahead of the witness, that hears of it. */
static void bring_up(struct agreement *a, uint64_t counter, const char *name,
                     size_t name_len, const struct counter_attr *attr, uint64_t mark,
                     const struct record *r)
{
    struct record line = guard_record(a->guard, name, name_len, attr, counter, mark);

    if (same_attr(attr, r) && line.last == r->last)
        return;
    a->failed |= !witness_add(a->guard->witness, &line);
}

static void compare(void *arg, uint64_t counter, const char *name, size_t name_len,
                    const struct counter_attr *attr, uint64_t mark)
{
    struct agreement *a = arg;
    struct record r;
    uint64_t seen;

    a->counters++;
    if (!witness_take(a->guard->witness, name, name_len, &r)) {
        a->unknown++;
        return;
    }
    a->failed |= !guard_note_rate(a->guard, counter, r.rate);
    seen = lane_first_above(a->guard->id.lane, r.last);
    if (seen < mark)
        a->older = true;
    if (seen <= mark) {
        if (is_altered(a, &r, attr, mark))
            a->altered++;
        else
            bring_up(a, counter, name, name_len, attr, mark, &r);
        return;
    }
    if (a->behind++ > 0)
        return;
    memcpy(a->first, name, name_len);
    a->first_store = guard_last_id(a->guard->id.lane, mark);
    a->first_witness = r.last;
}

static struct store_op *add_op(struct agreement *a)
{
    struct store_op *op = store_batch_add(&a->ops);

    a->failed |= op == NULL;
    return op;
}

/* Whether a counter that the witness does not know may be older than that: once a skip
 * had to do for those that were younger than the copy, a copy may have one of them. */
static bool is_doubtful(const struct agreement *a)
{
    return a->guard->witness != NULL && a->unknown > 0 && a->guard->id.skip > 0 &&
           a->acts->skip == 0;
}

static void raise_counter(void *arg, uint64_t counter, const char *name,
                          size_t name_len, const struct counter_attr *attr,
                          uint64_t mark)
{
    struct agreement *a = arg;
    struct counter_attr use = *attr;
    uint64_t from = mark, rate = 0, max = attr->max;
    struct store_op *op;
    struct record r;

    if (a->guard->witness != NULL &&
        witness_take(a->guard->witness, name, name_len, &r)) {
        uint64_t seen = lane_first_above(a->guard->id.lane, r.last);

        rate = r.rate;
        max = r.max > max ? r.max : max;
        if (seen > mark || is_altered(a, &r, attr, mark)) {
            from = seen;
            use = attr_of(&r);
        }
    } else if (is_doubtful(a)) {
        from = add_capped(mark, a->guard->id.skip, HILO_ID_MAX);
    }
    from = goes_on(a, max, from, rate);
    if (from == mark && counter_attr_same(&use, attr))
        return;
    op = add_op(a);
    if (op == NULL)
        return;
    op->kind = STORE_ALTER;
    op->counter = counter;
    op->attr = use;
    op->floor = from;
}

/* Those the store does not know. */
static void create_counters(struct agreement *a)
{
    struct record r;

    while (!a->failed && witness_take_next(a->guard->witness, &r)) {
        struct store_op *op = add_op(a);

        if (op == NULL)
            return;
        a->missing++;
        op->kind = STORE_CREATE;
        op->name = r.name;
        op->name_len = r.name_len;
        op->attr = attr_of(&r);
        op->rate = r.rate;
        op->floor =
            goes_on(a, r.max, lane_first_above(a->guard->id.lane, r.last), r.rate);
    }
}

static int carry_out(struct agreement *a, struct store_error *ret_error)
{
    struct guard *g = a->guard;

    for (size_t at = 0; at < a->ops.n; at += SLICE) {
        size_t n = a->ops.n - at < SLICE ? a->ops.n - at : SLICE;

        if (g->engine->commit(g->store, a->ops.ops + at, n, ret_error) != STORE_DONE)
            return -1;
        for (size_t i = at; i < at + n; i++) {
            if (a->ops.ops[i].kind == STORE_CREATE)
                a->failed |=
                    !guard_note_rate(g, a->ops.ops[i].counter, a->ops.ops[i].rate);
        }
    }
    return 0;
}

static void tell(const struct agreement *a)
{
    const struct guard *g = a->guard;

    if (a->acts->from_witness)
        log_line(LOG_WARNING,
                 "made a new database from the witness %s: %" PRIu64 " sequences",
                 witness_path(g->witness), a->missing);
    else if (a->behind > 0 || a->missing > 0)
        log_line(LOG_WARNING,
                 "the database is older than its witness %s: behind in %" PRIu64
                 " sequences%s%s, without %" PRIu64
                 " of them. An older copy was put in its place. Granting goes on "
                 "above what the witness knows",
                 witness_path(g->witness), a->behind, a->behind > 0 ? ", first " : "",
                 a->first, a->missing);
    if (a->altered > 0)
        log_line(LOG_WARNING,
                 "%" PRIu64
                 " sequences have other settings than their witness knows: a "
                 "change was under way at a crash, or an older copy was put in place. "
                 "They are as the witness says",
                 a->altered);
    if (a->behind > 0)
        log_line(LOG_WARNING,
                 "sequence %s: the database says %" PRIu64 ", the witness %" PRIu64,
                 a->first, a->first_store, a->first_witness);
    if (a->acts->skip > 0)
        log_line(
            LOG_WARNING,
            "skipped %" PRIu64 " ids of this lane in %" PRIu64
            " sequences, and in each that will be made: there may have been one of "
            "its name",
            a->acts->skip, a->counters);
}

static int agree(struct agreement *a, struct store_error *ret_error)
{
    struct guard *g = a->guard;

    if (g->witness != NULL && g->engine->load(g->store, compare, a, ret_error) != 0)
        return -1;
    if (g->id.is_backup && a->acts->skip == 0 && (a->unknown > 0 || a->older)) {
        store_error_set(
            ret_error, true,
            "this database is a backup, and newer than the witness %s, so "
            "what was granted since can't be known: leave out more ids than "
            "were granted since: hilod --skip IDS",
            witness_path(g->witness));
        return -1;
    }
    if (g->witness != NULL && witness_left(g->witness))
        a->raise = true;
    a->raise |= a->behind > 0;
    if (a->raise || a->altered > 0 || a->acts->skip > 0 || is_doubtful(a)) {
        if (g->engine->load(g->store, raise_counter, a, ret_error) != 0)
            return -1;
        if (g->witness != NULL)
            create_counters(a);
    }
    if (!a->failed && carry_out(a, ret_error) != 0)
        return -1;
    if (a->failed) {
        store_error_set(ret_error, false, "out of memory");
        return -1;
    }
    tell(a);
    g->behind = a->behind + (a->acts->from_witness ? 0 : a->missing);
    return 0;
}

/* Both are open; afterwards the witness knows what the store does. */
int reconcile(struct guard *g, const struct guard_acts *acts,
              struct store_error *ret_error)
{
    struct agreement a = {.guard = g, .acts = acts};
    int rc = agree(&a, ret_error);
    uint64_t lines;
    bool differs = a.ops.n > 0 || a.unknown > 0;

    if (g->witness != NULL) {
        lines = witness_forget(g->witness);
        if (rc == 0 && (witness_stale(g->witness) || differs || acts->skip > 0 ||
                        lines > 3 * a.counters + LINES_TO_SPARE))
            rc = guard_renew(g, ret_error);
        else if (rc == 0)
            rc = witness_write(g->witness, true, ret_error);
    }
    store_batch_free(&a.ops);
    return rc;
}
