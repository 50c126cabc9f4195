/* hot_test.c - threads take ids out of blocks that change under them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include "hot.h"

#define THREADS 4
#define IDS     100000 /* all threads together */

struct world {
    struct hilo_hot_ *hot;
    pthread_mutex_t lock;
    uint64_t next;      /* first id not yet published; guarded by the lock */
    unsigned seed;      /* of block sizes; guarded by the lock */
    unsigned char *got; /* how often each id was had */
    _Atomic uint64_t refills, published;
};

struct taker {
    pthread_t thread;
    struct world *w;
    unsigned seed;
};

static void use(struct world *w, struct run r)
{
    for (uint64_t id = r.first; id <= r.last; id += r.step)
        __atomic_fetch_add(&w->got[id], 1, __ATOMIC_RELAXED);
}

/* The slow way of a taker: false when all ids are published and taken. */
static bool next_block(struct world *w)
{
    bool more = true;

    pthread_mutex_lock(&w->lock);
    if (hot_left(w->hot) == 0 && w->next <= IDS) {
        uint64_t n = 1 + (uint64_t)rand_r(&w->seed) % 40, step = 1 + (n & 1);
        uint64_t last = w->next + (n - 1) * step;
        struct run r = {.first = w->next, .last = last, .step = step};

        if (last <= IDS) {
            hot_publish(w->hot, r, n / 2);
            w->published++;
        }
        w->next = last + 1;
    } else if (hot_left(w->hot) == 0) {
        hot_settle(w->hot);
        more = false;
    }
    pthread_mutex_unlock(&w->lock);
    return more;
}

static void *take(void *arg)
{
    struct taker *t = arg;
    enum hilo_take_ got;
    struct run r;

    do {
        if (rand_r(&t->seed) % 8 == 0) {
            got = hot_take_run(t->w->hot, 1 + (uint32_t)rand_r(&t->seed) % 5, &r);
        } else {
            r.step = 1;
            got = hilo_take_hot_(t->w->hot, &r.first);
            r.last = r.first;
        }
        if (got != HILO_EMPTY_)
            use(t->w, r);
        t->w->refills += got == HILO_TAKEN_REFILL_;
    } while (got != HILO_EMPTY_ || next_block(t->w));
    return NULL;
}

static void test_no_id_comes_twice(void **state)
{
    unsigned seed = (unsigned)(getenv("HILO_SEED") ? atoi(getenv("HILO_SEED")) : 1);
    struct world w = {.next = 1, .seed = seed, .got = calloc(IDS + 100, 1)};
    struct taker t[THREADS];
    uint64_t had = 0;
    int32_t pid;

    (void)state;
    print_message("seed %u (HILO_SEED)\n", seed);
    w.hot = hot_new(&pid);
    assert_true(hot_is_ours(w.hot, pid));
    pthread_mutex_init(&w.lock, NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        t[i] = (struct taker){.w = &w, .seed = seed + i};
        pthread_create(&t[i].thread, NULL, take, &t[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(t[i].thread, NULL);
    for (size_t id = 0; id < IDS + 100; id++) {
        assert_true(w.got[id] <= 1);
        had += w.got[id];
    }
    /* Numbers are burnt only where a thread slept through two blocks. */
    assert_true(had > IDS / 2);
    assert_true(w.refills > 0 && w.refills <= w.published);
    hot_free(w.hot);
    free(w.got);
}

/* Whoever finds nothing adds to the cursor; that may not add up to a block. */
static void test_taking_from_nothing(void **state)
{
    struct run block = {.first = 10, .last = 19, .step = 1}, r;
    int32_t pid;
    struct hilo_hot_ *h = hot_new(&pid);
    uint64_t id;

    (void)state;
    assert_int_equal(hilo_take_hot_(h, &id), HILO_EMPTY_);
    assert_int_equal(hot_take_run(h, 5, &r), HILO_EMPTY_);
    hot_settle(h);
    assert_int_equal(h->cursor, 0);
    hot_publish(h, block, 10);
    assert_int_equal(hot_take_run(h, 100, &r), HILO_TAKEN_);
    assert_int_equal(r.last, 19);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(hilo_take_hot_(h, &id), HILO_EMPTY_);
    assert_int_equal(HILO_OFFSET_(h->cursor), 1010);
    hot_settle(h);
    assert_int_equal(HILO_OFFSET_(h->cursor), 10);
    assert_int_equal(hot_taken(h), 10);
    assert_int_equal(hot_left(h), 0);
    hot_free(h);
}

static void test_the_refill_point(void **state)
{
    struct run block = {.first = 1, .last = 19, .step = 2};
    int32_t pid;
    struct hilo_hot_ *h = hot_new(&pid);
    struct run r;
    uint64_t id;

    (void)state;
    hot_publish(h, block, 3);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(hilo_take_hot_(h, &id),
                         i == 3 ? HILO_TAKEN_REFILL_ : HILO_TAKEN_);
        assert_int_equal(id, 1 + 2 * i);
    }
    hot_publish(h, block, 3);
    assert_int_equal(hot_take_run(h, 3, &r), HILO_TAKEN_);
    assert_int_equal(hot_take_run(h, 3, &r), HILO_TAKEN_REFILL_);
    assert_int_equal(r.first, 7);
    assert_int_equal(r.last, 11);
    assert_false(hot_set_refill(h, 8));
    assert_int_equal(hot_take_run(h, 2, &r), HILO_TAKEN_);
    assert_true(hot_set_refill(h, 5)); /* passed already: who set it has to tell */
    hot_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_id_comes_twice),
        cmocka_unit_test(test_taking_from_nothing),
        cmocka_unit_test(test_the_refill_point),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
