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
#include <stddef.h>
#include <stdint.h>
#include "alloc.h"
#include "store.h"

struct token;

#define REQUEST_SPARE_MAX 4096 /* kept for the next ones */

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
    REQUEST_BACKUP,
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
    char *text; /* on the heap; NULL where there was no memory for it */
    /* The queues. */
    struct request *next;  /* in the sequence's */
    struct request *later; /* in the connection's */
    struct token *token; /* it is not over when its sequence has decided it; or NULL */
    void *owner;
    void (*decided_fn)(struct request *r); /* called once, unless owner is NULL */
};

static inline bool request_is_grant(const struct request *r)
{
    return r->kind <= REQUEST_BLOCK;
}

/* Requests that were freed and wait to be used again. */
struct request_pool {
    struct request *spare; /* linked by next */
    unsigned n;
};

/* On the heap, a copy of r, whose text it takes over; NULL when memory is out. */
struct request *request_keep(struct request_pool *p, struct request *r);
void request_free(struct request_pool *p, struct request *r);
void request_pool_free(struct request_pool *p);

/* The end of a request on the stack. */
void request_clear(struct request *r);

/* An undecided request. */
void request_init(struct request *r, enum request_kind kind);

/* Bytes its text takes. */
size_t request_text_size(const struct request *r);

/* What follows the error word in the reply. */
const char *request_why(const struct request *r);

/* Decides it with an error. */
void request_refuse(struct request *r, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
