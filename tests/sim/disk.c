/* disk.c - a store that does what disks and people do to one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "name.h"
#include "power.h"
#include "sim.h"

#define COUNTERS_MAX 16
#define TOKENS_MAX   4096
#define COPIES       4

struct counter {
    char name[NAME_MAX_LEN + 1];
    struct counter_attr attr;
    uint64_t mark;
};

struct kept_token {
    char text[32];
    struct store_token token;
};

/* What is on the disk. */
struct image {
    bool there;
    struct store_identity id;
    struct counter counters[COUNTERS_MAX];
    size_t n;
    struct kept_token *tokens;
    size_t n_tokens;
};

struct sim_disk {
    char dir[64];
    struct image now, copies[COPIES];
    struct image backup;
    bool dies, killed;
    uint64_t biggest, burnt;
};

struct store {
    struct sim_disk *disk;
    bool dead;
    struct store_stats stats;
};

static struct sim_disk disks[NODES];

/* --- images --- */

static void image_free(struct image *i)
{
    free(i->tokens);
    *i = (struct image){.there = false};
}

static void image_copy(struct image *to, const struct image *from)
{
    image_free(to);
    *to = *from;
    to->tokens = malloc((from->n_tokens + 1) * sizeof *to->tokens);
    if (to->tokens == NULL)
        abort();
    if (from->n_tokens > 0)
        memcpy(to->tokens, from->tokens, from->n_tokens * sizeof *to->tokens);
    for (size_t i = 0; i < to->n_tokens; i++)
        to->tokens[i].token.text = to->tokens[i].text;
}

struct sim_disk *sim_disk_of(const char *dir)
{
    for (size_t i = 0; i < NODES; i++) {
        if (disks[i].dir[0] == '\0')
            snprintf(disks[i].dir, sizeof disks[i].dir, "%s", dir);
        if (strcmp(disks[i].dir, dir) == 0)
            return &disks[i];
    }
    abort();
}

void sim_disks_reset(void)
{
    for (size_t i = 0; i < NODES; i++) {
        image_free(&disks[i].now);
        image_free(&disks[i].backup);
        for (size_t k = 0; k < COPIES; k++)
            image_free(&disks[i].copies[k]);
        disks[i] = (struct sim_disk){.dies = false};
    }
}

void sim_disk_keep_copy(struct sim_disk *d)
{
    image_copy(&d->copies[sim_below(COPIES)], &d->now);
}

bool sim_disk_put_back(struct sim_disk *d, bool any_layout)
{
    const struct image *old = &d->copies[sim_below(COPIES)];

    if (!old->there || (!any_layout && old->id.epoch != d->now.id.epoch))
        return false;
    image_copy(&d->now, old);
    return true;
}

bool sim_disk_put_back_backup(struct sim_disk *d)
{
    if (!d->backup.there)
        return false;
    image_copy(&d->now, &d->backup);
    return true;
}

void sim_disk_delete(struct sim_disk *d)
{
    image_free(&d->now);
}

void sim_disk_kill(struct sim_disk *d)
{
    d->dies = true;
}

bool sim_disk_killed(const struct sim_disk *d)
{
    return d->killed;
}

void sim_disk_revive(struct sim_disk *d)
{
    d->dies = d->killed = false;
}

/* Where the counter is; i->n where there is none. */
static size_t find(const struct image *i, const char *name, size_t len)
{
    size_t k = 0;

    while (k < i->n && (strlen(i->counters[k].name) != len ||
                        memcmp(i->counters[k].name, name, len) != 0))
        k++;
    return k;
}

bool sim_disk_mark(const struct sim_disk *d, const char *name, uint64_t *ret)
{
    size_t k = find(&d->now, name, strlen(name));

    if (k < d->now.n)
        *ret = d->now.counters[k].mark;
    return k < d->now.n;
}

const struct counter_attr *sim_disk_attr(const struct sim_disk *d, const char *name)
{
    size_t k = find(&d->now, name, strlen(name));

    return k < d->now.n ? &d->now.counters[k].attr : NULL;
}

uint64_t sim_disk_epoch(const struct sim_disk *d)
{
    return d->now.there ? d->now.id.epoch : 0;
}

bool sim_disk_is_there(const struct sim_disk *d)
{
    return d->now.there;
}

uint64_t sim_disk_biggest(const struct sim_disk *d)
{
    return d->biggest;
}

uint64_t sim_disk_burnt(struct sim_disk *d)
{
    uint64_t n = d->burnt;

    d->burnt = 0;
    return n;
}

/* --- the engine --- */

