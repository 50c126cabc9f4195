/* local.h - ids that a thread took out of the block in use and keeps to itself.
 *
 * Each thread has a table with a row for every sequence that was opened with local_ids.
 * A row belongs to the sequence whose serial it holds: the serial of a closed handle
 * never comes again, and in a forked child the table is wiped (MADV_WIPEONFORK), so
 * that nothing outlives a close or a fork. Rows hold no pointers; the table goes with
 * its thread.
 *
 * The tables, and which rows are in use, are the process's, since threads are. */
#ifndef HILO_LOCAL_H
#define HILO_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOCAL_MAX  256 /* sequences of a process that may have them at a time */
#define LOCAL_NONE UINT32_MAX

struct local {
    uint64_t serial;
    uint64_t next; /* the id to give out, unless it is end */
    uint64_t end;
    uint64_t step;
};

/* This thread's table: n rows. Read by the fast path. */
struct local_table {
    struct local *rows;
    size_t n;
};

extern __thread struct local_table local_table
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* A row for a sequence, or LOCAL_NONE when all are in use. Any thread. */
uint32_t local_reserve(void);
void local_release(uint32_t row);

/* This thread's row, made where there is none yet; NULL when there is no memory. */
struct local *local_row(uint32_t row);

#endif
