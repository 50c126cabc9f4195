/* seen.h - the ids that were had, as far as servers have to know: the highest of each
 * lane, which is the FLOOR of the next request, and the last of each server, which its
 * next answer has to pass.
 *
 * Kept by the handle for every name that was opened, so that nothing is forgotten when
 * a sequence is closed and opened again. Guarded by the handle's lock. */
#ifndef HILO_SEEN_H
#define HILO_SEEN_H

#include <stdint.h>
#include "hilo.h"
#include "roster.h"

struct seen;

/* What is kept of a name, made where there is nothing yet; NULL when there is no
 * memory. It lasts until seen_free. */
struct seen *seen_of(struct seen **list, const char *name);
void seen_free(struct seen *list);

/* The highest id had from the lane of this server, in its layout epoch; or from before
 * that, since a new layout begins above everything granted in the one before. On an
 * engine that servers share each has its own. 0 for none. */
uint64_t seen_highest(const struct seen *s, const struct identity *id, unsigned server);

/* The last id this server granted, while it had this lane and epoch; 0 for none. */
uint64_t seen_last(const struct seen *s, const struct identity *id, unsigned server);

/* An id was had; the last one of its block. */
void seen_note(struct seen *s, const struct identity *id, unsigned server,
               uint64_t last);

#endif
