/* seq_admin.h - what administration does to a sequence, before and after the store.
 *
 * seq.c calls these for the request at the head of the queue, when nothing of the
 * sequence is on its way to the store and no grant can happen. */
#ifndef HILO_SEQ_ADMIN_H
#define HILO_SEQ_ADMIN_H

#include <stdbool.h>
#include "seq.h"

/* True with an operation to carry to the store; false when the request is decided. */
bool seq_admin_begin(struct seq *s, struct request *r, struct store_op *op);

/* What the store has made durable becomes true of the sequence; the request is decided.
 */
void seq_admin_finish(struct seq *s, struct request *r, const struct store_op *op);

#endif
