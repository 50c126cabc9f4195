/* cache_test.c - the client's cache of blocks: sizes, refill points, one request at a
 * time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "cache.h"

#define MS 1000 /* in microseconds */

static const struct cache_limits limits = {
    .block_min = 100, .block_max = 1000000, .hold_ms = 0};

static struct run block(uint64_t first, uint64_t count)
{
    return (struct run){.first = first, .last = first + count - 1, .step = 1};
}

static void test_the_first_request_is_the_least_block(void **state)
{
    struct cache c;
    struct run r;

    (void)state;
    cache_init(&c, &limits);
    assert_int_equal(cache_ask(&c, 0, 1, 0, 1000 * MS), 100);
    assert_int_equal(cache_ask(&c, 0, 1000, 0, 1001 * MS), 0); /* one at a time */
    cache_filled(&c, block(1, 100), 1001 * MS);
    assert_true(cache_pop(&c, &r));
    assert_int_equal(r.first, 1);
    assert_false(cache_pop(&c, &r));
    assert_int_equal(cache_ask(&c, 99, 0, 1, 1002 * MS), 0);
}

static void test_it_asks_for_as_many_as_wait(void **state)
{
    struct cache c;

    (void)state;
    cache_init(&c, &limits);
    assert_int_equal(cache_ask(&c, 0, 1000, 0, 1000 * MS), 1000);
    cache_failed(&c);
    assert_int_equal(cache_ask(&c, 0, 5000000, 0, 1001 * MS), 1000000);
    cache_failed(&c);
    /* Those for whom there are ids already don't count. */
    assert_int_equal(cache_ask(&c, 60, 60, 0, 1001 * MS), 0);
    assert_int_not_equal(cache_ask(&c, 60, 61, 0, 1001 * MS), 0);
}

static void test_half_a_block_is_the_refill_point_without_demand(void **state)
{
    struct cache c;

    (void)state;
    cache_init(&c, &limits);
    assert_int_equal(cache_refill_at(&c, 100), 50);
    assert_int_equal(cache_refill_at(&c, 40), 0);
    cache_ask(&c, 0, 1, 0, 1000 * MS);
    cache_filled(&c, block(1, 100), 1000 * MS);
    assert_int_equal(cache_refill_at(&c, 100), 100); /* enough in the queue: never */
}

static void test_hunger_grows_blocks_eightfold_up_to_the_bound(void **state)
{
    struct cache c;
    uint64_t n, last = 0, at = 1;

    (void)state;
    cache_init(&c, &limits);
    for (int i = 0; i < 12; i++) {
        struct run r;

        cache_ran_dry(&c);
        n = cache_ask(&c, 0, 1, at - 1, (1000 + i) * MS);
        assert_true(n <= limits.block_max);
        assert_true(last == 0 || n == last * CACHE_GROWTH || n == limits.block_max);
        cache_filled(&c, block(at, n), (1000 + i) * MS + 50);
        assert_true(cache_pop(&c, &r));
        at += n;
        last = n;
    }
    assert_int_equal(last, limits.block_max);
}

/* Ids at a steady rate: a block a second, and the stock lasts for hold_ms. */
static void steady(uint64_t per_ms, uint64_t hold_ms, struct cache *c, uint64_t *stock)
{
    struct cache_limits l = {
        .block_min = 10, .block_max = 10000000, .hold_ms = hold_ms};
    uint64_t taken = 0, at = 1, n, have = 0;

    cache_init(c, &l);
    for (int64_t ms = 1000; ms < 120000; ms++) {
        uint64_t want = per_ms;
        struct run r;

        while (have < want && cache_pop(c, &r))
            have += run_count(r);
        if (have < want)
            cache_ran_dry(c);
        else
            have -= want, taken += want;
        while ((n = cache_ask(c, have, have < want ? want : 0, taken, ms * MS)) > 0) {
            cache_filled(c, block(at, n), ms * MS + 100);
            at += n;
        }
    }
    *stock = have + c->queued;
}

