/* witness.h - a second record of the marks, in a file beside the database or on another
 * disk: so that a database which has gone back to an older state is noticed, and goes
 * on above what was granted.
 *
 * Lines of record.h, appended; a new file takes the place of the old one by rename when
 * most of its lines are outdated, or when the old one can't be trusted any more. It
 * guards against a database that went back, not against power loss: so who writes says
 * whether a line has to be on the disk before it goes on.
 *
 * An error of writing loses nothing: what was added waits and is written by the next
 * call. After a failed sync, or when the path names another file by now, only a new
 * file will do (witness_stale).
 *
 * One thread at a time; blocks. */
#ifndef HILO_WITNESS_H
#define HILO_WITNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "record.h"
#include "store.h"

struct witness;

struct witness_stats {
    uint64_t bytes, syncs, failures, renewals;
};

/* Whose witness stands at path. 1 with *ret, 0 when there is no file; -1 and *ret_error
 * when it can't be read or has no valid first line. */
int witness_peek(const char *path, struct record_header *ret,
                 struct store_error *ret_error);

/* Gives what stands at path another name, so that nobody takes it for a witness. */
int witness_put_aside(const char *path, struct store_error *ret_error);

/* Reads what stands at path into memory, and keeps others from writing there. NULL and
 * *ret_error when it can't be read, is damaged, or in use. No file is no error: the
 * witness is empty then, and stale; as it is where what stands there is outlived, and
 * not read. */
struct witness *witness_open(const char *path, bool outlived,
                             struct store_error *ret_error);
/* Syncs what was written. */
void witness_close(struct witness *w);

/* What was read: the last line of that name; false if there is none. The name
 * is taken. */
bool witness_take(struct witness *w, const char *name, size_t name_len,
                  struct record *ret);
/* A name nobody has taken yet, which is taken by this; false when there are no more. */
bool witness_take_next(struct witness *w, struct record *ret);
/* Whether there are names nobody has taken. */
bool witness_left(const struct witness *w);
/* How many lines there were. Forgets all of them: records that were taken are void. */
uint64_t witness_forget(struct witness *w);

/* Adds a line to what is to be written; false when memory is out. */
bool witness_add(struct witness *w, const struct record *r);
/* Writes what was added, and syncs if that is wanted. 0, or -1 and *ret_error. */
int witness_write(struct witness *w, bool sync, struct store_error *ret_error);
/* Syncs what was written without. */
int witness_sync(struct witness *w, struct store_error *ret_error);

/* Whether a new file is needed; whether one would be worth while. */
bool witness_stale(const struct witness *w);
bool witness_wasteful(const struct witness *w);

/* A new file in the old one's place: begin, then witness_add for every counter there
 * is, then end; which gives it up if failed is set (*ret_error says why, then). What
 * was added before and not written is dropped: it has to be among what is added now. On
 * failure the old file stays. */
int witness_renew_begin(struct witness *w, const struct record_header *h,
                        struct store_error *ret_error);
int witness_renew_end(struct witness *w, bool failed, struct store_error *ret_error);

/* Nothing but a new file will do. */
void witness_spoil(struct witness *w);

/* Looks whether the path still names the file that is open. */
void witness_look(struct witness *w);

const char *witness_path(const struct witness *w);
void witness_stats(const struct witness *w, struct witness_stats *ret);

#endif
