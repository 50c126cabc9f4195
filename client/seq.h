/* seq.h - one sequence of a handle: its stock, and who waits for ids. */
#ifndef HILO_CLIENT_SEQ_H
#define HILO_CLIENT_SEQ_H

#include "cache.h"
#include "handle.h"
#include "seen.h"

/* What this sequence knows of one server. */
struct member {
    int err;           /* why it has no ids for us; 0 for no reason */
    int64_t until_us;  /* so long it isn't asked again */
    unsigned refusals; /* in a row */
    uint64_t requests, ids, failures, round_us;
    char why[SERVER_WHY_MAX];
};

struct hilo_seq {
    struct hilo_head_ head; /* first: callers read it, see hilo_inline.h */
    uint32_t local_ids;
    struct hilo *h;
    int32_t pid;
    char name[HILO_NAME_MAX + 1];
    int64_t timeout_us;
    pthread_cond_t arrived; /* ids, an error, the end */
    struct cache cache;
    struct ask *asking; /* the request for the stock; NULL for none */
    uint64_t finished;  /* ids of blocks used up */
    uint64_t wanted;    /* ids that threads wait for */
    unsigned waiting;   /* threads that wait */
    struct waiter_queue async;
    uint64_t n_async;
    int fault; /* no server can help: why */
    int64_t fault_until_us;
    char fault_why[MESSAGE_MAX];
    struct member members[HILO_SERVERS_MAX];
    struct seen *seen; /* the handle's, of this name */
    uint64_t refills, failures, waits;
    bool closed;

    struct hilo_seq *next;        /* in h->seqs */
    struct hilo_seq *next_kicked; /* in h->kicked */
    atomic_bool dry;              /* whoever looked last found nothing in hand */
    atomic_bool kicked;
};

/* --- for callers --- */

/* It is time to look at the stock; any thread, no lock needed. */
void seq_kick(struct hilo_seq *s);

/* Up to n ids, at least one, waiting until deadline_us for them; 0 for not at all. */
int seq_take(struct hilo_seq *s, uint32_t n, int64_t deadline_us, struct run *ret);

/* A caller who waited has stopped waiting, whatever for: seq_end may wait for that.
 * Locked. */
void seq_left(struct hilo_seq *s);

/* --- for the loop, locked --- */

/* Serves callbacks that wait, and makes a request when the stock is low. */
void seq_turn(struct hilo_seq *s, int64_t now_us);

/* The request for the stock has ended. */
void seq_filled(struct hilo_seq *s, struct run r, int64_t now_us);
void seq_not_filled(struct hilo_seq *s);

/* No server can help at present: everybody who waits gets err. */
void seq_fault(struct hilo_seq *s, int err, int64_t until_us, const char *why);

/* Callbacks that have waited long enough get their error. When the next one will have;
 * INT64_MAX for never. */
int64_t seq_check(struct hilo_seq *s, int64_t now_us);

/* --- begin and end --- */

/* NULL when there is no memory. The options have been checked. Locks the handle. */
struct hilo_seq *seq_new(struct hilo *h, const char *name, const hilo_seq_options *o);

/* Everybody who waits gets HILO_ECLOSED; when they have left it is freed. Locked. */
void seq_end(struct hilo_seq *s);

#endif
