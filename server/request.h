/* request.h - one command on its way to an answer that may have to wait for the store.
 *
 * A request that can be decided at once lives on the stack of its command. One that has
 * to wait is copied to the heap and stands in two queues: the sequence's, which decides
 * it, and the connection's, which answers it in the order of the commands. Ownership:
 * the connection frees it after the answer; when the connection goes first it sets
 * `owner` to NULL, and the sequence frees it when it leaves the queue. */
#ifndef HILO_REQUEST_H
#define HILO_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include "alloc.h"
#include "store.h"

#define REQUEST_TEXT_MAX 400

enum request_kind {
    /* Grants: which reply the positions become. */
    REQUEST_INCR,  /* integer, the last id */
    REQUEST_NEXT,  /* one bulk string */
    REQUEST_NEXTS, /* an array of them */
    REQUEST_BLOCK, /* first, last, step */
    /* Administration. */
    REQUEST_CREATE,
    REQUEST_ALTER,
    REQUEST_ADVANCE,
    REQUEST_RETIRE,
};

struct request {
    enum request_kind kind;
    bool decided;
    bool planned; /* a fetch on its way to the store counts on serving it */
    struct alloc_request want; /* grants */
    struct counter_attr attr;  /* REQUEST_CREATE; REQUEST_ALTER what is set */
    bool set_max, set_each;    /* REQUEST_ALTER */
    uint64_t id; /* REQUEST_ADVANCE; grants: the FLOOR as the caller gave it */
    /* The decision: an error with its text, or the positions. REQUEST_ADVANCE: first is
     * the position of the next id. */
    int err;
    struct alloc_grant grant;
    char text[REQUEST_TEXT_MAX];
    /* The queues. */
    struct request *next;  /* in the sequence's */
    struct request *later; /* in the connection's */
    void *owner;
    void (*decided_fn)(struct request *r); /* called once, unless owner is NULL */
};

static inline bool request_is_grant(const struct request *r)
{
    return r->kind <= REQUEST_BLOCK;
}

/* An undecided request; all but the text is set. */
void request_init(struct request *r, enum request_kind kind);

/* Decides it with an error; the text follows the error word in the reply. */
void request_refuse(struct request *r, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