static int sim_open(const struct store_config *config, struct store **ret,
                    struct store_identity *ret_identity, struct store_error *ret_error)
{
    struct sim_disk *d = sim_disk_of(config->dir);
    const struct record_header *w = config->witnessed;
    struct image *i = &d->now;
    bool is_new = !i->there;

    if (is_new && (config->has_to_exist || (w != NULL && !config->from_witness))) {
        store_error_set(ret_error, true, "the database is empty");
        return -1;
    }
    if (!is_new && config->from_witness) {
        store_error_set(ret_error, true, "the database is not empty");
        return -1;
    }
    if (is_new) {
        store_identity_new(config, &i->id);
        i->id.sealed = config->made_sealed;
        if (w != NULL) {
            i->id.sealed = w->sealed;
            memcpy(i->id.uuid, w->uuid, sizeof i->id.uuid);
            i->id.lane = w->lane;
            i->id.epoch = w->epoch;
            i->id.witnessed = w->epoch;
        }
        i->there = true;
    } else {
        i->id.starts++;
    }
    i->id.skip = store_skip(config, &i->id);
    *ret_identity = i->id;
    *ret = calloc(1, sizeof **ret);
    if (*ret == NULL)
        abort();
    (*ret)->disk = d;
    return 0;
}

static int sim_load(struct store *s, store_counter_fn *fn, void *arg,
                    struct store_error *ret_error)
{
    const struct image *i = &s->disk->now;

    (void)ret_error;
    for (size_t k = 0; k < i->n; k++)
        fn(arg, k + 1, i->counters[k].name, strlen(i->counters[k].name),
           &i->counters[k].attr, i->counters[k].mark);
    return 0;
}

static int sim_load_tokens(struct store *s, store_token_fn *fn, void *arg,
                           struct store_error *ret_error)
{
    (void)ret_error;
    for (size_t k = 0; k < s->disk->now.n_tokens; k++)
        fn(arg, &s->disk->now.tokens[k].token);
    return 0;
}

static void put_token(struct image *i, const struct store_token *t)
{
    struct kept_token *k = NULL;

    for (size_t n = 0; n < i->n_tokens; n++) {
        if (i->tokens[n].token.len == t->len &&
            memcmp(i->tokens[n].text, t->text, t->len) == 0)
            k = &i->tokens[n];
    }
    if (k == NULL) {
        i->tokens = realloc(i->tokens, (i->n_tokens + 1) * sizeof *i->tokens);
        if (i->tokens == NULL || t->len >= sizeof k->text)
            abort();
        k = &i->tokens[i->n_tokens++];
    }
    memcpy(k->text, t->text, t->len);
    k->text[t->len] = '\0';
    k->token = *t;
    for (size_t n = 0; n < i->n_tokens; n++)
        i->tokens[n].token.text = i->tokens[n].text;
}

static void purge(struct image *i, const struct store_op *op)
{
    size_t left = 0;

    for (size_t n = 0; n < i->n_tokens; n++) {
        if (i->tokens[n].token.at_ms >= op->token.at_ms)
            i->tokens[left++] = i->tokens[n];
    }
    i->n_tokens = left;
    for (size_t n = 0; n < i->n_tokens; n++)
        i->tokens[n].token.text = i->tokens[n].text;
    i->id.uptime_ms = op->uptime_ms;
}

static void apply(struct image *i, struct store_op *op)
{
    struct counter *c =
        op->counter > 0 && op->counter <= i->n ? &i->counters[op->counter - 1] : NULL;

    op->err = 0;
    switch (op->kind) {
    case STORE_CREATE:
        c = &i->counters[find(i, op->name, op->name_len)];
        if (c == &i->counters[i->n]) { /* else its answer was lost */
            if (i->n == COUNTERS_MAX)
                abort();
            i->n++;
            *c = (struct counter){.mark = op->floor + i->id.skip};
            memcpy(c->name, op->name, op->name_len);
        }
        c->attr = op->attr;
        if (op->floor + i->id.skip > c->mark)
            c->mark = op->floor + i->id.skip;
        op->counter = (uint64_t)(c - i->counters) + 1;
        break;
    case STORE_ALTER:
        c->attr = op->attr;
        if (op->floor > c->mark)
            c->mark = op->floor;
        break;
    case STORE_RESERVE:
        if (store_reserve_at(op, c->mark))
            c->mark = op->mark;
        break;
    case STORE_TOKEN:
        put_token(i, &op->token);
        return;
    case STORE_PURGE:
        purge(i, op);
        return;
    case STORE_GIVE_BACK:
        if (c->mark == op->mark)
            c->mark = op->floor;
        break;
    }
    op->mark = c->mark;
}

