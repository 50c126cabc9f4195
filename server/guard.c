/* guard.c - a store and its witness. */
#include "guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "clock.h"
#include "datadir.h"
#include "log.h"
#include "number.h"
#include "reconcile.h"

#define LOOK_MS 900 /* a witness that is not synced for each batch is so often */

/* --- marks as ids --- */

uint64_t guard_last_id(struct lane l, uint64_t mark)
{
    uint64_t id;

    if (mark == 0)
        return 0;
    return lane_id_at(l, mark - 1, &id) ? id : HILO_ID_MAX;
}

struct record guard_record(const struct guard *g, const char *name, size_t name_len,
                           const struct counter_attr *attr, uint64_t counter,
                           uint64_t mark)
{
    return (struct record){
        .name = name,
        .name_len = name_len,
        .last = guard_last_id(g->id.lane, mark),
        .start = attr->start,
        .max = attr->max,
        .each = attr->each,
        .retired = attr->retired,
        .rate = counter <= g->n_counters ? g->counters[counter - 1].rate : 0,
    };
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

bool guard_note_rate(struct guard *g, uint64_t counter, uint64_t rate)
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
    struct record line = guard_record(r->guard, name, name_len, attr, counter, mark);

    if (!r->failed)
        r->failed = !witness_add(r->guard->witness, &line);
}

int guard_renew(struct guard *g, struct store_error *ret_error)
{
    struct store_error why = {.text = "out of memory"};
    struct renewal r = {.guard = g};
    struct record_header h = {.lane = g->id.lane,
                              .epoch = g->id.epoch,
                              .skip = g->id.skip,
                              .sealed = g->id.sealed};

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

/* Whether what is there is what stays when the store's next layout has been opened,
 * until that has a witness of its own. */
static bool is_outlived(const struct store_identity *id, const struct record_header *h)
{
    return strcmp(id->uuid, h->uuid) == 0 && h->sealed && h->epoch < id->epoch &&
           id->witnessed < id->epoch;
}

/* A layout that has ended stays so, whatever was put back or left out. */
static bool may_grant(const struct guard *g, const char *witness,
                      const struct guard_acts *acts, const struct record_header *h,
                      struct store_error *ret_error)
{
    const struct store_identity *id = &g->id;
    bool ours = strcmp(id->uuid, h->uuid) == 0;

    if (ours && h->epoch > id->epoch) {
        store_error_set(ret_error, true,
                        "the database is of layout epoch %" PRIu64
                        ", but its witness %s of epoch %" PRIu64
                        ": lanes were changed since, and ids of the old ones would "
                        "repeat. Put a newer database back, or move this one away and "
                        "start with --from-witness",
                        id->epoch, witness, h->epoch);
        return false;
    }
    if (acts->seal || !id->sealed)
        return true;
    store_error_set(
        ret_error, true,
        "lane %" PRIu32 "/%" PRIu32 " of layout epoch %" PRIu64
        " is sealed: nothing more is granted in it. If its file is not "
        "written yet: hilod --relane-seal FILE; then, with the files of all "
        "lanes: hilod --relane-open I/N FILE...",
        id->lane.number, id->lane.lanes, id->epoch);
    return false;
}

/* What stands at the path before the store is opened: a store that is made anew may not
 * begin at 1 where a witness says otherwise. */
static int look_first(const char *path, const struct guard_acts *acts,
                      struct store_config *config, struct record_header *h,
                      struct store_error *ret_error)
{
    int there = witness_peek(path, h, ret_error);

    if (acts->new_witness) /* what is there is only asked whether it was sealed */
        return 0;
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
    bool outlived = is_outlived(&g->id, h);

    if (h->uuid[0] != '\0' && !is_of(&g->id, h) && !outlived && !acts->new_witness)
        return refuse(ret_error, path, "belongs to another store or layout");
    if (h->uuid[0] == '\0' && g->id.witnessed != 0 && !acts->new_witness &&
        !g->id.is_backup)
        return refuse(ret_error, path, "is missing, though the database has one");
    if (acts->new_witness && witness_put_aside(path, ret_error) != 0)
        return -1;
    g->witness = witness_open(path, outlived, ret_error);
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
    if (strcmp(g->id.uuid, h.uuid) == 0 && h.epoch == g->id.epoch)
        g->id.sealed |= h.sealed;
    if (may_grant(g, witness, acts, &h, ret_error) &&
        is_usable(g, witness, acts, &h, ret_error) &&
        (witness == NULL || open_witness(g, witness, acts, &h, ret_error) == 0) &&
        reconcile(g, acts, ret_error) == 0 &&
        ((g->id.witnessed == (witness != NULL ? g->id.epoch : 0) && !g->id.is_backup) ||
         engine->set_witnessed == NULL ||
         engine->set_witnessed(g->store, witness != NULL, ret_error) == 0)) {
        if (witness != NULL)
            datadir_look_at_witness(witness, config->dir);
        if (g->id.witnessed != 0 && witness == NULL)
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
          (op->mark - c->synced_mark) / GUARD_MARGIN_S >= c->synced_rate;
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
        if (!guard_note_rate(g, op->counter, op->rate))
            return false;
        r = guard_record(g, op->name, op->name_len, &op->attr, op->counter,
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
        return guard_renew(g, &b->error);
    if (witness_wasteful(g->witness) && guard_renew(g, &b->error) == 0)
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
        ((witness_stale(g->witness) && guard_renew(g, &b->error) != 0) ||
         !add_ops(g, b) || witness_write(g->witness, true, &b->error) != 0))
        b->outcome = STORE_FAILED;
    else
        b->outcome = g->engine->commit(g->store, b->ops, b->n, &b->error);
    measure(g, b, begin_us);
}
