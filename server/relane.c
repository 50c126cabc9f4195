/* relane.c - a change of lanes. */
#include "relane.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "log.h"
#include "number.h"
#include "seal.h"

static bool can_change(const struct store_engine *engine, struct store_error *ret_error)
{
    if (engine->relane != NULL)
        return true;
    store_error_set(ret_error, true,
                    "the engine %s has no layout that could be changed", engine->name);
    return false;
}

/* --- sealing --- */

/* A file that is there has to be this store's. It stays locked, and as it is once lanes
 * were opened from it. */
static int check_file(const char *file, const struct guard *g, struct seal *there,
                      struct store_error *ret_error)
{
    const struct record_header *h = &there->header;

    if (seal_read(file, there, ret_error) != 0)
        return -1;
    if (strcmp(h->uuid, g->id.uuid) == 0 && h->epoch == g->id.epoch)
        return 0;
    store_error_set(ret_error, true,
                    "%s is of another store or layout (%s, epoch %" PRIu64
                    "): choose another name",
                    file, h->uuid, h->epoch);
    return -1;
}

static void tell_sealed(const struct guard *g, const char *file)
{
    log_line(LOG_INFO,
             "lane %" PRIu32 "/%" PRIu32 " of layout epoch %" PRIu64
             " is sealed; its marks are in %s. Seal every lane, then open each of the "
             "next layout with all files: hilod --relane-open I/N FILE...",
             g->id.lane.number, g->id.lane.lanes, g->id.epoch, file);
}

static int seal_all(struct guard *g, const char *file, struct seal *there,
                    struct store_error *ret_error)
{
    if (seal_exists(file) && check_file(file, g, there, ret_error) != 0)
        return -1;
    g->id.sealed = true;
    if (g->witness != NULL && guard_renew(g, ret_error) != 0)
        return -1;
    if (g->engine->seal(g->store, ret_error) != 0)
        return -1;
    return there->n_openings > 0 ? 0 : seal_write(file, g, ret_error);
}

int relane_seal(struct guard *g, const char *file, struct store_error *ret_error)
{
    bool was_sealed = g->id.sealed;
    struct seal there = {.fd = -1};
    int rc;

    if (!can_change(g->engine, ret_error))
        return -1;
    rc = seal_all(g, file, &there, ret_error);
    if (rc == 0 && there.fd < 0 && was_sealed)
        log_line(LOG_WARNING,
                 "this store was sealed before: if there is another file of it, use "
                 "one of the two only");
    if (rc == 0)
        tell_sealed(g, file);
    seal_free(&there);
    return rc;
}

/* --- the files --- */

/* All that is needed to open a lane. */
struct opening {
    const struct relane_open *wanted;
    struct lane lane;
    struct seal *seals;
    struct record *records; /* of all files, by name; then one for each name */
    size_t n;
    struct guard guard;
    struct store_op *ops;
    bool unknown, is_used; /* the store has sequences that no file has; any */
};

static int refuse(struct store_error *ret, const char *file, const char *why)
{
    store_error_set(ret, true,
                    "%s %s: one file is needed of each lane of the last layout, and no "
                    "others",
                    file, why);
    return -1;
}

static int check_set(const struct opening *o, struct store_error *ret_error)
{
    const struct record_header *first = &o->seals[0].header;
    size_t n = o->wanted->n_files;

    for (size_t i = 0; i < n; i++) {
        const struct record_header *h = &o->seals[i].header;

        if (h->epoch != first->epoch || h->lane.lanes != first->lane.lanes ||
            h->lane.stripe != first->lane.stripe)
            return refuse(ret_error, o->seals[i].path,
                          "is of another layout than the first file");
        for (size_t k = 0; k < i; k++) {
            if (o->seals[k].header.lane.number == h->lane.number)
                return refuse(ret_error, o->seals[i].path,
                              "is of the same lane as another file");
        }
    }
    if (n == first->lane.lanes)
        return 0;
    store_error_set(ret_error, true,
                    "%zu files were given, but the last layout had %" PRIu32
                    " lanes: one file is needed of each",
                    n, first->lane.lanes);
    return -1;
}

/* What was opened from these files before has to be of the same layout. */
static int check_layout(const struct opening *o, const struct seal *s,
                        struct store_error *ret_error)
{
    for (size_t i = 0; i < s->n_openings; i++) {
        struct lane had = s->openings[i].lane;

        if (had.lanes == o->lane.lanes && had.stripe == o->lane.stripe)
            continue;
        store_error_set(ret_error, true,
                        "from %s lane %" PRIu32 "/%" PRIu32 " with stripe %" PRIu64
                        " was opened, which does not go with lane %" PRIu32 "/%" PRIu32
                        " and stripe %" PRIu64
                        ": ids would repeat. All lanes need the same",
                        s->path, had.number, had.lanes, had.stripe, o->lane.number,
                        o->lane.lanes, o->lane.stripe);
        return -1;
    }
    return 0;
}