static void note_reserves(struct sim_disk *d, const struct store_op *ops, size_t n,
                          bool failed)
{
    for (size_t k = 0; k < n; k++) {
        if (ops[k].kind != STORE_RESERVE)
            continue;
        if (ops[k].count > d->biggest)
            d->biggest = ops[k].count;
        d->burnt += failed;
    }
}

static enum store_outcome fail(struct store *s, enum store_outcome outcome,
                               struct store_error *ret_error)
{
    s->dead |= outcome == STORE_DEAD;
    s->stats.failures++;
    store_error_set(ret_error, false, "the disk failed");
    return outcome;
}

/* All of a batch is on the disk or nothing, whatever is said of it. */
static enum store_outcome sim_commit(struct store *s, struct store_op *ops, size_t n,
                                     struct store_error *ret_error)
{
    struct sim_disk *d = s->disk;
    bool dies = d->dies, fails = n > 0 && sim_mishap(40), ends = sim_mishap(400);

    if (power_is_out() || d->killed || s->dead)
        return fail(s, STORE_DEAD, ret_error);
    note_reserves(d, ops, n, fails || dies);
    if ((fails || ends || dies) && sim_below(2) == 0) {
        d->killed = dies;
        return fail(s, ends || dies ? STORE_DEAD : STORE_FAILED, ret_error);
    }
    for (size_t k = 0; k < n; k++)
        apply(&d->now, &ops[k]);
    if (fails || ends || (dies && sim_below(2) == 0)) {
        d->killed = dies;
        return fail(s, ends || dies ? STORE_DEAD : STORE_FAILED, ret_error);
    }
    s->stats.commits++;
    if (sim_below(30) == 0)
        sim_disk_keep_copy(d);
    return STORE_DONE; /* one that dies does so later, at its witness or before its
                          answer */
}

static int sim_set_witnessed(struct store *s, bool witnessed,
                             struct store_error *ret_error)
{
    (void)ret_error;
    s->disk->now.id.witnessed = witnessed ? s->disk->now.id.epoch : 0;
    s->disk->now.id.is_backup = false;
    return 0;
}

static enum store_backup sim_backup(struct store *s, const char *path,
                                    struct store_error *ret_error)
{
    (void)path, (void)ret_error;
    if (sim_below(3) > 0)
        return BACKUP_MORE;
    image_copy(&s->disk->backup, &s->disk->now);
    s->disk->backup.id.is_backup = true;
    return BACKUP_DONE;
}

/* Something is written, or is not, whatever is said of it. */
static bool is_lost(struct store *s, void (*write)(struct image *, const void *),
                    const void *what, struct store_error *ret_error)
{
    bool fails = power_is_out() || s->dead || sim_mishap(5);

    if (!fails || (!power_is_out() && !s->dead && sim_below(2) == 0))
        write(&s->disk->now, what);
    if (fails)
        fail(s, STORE_DEAD, ret_error);
    return fails;
}

static void write_seal(struct image *i, const void *unused)
{
    (void)unused;
    i->id.sealed = true;
}

static int sim_seal(struct store *s, struct store_error *ret_error)
{
    return is_lost(s, write_seal, NULL, ret_error) ? -1 : 0;
}

struct layout {
    const struct store_identity *id;
    const struct store_op *ops;
    size_t n;
};

static void write_layout(struct image *i, const void *what)
{
    const struct layout *l = what;

    i->id.lane = l->id->lane;
    i->id.epoch = l->id->epoch;
    i->id.skip = l->id->skip;
    i->id.sealed = i->id.is_backup = false;
    i->n_tokens = 0;
    i->n = 0;
    for (size_t k = 0; k < l->n; k++) {
        struct counter *c = &i->counters[i->n++];

        *c = (struct counter){.attr = l->ops[k].attr, .mark = l->ops[k].mark};
        memcpy(c->name, l->ops[k].name, l->ops[k].name_len);
    }
}

static int sim_relane(struct store *s, const struct store_identity *next,
                      const struct store_op *ops, size_t n,
                      struct store_error *ret_error)
{
    const struct layout l = {.id = next, .ops = ops, .n = n};

    return is_lost(s, write_layout, &l, ret_error) ? -1 : 0;
}

static void sim_stats(const struct store *s, struct store_stats *ret)
{
    *ret = s->stats;
}

static void sim_close(struct store *s)
{
    free(s);
}

const struct store_engine sim_engine = {
    .name = "sim",
    .help = "simulated",
    .durable = true,
    .open = sim_open,
    .load = sim_load,
    .load_tokens = sim_load_tokens,
    .commit = sim_commit,
    .set_witnessed = sim_set_witnessed,
    .seal = sim_seal,
    .relane = sim_relane,
    .backup = sim_backup,
    .stats = sim_stats,
    .close = sim_close,
};
