/* crew.h - two threads that take turns: one has the loop, the other one stands by.
 *
 * Whoever has the loop commits, too, when nobody would gain by handing that over: a
 * commit takes as long as waking a thread for it does, and those who wait for it are
 * the only ones there. Should the commit last much longer than CREW_PATIENCE_MS, the
 * other thread takes the loop, and the committing one stands by once it comes back: so
 * a disk that stalls is felt by nobody who does not wait for it. The pattern is known
 * as leader and followers (Schmidt et al., Pattern-Oriented Software Architecture,
 * volume 2).
 *
 * At any time one thread has the loop and all that belongs to it, and at most one is
 * at the store: neither needs a lock. */
#ifndef HILO_CREW_H
#define HILO_CREW_H

#include <stdbool.h>
#include "guard.h"

#define CREW_PATIENCE_MS 1

struct crew;

/* Starts the second thread, which calls loop_fn(arg) whenever it has got the loop; the
 * caller has it to begin with. loop_fn returns as soon as it has lost the loop. Signals
 * are the caller's. NULL when there is no thread to be had, with the reason in errno.
 */
struct crew *crew_new(struct guard *g, void (*loop_fn)(void *arg), void *arg);

/* Becomes readable when a batch has come back whose committer had lost the loop. */
int crew_fd(const struct crew *c);
void crew_fd_read(struct crew *c);

/* Commits a batch; with the loop, of which one batch may be at the store at a time.
 *
 * With stay the caller means to have the loop afterwards: true when it has, and the
 * batch is done. Otherwise, or if that took too long, false: the loop is the other
 * thread's, which finds the batch done when crew_fd becomes readable. */
bool crew_commit(struct crew *c, struct store_batch *b, bool stay);

/* Stands by until the other thread lets go of the loop or has been at the store for too
 * long. True with the loop; false at the end of a crew. The first thread's, for which
 * it is always true. */
bool crew_stand_by(struct crew *c);

/* Gives the loop to the first thread; the second one only. */
void crew_hand_over(struct crew *c);

/* The second thread ends; with the loop in the first one's hands and nothing at the
 * store. Frees the crew. */
void crew_end(struct crew *c);

#endif
