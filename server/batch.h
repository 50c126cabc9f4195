/* batch.h - operations on their way to the store, and its answers.
 *
 * Everything that asked during a commit shares the next one (group commit). A batch
 * changes hands as a whole, so that nobody ever looks at memory another thread writes.
 */
#ifndef HILO_BATCH_H
#define HILO_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "store.h"
#include "witness.h"

struct store_batch {
    struct store_op *ops;
    size_t n, cap;
    /* Answers. */
    enum store_outcome outcome;
    struct store_error error;
    struct store_stats stats;
    struct witness_stats witness_stats;
    int64_t commit_us; /* how long it took */
    /* A backup under way: its path, the caller's, or NULL; and how far it is now. */
    const char *backup_path;
    enum store_backup backup;
    struct store_error backup_error;
    /* How far the batch has come, see guard.h. */
    bool committed;  /* to the store */
    bool noted;      /* its lines are the witness's to write, ... */
    bool needs_sync; /* ... and to sync */
};

/* The next operation of the batch, zeroed; NULL when memory is out. Valid until the
 * next call. */
struct store_op *store_batch_add(struct store_batch *b);
void store_batch_clear(struct store_batch *b);
void store_batch_free(struct store_batch *b);

#endif
