/* batcher.c - carries what sequences want to the store and the answers back. */
#include "batcher.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "clock.h"
#include "error.h"
#include "log.h"

/* What an administrator does is logged line by line, unless it comes in floods. */
#define ADMIN_LOG_BURST 20

#define RETRY_MS       200  /* after a witness could not be written */
#define GATHER_MOST_US 2000 /* a commit that takes longer counts as this */

/* Lists a sequence, unless it is listed or has something at the store. */
static void want(struct seq_env *env, struct seq *s)
{
    struct batcher *b = (struct batcher *)env;

    if (s->queued || s->at_store)
        return;
    s->queued = true;
    s->next_queued = NULL;
    if (b->last != NULL)
        b->last->next_queued = s;
    else
        b->first = s;
    b->last = s;
}

static void settle(struct seq_env *env, struct request *r)
{
    struct batcher *b = (struct batcher *)env;

    tokens_settle(&b->tokens, r);
}

void batcher_init(struct batcher *b, struct lane lane)
{
    *b = (struct batcher){.env = {.lane = lane,
                                  .want_fn = want,
                                  .token_fn = settle,
                                  .admin_log.burst = ADMIN_LOG_BURST,
                                  .near_end_log.burst = ADMIN_LOG_BURST}};
}

void batcher_free(struct batcher *b)
{
    for (size_t i = 0; b->held && i < b->sent.n; i++) {
        if (b->sent.ops[i].kind == STORE_TOKEN) /* their requests are nobody else's */
            tokens_take_answer(&b->tokens, &b->sent.ops[i], "the server has ended");
    }
    store_batch_free(&b->next);
    store_batch_free(&b->sent);
    tokens_free(&b->tokens);
    request_pool_free(&b->env.pool);
}

static struct seq *pop(struct batcher *b)
{
    struct seq *s = b->first;

    b->first = s->next_queued;
    if (b->first == NULL)
        b->last = NULL;
    s->queued = false;
    return s;
}

/* A sequence whose creation failed is gone once nobody waits for it. */
static void forget_if_void(struct batcher *b, struct seq *s)
{
    if (s->state == SEQ_VOID && s->head == NULL && !s->queued)
        b->forget_fn(b->arg, s);
}

/* Whether more requests are about to come. */
static bool gathers(struct batcher *b, int64_t now_us)
{
    uint64_t n = b->env.waiting;
    int64_t commit_us =
        b->last_commit_us < GATHER_MOST_US ? b->last_commit_us : GATHER_MOST_US;

    if (n == 0 || n >= b->company || b->env.ended)
        return false;
    if (n != b->gathered) {
        b->gathered = n;
        b->gathered_us = now_us;
    }
    return now_us - b->gathered_us < commit_us / 2 &&
           now_us - b->collected_us < 2 * commit_us;
}

/* The operation of a sequence in the next batch, if it wants one after all. */
static void add(struct batcher *b, struct seq *s, int64_t now_ms)
{
    struct store_op *op;

    if (b->env.ended) {
        seq_refuse_all(s, HILO_ESTORAGE, b->env.why);
        forget_if_void(b, s);
        return;
    }
    op = store_batch_add(&b->next);
    if (op == NULL) {
        seq_refuse_all(s, HILO_ETRYAGAIN, "out of memory");
        forget_if_void(b, s);
        return;
    }
    if (!seq_make_op(s, op, now_ms)) {
        b->next.n--;
        return;
    }
    seq_describe(s, op);
    op->owner = s;
    s->at_store = true;
}

/* The next batch goes to the store. */
static void send(struct batcher *b)
{
    struct store_batch empty = b->sent;

    b->sent = b->next;
    b->next = empty;
    store_batch_clear(&b->next);
    b->busy = true;
}

enum batcher_step batcher_make(struct batcher *b, int64_t now_ms, int64_t now_us)
{
    if (b->busy || (b->held && now_ms < b->retry_ms))
        return BATCHER_RESTS;
    if (b->held) {
        b->busy = true;
        return BATCHER_SENDS;
    }
    if (b->company > 0 && gathers(b, now_us))
        return BATCHER_GATHERS;
    b->company = 0;
    while (b->first != NULL)
        add(b, pop(b), now_ms);
    if (b->env.ended)
        tokens_refuse(&b->tokens, b->env.why);
    else
        tokens_add_ops(&b->tokens, &b->next, now_ms);
    if (b->next.n == 0 && ((!b->look && b->backup_path == NULL) || b->env.ended))
        return BATCHER_RESTS;
    b->look = false;
    send(b);
    b->sent.backup_path = b->backup_path;
    return BATCHER_SENDS;
}

static void note_failure(struct batcher *b, const struct store_batch *done)
{
    b->last_error_ms = clock_wall_ms();
    snprintf(b->last_error, sizeof b->last_error, "%s", done->error.text);
    b->gone = done->outcome == STORE_GONE;
    if (done->outcome != STORE_FAILED) {
        b->env.ended = true;
        snprintf(b->env.why, sizeof b->env.why, "granting has ended: %s",
                 done->error.text);
        log_line(LOG_ERROR, "%s", b->env.why);
    } else {
        log_limited(&b->failure_log, LOG_WARNING,
                    "a batch failed, nothing in it was granted: %s", done->error.text);
    }
}

