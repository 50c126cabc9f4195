/* tokens.c - grants that can be repeated. */
#include "tokens.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"

#define BUCKETS_LEAST 64
#define PORTION       1000  /* tokens removed at a time */
#define PURGE_MS      1000  /* so often there may be some to remove */
#define UPTIME_MS     60000 /* so often the running time is stored */

struct token {
    struct token *next;            /* in its bucket */
    struct token *older, *younger; /* once it is in the store */
    const struct seq *seq;         /* until it is granted */
    uint64_t counter;
    uint64_t asked, atleast;
    struct alloc_grant grant;
    int64_t at_ms; /* running time */
    bool stored;
    struct request *followers; /* linked by next */
    uint32_t len;
    char text[];
};

/* --- the table --- */

static struct token **bucket_of(const struct tokens *t, const char *p, size_t len)
{
    return &t->buckets[name_hash(p, len, t->seed) & (t->n_buckets - 1)];
}

static struct token **find(const struct tokens *t, const char *p, size_t len)
{
    struct token **at = bucket_of(t, p, len);

    while (*at != NULL && ((*at)->len != len || memcmp((*at)->text, p, len) != 0))
        at = &(*at)->next;
    return at;
}

static void grow(struct tokens *t)
{
    struct tokens bigger = {.n_buckets = 2 * t->n_buckets, .seed = t->seed};

    bigger.buckets = calloc(bigger.n_buckets, sizeof *bigger.buckets);
    if (bigger.buckets == NULL)
        return; /* it only becomes slower */
    for (uint64_t i = 0; i < t->n_buckets; i++) {
        struct token *k = t->buckets[i];

        while (k != NULL) {
            struct token *next = k->next, **to = bucket_of(&bigger, k->text, k->len);

            k->next = *to;
            *to = k;
            k = next;
        }
    }
    free(t->buckets);
    t->buckets = bigger.buckets;
    t->n_buckets = bigger.n_buckets;
}

static struct token *add(struct tokens *t, const char *p, size_t len)
{
    struct token *k = calloc(1, sizeof *k + len), **to;

    if (k == NULL)
        return NULL;
    memcpy(k->text, p, len);
    k->len = (uint32_t)len;
    if (t->n >= t->n_buckets)
        grow(t);
    to = bucket_of(t, p, len);
    k->next = *to;
    *to = k;
    t->n++;
    return k;
}

static void forget(struct tokens *t, struct token *k)
{
    struct token **at = find(t, k->text, k->len);

    *at = k->next;
    while (k->followers != NULL) { /* at the end of a server only */
        struct request *r = k->followers;

        k->followers = r->next;
        request_free(t->pool, r);
    }
    t->n--;
    if (k->stored) {
        *(k->older != NULL ? &k->older->younger : &t->oldest) = k->younger;
        *(k->younger != NULL ? &k->younger->older : &t->newest) = k->older;
    }
    free(k);
}

static void mark_stored(struct tokens *t, struct token *k)
{
    k->stored = true;
    k->older = t->newest;
    *(t->newest != NULL ? &t->newest->younger : &t->oldest) = k;
    t->newest = k;
}

bool tokens_init(struct tokens *t, struct request_pool *pool, int64_t uptime_ms,
                 int64_t now_ms, uint64_t seed)
{
    *t = (struct tokens){.pool = pool,
                         .n_buckets = BUCKETS_LEAST,
                         .base_ms = uptime_ms,
                         .start_ms = now_ms,
                         .purged_ms = now_ms,
                         .seed = seed};
    t->buckets = calloc(t->n_buckets, sizeof *t->buckets);
    return t->buckets != NULL;
}

void tokens_free(struct tokens *t)
{
    for (uint64_t i = 0; i < t->n_buckets && t->buckets != NULL; i++) {
        while (t->buckets[i] != NULL)
            forget(t, t->buckets[i]);
    }
    free(t->buckets);
    while (t->first != NULL) {
        struct request *r = t->first;

        t->first = r->next;
        request_free(t->pool, r);
    }
}

void tokens_set(struct tokens *t, uint64_t most, uint64_t ttl_s)
{
    t->most = most;
    t->ttl_ms = (int64_t)ttl_s * 1000;
}

bool tokens_load(struct tokens *t, const struct store_token *stored)
{
    struct token *k = add(t, stored->text, stored->len);

    if (k == NULL)
        return false;
    k->counter = stored->counter;
    k->asked = stored->asked;
    k->atleast = stored->atleast;
    k->grant = (struct alloc_grant){.first = stored->first, .count = stored->count};
    k->at_ms = stored->at_ms;
    if (k->at_ms > t->base_ms)
        t->base_ms = k->at_ms;
    mark_stored(t, k);
    return true;
}

static int64_t running_ms(const struct tokens *t, int64_t now_ms)
{
    return t->base_ms + now_ms - t->start_ms;
}

/* --- claims --- */

static bool is_same(const struct token *k, const struct seq *s, const struct request *r)
{
    bool same_seq = k->seq != NULL ? k->seq == s : k->counter == s->counter;

    return same_seq && k->asked == r->want.count && k->atleast == r->want.atleast;
}

static enum token_verdict refuse_full(struct tokens *t, struct request *r)
{
    t->refused++;
    request_refuse(r, HILO_ETOKEN,
                   "there are %" PRIu64 " tokens, as many as max_tokens allows, and "
                   "each is kept for %" PRId64 " s (token_ttl): raise the one, lower "
                   "the other, or ask without a token",
                   t->n, t->ttl_ms / 1000);
    return TOKEN_KNOWN;
}

