/* hilo.h - unique 64-bit ids from hilod, at nanoseconds each.
 *
 *     #include <hilo.h>
 *     #include <inttypes.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         hilo *h;
 *         hilo_seq *orders;
 *         uint64_t id;
 *
 *         if (hilo_open(NULL, NULL, 0, &h) == 0 &&
 *             hilo_seq_open(h, "orders", NULL, &orders) == 0 &&
 *             hilo_next(orders, &id) == 0)
 *             printf("%" PRIu64 "\n", id);
 *     }
 *
 * A `hilo` knows the servers; a `hilo_seq` is one sequence of theirs, of which it holds
 * blocks of ids in memory. As long as a block lasts hilo_next() is an addition: no
 * lock, no system call. The next block is fetched before the present one is used up, by
 * a thread of the library (or by your event loop, see hilo_options.base), so callers
 * seldom wait, and servers can be away for as long as the stock lasts
 * (hilo_seq_options.hold_ms).
 *
 * What is promised: no id is given out twice, by any number of programs, threads and
 * forked children. Ids are from 1 to 2^63-1. Ids of one hilo_seq rise as long as it
 * draws on one server and local_ids is 0; with several servers they are only roughly
 * ordered. Ids in hand when the program ends are never used: gaps are normal.
 *
 * Errors: functions return 0, or one of the negative codes in hilo_error.h, and then
 * have written nothing through their last argument. hilo_strerror() has the code in a
 * few words, hilo_errmsg() the last failure in detail: which server, why, what to do.
 *
 * Threads: every function may be called from any number of threads at once, unless it
 * says otherwise. A handle must not be used after, or while, it is closed.
 *
 * fork: handles belong to the process that opened them. In a forked child all functions
 * but the closing ones answer HILO_EFORK, and nothing of the parent's is ever used; the
 * child opens its own. (vfork and posix_spawn are no concern: descriptors are
 * close-on-exec.)
 *
 * The library prints nothing, changes no signal handling, causes no SIGPIPE and never
 * ends the process. It keeps itself loaded (a dlclose() unloads nothing). */
#ifndef HILO_H
#define HILO_H

#include <stddef.h>
#include <stdint.h>
#include "hilo_error.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define HILO_SERVERS_MAX 16         /* servers of one handle */
#define HILO_BLOCK_MAX   1073741824 /* ids of one block */
#define HILO_NAME_MAX    128        /* bytes of the name of a sequence */

typedef struct hilo hilo;
typedef struct hilo_seq hilo_seq;
struct event_base;

/* --- servers --- */

/* Which server the next block comes from. */
typedef enum hilo_policy {
    HILO_ROUND_ROBIN = 0, /* each in turn */
    HILO_PRIMARY = 1,     /* the first that can be reached, in the order given */
} hilo_policy;

/* Fill it with hilo_options_init(), then change what you want. Strings are copied by
 * hilo_open(). */
typedef struct hilo_options {
    size_t size; /* of this struct; set by hilo_options_init */

    /* "HOST:PORT", "[IPv6]:PORT" or "unix:/path", several with commas; NULL means the
     * environment's HILO_SERVER, or else "127.0.0.1:4456". Nothing is connected before
     * the first id is wanted. */
    const char *servers;
    const char *password;    /* NULL for none */
    const char *client_name; /* shown by the servers' CLIENT LIST; NULL for none */
    hilo_policy policy;      /* HILO_ROUND_ROBIN */

    /* How long calls that wait may take, in milliseconds, 1 to 3600000; 2000. */
    unsigned timeout_ms;

    /* How long one server may take, in milliseconds, 1 to 3600000; 500. To be
     * connected, from looking up its name to its greeting; and to answer a request.
     * After that it counts as down and another one is asked. */
    unsigned request_ms;

    /* NULL: the library runs a thread of its own. Otherwise it lives in this event_base
     * of yours: then hilo_try_next, hilo_next_async and hilo_stats are there, and those
     * that would wait answer HILO_EARG unless ids are in hand. hilo_open, hilo_close,
     * hilo_seq_open and hilo_seq_close then belong to the thread that runs the base,
     * and the base has to outlive the handle. */
    struct event_base *base;
} hilo_options;

