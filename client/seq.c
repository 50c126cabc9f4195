/* seq.c - one sequence of a handle. */
#include "seq.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "clock.h"
#include "dispatch.h"
#include "local.h"

#define NO_MEMORY_US 100000 /* until it is tried again */

void seq_kick(struct hilo_seq *s)
{
    struct hilo_seq *head;

    if (atomic_exchange(&s->kicked, true))
        return;
    head = atomic_load(&s->h->kicked);
    do {
        s->next_kicked = head;
    } while (!atomic_compare_exchange_weak(&s->h->kicked, &head, s));
    handle_wake(s->h);
}

/* --- the stock --- */

static uint64_t taken(const struct hilo_seq *s)
{
    return s->finished + hot_taken(s->head.hot);
}

/* Puts the next block of the queue in use when the present one is used up. */
static bool next_block(struct hilo_seq *s)
{
    struct run r;

    if (!hot_is_ours(s->head.hot, s->pid)) /* its queue is a copy of the parent's */
        return false;
    if (hot_left(s->head.hot) > 0)
        return true;
    if (!cache_pop(&s->cache, &r)) {
        hot_settle(s->head.hot);
        return false;
    }
    s->finished += hot_taken(s->head.hot);
    hot_publish(s->head.hot, r, cache_refill_at(&s->cache, run_count(r)));
    atomic_store(&s->dry, false);
    return true;
}

/* Ids from what is in hand; false when there are none. */
static bool take_in_hand(struct hilo_seq *s, uint32_t n, struct run *ret)
{
    enum hilo_take_ got;

    do {
        got = hot_take_run(s->head.hot, n, ret);
        if (got == HILO_TAKEN_REFILL_)
            seq_kick(s);
        if (got != HILO_EMPTY_)
            return true;
    } while (next_block(s));
    return false;
}

/* Whoever takes the last block out of the queue may have to ask for more. */
static bool take_locked(struct hilo_seq *s, uint32_t n, struct run *ret)
{
    uint64_t queued = s->cache.queued;
    bool had = take_in_hand(s, n, ret);

    if (s->cache.queued != queued)
        seq_kick(s);
    return had;
}

static void fail_async(struct hilo_seq *s, int err)
{
    struct waiter *w;

    while ((w = waiter_pop(&s->async)) != NULL) {
        w->err = err;
        waiter_push(&s->h->decided, w);
    }
    s->n_async = 0;
}

static void serve_async(struct hilo_seq *s)
{
    struct run r;

    while (s->async.head != NULL && take_locked(s, 1, &r)) {
        struct waiter *w = waiter_pop(&s->async);

        s->n_async--;
        w->id = r.first;
        waiter_push(&s->h->decided, w);
    }
}

void seq_turn(struct hilo_seq *s, int64_t now_us)
{
    struct ask *a;
    uint64_t n;

    if (s->closed) /* its end waits for callers to leave */
        return;
    serve_async(s);
    if (s->fault != 0 && now_us < s->fault_until_us) {
        fail_async(s, s->fault);
        return;
    }
    if (s->asking != NULL)
        return;
    s->fault = 0;
    n = cache_ask(&s->cache, hot_left(s->head.hot), s->wanted + s->n_async, taken(s),
                  now_us);
    if (n == 0)
        return;
    a = ask_new(s, s->name, n);
    if (a == NULL) {
        cache_failed(&s->cache);
        seq_fault(s, HILO_ENOMEM, now_us + NO_MEMORY_US, "out of memory");
        return;
    }
    s->asking = a;
    dispatch_ask(s->h, a);
}

void seq_filled(struct hilo_seq *s, struct run r, int64_t now_us)
{
    s->asking = NULL;
    s->refills++;
    cache_filled(&s->cache, r, now_us);
    if (next_block(s) &&
        hot_set_refill(
            s->head.hot,
            cache_refill_at(&s->cache, hot_left(s->head.hot) + hot_taken(s->head.hot))))
        seq_kick(s);
    pthread_cond_broadcast(&s->arrived);
    seq_turn(s, now_us);
}

void seq_not_filled(struct hilo_seq *s)
{
    s->asking = NULL;
    s->failures++;
    cache_failed(&s->cache);
    seq_kick(s);
}

/* --- callers --- */

void seq_fault(struct hilo_seq *s, int err, int64_t until_us, const char *why)
{
    s->fault = err;
    s->fault_until_us = until_us;
    snprintf(s->fault_why, sizeof s->fault_why, "%s", why);
    handle_say(s->h, "%s", why);
    fail_async(s, err);
    pthread_cond_broadcast(&s->arrived);
}

/* A fault ends by itself when there are ids to keep in stock; otherwise the next caller
 * ends it. */
static int64_t check_fault(struct hilo_seq *s, int64_t now_us)
{
    if (s->fault == 0 || (hot_left(s->head.hot) == 0 && s->cache.n == 0))
        return INT64_MAX;
    if (now_us < s->fault_until_us)
        return s->fault_until_us;
    seq_kick(s);
    return INT64_MAX;
}

int64_t seq_check(struct hilo_seq *s, int64_t now_us)
{
    int64_t next = check_fault(s, now_us);
    struct waiter_queue old = s->async;
    struct waiter *w;

    if (old.head == NULL)
        return next;
    waiter_queue_init(&s->async);
    while (old.head != NULL) {
        w = old.head;
        old.head = w->next;
        if (w->deadline_us > now_us) {
            next = w->deadline_us < next ? w->deadline_us : next;
            waiter_push(&s->async, w);
            continue;
        }
        s->n_async--;
        w->err = dispatch_late(s->h, s, "");
        waiter_push(&s->h->decided, w);
    }
    return next;
}

