/* reconcile.h - what a start does about a store and a witness that differ.
 *
 * A store behind its witness was put back from an older copy: it goes on above what the
 * witness knows, with a margin. One that is ahead was used without it, or the power
 * failed between the two; the witness hears of it. */
#ifndef HILO_RECONCILE_H
#define HILO_RECONCILE_H

#include "guard.h"

/* Both are open, or there is no witness; afterwards the witness knows what the store
 * does, on the disk, and the counters' rates and g->behind are set. 0, or -1 and
 * *ret_error. */
int reconcile(struct guard *g, const struct guard_acts *acts,
              struct store_error *ret_error);

#endif
