/* reply.h - replies of the Redis protocol, RESP2 and RESP3, written into a buffer.
 *
 * The buffer belongs to the caller. When it is full, grow() is asked for room; without
 * one, or when it refuses, `failed` is set and stays set, nothing more is written, and
 * what was begun is not complete: the connection has to be dropped.
 *
 * Texts of statuses and errors may hold anything: what is not printable ASCII is
 * written as a blank (line ends) or '?', so that no caller can forge a reply. */
#ifndef HILO_REPLY_H
#define HILO_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLY_ID_MAX \
    32 /* room that an id takes while it is written; the reply is shorter */

struct reply {
    char *data;
    size_t len;
    size_t cap;
    int proto; /* 2 or 3 */
    bool failed;
    /* Makes room for need more bytes (data and cap change); false when it can't. */
    bool (*grow)(struct reply *r, size_t need);
};

void reply_status(struct reply *r, const char *text);          /* +OK */
void reply_error(struct reply *r, int code, const char *text); /* -WORD text */
void reply_int(struct reply *r, uint64_t n);                   /* :1 */
void reply_signed(struct reply *r, int64_t n);                 /* :-1 */
void reply_bulk(struct reply *r, const char *p, size_t len);   /* $3 one */
void reply_text(struct reply *r, const char *text); /* the same, of a string */
void reply_id(struct reply *r, uint64_t id);        /* a number as bulk string */
/* n replies: id, id + step, id + 2 step … */
void reply_ints(struct reply *r, uint64_t id, uint64_t step, size_t n);
void reply_ids(struct reply *r, uint64_t id, uint64_t step, size_t n);
void reply_verbatim(struct reply *r, const char *p,
                    size_t len);             /* RESP3 =txt; RESP2 bulk */
void reply_array(struct reply *r, size_t n); /* n replies follow */
void reply_map(struct reply *r, size_t n);   /* n pairs follow */
void reply_set(struct reply *r, size_t n);   /* n replies follow */
void reply_null(struct reply *r);            /* no such thing */

#endif
