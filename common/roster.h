/* roster.h - which stores a client has met, and whether one more may join them.
 *
 * Servers tell who they are when a connection begins: the UUID of their store, the boot
 * id of this run, lane and layout. Two servers can only grant the same id when two
 * stores claim one lane, when layouts differ, or when one store runs twice. Each of
 * these shows here, before a block is taken:
 *
 *     - another layout (lanes, stripe) in the same epoch;
 *     - another store in a lane that was heard already, unless both share one engine;
 *     - a boot id that had been followed by another one: two copies of a store, heard
 * in turn. Engines that several servers share have several boots at once;
 *     - a layout epoch lower than one that was heard. A higher one ends all before it.
 *
 * State is kept by store, not by address. Pure; not thread-safe. */
#ifndef HILO_ROSTER_H
#define HILO_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lane.h"

#define ROSTER_STORES 64 /* met in the life of a roster */
#define ROSTER_ID_MAX 64 /* bytes of a UUID or a boot id, end included */

struct identity {
    char uuid[ROSTER_ID_MAX];
    char boot[ROSTER_ID_MAX];
    struct lane lane;
    uint64_t epoch;
    bool shared; /* several servers use this store at once */
};

struct roster_store {
    struct identity id;         /* as heard last */
    char before[ROSTER_ID_MAX]; /* the boot id before that */
    unsigned server;            /* who said so, a number of the caller's */
    bool cloned;                /* refused for good */
};

struct roster {
    struct roster_store stores[ROSTER_STORES];
    size_t n;
};

enum roster_verdict {
    ROSTER_WELCOME,
    ROSTER_NEW_EPOCH, /* welcome; servers of a lower epoch have to go */
    ROSTER_LAYOUT,    /* other lanes or another stripe than *ret_other */
    ROSTER_LANE,      /* the lane belongs to the store of *ret_other */
    ROSTER_CLONE,     /* the same store runs twice: here and at *ret_other */
    ROSTER_OLD_EPOCH, /* the layout of *ret_other has replaced this one */
    ROSTER_FULL,
};

void roster_init(struct roster *r);

/* What stands between a store that was heard before and another identity. WELCOME when
 * both may be used, NEW_EPOCH when id ends old. Symmetric for LAYOUT and LANE. */
enum roster_verdict roster_compare(const struct identity *old,
                                   const struct identity *id);

/* Judges a server that says who it is. *ret_other is the server that first gave the
 * reason for a refusal. */
enum roster_verdict roster_meet(struct roster *r, const struct identity *id,
                                unsigned server, unsigned *ret_other);

#endif
