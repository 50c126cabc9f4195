/* callbacks.c - callbacks of libhilo that close what they came from, in a loop of
 * the caller's and in the library's thread. HILO_STUB names a server, whose sequence
 * "slow" answers late and "gone" is unknown. */
#define HILO_NO_INLINE  /* the functions themselves; tests/driver.c has what is inlined \
                         */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "hilo.h"

enum act { NOTHING, SHUT_SEQ, CLOSE_HANDLE, ASK_AGAIN, BREAK_LOOP };

struct scene {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    hilo *h;
    hilo_seq *s;
    struct event_base *base;
    enum act act;
    int act_at; /* in this completion, from 1 */
    bool asked; /* the last request was made, and its call is over */
    int begun;  /* completions; only their thread looks */
    int done;
    int ok;
    int last_err;
    int want;
};

/* The scene may be over as soon as the last completion is counted, so that comes last.
 */
static void on_id(void *arg, uint64_t id, int err)
{
    struct scene *k = arg;
    bool now = ++k->begun == k->act_at;

    /* Nothing may be closed while another thread is at work with it. */
    pthread_mutex_lock(&k->lock);
    while (!k->asked)
        pthread_cond_wait(&k->changed, &k->lock);
    pthread_mutex_unlock(&k->lock);
    if (err == 0 ? id == 0 : id != 0)
        abort();
    if (now && k->act == SHUT_SEQ)
        hilo_seq_close(k->s);
    if (now && k->act == CLOSE_HANDLE)
        hilo_close(k->h);
    if (now && k->act == ASK_AGAIN && hilo_next_async(k->s, on_id, k) != 0)
        abort();
    if (k->base != NULL && (k->begun >= k->want || (now && k->act == BREAK_LOOP)))
        event_base_loopbreak(k->base);
    pthread_mutex_lock(&k->lock);
    k->done++;
    k->ok += err == 0;
    k->last_err = err;
    pthread_cond_signal(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

static void begin_patiently(struct scene *k, const char *servers, const char *name,
                            int want, unsigned timeout_ms)
{
    hilo_options o;
    char text[256] = "";

    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->changed, NULL);
    k->want = want;
    hilo_options_init(&o);
    o.servers = servers;
    o.timeout_ms = timeout_ms;
    o.request_ms = timeout_ms / 2;
    o.base = k->base;
    if (hilo_open(&o, text, sizeof text, &k->h) != 0)
        fail_msg("%s", text);
    assert_int_equal(hilo_seq_open(k->h, name, NULL, &k->s), 0);
}

static void begin(struct scene *k, const char *servers, const char *name, int want)
{
    begin_patiently(k, servers, name, want, 120);
}

static void wait_done(struct scene *k, int n)
{
    if (k->base != NULL) {
        while (k->done < n)
            event_base_loop(k->base, EVLOOP_ONCE);
        return;
    }
    pthread_mutex_lock(&k->lock);
    while (k->done < n)
        pthread_cond_wait(&k->changed, &k->lock);
    pthread_mutex_unlock(&k->lock);
}

static void ask(struct scene *k, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(hilo_next_async(k->s, on_id, k), 0);
    pthread_mutex_lock(&k->lock);
    k->asked = true;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

/* Every act, at the first, a middle and the last completion; with ids, with errors,
 * with nobody there. Each request gets exactly one completion. */
static void all_acts(bool own_base, const char *servers, const char *name)
{
    for (enum act act = NOTHING; act <= ASK_AGAIN; act++) {
        for (int at = 1; at <= 3; at++) {
            struct scene k = {.act = act, .act_at = at};
            int n = 3 + (act == ASK_AGAIN);

            k.base = own_base ? event_base_new() : NULL;
            begin(&k, servers, name, n);
            ask(&k, 3);
            wait_done(&k, n);
            assert_int_equal(k.done, n);
            if (act != CLOSE_HANDLE)
                hilo_close(k.h);
            assert_int_equal(k.done, n);
            if (k.base != NULL)
                event_base_free(k.base);
        }
    }
}

static void acts(bool own_base)
{
    const char *stub = getenv("HILO_STUB");

    all_acts(own_base, stub, "orders");
    all_acts(own_base, stub, "gone");
    all_acts(own_base, stub, "slow");
    all_acts(own_base, "127.0.0.1:1", "orders"); /* refused */
}

static void test_in_a_loop_of_ours(void **state)
{
    (void)state;
    acts(true);
}

static void test_in_the_librarys_thread(void **state)
{
    (void)state;
    acts(false);
}

static void test_closing_with_requests_pending(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        struct scene k = {.act = NOTHING};

        k.base = own ? event_base_new() : NULL;
        begin(&k, getenv("HILO_STUB"), "slow", 3);
        ask(&k, 3);
        hilo_close(k.h); /* the loop has not run, or is in the middle of it */
        assert_int_equal(k.done, 3);
        assert_int_equal(k.ok, 0);
        assert_int_equal(k.last_err, HILO_ECLOSED);
        if (k.base != NULL)
            event_base_free(k.base);
    }
}

static void test_a_loop_that_was_stopped(void **state)
{
    struct scene k = {.act = BREAK_LOOP, .act_at = 1};

    (void)state;
    k.base = event_base_new();
    begin(&k, getenv("HILO_STUB"), "orders", 100);
    ask(&k, 3);
    event_base_dispatch(k.base);
    assert_true(k.done >= 1);
    hilo_close(k.h);
    assert_int_equal(k.done, 3);
    event_base_free(k.base);
}

static void test_what_would_wait_is_refused_in_a_loop_of_ours(void **state)
{
    struct scene k = {.act = NOTHING};
    char text[256];
    uint64_t id;
    hilo_run r;

    (void)state;
    k.base = event_base_new();
    begin(&k, getenv("HILO_STUB"), "orders", 1);
    assert_int_equal(hilo_next(k.s, &id), HILO_EARG);
    hilo_errmsg(k.h, text, sizeof text);
    assert_non_null(strstr(text, "hilo_try_next"));
    assert_int_equal(hilo_block(k.s, 1, NULL, &r), HILO_EARG);
    assert_int_equal(hilo_try_next(k.s, &id), HILO_EAGAIN);
    ask(&k, 1);
    wait_done(&k, 1);
    assert_int_equal(k.ok, 1);
    assert_int_equal(hilo_next(k.s, &id), 0); /* in hand */
    assert_int_equal(hilo_try_next(k.s, &id), 0);
    hilo_close(k.h);
    event_base_free(k.base);
}

/* A program that forks with its loop set up: the child's loop, made anew, must not take
 * what its copy of the handle holds. */
static void test_a_loop_in_a_forked_child(void **state)
{
    struct scene k = {.act = NOTHING};
    uint64_t id;
    int status;
    pid_t pid;

    (void)state;
    k.base = event_base_new();
    begin_patiently(&k, getenv("HILO_STUB"), "orders", 1, 20000);
    ask(&k, 1);
    wait_done(&k, 1);
    for (int i = 0; i < 60; i++) /* past the refill point: a second block comes */
        assert_int_equal(hilo_next(k.s, &id), 0);
    for (int i = 0; i < 20; i++) {
        event_base_loop(k.base, EVLOOP_NONBLOCK);
        usleep(1000);
    }
    ask(&k, 2);
    pid = fork();
    if (pid == 0) {
        event_reinit(k.base);
        for (int i = 0; i < 20; i++)
            event_base_loop(k.base, EVLOOP_NONBLOCK);
        _exit(k.done != 1 || hilo_try_next(k.s, &id) != HILO_EFORK ||
              hilo_next_async(k.s, on_id, &k) != HILO_EFORK);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    wait_done(&k, 3);
    assert_int_equal(k.ok, 3);
    hilo_close(k.h);
    event_base_free(k.base);
}

static void *one_more(void *arg)
{
    uint64_t id;

    return (void *)(intptr_t)hilo_next(arg, &id);
}

static void test_callers_that_wait_are_told_of_the_end(void **state)
{
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        struct scene k = {.act = NOTHING};
        struct timespec pause = {.tv_nsec = 1000000}; /* between looks */
        hilo_seq_stats st = {.size = sizeof st};
        pthread_t t;
        void *rc;

        begin_patiently(&k, getenv("HILO_STUB"), "slow", 0, 60000);
        pthread_create(&t, NULL, one_more, k.s);
        while (st.waits == 0) {
            nanosleep(&pause, NULL);
            hilo_stats(k.s, &st);
        }
        if (whole)
            hilo_close(k.h);
        else
            hilo_seq_close(k.s);
        pthread_join(t, &rc);
        assert_int_equal((int)(intptr_t)rc, HILO_ECLOSED);
        if (!whole)
            hilo_close(k.h);
    }
}

static void test_arguments(void **state)
{
    struct scene k = {.act = NOTHING};
    hilo_options o = {.size = 3};
    hilo_seq_options so = {.size = sizeof so + 8};
    hilo_seq_stats st = {.size = 0};
    uint64_t id;
    hilo_run r;
    hilo *h;
    hilo_seq *s;

    (void)state;
    assert_int_equal(hilo_open(&o, NULL, 0, &h), HILO_EARG);
    assert_int_equal(hilo_open(NULL, NULL, 0, NULL), HILO_EARG);
    begin(&k, getenv("HILO_STUB"), "orders", 0);
    assert_int_equal(hilo_seq_open(k.h, "x", &so, &s), HILO_EARG);
    assert_int_equal(hilo_seq_open(k.h, NULL, NULL, &s), HILO_EARG);
    assert_int_equal(hilo_seq_open(NULL, "x", NULL, &s), HILO_EARG);
    assert_int_equal(hilo_next(NULL, &id), HILO_EARG);
    assert_int_equal(hilo_next(k.s, NULL), HILO_EARG);
    assert_int_equal(hilo_try_next(NULL, &id), HILO_EARG);
    assert_int_equal(hilo_next_many(k.s, 0, &id), HILO_EARG);
    assert_int_equal(hilo_next_many(k.s, 1, NULL), HILO_EARG);
    assert_int_equal(hilo_block(k.s, 0, NULL, &r), HILO_EARG);
    assert_int_equal(hilo_block(k.s, 1, "", &r), HILO_EARG);
    assert_int_equal(hilo_block(k.s, 1, "a b", &r), HILO_EARG);
    assert_int_equal(hilo_block(k.s, 1, NULL, NULL), HILO_EARG);
    assert_int_equal(hilo_next_async(k.s, NULL, NULL), HILO_EARG);
    assert_int_equal(hilo_stats(k.s, &st), HILO_EARG);
    hilo_close(NULL);
    hilo_seq_close(NULL);
    for (int err = 0; err > -40; err--)
        assert_non_null(hilo_strerror(err));
    hilo_close(k.h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_a_loop_of_ours),
        cmocka_unit_test(test_in_the_librarys_thread),
        cmocka_unit_test(test_closing_with_requests_pending),
        cmocka_unit_test(test_a_loop_that_was_stopped),
        cmocka_unit_test(test_what_would_wait_is_refused_in_a_loop_of_ours),
        cmocka_unit_test(test_a_loop_in_a_forked_child),
        cmocka_unit_test(test_callers_that_wait_are_told_of_the_end),
        cmocka_unit_test(test_arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