void hilo_options_init(hilo_options *o);

/* Opens a handle. o: NULL for the defaults. When it fails, errbuf (errlen bytes; may be
 * NULL) says why.
 *
 * HILO_EARG    an option is out of its range
 * HILO_ENOMEM  HILO_ESYSTEM  no memory, no thread, no descriptor */
int hilo_open(const hilo_options *o, char *errbuf, size_t errlen, hilo **ret);

/* Closes a handle and all its sequences, and waits for its thread. Callers that wait
 * get HILO_ECLOSED, and so do callbacks. May be called from a callback: the handle is
 * then freed when that returns. NULL is allowed. */
void hilo_close(hilo *h);

/* The last failure of this handle in words, ended by a zero, cut to n bytes; "" for
 * none. */
void hilo_errmsg(hilo *h, char *buf, size_t n);

/* A code in a few words; never NULL. */
const char *hilo_strerror(int err);

/* --- sequences --- */

/* Fill it with hilo_seq_options_init(), then change what you want. */
typedef struct hilo_seq_options {
    size_t size; /* of this struct; set by hilo_seq_options_init */

    /* Bounds for the size of a block, 1 to HILO_BLOCK_MAX; 100 and 1000000. Between
     * them it follows demand: about a second's worth. Servers may grant less. */
    uint64_t block_min;
    uint64_t block_max;

    /* How long the stock has to last while no server can be reached, in milliseconds at
     * the present rate, 0 to 86400000; 60000. What is in hand when the program ends is
     * lost, so this is a trade. At most 64 blocks are held. */
    unsigned hold_ms;

    /* Ids that each thread takes out of the block at a time and keeps to itself, 0 to
     * 1000000; 0. Threads then don't share a cache line, at the price of order: ids
     * rise only within a thread. What a thread holds at its end is lost. For up to 256
     * sequences of a process at a time; further ones go without. */
    unsigned local_ids;

    /* 1: nothing is fetched before callers wait for it, and no more than they wait for
     * (or block_min), so that no id is lost at the end; for programs that need a known
     * number of ids. 0: the next block is fetched ahead. 0 is the default. */
    unsigned on_demand;

    unsigned timeout_ms; /* 0 for the handle's */
} hilo_seq_options;

void hilo_seq_options_init(hilo_seq_options *o);

/* Opens a sequence; o: NULL for the defaults. Nobody is asked yet: a name that servers
 * don't know shows when an id is wanted. Several handles of one name are independent
 * and never give out the same id.
 *
 * HILO_EARG    the name or an option is out of its range
 * HILO_ENOMEM  HILO_ESYSTEM */
int hilo_seq_open(hilo *h, const char *name, const hilo_seq_options *o, hilo_seq **ret);

/* Closes it; its ids in hand are never used. Callers that wait get HILO_ECLOSED, and so
 * do callbacks. May be called from a callback. NULL is allowed. */
void hilo_seq_close(hilo_seq *s);

/* One id. Waits only when none is in hand, and at most timeout_ms. (This function and
 * hilo_try_next are built into the caller, see hilo_inline.h; with HILO_NO_INLINE
 * defined they are called.)
 *
 * HILO_EUNAVAIL    no server could be reached in that time
 * HILO_ETIMEDOUT   servers can be reached, but have not answered in time
 * HILO_EEXHAUSTED  the sequence has no ids left on any server
 * HILO_ENOSEQ      there is no such sequence, and servers don't make them unasked
 * HILO_EAUTH       servers refuse the login
 * HILO_ELANE       servers contradict each other about lanes: those that do are not
 *                  used while both are there. A program that reaches only one of
 *                  them can't know: hilo doctor finds that
 * HILO_EREGRESS    a server is behind what was seen of it: an old copy was put back
 * HILO_EPROTO      what a server answered makes no sense
 * HILO_EFORK  HILO_ECLOSED  HILO_ENOMEM  HILO_EARG
 * Others are what servers said. With several servers an error comes early only when
 * none of them can help. */
