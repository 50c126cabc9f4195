/* guard.c - a store and its witness. */
#include "guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "clock.h"
#include "log.h"
#include "name.h"
#include "number.h"

#define MARGIN_S       10    /* so long at its highest rate a counter leaves out */
#define SLICE          10000 /* operations in one batch at the start */
#define LOOK_MS        900 /* a witness that is not synced for each batch is so often */
#define LINES_TO_SPARE 10000

/* --- marks as ids --- */

static uint64_t last_id(struct lane l, uint64_t mark)
{
    uint64_t id;

    if (mark == 0)
        return 0;
    return lane_id_at(l, mark - 1, &id) ? id : HILO_ID_MAX;
}

static struct record record_of(const struct guard *g, const char *name, size_t name_len,
                               const struct counter_attr *attr, uint64_t counter,
                               uint64_t mark)
{
    return (struct record){
        .name = name,
        .name_len = name_len,
        .last = last_id(g->id.lane, mark),
        .start = attr->start,
        .max = attr->max,
        .each = attr->each,
        .retired = attr->retired,
        .rate = counter <= g->n_counters ? g->counters[counter - 1].rate : 0,
    };
}

static struct counter_attr attr_of(const struct record *r)
{
    return (struct counter_attr){
        .start = r->start, .max = r->max, .each = r->each, .retired = r->retired};
}

/* NULL when memory is out. */
static struct guard_counter *counter_of(struct guard *g, uint64_t counter)
{
    if (counter > g->n_counters) {
        uint64_t n = counter > 32 ? 2 * counter : 64;
        struct guard_counter *all = realloc(g->counters, n * sizeof *all);

        if (all == NULL)
            return NULL;
        memset(all + g->n_counters, 0, (n - g->n_counters) * sizeof *all);
        g->counters = all;
        g->n_counters = n;
    }
    return &g->counters[counter - 1];
}

static bool note_rate(struct guard *g, uint64_t counter, uint64_t rate)
{
    struct guard_counter *c = counter_of(g, counter);

    if (c != NULL && rate > c->rate)
        c->rate = rate;
    return c != NULL;
}

/* --- a new witness file --- */

struct renewal {
    struct guard *guard;
    bool failed;
};

static void add_counter(void *arg, uint64_t counter, const char *name, size_t name_len,
                        const struct counter_attr *attr, uint64_t mark)
{
    struct renewal *r = arg;
    struct record line = record_of(r->guard, name, name_len, attr, counter, mark);

    if (!r->failed)
        r->failed = !witness_add(r->guard->witness, &line);
}

static int renew(struct guard *g, struct store_error *ret_error)
{
    struct store_error why = {.text = "out of memory"};
    struct renewal r = {.guard = g};
    struct record_header h = {.lane = g->id.lane, .epoch = g->id.epoch};

    memcpy(h.uuid, g->id.uuid, sizeof h.uuid);
    if (witness_renew_begin(g->witness, &h, ret_error) != 0)
        return -1;
    if (g->engine->load(g->store, add_counter, &r, &why) != 0)
        r.failed = true;
    if (r.failed)
        *ret_error = why;
    if (witness_renew_end(g->witness, r.failed, ret_error) != 0)
        return -1;
    g->syncs++;
    return 0;
}

/* --- the start --- */

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

static uint64_t add_capped(uint64_t a, uint64_t b, uint64_t most)
{
    return a >= most || b > most - a ? most : a + b;
}

/* Where a counter goes on, given the position that is known to be free. */
static uint64_t goes_on(const struct agreement *a, const struct counter_attr *attr,
                        uint64_t from, uint64_t rate)
{
    uint64_t limit = lane_first_above(a->guard->id.lane, attr->max), to = from;

    if (from >= limit)
        return from;
    if (a->raise) {
        for (int i = 0; i < MARGIN_S; i++)
            to = add_capped(to, rate, limit);
    }
    return add_capped(to, a->acts->skip, limit);
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
    return a->guard->id.witnessed && !same_attr(attr, r) &&
           lane_first_above(a->guard->id.lane, r->last) == mark;
}

/* Where the store is ahead of the witness, that hears of it. */
static void bring_up(struct agreement *a, uint64_t counter, const char *name,
                     size_t name_len, const struct counter_attr *attr, uint64_t mark,
                     const struct record *r)
{
    struct record line = record_of(a->guard, name, name_len, attr, counter, mark);

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
    a->failed |= !note_rate(a->guard, counter, r.rate);
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
    a->first_store = last_id(a->guard->id.lane, mark);
    a->first_witness = r.last;
}

static struct store_op *add_op(struct agreement *a)
{
    struct store_op *op = store_batch_add(&a->ops);

    a->failed |= op == NULL;
    return op;
}

