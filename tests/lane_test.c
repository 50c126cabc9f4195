/* lane_test.c - lanes, positions and runs against a model that walks the ids one by
 * one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lane.h"
#include "number.h"
#include "run.h"

#define IDS 500

/* The one sentence everything follows from. */
static bool model_owns(struct lane l, uint64_t id)
{
    return ((id - 1) / l.stripe) % l.lanes + 1 == l.number;
}

static void check_grid(struct lane l)
{
    uint64_t position = 0; /* of the next id of the lane */

    assert_true(lane_valid(l));
    assert_int_equal(lane_first_above(l, 0), 0);
    for (uint64_t id = 1; id <= IDS; id++) {
        uint64_t at = 0;

        assert_int_equal(lane_owns(l, id), model_owns(l, id));
        if (model_owns(l, id)) {
            assert_true(lane_id_at(l, position, &at));
            assert_int_equal(at, id);
            assert_int_equal(lane_position(l, id), position);
            position++;
        }
        assert_int_equal(lane_first_above(l, id), position);
    }
}

static void test_every_small_grid(void **state)
{
    (void)state;
    for (uint32_t lanes = 1; lanes <= 5; lanes++) {
        for (uint32_t i = 1; i <= lanes; i++) {
            for (uint64_t stripe = 1; stripe <= 7; stripe++)
                check_grid((struct lane){i, lanes, stripe});
        }
    }
}

/* Every run of a small grid: exactly the ids of its positions, within one stripe. */
static void check_runs(struct lane l)
{
    for (uint64_t first = 0; first < 30; first++) {
        for (uint64_t count = 1; count < 12; count++) {
            struct run r = {77, 77, 77};
            uint64_t boundary = lane_boundary(l, first), id = 0;
            bool fits = l.lanes == 1 || l.stripe == 1 ||
                        first / l.stripe == (first + count - 1) / l.stripe;

            assert_true(boundary > first);
            assert_int_equal(first + count <= boundary, fits);
            assert_int_equal(run_at(l, first, count, &r), fits);
            if (!fits) {
                assert_int_equal(r.first, 77);
                continue;
            }
            assert_int_equal(run_count(r), count);
            for (uint64_t p = 0; p < 60; p++) {
                assert_true(lane_id_at(l, p, &id));
                assert_int_equal(run_has(r, id), p >= first && p < first + count);
            }
        }
    }
}

static void test_runs(void **state)
{
    struct run r;

    (void)state;
    for (uint32_t lanes = 1; lanes <= 3; lanes++) {
        for (uint64_t stripe = 1; stripe <= 5; stripe++)
            check_runs((struct lane){lanes, lanes, stripe});
    }
    assert_false(run_at((struct lane){1, 1, 1}, 0, 0, &r));
}

static void test_known_grids(void **state)
{
    static const uint64_t odd[] = {1, 3, 5}, even[] = {2, 4, 6};
    const struct lane a = {1, 2, 1000}, b = {2, 2, 1000};
    uint64_t id;

    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(lane_id_at((struct lane){1, 2, 1}, i, &id));
        assert_int_equal(id, odd[i]);
        assert_true(lane_id_at((struct lane){2, 2, 1}, i, &id));
        assert_int_equal(id, even[i]);
    }
    assert_true(lane_id_at(a, 999, &id));
    assert_int_equal(id, 1000);
    assert_true(lane_id_at(a, 1000, &id));
    assert_int_equal(id, 2001);
    assert_true(lane_id_at(b, 0, &id));
    assert_int_equal(id, 1001);
    assert_int_equal(lane_step(a), 1);
    assert_int_equal(lane_step((struct lane){1, 2, 1}), 2);
    assert_int_equal(lane_step((struct lane){1, 1, 1}), 1);
}

/* At the top every lane ends at its last id, and nothing wraps. */
static void test_top_of_the_range(void **state)
{
    static const uint64_t stripes[] = {1, 7, 1000, STRIPE_DEFAULT, STRIPE_MAX};

    (void)state;
    for (uint32_t lanes = 1; lanes <= LANES_MAX; lanes = lanes * 3 + 1) {
        for (size_t i = 0; i < sizeof stripes / sizeof stripes[0]; i++) {
            struct lane l = {lanes, lanes, stripes[i]};
            uint64_t end = lane_first_above(l, HILO_ID_MAX), id = 5;

            assert_true(lane_id_at(l, end - 1, &id));
            assert_true(id <= HILO_ID_MAX && lane_owns(l, id));
            assert_int_equal(lane_position(l, id), end - 1);
            id = 5;
            for (unsigned bit = 0; bit < 64; bit++) {
                uint64_t p = end + (UINT64_C(1) << bit) - 1;

                assert_true(p < end || !lane_id_at(l, p, &id));
            }
            assert_false(lane_id_at(l, UINT64_MAX, &id));
            assert_int_equal(id, 5);
        }
    }
}

static void test_valid(void **state)
{
    (void)state;
    assert_true(lane_valid((struct lane){LANES_MAX, LANES_MAX, STRIPE_MAX}));
    assert_false(lane_valid((struct lane){0, 1, 1}));
    assert_false(lane_valid((struct lane){2, 1, 1}));
    assert_false(lane_valid((struct lane){1, LANES_MAX + 1, 1}));
    assert_false(lane_valid((struct lane){1, 1, 0}));
    assert_false(lane_valid((struct lane){1, 1, STRIPE_MAX + 1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_small_grid),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_known_grids),
        cmocka_unit_test(test_top_of_the_range),
        cmocka_unit_test(test_valid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
