/* store.c - what the engines have in common. */
#include "store.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "error.h"
#include "random.h"

const struct store_engine *store_engine_find(const char *name)
{
    static const struct store_engine *const engines[] = {&store_sqlite, &store_memory};

    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    }
    return NULL;
}

bool counter_attr_same(const struct counter_attr *a, const struct counter_attr *b)
{
    return a->start == b->start && a->max == b->max && a->each == b->each &&
           a->retired == b->retired;
}

bool store_reserve_at(struct store_op *op, uint64_t mark)
{
    uint64_t first = mark > op->floor ? mark : op->floor;
    uint64_t left = op->limit > first ? op->limit - first : 0;

    op->mark = mark;
    if (left < op->min) {
        op->err = HILO_EEXHAUSTED;
        return false;
    }
    op->err = 0;
    op->first = first;
    op->count = op->count < left ? op->count : left;
    op->mark = first + op->count;
    return true;
}

void store_identity_new(const struct store_config *config, struct store_identity *ret)
{
    *ret = (struct store_identity){.lane = config->lane, .epoch = 1, .starts = 1};
    if (ret->lane.number == 0) {
        ret->lane.number = 1;
        ret->lane.lanes = 1;
    }
    if (ret->lane.stripe == 0)
        ret->lane.stripe = STRIPE_DEFAULT;
    random_uuid(ret->uuid);
}

uint64_t store_skip(const struct store_config *config,
                    const struct store_identity *stored)
{
    const struct record_header *w = config->witnessed;
    uint64_t skip = stored->skip > config->skip ? stored->skip : config->skip;

    if (w != NULL && strcmp(w->uuid, stored->uuid) == 0 && w->skip > skip)
        skip = w->skip;
    return skip;
}

int store_identity_check(const struct store_config *config,
                         const struct store_identity *stored, const char *where,
                         struct store_error *ret_error)
{
    struct lane want = config->lane, have = stored->lane;

    if (want.number != 0 && (want.number != have.number || want.lanes != have.lanes)) {
        store_error_set(ret_error, true,
                        "%s belongs to lane %" PRIu32 "/%" PRIu32
                        ", but the configuration says lane %" PRIu32 "/%" PRIu32
                        ": ids would repeat. Start with --lane %" PRIu32 "/%" PRIu32
                        ", or with another --data directory",
                        where, have.number, have.lanes, want.number, want.lanes,
                        have.number, have.lanes);
        return -1;
    }
    if (want.stripe != 0 && want.stripe != have.stripe) {
        store_error_set(ret_error, true,
                        "%s was laid out with stripe %" PRIu64
                        ", but the configuration says stripe %" PRIu64
                        ": ids would repeat. Start with --stripe %" PRIu64
                        ", or with another --data directory",
                        where, have.stripe, want.stripe, have.stripe);
        return -1;
    }
    return 0;
}

void store_error_set(struct store_error *e, bool config, const char *fmt, ...)
{
    va_list ap;

    e->config = config;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
}
