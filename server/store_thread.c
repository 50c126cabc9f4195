/* store_thread.c - the store thread. */
#include "store_thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "clock.h"

struct store_thread {
    pthread_t thread;
    const struct store_engine *engine;
    struct store *store;
    int fd;    /* eventfd: batches that came back */
    bool busy; /* the loop's */
    struct store_batch batch;
    sem_t posted; /* counts batches on their way; hands batch and stop over */
    bool stop;
};

struct store_op *store_batch_add(struct store_batch *b)
{
    if (b->n == b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 16;
        struct store_op *ops = realloc(b->ops, cap * sizeof *ops);

        if (ops == NULL)
            return NULL;
        b->ops = ops;
        b->cap = cap;
    }
    b->ops[b->n] = (struct store_op){0};
    return &b->ops[b->n++];
}

void store_batch_clear(struct store_batch *b)
{
    b->n = 0;
}

void store_batch_free(struct store_batch *b)
{
    free(b->ops);
    *b = (struct store_batch){0};
}

/* True with a batch to commit, false at the end. */
static bool next_batch(struct store_thread *t)
{
    while (sem_wait(&t->posted) != 0)
        ; /* a debugger's signal */
    return !t->stop;
}

static void *run(void *arg)
{
    struct store_thread *t = arg;
    struct store_batch *b = &t->batch;
    uint64_t one = 1;

    while (next_batch(t)) {
        int64_t begin = clock_steady_us();

        b->outcome = t->engine->commit(t->store, b->ops, b->n, &b->error);
        b->commit_us = clock_steady_us() - begin;
        t->engine->stats(t->store, &b->stats);
        /* An eventfd refuses only when its counter is full, which one batch can't do.
         */
        while (write(t->fd, &one, sizeof one) < 0 && errno == EINTR)
            ;
    }
    return NULL;
}

struct store_thread *store_thread_start(const struct store_engine *engine,
                                        struct store *s)
{
    struct store_thread *t = calloc(1, sizeof *t);
    sigset_t all, before;
    int rc;

    if (t == NULL)
        return NULL;
    t->engine = engine;
    t->store = s;
    t->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->fd < 0) {
        free(t);
        return NULL;
    }
    sem_init(&t->posted, 0, 0);
    /* Signals are the loop's; a sync must not be interrupted by one. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&t->thread, NULL, run, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        sem_destroy(&t->posted);
        close(t->fd);
        free(t);
        errno = rc;
        return NULL;
    }
    return t;
}

int store_thread_fd(const struct store_thread *t)
{
    return t->fd;
}

bool store_thread_busy(const struct store_thread *t)
{
    return t->busy;
}

void store_thread_post(struct store_thread *t, struct store_batch *b)
{
    struct store_batch empty = t->batch;

    t->batch = *b;
    *b = empty;
    store_batch_clear(b);
    t->busy = true;
    sem_post(&t->posted);
}

struct store_batch *store_thread_collect(struct store_thread *t)
{
    uint64_t n;

    if (!t->busy || read(t->fd, &n, sizeof n) != (ssize_t)sizeof n)
        return NULL;
    t->busy = false;
    return &t->batch;
}

struct store_batch *store_thread_wait(struct store_thread *t, int timeout_ms)
{
    int64_t end = clock_steady_ms() + timeout_ms, left = timeout_ms;
    struct pollfd p = {.fd = t->fd, .events = POLLIN};
    struct store_batch *b;

    while ((b = store_thread_collect(t)) == NULL && left > 0) {
        poll(&p, 1, (int)left);
        left = end - clock_steady_ms();
    }
    return b;
}

void store_thread_stop(struct store_thread *t)
{
    t->stop = true;
    sem_post(&t->posted);
    pthread_join(t->thread, NULL);
    sem_destroy(&t->posted);
    close(t->fd);
    store_batch_free(&t->batch);
    free(t);
}
