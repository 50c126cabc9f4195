/* crew.c - two threads that take turns. */
#include "crew.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "clock.h"

/* What has become of the loop: one of these, or since when a commit goes on where the
 * loop is, in microseconds of the steady clock. No two commits have the same. */
enum {
    LOOP_HELD,
    LOOP_FREE,
    LOOP_FOR_FIRST, /* free for the first thread only */
    COMMITTING,
};

#define PATIENCE_US (CREW_PATIENCE_MS * 1000)
#define LOOK_MS     2 /* how often who stands by looks */
#define QUIET_LOOKS 8 /* so many without a commit, and it waits for one */

struct crew {
    pthread_t second;
    struct guard *guard;
    void (*loop_fn)(void *arg);
    void *arg;
    int back;    /* eventfd: a batch came back to a thread that had lost the loop */
    int wake[2]; /* eventfds: for the first thread, standing by, and for the second */
    unsigned holder; /* of the loop: 0 is the first thread; who has it looks at it */
    _Atomic uint64_t state;
    _Atomic uint64_t began; /* the last commit with the loop */
    _Atomic bool asleep;    /* who stands by wants to be woken for a commit */
    _Atomic bool ended;
};

static void ring(int fd)
{
    uint64_t one = 1;

    /* An eventfd refuses only when its counter is full, which takes 2^64 of these. */
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static void hush(int fd)
{
    uint64_t n;

    while (read(fd, &n, sizeof n) < 0 && errno == EINTR)
        ;
}

int crew_fd(const struct crew *c)
{
    return c->back;
}

void crew_fd_read(struct crew *c)
{
    hush(c->back);
}

/* --- standing by --- */

/* Until the next look: a while, or, where there have been no commits for long, until
 * there is one after the one seen. */
static void rest(struct crew *c, unsigned me, bool for_long, uint64_t seen)
{
    struct pollfd p = {.fd = c->wake[me], .events = POLLIN};

    if (for_long) {
        c->asleep = true;
        if (c->began != seen)
            for_long = false;
    }
    poll(&p, 1, for_long ? -1 : LOOK_MS);
    c->asleep = false;
    if (p.revents != 0)
        hush(c->wake[me]);
}

static bool is_free(uint64_t state, unsigned me)
{
    return state == LOOP_FREE || (state == LOOP_FOR_FIRST && me == 0) ||
           (state >= COMMITTING && (uint64_t)clock_steady_us() >= state + PATIENCE_US);
}

static bool stand_by(struct crew *c, unsigned me)
{
    uint64_t last = c->began;
    unsigned quiet = 0;

    while (me == 0 || !c->ended) {
        uint64_t state = c->state, began = c->began;

        if (is_free(state, me)) {
            if (!atomic_compare_exchange_strong(&c->state, &state, LOOP_HELD))
                continue;
            c->holder = me;
            return true;
        }
        quiet = began == last ? quiet + 1 : 0;
        last = began;
        rest(c, me, quiet >= QUIET_LOOKS && state < COMMITTING, began);
    }
    return false;
}

bool crew_stand_by(struct crew *c)
{
    return stand_by(c, 0);
}

/* --- with the loop --- */

static void let_go(struct crew *c, uint64_t to)
{
    int other = c->wake[1 - c->holder];

    c->state = to;
    ring(other);
}

void crew_hand_over(struct crew *c)
{
    let_go(c, LOOP_FOR_FIRST);
}

bool crew_commit(struct crew *c, struct store_batch *b, bool stay)
{
    uint64_t mine = (uint64_t)clock_steady_us(), last = c->began;
    int other = c->wake[1 - c->holder];

    if (mine <= last)
        mine = last + 1;
    if (stay) {
        c->state = mine;
        c->began = mine;
        if (c->asleep)
            ring(other);
    } else {
        let_go(c, LOOP_FREE);
    }
    guard_commit(c->guard, b);
    if (stay && atomic_compare_exchange_strong(&c->state, &mine, LOOP_HELD))
        return true;
    ring(c->back);
    return false;
}

/* --- life --- */

static void *second(void *arg)
{
    struct crew *c = arg;

    while (stand_by(c, 1))
        c->loop_fn(c->arg);
    return NULL;
}

static int start_second(struct crew *c)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&c->second, NULL, second, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static void free_crew(struct crew *c)
{
    if (c->back >= 0)
        close(c->back);
    for (unsigned i = 0; i < 2; i++)
        if (c->wake[i] >= 0)
            close(c->wake[i]);
    free(c);
}

struct crew *crew_new(struct guard *g, void (*loop_fn)(void *arg), void *arg)
{
    struct crew *c = calloc(1, sizeof *c);
    int rc;

    if (c == NULL)
        return NULL;
    c->guard = g;
    c->loop_fn = loop_fn;
    c->arg = arg;
    c->back = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->wake[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->wake[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = c->back < 0 || c->wake[0] < 0 || c->wake[1] < 0 ? errno : start_second(c);
    if (rc != 0) {
        free_crew(c);
        errno = rc;
        return NULL;
    }
    return c;
}

void crew_end(struct crew *c)
{
    c->ended = true;
    ring(c->wake[1]);
    pthread_join(c->second, NULL);
    free_crew(c);
}
