/* tokens.h - grants that can be repeated: a caller's token, and the block it got.
 *
 * A grant with a token is answered once token, request and block are in the store, in
 * one transaction; the same token and request get the same block afterwards, however
 * often, over whatever connection, until it has been kept for token_ttl of the server's
 * running time. With another request the token is refused. Who comes with it while the
 * first one is under way waits for that.
 *
 * All tokens are in memory, too: a repeat is answered without the store. The oldest are
 * removed a portion at a time.
 *
 * Whoever has the loop only. */
#ifndef HILO_TOKENS_H
#define HILO_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "batch.h"
#include "name.h"
#include "request.h"
#include "seq.h"

struct token;

struct tokens {
    struct request_pool *pool;
    struct token **buckets;
    uint64_t n_buckets, n, most;
    int64_t ttl_ms;
    int64_t base_ms, start_ms; /* running time before this start; when that was */
    uint64_t seed;
    struct token *oldest, *newest; /* of those in the store, by age */
    struct request *first, *last;  /* granted, and to be stored */
    int64_t purge_to;              /* of a portion on its way; 0: none is */
    int64_t purged_ms;
    uint64_t repeats, refused; /* statistics */
};

bool tokens_init(struct tokens *t, struct request_pool *pool, int64_t uptime_ms,
                 int64_t now_ms, uint64_t seed);
void tokens_free(struct tokens *t);
/* What a reload may change. ttl_s: seconds. */
void tokens_set(struct tokens *t, uint64_t most, uint64_t ttl_s);

/* One that the store has; oldest first. False when memory is out. */
bool tokens_load(struct tokens *t, const struct store_token *stored);

enum token_verdict {
    TOKEN_NEW,    /* r->token is set: go to the sequence with it */
    TOKEN_KNOWN,  /* r is decided: granted again, or refused */
    TOKEN_FOLLOWS /* another one is under way: keep r, then tokens_follow */
};
enum token_verdict tokens_claim(struct tokens *t, const char *p, size_t len,
                                const struct seq *s, struct request *r,
                                struct token **ret);
void tokens_follow(struct token *token, struct request *r);
/* A claim that came to nothing: no request carries it. */
void tokens_disclaim(struct tokens *t, struct token *token);

/* A request with a token is through with its sequence: it is granted and goes to the
 * store, or it is refused and so are those who follow it. */
void tokens_settle(struct tokens *t, struct request *r);

/* Whether there is something for a batch; adds it. */
bool tokens_want(const struct tokens *t, int64_t now_ms);
void tokens_add_ops(struct tokens *t, struct store_batch *b, int64_t now_ms);
/* The answer to one of those operations; why is empty when the batch was done. */
void tokens_take_answer(struct tokens *t, const struct store_op *op, const char *why);
/* Refuses what waits for a batch. */
void tokens_refuse(struct tokens *t, const char *why);

#endif