/* Locked. A fault is told as long as it lasts; afterwards the servers are asked again.
 */
static int wait_for_ids(struct hilo_seq *s, uint32_t n, int64_t deadline_us,
                        struct run *ret)
{
    bool waited = false;

    for (;;) {
        int64_t now_us = steady_us();
        struct timespec until = steady_timespec(deadline_us);

        if (s->closed)
            return HILO_ECLOSED;
        if (take_locked(s, n, ret))
            return 0;
        if (s->fault != 0 && now_us < s->fault_until_us) {
            handle_say(s->h, "%s", s->fault_why);
            return s->fault;
        }
        cache_ran_dry(&s->cache);
        seq_kick(s);
        atomic_store(&s->dry, true);
        if (deadline_us == 0)
            return HILO_EAGAIN;
        if (!s->h->own_base) {
            handle_say(s->h,
                       "%s: no id is in hand, and a handle in an event_base of yours "
                       "doesn't wait: use hilo_try_next or hilo_next_async",
                       s->name);
            return HILO_EARG;
        }
        if (now_us >= deadline_us)
            return dispatch_late(s->h, s, "");
        s->waits += !waited;
        waited = true;
        s->waiting++;
        s->wanted += n;
        pthread_cond_timedwait(&s->arrived, &s->h->lock, &until);
        s->wanted -= n;
        s->waiting--;
    }
}

void seq_left(struct hilo_seq *s)
{
    if (s->closed && s->waiting == 0)
        pthread_cond_broadcast(&s->arrived);
}

int seq_take(struct hilo_seq *s, uint32_t n, int64_t deadline_us, struct run *ret)
{
    struct hilo *h = s->h;
    int rc;

    if (!hot_is_ours(s->head.hot, s->pid))
        return HILO_EFORK;
    if (deadline_us != 0) {
        pthread_mutex_lock(&h->lock);
    } else if (pthread_mutex_trylock(&h->lock) != 0) {
        if (atomic_load(&s->dry))
            return HILO_EAGAIN; /* the loop needs the lock more, to end that */
        pthread_mutex_lock(&h->lock);
    }
    rc = wait_for_ids(s, n, deadline_us, ret);
    seq_left(s);
    pthread_mutex_unlock(&h->lock);
    return rc;
}

/* --- begin and end --- */

static void seq_free(struct hilo_seq *s)
{
    local_release(s->head.row);
    pthread_cond_destroy(&s->arrived);
    hot_free(s->head.hot);
    free(s);
}

struct hilo_seq *seq_new(struct hilo *h, const char *name, const hilo_seq_options *o)
{
    struct cache_limits limits = {.block_min = o->block_min,
                                  .block_max = o->block_max,
                                  .hold_ms = o->hold_ms,
                                  .on_demand = o->on_demand == 1};
    struct hilo_seq *s = calloc(1, sizeof *s);
    pthread_condattr_t attr;

    if (s == NULL)
        return NULL;
    s->head.hot = hot_new(&s->pid);
    if (s->head.hot == NULL) {
        free(s);
        return NULL;
    }
    s->h = h;
    memcpy(s->name, name, strlen(name) + 1);
    s->timeout_us =
        (int64_t)(o->timeout_ms != 0 ? o->timeout_ms : h->timeout_ms) * 1000;
    s->head.serial = s->head.hot->serial;
    s->head.row = o->local_ids > 0 && s->pid == 0 ? local_reserve() : LOCAL_NONE;
    s->local_ids = s->head.row != LOCAL_NONE ? o->local_ids : 0;
    s->head.way = s->pid != 0        ? HILO_WAY_CAREFUL_
                  : s->local_ids > 0 ? HILO_WAY_LOCAL_
                                     : HILO_WAY_SHARED_;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->arrived, &attr);
    pthread_condattr_destroy(&attr);
    cache_init(&s->cache, &limits);
    waiter_queue_init(&s->async);
    pthread_mutex_lock(&h->lock);
    s->seen = seen_of(&h->seen, name);
    if (s->seen != NULL) {
        s->next = h->seqs;
        h->seqs = s;
    }
    pthread_mutex_unlock(&h->lock);
    if (s->seen != NULL)
        return s;
    seq_free(s);
    return NULL;
}

/* Out of the list of those that were kicked; the others go back to it. */
static void unkick(struct hilo_seq *s)
{
    struct hilo_seq *list = atomic_exchange(&s->h->kicked, NULL), *t;

    while ((t = list) != NULL) {
        list = t->next_kicked;
        atomic_store(&t->kicked, false);
        if (t != s)
            seq_kick(t);
    }
}

void seq_end(struct hilo_seq *s)
{
    struct hilo_seq **at = &s->h->seqs;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    s->closed = true;
    fail_async(s, HILO_ECLOSED);
    if (s->asking != NULL)
        dispatch_forget(s->h, s->asking);
    while (s->waiting > 0) {
        pthread_cond_broadcast(&s->arrived);
        pthread_cond_wait(&s->arrived, &s->h->lock);
    }
    unkick(s);
    seq_free(s);
}