int hilo_next(hilo_seq *s, uint64_t *ret_id);

/* The same without waiting: HILO_EAGAIN when no id is in hand; more are then on their
 * way. */
int hilo_try_next(hilo_seq *s, uint64_t *ret_id);

/* n ids, 1 to HILO_BLOCK_MAX, into ret_ids. They rise, but are not always neighbours.
 * All or none: with an error, ids taken on the way are lost. */
int hilo_next_many(hilo_seq *s, size_t n, uint64_t *ret_ids);

/* Ids first, first+step, ... last. */
typedef struct hilo_run {
    uint64_t first;
    uint64_t last;
    uint64_t step;
} hilo_run;

/* A block of exactly count ids, straight from a server, past the stock. It may be as
 * large as a server's max_block and its stripe (HILO_EBADARG otherwise).
 *
 * token is NULL, or 1 to 128 printable bytes without spaces, by which the same block
 * can be asked for again: after an error, a crash of either side, or from another
 * program, for as long as the server's token_ttl (24 h). With another sequence or count
 * it is HILO_ETOKEN. One server keeps it, chosen by its text (the CRC-32C of it modulo
 * the number of lanes): while that one is away, HILO_EUNAVAIL or HILO_ETIMEDOUT.
 *
 * Without a token it is never asked for again by itself: after HILO_ETIMEDOUT, or
 * HILO_EUNAVAIL when a connection broke, nobody knows whether a server granted a block,
 * which then is a gap. */
int hilo_block(hilo_seq *s, uint64_t count, const char *token, hilo_run *ret);

/* Called with one id and 0, or with 0 and an error. */
typedef void (*hilo_id_cb)(void *arg, uint64_t id, int err);

/* One id for a callback. When this returns 0, cb is called exactly once: from the
 * library's thread, perhaps before this returns, or later from your loop
 * (hilo_options.base). It may call any function of the library that doesn't wait,
 * closing ones included. */
int hilo_next_async(hilo_seq *s, hilo_id_cb cb, void *arg);

/* --- looking --- */

typedef struct hilo_server_stats {
    char name[128]; /* as given in hilo_options.servers */
    char state[16]; /* "down", "connecting", "ready", "refused" */
    unsigned lane;  /* 1 to lanes; 0 when not yet heard */
    unsigned lanes;
    uint64_t requests;    /* of this sequence sent there */
    uint64_t ids;         /* granted by it for this sequence */
    uint64_t failures;    /* connections that failed or broke, requests not met */
    uint64_t round_us;    /* the last round trip; 0 for none yet */
    char last_error[160]; /* "" for none */
} hilo_server_stats;

typedef struct hilo_seq_stats {
    size_t size;         /* set it to sizeof(hilo_seq_stats) before the call */
    uint64_t granted;    /* ids given to callers and threads, those of hilo_block not */
    uint64_t in_hand;    /* ids in stock */
    uint64_t block;      /* size of the last block asked for */
    uint64_t per_second; /* ids, as measured lately */
    uint64_t refills;    /* blocks that came */
    uint64_t failures;   /* requests for blocks that failed */
    uint64_t waits;      /* calls that had to wait */
    uint64_t round_us;   /* the last round trip, microseconds */
    uint64_t wakeups;    /* of the library's thread, all sequences together */
    unsigned servers;    /* how many rows of server[] are filled */
    hilo_server_stats server[HILO_SERVERS_MAX];
} hilo_seq_stats;

/* Numbers since the sequence was opened. HILO_EARG: size is not set. */
int hilo_stats(hilo_seq *s, hilo_seq_stats *ret);

#include "hilo_inline.h" /* hilo_next and hilo_try_next without a call */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
