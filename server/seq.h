/* seq.h - one sequence: its allocator, and the requests that wait for the store.
 *
 * Requests are decided in the order they came. As long as nobody waits and the chunk in
 * hand suffices, a grant is decided where it stands (seq_submit). Otherwise it queues,
 * the sequence says so (want_fn), and at most one
 * operation of the sequence is there at a time. Administration queues like a grant, so
 * no grant happens while bounds change.
 *
 * Whoever has the loop only. */
#ifndef HILO_SEQ_H
#define HILO_SEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "alloc.h"
#include "lane.h"
#include "log.h"
#include "request.h"
#include "store.h"

struct seq;

#define SEQ_NEAR_END_PERCENT 80
#define SEQ_WHY_MAX          (STORE_TEXT_MAX + 32)

/* What all sequences of a server share. */
struct seq_env {
    struct lane lane;
    bool ended; /* granting has ended for good; why says why */
    char why[SEQ_WHY_MAX];
    /* Called when a sequence wants the store: seq_make_op is due. */
    void (*want_fn)(struct seq_env *env, struct seq *s);
    /* Called with a request that carries a token, when it is granted or refused. */
    void (*token_fn)(struct seq_env *env, struct request *r);
    uint64_t waiting; /* requests in the queues of all sequences */
    struct request_pool pool;
    /* Statistics. */
    uint64_t grants, ids; /* since the start */
    uint64_t floors_refused;
    struct log_limit regress_log, admin_log, near_end_log;
    uint64_t near_end; /* sequences that have used most of their ids */
};

enum seq_state {
    SEQ_NEW,  /* its counter is not in the store yet */
    SEQ_LIVE, /* it is; retired or not */
    SEQ_VOID, /* creating it failed; the catalogue forgets it */
};

struct seq {
    struct alloc alloc;
    struct request *head, *tail; /* waiting */
    struct seq_env *env;
    uint64_t counter; /* the store's handle */
    struct counter_attr attr;
    enum seq_state state;
    bool queued;   /* in the batcher's list */
    bool at_store; /* an operation of ours is on its way */
    bool op_is_fetch;
    bool unsure;      /* a change of attr has failed: the store may hold it */
    bool warned;      /* that most ids are used */
    uint64_t granted; /* ids, since the start of the server */
    uint64_t recent;  /* ids granted since recent_ms */
    int64_t recent_ms;
    uint64_t rate; /* ids per second, measured before recent_ms */
    uint64_t peak; /* the highest of those */
    struct seq *next_queued;
    uint32_t name_len;
    const char *name; /* the catalogue's, with a terminating zero */
};

/* A sequence that is not in the store yet. The name has to outlive it. */
void seq_init(struct seq *s, struct seq_env *env, const char *name, size_t name_len,
              const struct counter_attr *attr);
/* Requests that still wait are freed with it; their connections have to be gone. */
void seq_free(struct seq *s);

/* The counter exists (it was loaded, or the store made it) and stands at mark. */
void seq_go_live(struct seq *s, uint64_t counter, uint64_t mark);

/* The short way for what is asked most: one id without a floor, below cap. How many
 * requests of that kind can be granted at once; where it is none, or not that simple,
 * seq_submit decides. */
uint64_t seq_ones(const struct seq *s, uint64_t cap);

/* Grants n of them, one position each, from the one returned on. */
uint64_t seq_take_ones(struct seq *s, uint64_t n, int64_t now_ms);

/* Tries to decide the request now. False: it has to wait, call seq_enqueue with a copy
 * of it on the heap. */
bool seq_submit(struct seq *s, struct request *r, int64_t now_ms);
void seq_enqueue(struct seq *s, struct request *r);

/* For the batcher. seq_make_op decides what can be decided, then writes the operation
 * that is wanted next; false if there is none. seq_take_answer is its counterpart;
 * op->err is the store's answer, or what the whole batch failed with, in words in why.
 */
bool seq_make_op(struct seq *s, struct store_op *op, int64_t now_ms);
void seq_take_answer(struct seq *s, const struct store_op *op, const char *why,
                     int64_t now_ms);

/* Completes an operation with what a witness is to know. */
void seq_describe(const struct seq *s, struct store_op *op);

/* Granting has ended for good: refuses all that wait. */
void seq_refuse_all(struct seq *s, int err, const char *why);
/* What the sequence has at the store is done and can't be answered yet: refuses all
 * that wait but the piece of administration which that is. */
void seq_refuse_others(struct seq *s, int err, const char *why);

/* The unused tail as an operation; false if there is none. */
bool seq_make_give_back(const struct seq *s, struct store_op *op);

/* The last id granted or passed over, 0 if there is none. */
uint64_t seq_last(const struct seq *s);

/* Ids per second over the last second or two. */
uint64_t seq_rate(const struct seq *s, int64_t now_ms);

/* How much of start..max is granted or gone, in percent. */
unsigned seq_used_percent(const struct seq *s);

/* The position of the first id at or above START; the first position above MAX. */
uint64_t seq_start_position(struct lane l, const struct counter_attr *attr);
uint64_t seq_limit(struct lane l, const struct counter_attr *attr);

#endif
