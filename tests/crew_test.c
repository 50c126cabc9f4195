/* crew_test.c - two threads, one loop: who has it when, and that nobody ever shares it.
 */
#include "crew.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
/* After the four above, which it needs. */
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>

/* What belongs to the loop: plain memory, so that a sanitizer sees two threads at it.
 */
struct world {
    struct crew *crew;
    struct guard guard;
    struct store_batch batch;
    struct store_op op;
    pthread_t first;
    uint64_t turns[2]; /* of the first thread, of the second one */
    uint64_t left;     /* commits to make */
    bool busy;
    void (*second_fn)(struct world *w);
};

/* A store whose commits can be held up. */
static sem_t held;
static bool hold; /* for the whole of a test */
static uint64_t commits;

static enum store_outcome commit(struct store *s, struct store_op *ops, size_t n,
                                 struct store_error *ret_error)
{
    (void)s, (void)ops, (void)n, (void)ret_error;
    if (hold)
        sem_wait(&held);
    commits++;
    return STORE_DONE;
}

static void stats(const struct store *s, struct store_stats *ret)
{
    (void)s;
    *ret = (struct store_stats){.commits = commits};
}

static const struct store_engine engine = {.commit = commit, .stats = stats};

static void run_second(void *arg)
{
    struct world *w = arg;

    w->second_fn(w);
}

static struct world begin(void (*second_fn)(struct world *w))
{
    hold = false;
    commits = 0;
    sem_init(&held, 0, 0);
    return (struct world){.first = pthread_self(), .second_fn = second_fn};
}

static void start(struct world *w)
{
    w->batch = (struct store_batch){.ops = &w->op, .n = 1, .cap = 1};
    w->guard = (struct guard){.engine = &engine};
    w->crew = crew_new(&w->guard, run_second, w);
    assert_non_null(w->crew);
}

static bool is_readable(const struct crew *c, int timeout_ms)
{
    struct pollfd p = {.fd = crew_fd(c), .events = POLLIN};

    return poll(&p, 1, timeout_ms) == 1;
}

static void give_back(struct world *w)
{
    assert_false(pthread_equal(pthread_self(), w->first));
    w->turns[1]++;
    crew_hand_over(w->crew);
}

static void test_stays(void **state)
{
    struct world w = begin(give_back);

    (void)state;
    start(&w);
    for (unsigned i = 0; i < 100; i++)
        if (!crew_commit(w.crew, &w.batch, true)) { /* a machine that is that slow */
            assert_true(crew_stand_by(w.crew));
            crew_fd_read(w.crew);
        }
    assert_int_equal(commits, 100);
    assert_int_equal(w.batch.outcome, STORE_DONE);
    assert_int_equal(w.batch.stats.commits, 100);
    assert_false(is_readable(w.crew, 0));
    crew_end(w.crew);
}

/* The commit ends only because the second thread has got the loop meanwhile. */
static void let_go_on(struct world *w)
{
    w->turns[1]++;
    assert_false(is_readable(w->crew, 0));
    sem_post(&held);
    assert_true(is_readable(w->crew, 60000));
    crew_hand_over(w->crew);
}

static void test_hands_over_at_once(void **state)
{
    struct world w = begin(let_go_on);

    (void)state;
    hold = true;
    start(&w);
    for (unsigned i = 1; i <= 5; i++) {
        assert_false(crew_commit(w.crew, &w.batch, false));
        assert_true(crew_stand_by(w.crew));
        assert_int_equal(w.turns[1], i);
        assert_true(is_readable(w.crew, 0));
        crew_fd_read(w.crew);
        assert_false(is_readable(w.crew, 0));
    }
    crew_end(w.crew);
}

static void test_a_stall_loses_the_loop(void **state)
{
    struct world w = begin(let_go_on);
    const struct timespec quiet = {.tv_nsec = 100000000};

    (void)state;
    hold = true;
    start(&w);
    for (unsigned i = 1; i <= 5; i++) {
        if (i == 5)
            nanosleep(&quiet, NULL); /* the second one sleeps by now: it is woken */
        assert_false(crew_commit(w.crew, &w.batch, true));
        assert_true(crew_stand_by(w.crew));
        crew_fd_read(w.crew);
        assert_int_equal(w.turns[1], i);
    }
    crew_end(w.crew);
}

/* False when the loop is lost. */
static bool work(struct world *w)
{
    unsigned me = pthread_equal(pthread_self(), w->first) ? 0 : 1;

    while (w->busy || w->left > 0) {
        w->turns[me]++;
        if (w->busy) {
            assert_true(is_readable(w->crew, 60000));
            crew_fd_read(w->crew);
            w->busy = false;
            continue;
        }
        w->left--;
        w->busy = true;
        if (!crew_commit(w->crew, &w->batch, w->left % 3 != 0))
            return false;
        w->busy = false;
    }
    return true;
}

static void work_second(struct world *w)
{
    if (work(w))
        crew_hand_over(w->crew);
}

static void test_nobody_shares_the_loop(void **state)
{
    struct world w = begin(work_second);

    (void)state;
    w.left = 20000;
    start(&w);
    while (!work(&w))
        assert_true(crew_stand_by(w.crew));
    assert_int_equal(commits, 20000);
    assert_true(w.turns[0] > 0 && w.turns[1] > 0);
    crew_end(w.crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stays),
        cmocka_unit_test(test_hands_over_at_once),
        cmocka_unit_test(test_a_stall_loses_the_loop),
        cmocka_unit_test(test_nobody_shares_the_loop),
    };

    return cmocka_run_group_tests_name("crew", tests, NULL, NULL);
}