static void note_commit(struct batcher *b, const struct store_batch *done,
                        int64_t now_us)
{
    b->company = b->env.waiting;
    b->gathered = 0;
    b->collected_us = now_us;
    b->last_commit_us = done->commit_us;
    if (done->commit_us > b->longest_commit_us)
        b->longest_commit_us = done->commit_us;
}

static void note_backup(struct batcher *b, const struct store_batch *done)
{
    const char *error = "";

    if (done->backup_path == NULL)
        return;
    if (b->env.ended)
        error = b->env.why;
    else if (done->outcome != STORE_DONE || done->backup == BACKUP_MORE)
        return;
    else if (done->backup == BACKUP_FAILED)
        error = done->backup_error.text;
    b->backup_path = NULL;
    b->backup_fn(b->arg, error);
}

void batcher_look(struct batcher *b)
{
    b->look = true;
}

/* What the batch reserved stays its own: it is granted once the witness knows. Who asks
 * meanwhile is told why not, and so are those who wait for other batches. */
static void hold(struct batcher *b, int64_t now_ms)
{
    const struct store_batch *held = &b->sent;

    b->held = true;
    b->retry_ms = now_ms + RETRY_MS;
    b->last_error_ms = clock_wall_ms();
    snprintf(b->last_error, sizeof b->last_error, "%s", held->error.text);
    log_limited(&b->failure_log, LOG_WARNING, "%s", held->error.text);
    for (size_t i = 0; i < held->n; i++) {
        const struct store_op *op = &held->ops[i];

        if (op->kind != STORE_TOKEN && op->kind != STORE_PURGE)
            seq_refuse_others(op->owner, HILO_ESTORAGE, b->last_error);
    }
    tokens_refuse(&b->tokens, b->last_error);
    while (b->first != NULL) {
        struct seq *s = pop(b);

        if (s->state == SEQ_NEW)
            s->state = SEQ_VOID;
        seq_refuse_all(s, HILO_ESTORAGE, b->last_error);
        forget_if_void(b, s);
    }
}

void batcher_collect(struct batcher *b, int64_t now_ms, int64_t now_us)
{
    struct store_batch *done = &b->sent;
    const char *why = "";

    b->busy = false;
    b->store_stats = done->stats;
    b->witness_stats = done->witness_stats;
    if (done->outcome == STORE_UNWITNESSED) {
        hold(b, now_ms);
        return;
    }
    b->held = false;
    if (done->n > 0) /* else it only looked */
        note_commit(b, done, now_us);
    if (done->outcome != STORE_DONE) {
        note_failure(b, done);
        why = b->env.ended ? b->env.why : b->last_error;
    }
    note_backup(b, done);
    for (size_t i = 0; i < done->n; i++) {
        struct store_op *op = &done->ops[i];
        struct seq *s = op->owner;

        if (op->kind == STORE_TOKEN || op->kind == STORE_PURGE) {
            tokens_take_answer(&b->tokens, op, why);
            continue;
        }
        if (done->outcome != STORE_DONE)
            op->err = HILO_ESTORAGE;
        bool was_new = s->state == SEQ_NEW;

        s->at_store = false;
        seq_take_answer(s, op, why, now_ms);
        if (was_new && s->state == SEQ_LIVE)
            b->created_fn(b->arg, s);
        forget_if_void(b, s);
    }
}

bool batcher_wanted(const struct batcher *b, int64_t now_ms)
{
    return !b->busy && !b->held &&
           (b->first != NULL || tokens_want(&b->tokens, now_ms));
}

bool batcher_idle(const struct batcher *b)
{
    return b->first == NULL && !b->busy && b->tokens.first == NULL;
}

static uint64_t gather_tails(struct batcher *b, const struct catalog *all)
{
    uint64_t given = 0;

    store_batch_clear(&b->next);
    for (uint64_t i = 0; i < all->n_live; i++) {
        const struct seq *s = all->live[i]->seq;
        struct store_op *op = s != NULL ? store_batch_add(&b->next) : NULL;

        if (s == NULL)
            continue; /* it sleeps, and has nothing in hand */
        if (op == NULL)
            break; /* the others' tails become gaps */
        if (seq_make_give_back(s, op)) {
            given += op->mark - op->floor;
            seq_describe(s, op);
        } else {
            b->next.n--;
        }
    }
    return given;
}

void batcher_give_back(struct batcher *b, const struct catalog *all, struct guard *g)
{
    bool believed = !b->env.ended && !b->held;
    uint64_t given;

    b->env.ended = true;
    snprintf(b->env.why, sizeof b->env.why, "the server is stopping");
    if (!believed)
        return;
    given = gather_tails(b, all);
    guard_give_back(g, &b->next);
    b->gone = b->next.outcome == STORE_GONE;
    if (b->next.outcome == STORE_DONE && b->next.n == 0)
        return;
    if (b->next.outcome == STORE_DONE)
        log_line(LOG_INFO,
                 "gave back %" PRIu64 " ids that were reserved and not granted", given);
    else
        log_line(LOG_WARNING, "gave nothing back of %" PRIu64 " unused ids: %s", given,
                 b->next.error.text);
}
