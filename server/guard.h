/* guard.h - a store and its witness: what is granted lies below both.
 *
 * A batch is committed to the store, then its marks are added to the witness, and only
 * then it is done. At the start the two are compared: a store that is behind its
 * witness was replaced by an older copy, and goes on above. */
#ifndef HILO_GUARD_H
#define HILO_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include "batch.h"
#include "store.h"
#include "witness.h"

/* What an administrator asks for at one start only. */
struct guard_acts {
    bool new_witness;  /* the old one is lost or no good */
    bool from_witness; /* the database is lost */
    uint64_t skip;     /* positions to leave out in every counter */
    bool seal;         /* it is opened to be sealed; it may be already */
};

/* What the witness says of a counter, and what of that is on the disk. */
struct guard_counter {
    uint64_t rate;                        /* the most ids seen in a second */
    uint64_t mark, written_rate, written; /* the last line, and after which sync */
    uint64_t synced_mark, synced_rate;
};

struct guard {
    const struct store_engine *engine;
    struct store *store;
    struct store_identity id;
    struct witness *witness;        /* NULL: there is none */
    struct guard_counter *counters; /* by handle - 1 */
    uint64_t n_counters;
    uint64_t syncs; /* of the witness, as far as this counts them */
    int64_t looked_ms;
    uint64_t behind; /* counters the store was behind in, at the start */
};

/* Opens both, and makes them agree. witness is a path, or NULL for none. 0, or -1 and
 * *ret_error; guard_close is due when it was 0. */
int guard_open(struct guard *g, const struct store_engine *engine,
               const struct store_config *config, const char *witness,
               const struct guard_acts *acts, struct store_error *ret_error);

/* Blocks. An outcome of STORE_UNWITNESSED is not the end of a batch: call again with
 * the same, until the witness can be written. */
void guard_commit(struct guard *g, struct store_batch *b);

/* The same for a batch of STORE_GIVE_BACK: the witness goes first, since it may never
 * be above what a store that has given back will grant again; and neither is tried
 * twice. */
void guard_give_back(struct guard *g, struct store_batch *b);

void guard_close(struct guard *g);

/* --- for reconcile.c --- */

#define GUARD_MARGIN_S 10 /* so long at its highest rate a counter leaves out */

/* The id below a mark; 0 where there is none. */
uint64_t guard_last_id(struct lane l, uint64_t mark);
/* The line of a counter; its name stays the caller's. */
struct record guard_record(const struct guard *g, const char *name, size_t name_len,
                           const struct counter_attr *attr, uint64_t counter,
                           uint64_t mark);
/* False when memory is out. */
bool guard_note_rate(struct guard *g, uint64_t counter, uint64_t rate);
/* A new file for the witness, with a line for each counter of the store. 0, or -1 and
 * *ret_error. */
int guard_renew(struct guard *g, struct store_error *ret_error);

#endif
