/* store_memory.c - the engine that forgets: for tests and benchmarks only. */
#include "store.h"

#include <stdlib.h>
#include "error.h"

struct store {
    uint64_t *marks; /* by handle - 1 */
    uint64_t n, cap;
    uint64_t commits;
};

static int memory_open(const struct store_config *config, struct store **ret,
                       struct store_identity *ret_identity,
                       struct store_error *ret_error)
{
    struct store *s = calloc(1, sizeof *s);

    if (s == NULL) {
        store_error_set(ret_error, false, "out of memory");
        return -1;
    }
    store_identity_new(config, ret_identity);
    *ret = s;
    return 0;
}

static int memory_load(struct store *s, store_counter_fn *fn, void *arg,
                       struct store_error *ret_error)
{
    (void)s, (void)fn, (void)arg, (void)ret_error;
    return 0;
}

static bool create(struct store *s, struct store_op *op)
{
    if (s->n == s->cap) {
        uint64_t cap = s->cap ? 2 * s->cap : 64;
        uint64_t *marks = realloc(s->marks, cap * sizeof *marks);

        if (marks == NULL)
            return false;
        s->marks = marks;
        s->cap = cap;
    }
    s->marks[s->n++] = op->floor;
    op->counter = s->n;
    op->mark = op->floor;
    return true;
}

static void apply(struct store_op *op, uint64_t *mark)
{
    switch (op->kind) {
    case STORE_RESERVE:
        if (store_reserve_at(op, *mark))
            *mark = op->mark;
        break;
    case STORE_ALTER:
        *mark = *mark > op->floor ? *mark : op->floor;
        op->mark = *mark;
        break;
    case STORE_GIVE_BACK:
        if (*mark == op->mark)
            *mark = op->floor;
        op->mark = *mark;
        break;
    default:
        break;
    }
}

static enum store_outcome memory_commit(struct store *s, struct store_op *ops, size_t n,
                                        struct store_error *ret_error)
{
    for (size_t i = 0; i < n; i++) {
        ops[i].err = 0;
        if (ops[i].kind == STORE_TOKEN || ops[i].kind == STORE_PURGE)
            continue; /* the caller knows them until its own end */
        if (ops[i].kind == STORE_CREATE) {
            if (!create(s, &ops[i])) {
                store_error_set(ret_error, false, "out of memory");
                return STORE_FAILED;
            }
        } else if (ops[i].counter == 0 || ops[i].counter > s->n) {
            ops[i].err = HILO_ENOSEQ;
        } else {
            apply(&ops[i], &s->marks[ops[i].counter - 1]);
        }
    }
    s->commits++;
    return STORE_DONE;
}

static void memory_stats(const struct store *s, struct store_stats *ret)
{
    *ret = (struct store_stats){.commits = s->commits};
}

static void memory_close(struct store *s)
{
    free(s->marks);
    free(s);
}

const struct store_engine store_memory = {
    .name = "memory",
    .help = "forgets everything at its end: tests and benchmarks only",
    .open = memory_open,
    .load = memory_load,
    .commit = memory_commit,
    .stats = memory_stats,
    .close = memory_close,
};
