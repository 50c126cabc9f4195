/* handle.h - what one hilo_open() made: servers, sequences, the loop that serves them.
 *
 * One lock guards everything but the blocks in use (hilo_inline.h). The loop holds it
 * while it works and lets it go while it waits for events or runs callbacks; callers
 * take it only when the block in use is at its end. So nothing else needs a lock, and
 * every change of state is a step nobody sees half of.
 *
 *     caller ── kick ──▶ eventfd ──▶ loop: handle_turn
 *                                      1. kicked sequences: how much to ask for
 *                                      2. requests not yet sent: to which server
 *                                      3. what has taken too long
 *                                      4. callbacks, unlocked */
#ifndef HILO_HANDLE_H
#define HILO_HANDLE_H

#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "ask.h"
#include "hilo.h"
#include "hot.h"
#include "roster.h"
#include "seen.h"
#include "server.h"

#define MESSAGE_MAX 640

/* A caller of hilo_next_async. */
struct waiter {
    struct waiter *next;
    hilo_id_cb cb;
    void *arg;
    uint64_t id;
    int err;
    int64_t deadline_us;
};

struct waiter_queue {
    struct waiter *head, **tail;
};

void waiter_queue_init(struct waiter_queue *q);
void waiter_push(struct waiter_queue *q, struct waiter *w);
struct waiter *waiter_pop(struct waiter_queue *q);

struct hilo {
    struct hilo_hot_ *mark; /* tells whether this is a forked child; no ids are in it */
    int32_t pid;
    pthread_mutex_t lock;
    struct event_base *base;
    bool own_base;
    pthread_t thread;
    int wake_fd;
    struct event *on_wake, *on_time;
    _Atomic(struct hilo_seq *) kicked; /* those the loop has to look at */

    struct hilo_seq *seqs;
    struct server servers[HILO_SERVERS_MAX];
    unsigned n_servers;
    unsigned turn; /* round robin: the next one */
    hilo_policy policy;
    unsigned timeout_ms;
    char *password, *client_name;
    struct roster roster;
    struct seen *seen; /* of every name that was opened */
    struct ask_queue unsent;
    struct waiter_queue decided; /* callbacks to run */
    uint64_t wakeups;
    char message[MESSAGE_MAX];

    bool calling; /* a callback runs, on thread `caller` */
    pthread_t caller;
    bool closed;        /* hilo_close was called, ... */
    bool freed_by_loop; /* ... by a callback: the loop does the rest */
};

/* Whether the handle belongs to this process. Everything else asks this first. */
bool handle_is_ours(const struct hilo *h);

/* Wakes the loop; any thread, no lock needed. */
void handle_wake(struct hilo *h);

/* Looks at everything after an event, then runs callbacks; locked when it is called,
 * unlocked when it returns. The handle may be gone then. */
void handle_turn(struct hilo *h);

/* The last failure in words. Locked. */
void handle_say(struct hilo *h, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
