/* batcher.h - carries what sequences want to the store and the answers back.
 *
 * Sequences that want the store stand in a list. Whenever the store is free and a turn
 * of the loop ends, one batch is made of all of them: one operation per sequence, one
 * commit for all. Counts what the statistics show. Whoever has the loop only, but for
 * the batch that is at the store. */
#ifndef HILO_BATCHER_H
#define HILO_BATCHER_H

#include <stdbool.h>
#include <stdint.h>
#include "batch.h"
#include "catalog.h"
#include "guard.h"
#include "seq.h"
#include "tokens.h"

struct batcher {
    struct seq_env env;            /* first: sequences hand back its address */
    struct store_batch next, sent; /* being made; at the store, if busy */
    struct tokens tokens;
    bool busy;
    bool held;                /* sent is committed and waits for its witness */
    bool look;                /* a batch is due even if nobody wants one */
    bool gone;                /* STORE_GONE: leave */
    struct seq *first, *last; /* those who want the store */
    /* The gathering, see batcher_post. */
    uint64_t company;        /* who waited when the last batch came back */
    uint64_t gathered;       /* who waits now */
    int64_t gathered_us;     /* since when it is that many */
    int64_t collected_us;    /* when the last batch came back */
    int64_t retry_ms;        /* when the witness of a held one is tried again */
    const char *backup_path; /* of a backup under way; NULL: there is none */
    /* Called at its end; error is empty when it was made. */
    void (*backup_fn)(void *arg, const char *error);
    /* Called when a sequence that could not be created has no requests left. */
    void (*forget_fn)(void *arg, struct seq *s);
    /* Called when the store knows a sequence that it did not know before. */
    void (*created_fn)(void *arg, struct seq *s);
    void *arg;
    /* Statistics. */
    struct store_stats store_stats;
    struct witness_stats witness_stats;
    int64_t last_commit_us, longest_commit_us;
    char last_error[STORE_TEXT_MAX];
    int64_t last_error_ms; /* wall clock; 0 for never */
    struct log_limit failure_log;
};

enum batcher_step {
    BATCHER_RESTS,   /* nobody wants the store, or it is busy */
    BATCHER_GATHERS, /* call again after the next turn, which must not block */
    BATCHER_SENDS,   /* there is a batch in sent: commit it */
};

void batcher_init(struct batcher *b, struct lane lane);
void batcher_free(struct batcher *b);

/* Makes a batch if the store is free and somebody wants it, unless it is worth while to
 * wait a moment for more.
 *
 * A commit costs the same for one grant and for a hundred. Who has just had an answer
 * often asks again at once; so a batch waits until as many are there as waited
 * when the last one came back, as long as they keep coming: half a commit without
 * another one ends it, and twice the time of a commit in any case. PostgreSQL's
 * commit_delay and commit_siblings, set by what is seen. */
enum batcher_step batcher_make(struct batcher *b, int64_t now_ms, int64_t now_us);

/* The next batch is due even if it is empty: the engine looks at what it stands on. */
void batcher_look(struct batcher *b);

/* Distributes the answers of the batch that has come back. */
void batcher_collect(struct batcher *b, int64_t now_ms, int64_t now_us);

/* Whether somebody wants a batch to be made. */
bool batcher_wanted(const struct batcher *b, int64_t now_ms);

/* Nobody waits for the store and it holds nothing of ours. */
bool batcher_idle(const struct batcher *b);

/* After the last grant, with the store free: gives back the tails of all sequences in
 * one batch, once. Blocks. */
void batcher_give_back(struct batcher *b, const struct catalog *all, struct guard *g);

#endif
