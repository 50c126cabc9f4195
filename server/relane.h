/* relane.h - a change of lanes: of one server to a pair, of a pair to three, or back.
 *
 * Two acts on stopped servers. Sealing ends a layout for good on one server, and writes
 * its marks as ids into a file. Opening begins the next layout on one server, with the
 * files of all lanes of the last: every sequence goes on above the highest of them, so
 * that whatever lane it has now, nothing comes twice. Each act is one transaction, and
 * may be repeated when it was interrupted. */
#ifndef HILO_RELANE_H
#define HILO_RELANE_H

#include <stddef.h>
#include "guard.h"
#include "lane.h"
#include "store.h"

/* Seals a store that was opened with acts.seal: its witness first, then itself, then
 * writes the file, unless lanes were opened from it. 0, or -1 and *ret_error. */
int relane_seal(struct guard *g, const char *file, struct store_error *ret_error);

struct relane_open {
    const struct store_engine *engine;
    struct store_config config; /* its lane is not looked at */
    const char *witness;        /* a path, or NULL for none */
    struct lane lane;           /* stripe 0: as it was */
    char *const *files;
    size_t n_files;
};

/* Opens a lane of the next layout in a store that is sealed, or a new one. 0, or -1 and
 * *ret_error. */
int relane_open(const struct relane_open *o, struct store_error *ret_error);

#endif
