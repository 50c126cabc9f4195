/* local.h - ids that a thread took out of the block in use and keeps to itself. The
 * fast side is hilo_inline.h.
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
#include "hilo.h"

#define LOCAL_MAX  256 /* sequences of a process that may have them at a time */
#define LOCAL_NONE UINT32_MAX

/* A row for a sequence, or LOCAL_NONE when all are in use. Any thread. */
uint32_t local_reserve(void);
void local_release(uint32_t row);

/* This thread's row, made where there is none yet, and now the one used last; NULL when
 * there is no memory. */
struct hilo_row_ *local_row(uint32_t row);

#endif