static void test_demand_makes_the_block_and_the_stock(void **state)
{
    struct cache c;
    uint64_t stock;

    (void)state;
    steady(10, 0, &c, &stock);
    assert_true(c.rate > 9 && c.rate < 11);
    assert_true(c.block >= 5000 && c.block <= 20000);
    assert_true(stock < 40000);
    steady(10, 20000, &c, &stock);
    assert_true(stock >= 200000 && stock <= 400000);
    steady(1000, 60000, &c, &stock);
    assert_true(stock >= 60000000);
}

static void test_blocks_shrink_when_demand_falls(void **state)
{
    struct cache c;
    uint64_t stock, n = 0;
    struct run r;

    (void)state;
    steady(1000, 0, &c, &stock);
    assert_true(c.block >= 500000);
    for (int64_t s = 0; s < 40; s++) { /* an id a minute */
        while (cache_pop(&c, &r))
            ;
        n = cache_ask(&c, 0, 0, c.taken + 1, (120000 + s * 60000) * MS);
        if (n > 0)
            cache_filled(&c, block(1, n), (120000 + s * 60000) * MS);
    }
    assert_int_equal(n, 10);
}

static void test_on_demand_asks_for_nothing_ahead(void **state)
{
    struct cache_limits l = {.block_min = 1, .block_max = 100, .on_demand = true};
    struct cache c;

    (void)state;
    cache_init(&c, &l);
    assert_int_equal(cache_ask(&c, 0, 0, 0, 1000 * MS), 0);
    assert_int_equal(cache_ask(&c, 0, 7, 0, 1000 * MS), 7);
    cache_filled(&c, block(1, 7), 1000 * MS);
    cache_ran_dry(&c);
    assert_int_equal(cache_ask(&c, 0, 7, 0, 1001 * MS), 0);
    assert_int_equal(cache_ask(&c, 0, 9, 0, 1001 * MS), 9);
    cache_failed(&c);
    assert_int_equal(cache_ask(&c, 0, 500, 0, 1001 * MS), 100);
    assert_int_equal(cache_refill_at(&c, 7), 7);
}

/* Against a list: blocks come out in their order, whatever happens, and counts agree.
 */
static void test_the_queue_keeps_order_and_count(void **state)
{
    unsigned seed = (unsigned)(getenv("HILO_SEED") ? atoi(getenv("HILO_SEED")) : 1);
    struct cache c;
    uint64_t at = 1, out = 1, taken = 0;

    (void)state;
    print_message("seed %u (HILO_SEED)\n", seed);
    srandom(seed);
    cache_init(&c, &limits);
    for (int64_t i = 0; i < 200000; i++) {
        uint64_t n;
        struct run r;

        if (random() % 3 == 0 && cache_pop(&c, &r)) {
            assert_int_equal(r.first, out);
            out = r.last + 1;
            taken += run_count(r);
        }
        if (random() % 5 == 0)
            cache_ran_dry(&c);
        n = cache_ask(&c, (uint64_t)random() % 200, (uint64_t)random() % 300, taken,
                      (1000 + i) * MS);
        assert_true(n <= limits.block_max);
        if (n > 0 && random() % 4 == 0) {
            cache_failed(&c);
        } else if (n > 0) {
            n = 1 + (uint64_t)random() % n;
            cache_filled(&c, block(at, n), (1000 + i) * MS);
            at += n;
        }
        assert_int_equal(c.queued, at - out);
        assert_true(c.n <= CACHE_BLOCKS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_request_is_the_least_block),
        cmocka_unit_test(test_it_asks_for_as_many_as_wait),
        cmocka_unit_test(test_half_a_block_is_the_refill_point_without_demand),
        cmocka_unit_test(test_hunger_grows_blocks_eightfold_up_to_the_bound),
        cmocka_unit_test(test_demand_makes_the_block_and_the_stock),
        cmocka_unit_test(test_blocks_shrink_when_demand_falls),
        cmocka_unit_test(test_on_demand_asks_for_nothing_ahead),
        cmocka_unit_test(test_the_queue_keeps_order_and_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