/* And this lane has not been, unless by this very store, when it was interrupted. */
static int check_opened(const struct opening *o, const struct seal *s,
                        struct store_error *ret_error)
{
    for (size_t i = 0; i < s->n_openings; i++) {
        const struct record_opening *had = &s->openings[i];
        bool ours = strcmp(had->uuid, o->guard.id.uuid) == 0;

        if (ours == (had->lane.number == o->lane.number))
            continue;
        store_error_set(ret_error, true,
                        "from %s store %s opened lane %" PRIu32 "/%" PRIu32
                        ", and this is store %s: ids would repeat. A lane is opened "
                        "once; a store that was lost since can be made anew from its "
                        "witness: hilod --from-witness",
                        s->path, had->uuid, had->lane.number, had->lane.lanes,
                        o->guard.id.uuid);
        return -1;
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    size_t least = x->name_len < y->name_len ? x->name_len : y->name_len;
    int order = memcmp(x->name, y->name, least);

    if (order != 0)
        return order;
    return (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

/* What two lanes know of one sequence: it goes on above both, and where they were set
 * up differently, within the bounds of both. */
static void merge(struct record *into, const struct record *r)
{
    if (into->start != r->start || into->max != r->max || into->each != r->each ||
        into->retired != r->retired)
        log_line(
            LOG_WARNING,
            "sequence %.*s was set up differently on two lanes: it gets the higher "
            "START, the lower MAX, DURABILITY each if one had it, and is retired "
            "if all had it so",
            (int)r->name_len, r->name);
    if (r->last > into->last)
        into->last = r->last;
    if (r->start > into->start)
        into->start = r->start;
    if (r->max < into->max)
        into->max = r->max;
    into->each |= r->each;
    into->retired &= r->retired;
}

static bool gather(struct opening *o)
{
    size_t all = 0, n = 0;

    for (size_t i = 0; i < o->wanted->n_files; i++)
        all += o->seals[i].n;
    o->records = malloc((all + 1) * sizeof *o->records);
    if (o->records == NULL)
        return false;
    for (size_t i = 0; i < o->wanted->n_files; i++) {
        for (size_t k = 0; k < o->seals[i].n; k++)
            o->records[n++] = o->seals[i].records[k];
    }
    qsort(o->records, n, sizeof *o->records, by_name);
    for (size_t i = 0; i < n; i++) {
        if (o->n > 0 && by_name(&o->records[o->n - 1], &o->records[i]) == 0)
            merge(&o->records[o->n - 1], &o->records[i]);
        else
            o->records[o->n++] = o->records[i];
    }
    return true;
}

/* --- the store --- */

/* What the store itself has is left out, too: where it was made anew from its witness
 * after it was sealed, that is more than its file says. */
static void raise_record(void *arg, uint64_t counter, const char *name, size_t name_len,
                         const struct counter_attr *attr, uint64_t mark)
{
    const struct record wanted = {.name = name, .name_len = name_len};
    struct opening *o = arg;
    uint64_t last = guard_last_id(o->guard.id.lane, mark);
    struct record *r = bsearch(&wanted, o->records, o->n, sizeof wanted, by_name);

    (void)counter, (void)attr;
    if (r == NULL)
        o->unknown = true;
    else if (r->last < last)
        r->last = last;
    o->is_used = true;
}

static bool has_own_file(const struct opening *o)
{
    for (size_t i = 0; i < o->wanted->n_files; i++) {
        const struct record_header *h = &o->seals[i].header;

        if (strcmp(h->uuid, o->guard.id.uuid) == 0 && h->epoch == o->guard.id.epoch)
            return true;
    }
    return false;
}

/* A store that is sealed, of which one file is; or of an earlier layout; or new. */
static int take_store(struct opening *o, struct store_error *ret_error)
{
    uint64_t epoch = o->seals[0].header.epoch;
    const char *dir = o->wanted->config.dir;

    if (!o->guard.id.sealed) {
        store_error_set(ret_error, true,
                        "%s has lane %" PRIu32 "/%" PRIu32 " of layout epoch %" PRIu64
                        " and is not sealed: if that is the new layout, it is open; if "
                        "it is the old one: hilod --relane-seal FILE",
                        dir, o->guard.id.lane.number, o->guard.id.lane.lanes,
                        o->guard.id.epoch);
        return -1;
    }
    if (o->wanted->engine->load(o->guard.store, raise_record, o, ret_error) != 0)
        return -1;
    if (!o->unknown && (has_own_file(o) || !o->is_used || o->guard.id.epoch < epoch))
        return 0;
    store_error_set(ret_error, true,
                    "%s is of another deployment or layout (epoch %" PRIu64
                    ") than these files (epoch %" PRIu64
                    "): its own file has to be among them, as hilod --relane-seal "
                    "writes it now; or the lane is opened in an empty directory",
                    dir, o->guard.id.epoch, epoch);
    return -1;
}

static bool make_ops(struct opening *o)
{
    o->ops = calloc(o->n + 1, sizeof *o->ops);
    if (o->ops == NULL)
        return false;
    for (size_t i = 0; i < o->n; i++) {
        const struct record *r = &o->records[i];
        uint64_t floor = r->last > r->start - 1 ? r->last : r->start - 1;

        o->ops[i] = (struct store_op){.kind = STORE_CREATE,
                                      .name = r->name,
                                      .name_len = r->name_len,
                                      .attr = {.start = r->start,
                                               .max = r->max,
                                               .each = r->each,
                                               .retired = r->retired},
                                      .mark = lane_first_above(o->lane, floor)};
    }
    return true;
}

/* By an attempt that was interrupted. */
static bool has_noted(const struct seal *s, const struct record_opening *note)
{
    for (size_t i = 0; i < s->n_openings; i++) {
        if (strcmp(s->openings[i].uuid, note->uuid) == 0)
            return true;
    }
    return false;
}

static int begin_layout(struct opening *o, struct store_error *ret_error)
{
    struct store_identity next = o->guard.id;
    struct record_opening note = {.lane = o->lane};

    memcpy(note.uuid, o->guard.id.uuid, sizeof note.uuid);
    next.lane = o->lane;
    next.epoch = o->seals[0].header.epoch + 1;
    next.skip = 0;
    for (size_t i = 0; i < o->wanted->n_files; i++) {
        uint64_t skip = lane_first_above(o->lane, o->seals[i].header.skip);

        if (skip > next.skip)
            next.skip = skip;
    }
    for (size_t i = 0; i < o->wanted->n_files; i++) {
        if (!has_noted(&o->seals[i], &note) &&
            seal_note_opening(&o->seals[i], &note, ret_error) != 0)
            return -1;
    }
    return o->wanted->engine->relane(o->guard.store, &next, o->ops, o->n, ret_error);
}

static int out_of_memory(struct store_error *ret_error)
{
    store_error_set(ret_error, false, "out of memory");
    return -1;
}

/* A store that is new is sealed, too, and so is its witness: whatever copy is put back
 * later, there was never a time when it had none. */
static int change(struct opening *o, struct store_error *ret_error)
{
    const struct guard_acts acts = {.seal = true};
    struct store_config config = o->wanted->config;
    int rc;

    config.lane = (struct lane){0};
    config.made_sealed = true;
    if (guard_open(&o->guard, o->wanted->engine, &config, o->wanted->witness, &acts,
                   ret_error) != 0)
        return -1;
    rc = take_store(o, ret_error);
    for (size_t i = 0; i < o->wanted->n_files && rc == 0; i++)
        rc = check_opened(o, &o->seals[i], ret_error);
    if (rc == 0)
        rc = make_ops(o) ? begin_layout(o, ret_error) : out_of_memory(ret_error);
    guard_close(&o->guard);
    return rc;
}

/* As a start does: the witness of the last layout makes room for the next one's. */
static int finish(const struct opening *o, struct store_error *ret_error)
{
    const struct guard_acts none = {0};
    struct store_config config = o->wanted->config;
    struct guard g;

    config.lane = (struct lane){0};
    if (guard_open(&g, o->wanted->engine, &config, o->wanted->witness, &none,
                   ret_error) != 0)
        return -1;
    log_line(LOG_INFO,
             "store %s has lane %" PRIu32 "/%" PRIu32 ", stripe %" PRIu64
             ", of layout epoch %" PRIu64 " now, with %zu sequences: start hilod",
             g.id.uuid, g.id.lane.number, g.id.lane.lanes, g.id.lane.stripe, g.id.epoch,
             o->n);
    guard_close(&g);
    return 0;
}

static int open_with(struct opening *o, struct store_error *ret_error)
{
    for (size_t i = 0; i < o->wanted->n_files; i++) {
        if (seal_read(o->wanted->files[i], &o->seals[i], ret_error) != 0)
            return -1;
    }
    if (check_set(o, ret_error) != 0)
        return -1;
    o->lane = o->wanted->lane;
    if (o->lane.stripe == 0)
        o->lane.stripe = o->seals[0].header.lane.stripe;
    for (size_t i = 0; i < o->wanted->n_files; i++) {
        if (check_layout(o, &o->seals[i], ret_error) != 0)
            return -1;
    }
    if (!gather(o))
        return out_of_memory(ret_error);
    if (change(o, ret_error) != 0)
        return -1;
    return finish(o, ret_error);
}

int relane_open(const struct relane_open *wanted, struct store_error *ret_error)
{
    struct opening o = {.wanted = wanted};
    int rc;

    if (!can_change(wanted->engine, ret_error))
        return -1;
    o.seals = calloc(wanted->n_files, sizeof *o.seals);
    if (o.seals == NULL)
        return out_of_memory(ret_error);
    for (size_t i = 0; i < wanted->n_files; i++)
        o.seals[i].fd = -1;
    rc = open_with(&o, ret_error);
    for (size_t i = 0; i < wanted->n_files; i++)
        seal_free(&o.seals[i]);
    free(o.seals);
    free(o.records);
    free(o.ops);
    return rc;
}
