/* loop.h - the life of a running hilod: from an open store to the last answer. */
#ifndef HILO_LOOP_H
#define HILO_LOOP_H

#include "options.h"
#include "password.h"
#include "store.h"

enum loop_end {
    LOOP_STOPPED, /* in order; the store is the caller's again */
    LOOP_FAILED,  /* the same, after a failure that has been logged */
    LOOP_CONFIG,  /* the same, and it is the configuration that can't be carried out */
    LOOP_GONE,    /* the store's files are another's: leave without closing it */
};

/* Listens, says "ready resp=HOST:PORT" on standard output, serves until SIGTERM or
 * SIGINT, answers what waits, gives unused ids back: within 5 s, however long the disk
 * takes. A second signal ends it at once. */
enum loop_end loop_run(struct options *o, const struct passwords *passwords,
                       const struct store_engine *engine, struct store *store,
                       const struct store_identity *identity);

#endif
