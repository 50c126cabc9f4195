/* hot.h - the block in use, from the side of those who put blocks there. The fast side,
 * with why no id comes twice, is hilo_inline.h. */
#ifndef HILO_HOT_H
#define HILO_HOT_H

#include <stdbool.h>
#include <stdint.h>
#include "hilo.h"
#include "run.h"

/* NULL when there is no memory. *ret_pid is 0, or this process where the page can't be
 * wiped in a forked child. */
struct hilo_hot_ *hot_new(int32_t *ret_pid);
void hot_free(struct hilo_hot_ *h);

/* Whether this process is the one that made it. */
bool hot_is_ours(const struct hilo_hot_ *h, int32_t pid);

/* Up to n ids, at least one: a run. */
enum hilo_take_ hot_take_run(struct hilo_hot_ *h, uint32_t n, struct run *ret);

/* Ids left; ids of this block that were taken. */
uint32_t hot_left(struct hilo_hot_ *h);
uint32_t hot_taken(struct hilo_hot_ *h);

/* The next block, once none is left of the present one; one caller at a time. */
void hot_publish(struct hilo_hot_ *h, struct run r, uint64_t refill_at);

/* Takes back what those have added who found nothing; needs the writer's lock. */
void hot_settle(struct hilo_hot_ *h);

/* Another refill point for the block in use; true when it has been passed already. */
bool hot_set_refill(struct hilo_hot_ *h, uint64_t refill_at);

#endif
