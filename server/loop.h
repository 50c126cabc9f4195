/* loop.h - the life of a running hilod: from an open store to the last answer. */
#ifndef HILO_LOOP_H
#define HILO_LOOP_H

#include <sysexits.h>
#include "guard.h"
#include "options.h"
#include "password.h"

/* Each is the exit code, too. Afterwards the store is the caller's again. */
enum loop_end {
    LOOP_STOPPED = EX_OK, /* in order */
    LOOP_FAILED = 1,      /* after a failure that has been logged */
    /* The same, and people have to mend something first: a configuration that can't be
     * carried out, files that are no longer those that are open. No service manager
     * may try again meanwhile: it could start on an older copy. */
    LOOP_MEND = EX_CONFIG,
};

/* Listens, says "ready resp=HOST:PORT" on standard output, serves until SIGTERM or
 * SIGINT, answers what waits, gives unused ids back: within 5 s, however long the disk
 * takes. A second signal ends it at once. */
enum loop_end loop_run(struct options *o, const struct passwords *passwords,
                       struct guard *g);

#endif
