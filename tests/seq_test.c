/* seq_test.c - a sequence and a store whose answers are lost: what is acknowledged has
 * to be what the store holds. */
#include "seq.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* After the four above, which it needs. */
#include <cmocka.h>
#include "error.h"
#include "number.h"

static void want(struct seq_env *env, struct seq *s)
{
    (void)env, (void)s;
}

static void decided(struct request *r)
{
    (void)r;
}

struct world {
    struct seq_env env;
    struct seq seq;
};

static const struct counter_attr plain = {.start = 1, .max = 1000};

static void set_up(struct world *w)
{
    *w = (struct world){.env = {.lane = {1, 1, 1}, .want_fn = want}};
    seq_init(&w->seq, &w->env, "s", 1, &plain);
    seq_go_live(&w->seq, 1, 0);
}

/* What becomes of a piece of administration: 0 or its error, and whether the store was
 * asked for it. The store answers err. */
static int administer(struct world *w, enum request_kind kind,
                      const struct counter_attr *attr, int err, bool *ret_asked)
{
    struct store_op op = {0};
    struct request r, *kept;
    int result;

    request_init(&r, kind);
    r.attr = *attr;
    r.set_max = true;
    r.owner = w;
    r.decided_fn = decided;
    *ret_asked = false;
    kept = request_keep(&w->env.pool, &r);
    assert_non_null(kept);
    seq_enqueue(&w->seq, kept);
    if (seq_make_op(&w->seq, &op, 0) && op.kind == STORE_ALTER) {
        *ret_asked = true;
        op.err = err;
        op.mark = op.floor;
        seq_take_answer(&w->seq, &op, "lost", 0);
    }
    assert_true(kept->decided);
    result = kept->err;
    request_free(&w->env.pool, kept);
    return result;
}

static void
test_a_creation_that_finds_what_it_wants_is_checked_after_a_lost_change(void **state)
{
    const struct counter_attr more = {.start = 1, .max = 2000};
    struct world w;
    bool asked;

    (void)state;
    set_up(&w);
    assert_int_equal(administer(&w, REQUEST_CREATE, &plain, 0, &asked), 0);
    assert_false(asked);
    assert_int_equal(administer(&w, REQUEST_ALTER, &more, HILO_ESTORAGE, &asked),
                     HILO_ESTORAGE);
    /* The store may have MAX 2000 now. */
    assert_int_equal(administer(&w, REQUEST_CREATE, &plain, HILO_ESTORAGE, &asked),
                     HILO_ESTORAGE);
    assert_true(asked);
    assert_int_equal(administer(&w, REQUEST_CREATE, &plain, 0, &asked), 0);
    assert_true(asked);
    assert_int_equal(administer(&w, REQUEST_CREATE, &plain, 0, &asked), 0);
    assert_false(asked);
    request_pool_free(&w.env.pool);
}

static void test_a_retirement_is_checked_after_a_lost_creation(void **state)
{
    struct world w;
    bool asked;

    (void)state;
    set_up(&w);
    assert_int_equal(administer(&w, REQUEST_RETIRE, &plain, 0, &asked), 0);
    assert_int_equal(administer(&w, REQUEST_RETIRE, &plain, 0, &asked), 0);
    assert_false(asked);
    assert_int_equal(administer(&w, REQUEST_CREATE, &plain, HILO_ESTORAGE, &asked),
                     HILO_ESTORAGE);
    /* The store may have brought it back. */
    assert_int_equal(administer(&w, REQUEST_RETIRE, &plain, 0, &asked), 0);
    assert_true(asked);
    assert_true(w.seq.attr.retired);
    request_pool_free(&w.env.pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_a_creation_that_finds_what_it_wants_is_checked_after_a_lost_change),
        cmocka_unit_test(test_a_retirement_is_checked_after_a_lost_creation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
