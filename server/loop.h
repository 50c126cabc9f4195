/* loop.h - the life of a running hilod: from an open store to the last answer. */
#ifndef HILO_LOOP_H
#define HILO_LOOP_H

#include "options.h"
#include "store.h"

/* Listens, says "ready resp=HOST:PORT" on standard output, serves until SIGTERM or
 * SIGINT, answers what waits, gives unused ids back. A second signal ends it at once.
 * The store stays open. Returns 0, 1, or 78 where the configuration can't be carried
 * out; failures have been logged. */
int loop_run(const struct options *o, const struct store_engine *engine,
             struct store *store, const struct store_identity *identity);

#endif
