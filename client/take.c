/* take.c - the functions that hand out ids. */
#define HILO_NO_INLINE
#include <stdlib.h>
#include "clock.h"
#include "dispatch.h"
#include "hilo.h"
#include "local.h"
#include "seq.h"

static int64_t deadline(const struct hilo_seq *s)
{
    return steady_us() + s->timeout_us;
}

/* --- one: the slow ways --- */

/* The thread used another sequence's row last, or its own ids are used up: then some
 * more out of the block in use. */
static int local_refill(struct hilo_seq *s, int64_t deadline_us, uint64_t *ret_id)
{
    struct hilo_row_ *mine = local_row(s->head.row);
    uint32_t n = mine != NULL ? s->local_ids : 1;
    enum hilo_take_ got;
    struct run r;
    int rc = 0;

    if (hilo_take_(s, ret_id) == HILO_TAKEN_)
        return 0;
    got = hot_take_run(s->head.hot, n, &r);
    if (got == HILO_TAKEN_REFILL_)
        seq_kick(s);
    if (got == HILO_EMPTY_)
        rc = seq_take(s, n, deadline_us, &r);
    if (rc != 0)
        return rc;
    *ret_id = r.first;
    if (mine != NULL)
        *mine = (struct hilo_row_){.serial = s->head.serial,
                                   .next = r.first + r.step,
                                   .end = r.last + r.step,
                                   .step = r.step};
    return 0;
}

/* Nothing where the fast way looked; with local_ids, in the table of this thread. */
static int take_slow(struct hilo_seq *s, int64_t deadline_us, uint64_t *ret_id)
{
    struct run r;
    int rc;

    if (!hot_is_ours(s->head.hot, s->pid))
        return HILO_EFORK;
    if (s->local_ids > 0)
        return local_refill(s, deadline_us, ret_id);
    rc = seq_take(s, 1, deadline_us, &r);
    if (rc == 0)
        *ret_id = r.first;
    return rc;
}

static int __attribute__((noinline)) next_slow(struct hilo_seq *s, uint64_t *ret_id)
{
    return take_slow(s, deadline(s), ret_id);
}

static int __attribute__((noinline)) try_slow(struct hilo_seq *s, uint64_t *ret_id)
{
    return take_slow(s, 0, ret_id);
}

/* --- one --- */

int hilo_refill_(hilo_seq *s)
{
    seq_kick(s);
    return 0;
}

/* The same for those who call us, and for those whose own look found nothing. */
static inline __attribute__((always_inline)) int
take(struct hilo_seq *s, uint64_t *ret_id, int (*slow)(struct hilo_seq *, uint64_t *))
{
    enum hilo_take_ got;

    if (s == NULL || ret_id == NULL)
        return HILO_EARG;
    got = hilo_take_(s, ret_id);
    if (HILO_LIKELY_(got == HILO_TAKEN_))
        return 0;
    return got == HILO_EMPTY_ ? slow(s, ret_id) : hilo_refill_(s);
}

int hilo_next(hilo_seq *s, uint64_t *ret_id)
{
    return take(s, ret_id, next_slow);
}

int hilo_try_next(hilo_seq *s, uint64_t *ret_id)
{
    return take(s, ret_id, try_slow);
}

/* --- many --- */

int hilo_next_many(hilo_seq *s, size_t n, uint64_t *ret_ids)
{
    size_t have = 0;
    int64_t until;
    struct run r;
    enum hilo_take_ got;
    int rc = 0;

    if (s == NULL || ret_ids == NULL || n < 1 || n > HILO_BLOCK_MAX)
        return HILO_EARG;
    if (!hot_is_ours(s->head.hot, s->pid))
        return HILO_EFORK;
    until = deadline(s);
    while (have < n) {
        got = hot_take_run(s->head.hot, (uint32_t)(n - have), &r);
        if (got == HILO_TAKEN_REFILL_)
            seq_kick(s);
        if (got == HILO_EMPTY_)
            rc = seq_take(s, (uint32_t)(n - have), until, &r);
        if (rc != 0)
            return rc;
        for (uint64_t id = r.first;; id += r.step) {
            ret_ids[have++] = id;
            if (id == r.last)
                break;
        }
    }
    return 0;
}

/* --- straight from a server --- */

/* Locked. */
static int wait_for_call(struct hilo_seq *s, struct block_call *call, const char *token)
{
    struct timespec until = steady_timespec(deadline(s));
    int late = 0;

    s->waiting++;
    while (call->ask != NULL && late == 0 && !s->closed)
        late = pthread_cond_timedwait(&s->arrived, &s->h->lock, &until);
    s->waiting--;
    seq_left(s);
    if (call->ask == NULL)
        return call->err;
    dispatch_forget(s->h, call->ask);
    return s->closed ? HILO_ECLOSED : dispatch_late(s->h, s, token);
}

int hilo_block(hilo_seq *s, uint64_t count, const char *token, hilo_run *ret)
{
    struct block_call call = {.err = 0};
    struct ask *a;
    int rc;

    if (s == NULL || ret == NULL || count < 1 || count > HILO_BLOCK_MAX ||
        (token != NULL && !token_valid(token, strlen(token))))
        return HILO_EARG;
    if (!hot_is_ours(s->head.hot, s->pid))
        return HILO_EFORK;
    if (!s->h->own_base)
        return HILO_EARG;
    a = ask_new(s, s->name, count);
    if (a == NULL)
        return HILO_ENOMEM;
    a->exact = true;
    if (token != NULL)
        memcpy(a->token, token, strlen(token) + 1);
    a->call = &call;
    call.ask = a;
    pthread_mutex_lock(&s->h->lock);
    dispatch_ask(s->h, a);
    handle_wake(s->h);
    rc = wait_for_call(s, &call, token != NULL ? token : "");
    pthread_mutex_unlock(&s->h->lock);
    if (rc == 0)
        *ret = call.run;
    return rc;
}

/* --- callbacks --- */

int hilo_next_async(hilo_seq *s, hilo_id_cb cb, void *arg)
{
    struct waiter *w;
    struct hilo *h;

    if (s == NULL || cb == NULL)
        return HILO_EARG;
    if (!hot_is_ours(s->head.hot, s->pid))
        return HILO_EFORK;
    w = calloc(1, sizeof *w);
    if (w == NULL)
        return HILO_ENOMEM;
    w->cb = cb;
    w->arg = arg;
    w->deadline_us = deadline(s);
    h = s->h;
    pthread_mutex_lock(&h->lock);
    waiter_push(&s->async, w);
    s->n_async++;
    seq_kick(s); /* locked: once it is known, its callback may close everything */
    pthread_mutex_unlock(&h->lock);
    return 0;
}