static void raise_counter(void *arg, uint64_t counter, const char *name,
                          size_t name_len, const struct counter_attr *attr,
                          uint64_t mark)
{
    struct agreement *a = arg;
    struct counter_attr use = *attr;
    uint64_t from = mark, rate = 0;
    struct store_op *op;
    struct record r;

    if (a->guard->witness != NULL &&
        witness_take(a->guard->witness, name, name_len, &r)) {
        uint64_t seen = lane_first_above(a->guard->id.lane, r.last);

        rate = r.rate;
        if (seen > mark || is_altered(a, &r, attr, mark)) {
            from = seen;
            use = attr_of(&r);
        }
    }
    from = goes_on(a, &use, from, rate);
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
            goes_on(a, &op->attr, lane_first_above(a->guard->id.lane, r.last), r.rate);
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
                a->failed |= !note_rate(g, a->ops.ops[i].counter, a->ops.ops[i].rate);
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
    if (a->raise || a->altered > 0 || a->acts->skip > 0) {
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
static int reconcile(struct guard *g, const struct guard_acts *acts,
                     struct store_error *ret_error)
{
    struct agreement a = {.guard = g, .acts = acts};
    int rc = agree(&a, ret_error);
    uint64_t lines;
    bool differs = a.ops.n > 0 || a.unknown > 0;

    if (g->witness != NULL) {
        lines = witness_forget(g->witness);
        if (rc == 0 && (witness_stale(g->witness) || differs ||
                        lines > 3 * a.counters + LINES_TO_SPARE))
            rc = renew(g, ret_error);
        else if (rc == 0)
            rc = witness_write(g->witness, true, ret_error);
    }
    store_batch_free(&a.ops);
    return rc;
}

static int refuse(struct store_error *ret, const char *path, const char *what)
{
    store_error_set(ret, true,
                    "the witness %s %s. Put back the one that belongs to the database, "
                    "or go on without it, above all that may have been granted: hilod "
                    "--new-witness --skip IDS",
                    path, what);
    return -1;
}

static bool is_of(const struct store_identity *id, const struct record_header *h)
{
    return strcmp(id->uuid, h->uuid) == 0 && id->epoch == h->epoch &&
           id->lane.number == h->lane.number && id->lane.lanes == h->lane.lanes &&
           id->lane.stripe == h->lane.stripe;
}

/* What stands at the path before the store is opened: a store that is made anew may not
 * begin at 1 where a witness says otherwise. */
static int look_first(const char *path, const struct guard_acts *acts,
                      struct store_config *config, struct record_header *h,
                      struct store_error *ret_error)
{
    int there;

    if (acts->new_witness)
        return 0;
    there = witness_peek(path, h, ret_error);
    if (there < 0)
        return -1;
    if (there > 0) {
        config->witnessed = h;
        config->witness_path = path;
    }
    config->from_witness = acts->from_witness;
    if (there > 0 || !acts->from_witness)
        return 0;
    return refuse(ret_error, path, "is not there, so nothing can be made from it");
}

static int open_witness(struct guard *g, const char *path,
                        const struct guard_acts *acts, const struct record_header *h,
                        struct store_error *ret_error)
{
    if (h->uuid[0] != '\0' && !is_of(&g->id, h))
        return refuse(ret_error, path, "belongs to another store");
    if (h->uuid[0] == '\0' && g->id.witnessed && !acts->new_witness && !g->id.is_backup)
        return refuse(ret_error, path, "is missing, though the database has one");
    if (acts->new_witness && witness_put_aside(path, ret_error) != 0)
        return -1;
    g->witness = witness_open(path, ret_error);
    return g->witness != NULL ? 0 : -1;
}

/* A backup is older than what was granted; by how much only its witness can tell, or
 * the administrator. */
static bool is_usable(const struct guard *g, const char *witness,
                      const struct guard_acts *acts, const struct record_header *h,
                      struct store_error *ret_error)
{
    bool witnessed = witness != NULL && h->uuid[0] != '\0' && is_of(&g->id, h);

    if (!g->id.is_backup || witnessed || acts->skip > 0)
        return true;
    store_error_set(ret_error, true,
                    "this database is a backup, and what was granted since it was made "
                    "can't be known: put its witness beside it (%s), or leave out more "
                    "ids than were granted since: hilod --skip IDS",
                    witness != NULL ? witness : "which is off");
    return false;
}

int guard_open(struct guard *g, const struct store_engine *engine,
               const struct store_config *config, const char *witness,
               const struct guard_acts *acts, struct store_error *ret_error)
{
    struct store_config use = *config;
    struct record_header h = {0};

    *g = (struct guard){.engine = engine, .syncs = 1};
    use.has_to_exist = acts->new_witness || (acts->skip > 0 && !acts->from_witness);
    use.skip = acts->skip;
    if (witness != NULL && look_first(witness, acts, &use, &h, ret_error) != 0)
        return -1;
    if (engine->open(&use, &g->store, &g->id, ret_error) != 0)
        return -1;
    if (is_usable(g, witness, acts, &h, ret_error) &&
        (witness == NULL || open_witness(g, witness, acts, &h, ret_error) == 0) &&
        reconcile(g, acts, ret_error) == 0 &&
        ((g->id.witnessed == (witness != NULL) && !g->id.is_backup) ||
         engine->set_witnessed == NULL ||
         engine->set_witnessed(g->store, witness != NULL, ret_error) == 0)) {
        if (g->id.witnessed && witness == NULL)
            log_line(LOG_WARNING,
                     "witness is off from now on: a database that is put back from an "
                     "older copy will not be noticed");
        return 0;
    }
    guard_close(g);
    return -1;
}

void guard_close(struct guard *g)
{
    witness_close(g->witness);
    g->engine->close(g->store);
    free(g->counters);
}

/* --- batches --- */

static bool is_of_counter(const struct store_op *op)
{
    return op->kind != STORE_TOKEN && op->kind != STORE_PURGE;
}

/* Whether what was written and may be lost is more than the margin makes up for. */
static bool is_far(struct guard *g, const struct store_op *op)
{
    struct guard_counter *c = counter_of(g, op->counter);
    bool far;

    if (c == NULL)
        return true;
    if (c->written < g->syncs) { /* there was a sync after it */
        c->synced_mark = c->mark;
        c->synced_rate = c->written_rate;
    }
    far = op->mark > c->synced_mark &&
          (op->mark - c->synced_mark) / MARGIN_S >= c->synced_rate;
    c->mark = op->mark;
    c->written_rate = c->rate;
    c->written = g->syncs;
    return far;
}

static bool add_ops(struct guard *g, const struct store_batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct store_op *op = &b->ops[i];
        struct record r;

        if (op->err != 0 || !is_of_counter(op))
            continue;
        if (!note_rate(g, op->counter, op->rate))
            return false;
        r = record_of(g, op->name, op->name_len, &op->attr, op->counter,
                      op->kind == STORE_GIVE_BACK ? op->floor : op->mark);
        if (!witness_add(g->witness, &r))
            return false;
    }
    return true;
}

/* In `each` every grant is on the database's disk; a witness that is a second behind
 * is made up for by the margin, as long as that is known to be large enough. */
static bool needs_sync(struct guard *g, const struct store_batch *b)
{
    bool needs = false;

    for (size_t i = 0; i < b->n; i++) {
        const struct store_op *op = &b->ops[i];

        if (is_of_counter(op) && op->err == 0)
            needs |= is_far(g, op) || op->kind != STORE_RESERVE || !op->attr.each;
    }
    return needs;
}

static int testify(struct guard *g, struct store_batch *b)
{
    int64_t now_ms = clock_steady_ms();
    bool looks = now_ms - g->looked_ms >= LOOK_MS;

    if (looks) {
        g->looked_ms = now_ms;
        witness_look(g->witness);
    }
    if (!b->noted && !add_ops(g, b)) {
        store_error_set(&b->error, false, "out of memory");
        witness_spoil(g->witness); /* a new file will have all of it */
        return -1;
    }
    if (!b->noted)
        b->needs_sync = needs_sync(g, b);
    b->noted = true;
    if (witness_stale(g->witness))
        return renew(g, &b->error);
    if (witness_wasteful(g->witness) && renew(g, &b->error) == 0)
        return 0; /* else the old file is as good, only longer */
    if (witness_write(g->witness, looks || b->needs_sync, &b->error) != 0)
        return -1;
    g->syncs += looks || b->needs_sync;
    return 0;
}

static void measure(struct guard *g, struct store_batch *b, int64_t begin_us)
{
    b->commit_us = clock_steady_us() - begin_us;
    g->engine->stats(g->store, &b->stats);
    if (g->witness != NULL)
        witness_stats(g->witness, &b->witness_stats);
}

void guard_commit(struct guard *g, struct store_batch *b)
{
    int64_t begin_us = clock_steady_us();

    /* Once committed, only the look at what the store stands on is repeated. */
    b->outcome =
        g->engine->commit(g->store, b->ops, b->committed ? 0 : b->n, &b->error);
    b->committed = b->outcome == STORE_DONE;
    if (b->committed && g->witness != NULL && testify(g, b) != 0) {
        size_t len = strlen(b->error.text);

        snprintf(b->error.text + len, sizeof b->error.text - len,
                 "; hilod tries again by itself");
        b->outcome = STORE_UNWITNESSED;
    }
    if (b->outcome != STORE_UNWITNESSED)
        b->committed = b->noted = false;
    if (b->outcome == STORE_DONE && b->backup_path != NULL)
        b->backup = g->engine->backup(g->store, b->backup_path, &b->backup_error);
    measure(g, b, begin_us);
}

void guard_give_back(struct guard *g, struct store_batch *b)
{
    int64_t begin_us = clock_steady_us();

    if (g->witness != NULL)
        witness_look(g->witness);
    if (g->witness != NULL && b->n > 0 &&
        ((witness_stale(g->witness) && renew(g, &b->error) != 0) || !add_ops(g, b) ||
         witness_write(g->witness, true, &b->error) != 0))
        b->outcome = STORE_FAILED;
    else
        b->outcome = g->engine->commit(g->store, b->ops, b->n, &b->error);
    measure(g, b, begin_us);
}