enum token_verdict tokens_claim(struct tokens *t, const char *p, size_t len,
                                const struct seq *s, struct request *r,
                                struct token **ret)
{
    struct token *k = *find(t, p, len);

    *ret = k;
    if (k == NULL && t->n >= t->most)
        return refuse_full(t, r);
    if (k == NULL) {
        *ret = k = add(t, p, len);
        if (k == NULL) {
            request_refuse(r, HILO_ETRYAGAIN, "out of memory");
            return TOKEN_KNOWN;
        }
        k->seq = s;
        k->asked = r->want.count;
        k->atleast = r->want.atleast;
        r->token = k;
        return TOKEN_NEW;
    }
    if (!is_same(k, s, r)) {
        t->refused++;
        request_refuse(r, HILO_ETOKEN,
                       "this token belongs to another request, of another sequence or "
                       "another count: take a new token for a new request");
        return TOKEN_KNOWN;
    }
    t->repeats++;
    if (!k->stored)
        return TOKEN_FOLLOWS;
    r->grant = k->grant;
    r->decided = true;
    return TOKEN_KNOWN;
}

void tokens_follow(struct token *k, struct request *r)
{
    r->next = k->followers;
    k->followers = r;
}

void tokens_disclaim(struct tokens *t, struct token *k)
{
    forget(t, k);
}

/* --- outcomes --- */

static void decide(struct tokens *t, struct request *r)
{
    r->token = NULL;
    r->decided = true;
    if (r->owner == NULL)
        request_free(t->pool, r);
    else
        r->decided_fn(r);
}

/* All who wait for it get what the first one got. */
static void decide_all(struct tokens *t, struct token *k, struct request *r)
{
    while (k->followers != NULL) {
        struct request *f = k->followers;

        k->followers = f->next;
        f->grant = r->grant;
        if (r->err != 0)
            request_refuse(f, r->err, "%s", request_why(r));
        decide(t, f);
    }
    decide(t, r);
}

static void refuse(struct tokens *t, struct request *r)
{
    struct token *k = r->token;

    decide_all(t, k, r);
    forget(t, k);
}

void tokens_settle(struct tokens *t, struct request *r)
{
    if (r->err != 0) {
        refuse(t, r);
        return;
    }
    r->decided = false; /* not before it is stored */
    r->token->counter = r->token->seq->counter;
    r->token->seq = NULL;
    r->token->grant = r->grant;
    r->next = NULL;
    *(t->last != NULL ? &t->last->next : &t->first) = r;
    t->last = r;
}

/* --- the store --- */

static bool purge_due(const struct tokens *t, int64_t now_ms)
{
    if (t->purge_to != 0 || t->oldest == NULL || now_ms - t->purged_ms < PURGE_MS)
        return false;
    return running_ms(t, now_ms) - t->oldest->at_ms > t->ttl_ms ||
           now_ms - t->purged_ms >= UPTIME_MS;
}

bool tokens_want(const struct tokens *t, int64_t now_ms)
{
    return t->first != NULL || purge_due(t, now_ms);
}

static struct request *pop(struct tokens *t)
{
    struct request *r = t->first;

    t->first = r->next;
    if (t->first == NULL)
        t->last = NULL;
    return r;
}

/* As many as are too old, but no more than a portion; all of those of one moment. */
static void add_purge(struct tokens *t, struct store_batch *b, int64_t now_ms)
{
    struct store_op *op = store_batch_add(b);
    int64_t now = running_ms(t, now_ms), limit = now - t->ttl_ms;
    struct token *k = t->oldest;

    if (op == NULL)
        return;
    for (int i = 0; k != NULL && k->at_ms < limit; i++, k = k->younger) {
        if (i == PORTION)
            limit = k->at_ms + 1;
    }
    op->kind = STORE_PURGE;
    op->token.at_ms = limit > 0 ? limit : 0;
    op->uptime_ms = now;
    t->purge_to = limit > 0 ? limit : INT64_MIN;
    t->purged_ms = now_ms;
}

void tokens_add_ops(struct tokens *t, struct store_batch *b, int64_t now_ms)
{
    while (t->first != NULL) {
        struct store_op *op = store_batch_add(b);
        struct request *r = pop(t);
        struct token *k = r->token;

        if (op == NULL) {
            request_refuse(r, HILO_ETRYAGAIN, "out of memory");
            refuse(t, r);
            continue;
        }
        k->at_ms = running_ms(t, now_ms);
        op->kind = STORE_TOKEN;
        op->owner = r;
        op->token = (struct store_token){.text = k->text,
                                         .len = k->len,
                                         .counter = k->counter,
                                         .asked = k->asked,
                                         .atleast = k->atleast,
                                         .first = k->grant.first,
                                         .count = k->grant.count,
                                         .at_ms = k->at_ms};
    }
    if (purge_due(t, now_ms))
        add_purge(t, b, now_ms);
}

void tokens_take_answer(struct tokens *t, const struct store_op *op, const char *why)
{
    struct request *r = op->owner;

    if (op->kind == STORE_PURGE) {
        while (why[0] == '\0' && t->oldest != NULL && t->oldest->at_ms < t->purge_to)
            forget(t, t->oldest);
        t->purge_to = 0;
    } else if (why[0] != '\0') { /* nobody gets that block any more */
        request_refuse(r, HILO_ESTORAGE, "%s", why);
        refuse(t, r);
    } else {
        mark_stored(t, r->token);
        decide_all(t, r->token, r);
    }
}

void tokens_refuse(struct tokens *t, const char *why)
{
    while (t->first != NULL) {
        struct request *r = pop(t);

        request_refuse(r, HILO_ESTORAGE, "%s", why);
        refuse(t, r);
    }
}
