/* store_thread.h - the thread on which a store blocks, and batches going there and
 * back.
 *
 * The loop fills one batch while the thread commits another: everything that asked
 * during a commit shares the next one (group commit). Batches are handed over whole, so
 * neither side ever looks at memory the other one writes. */
#ifndef HILO_STORE_THREAD_H
#define HILO_STORE_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include "store.h"

struct store_batch {
    struct store_op *ops;
    size_t n, cap;
    /* Answers. */
    enum store_outcome outcome;
    struct store_error error;
    struct store_stats stats;
    int64_t commit_us; /* how long it took */
};

struct store_thread;

/* The next operation of the batch, zeroed; NULL when memory is out. Valid until the
 * next call. */
struct store_op *store_batch_add(struct store_batch *b);
void store_batch_clear(struct store_batch *b);
void store_batch_free(struct store_batch *b);

/* Starts the thread; the store is its own until store_thread_stop. NULL when it can't,
 * with the reason in errno. */
struct store_thread *store_thread_start(const struct store_engine *engine,
                                        struct store *s);

/* Becomes readable when a batch has come back. */
int store_thread_fd(const struct store_thread *t);

/* Whether a batch is there and has not been collected. */
bool store_thread_busy(const struct store_thread *t);

/* Hands the batch over; the thread must not be busy. *b gets the memory of an earlier
 * batch, empty. */
void store_thread_post(struct store_thread *t, struct store_batch *b);

/* The batch that came back, the loop's until the next post; NULL if none has yet. */
struct store_batch *store_thread_collect(struct store_thread *t);

/* The same, waiting for it up to timeout_ms; NULL when that has passed. The thread must
 * be busy. */
struct store_batch *store_thread_wait(struct store_thread *t, int timeout_ms);

/* Ends the thread after the batch it holds, however long that takes, and frees it. */
void store_thread_stop(struct store_thread *t);

#endif
