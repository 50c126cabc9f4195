/* greeting.c - who a server says it is. */
#include "greeting.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "error.h"

struct field {
    const char *name;
    const struct reply_item *value;
};

enum { SERVER, UUID, BOOT, LANE, LANES, STRIPE, EPOCH, SHARED, N_FIELDS };

static const char *const names[N_FIELDS] = {
    [SERVER] = "server", [UUID] = "uuid",     [BOOT] = "boot",   [LANE] = "lane",
    [LANES] = "lanes",   [STRIPE] = "stripe", [EPOCH] = "epoch", [SHARED] = "shared"};

static int __attribute__((format(printf, 4, 5)))
fail(int err, char *text, size_t size, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, size, fmt, ap);
    va_end(ap);
    return err;
}

/* Login is refused with words of its own; "max number of clients" and the like pass. */
static int refused(const struct reply_item *item, char *text, size_t size)
{
    int err = error_code(item->p, item->len);

    if (err == HILO_ENOAUTH || err == HILO_EWRONGPASS || err == HILO_ENOPERM ||
        memmem(item->p, item->len, "AUTH", 4) != NULL)
        err = HILO_EAUTH;
    else if (err == HILO_ENOPROTO || memmem(item->p, item->len, "unknown", 7) != NULL)
        err = HILO_EPROTO;
    else
        err = HILO_EUNAVAIL;
    return fail(err, text, size, "%.*s", (int)item->len, item->p);
}

static bool copy_word(const struct reply_item *item, char *ret)
{
    if (item->type != REPLY_BULK || item->len == 0 || item->len >= ROSTER_ID_MAX)
        return false;
    for (size_t i = 0; i < item->len; i++) {
        if (item->p[i] <= ' ' || item->p[i] > '~')
            return false;
    }
    memset(ret, 0, ROSTER_ID_MAX);
    memcpy(ret, item->p, item->len);
    return true;
}

static bool read_fields(const struct reply_item *const *f, struct identity *ret)
{
    uint64_t lane, lanes, stripe, shared;

    for (size_t i = 0; i < N_FIELDS; i++) {
        if (f[i] == NULL)
            return false;
    }
    if (!copy_word(f[UUID], ret->uuid) || !copy_word(f[BOOT], ret->boot) ||
        !reply_number(f[LANE], &lane) || !reply_number(f[LANES], &lanes) ||
        !reply_number(f[STRIPE], &stripe) || !reply_number(f[EPOCH], &ret->epoch) ||
        !reply_number(f[SHARED], &shared) || shared > 1)
        return false;
    if (lane > LANES_MAX || lanes > LANES_MAX)
        return false;
    ret->lane = (struct lane){
        .number = (uint32_t)lane, .lanes = (uint32_t)lanes, .stripe = stripe};
    ret->shared = shared == 1;
    return lane_valid(ret->lane);
}

/* Values of an array of names and values. */
static void find_fields(const struct reply_item *items, size_t n,
                        const struct reply_item **ret)
{
    size_t at = 1;

    while (at < n) {
        size_t value = at + reply_extent(&items[at]);

        if (value >= n)
            return;
        for (size_t i = 0; i < N_FIELDS; i++) {
            if (reply_is(&items[at], names[i]))
                ret[i] = &items[value];
        }
        at = value + reply_extent(&items[value]);
    }
}

int greeting_read(const struct reply_item *items, size_t n, struct identity *ret,
                  char *text, size_t size)
{
    const struct reply_item *f[N_FIELDS] = {NULL};

    if (items[0].type == REPLY_ERROR)
        return refused(&items[0], text, size);
    if (items[0].type == REPLY_ARRAY)
        find_fields(items, n, f);
    if (f[SERVER] == NULL || !reply_is(f[SERVER], "hilo"))
        return fail(HILO_EPROTO, text, size,
                    "is no hilod but '%.*s'; give the address of a hilod",
                    f[SERVER] != NULL ? (int)f[SERVER]->len : 7,
                    f[SERVER] != NULL && f[SERVER]->len > 0 ? f[SERVER]->p : "unknown");
    if (!read_fields(f, ret))
        return fail(HILO_EPROTO, text, size,
                    "doesn't say who it is: uuid, boot, lane, lanes, stripe, epoch and "
                    "shared are needed");
    return 0;
}
