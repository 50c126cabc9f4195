/* reply_test.c - replies as a client reads them, requests as it writes them, stores as
 * it meets them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "reply_parse.h"
#include "request_write.h"
#include "resp.h"
#include "roster.h"

#define CAP 8

static enum reply_status parse(const char *text, size_t len, struct reply_item *items,
                               size_t *n, size_t *size)
{
    return reply_parse(text, len, 16, items, CAP, n, size);
}

static void test_each_kind(void **state)
{
    static const struct {
        const char *text;
        enum reply_type type;
        int64_t n;
        const char *value;
    } all[] = {
        {"+OK\r\n", REPLY_STATUS, 0, "OK"},
        {"-ERR no\r\n", REPLY_ERROR, 0, "ERR no"},
        {":5\r\n", REPLY_INTEGER, 5, "5"},
        {":-9223372036854775808\r\n", REPLY_INTEGER, INT64_MIN, NULL},
        {"$3\r\na\r\n\r\n", REPLY_BULK, 3, "a\r\n"},
        {"$0\r\n\r\n", REPLY_BULK, 0, ""},
        {"$-1\r\n", REPLY_NIL, -1, NULL},
        {"*-1\r\n", REPLY_NIL, -1, NULL},
        {"*0\r\n", REPLY_ARRAY, 0, NULL},
    };
    struct reply_item items[CAP];
    size_t n, size;

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        size_t len = strlen(all[i].text);

        assert_int_equal(parse(all[i].text, len, items, &n, &size), REPLY_OK);
        assert_int_equal(n, 1);
        assert_int_equal(size, len);
        assert_int_equal(items[0].type, all[i].type);
        if (all[i].type != REPLY_STATUS && all[i].type != REPLY_ERROR)
            assert_int_equal(items[0].n, all[i].n);
        if (all[i].value != NULL) {
            assert_int_equal(items[0].len, strlen(all[i].value));
            assert_memory_equal(items[0].p, all[i].value, items[0].len);
        }
        for (size_t cut = 0; cut < len; cut++)
            assert_int_equal(parse(all[i].text, cut, items, &n, &size), REPLY_MORE);
    }
}

static void test_nested_arrays_are_a_flat_list(void **state)
{
    static const char text[] = "*3\r\n*2\r\n:1\r\n:2\r\n$1\r\na\r\n*0\r\n+next\r\n";
    struct reply_item items[CAP];
    size_t n, size;

    (void)state;
    assert_int_equal(parse(text, sizeof text - 1, items, &n, &size), REPLY_OK);
    assert_int_equal(n, 6);
    assert_int_equal(size, sizeof text - 1 - 7);
    assert_int_equal(reply_extent(&items[0]), 6);
    assert_int_equal(reply_extent(&items[1]), 3);
    assert_int_equal(reply_extent(&items[5]), 1);
}

static void test_what_is_refused(void **state)
{
    static const char *const bad[] = {
        "x",
        "\r\n",
        "*9\r\n",
        "*2147483647\r\n",
        "*-2\r\n",
        "$17\r\n",
        "$-2\r\n",
        "$9223372036854775807\r\n",
        "$+1\r\n",
        "$01\r\n",
        ":\r\n",
        ":1a\r\n",
        ":--1\r\n",
        "+a\n",
        "+a\rb",
        "$1\r\nab",
        "$1\r\na\rx",
        "*2\r\n*8\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
        "_\r\n",
        "%1\r\n",
        ",1.0\r\n",
        "#t\r\n",
        "$99999999999999999999\r\n",
        "*1\r\nx",
    };
    char line[REPLY_MAX_LINE + 1];
    struct reply_item items[CAP];
    size_t n, size;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (parse(bad[i], strlen(bad[i]), items, &n, &size) != REPLY_BAD)
            fail_msg("not refused: %s", bad[i]);
    }
    memset(line, 'x', sizeof line);
    line[0] = '+';
    assert_int_equal(parse(line, sizeof line, items, &n, &size), REPLY_BAD);
    assert_int_equal(parse(line, 100, items, &n, &size), REPLY_MORE);
}

static void test_numbers_and_words(void **state)
{
    static const char text[] = "*6\r\n$3\r\n123\r\n:7\r\n$2\r\n-1\r\n$3\r\n012\r\n+"
                               "5\r\n$20\r\n18446744073709551615\r\n";
    struct reply_item items[CAP];
    size_t n, size;
    uint64_t v;

    (void)state;
    assert_int_equal(reply_parse(text, sizeof text - 1, 20, items, CAP, &n, &size),
                     REPLY_OK);
    assert_true(reply_number(&items[1], &v) && v == 123);
    assert_true(reply_number(&items[2], &v) && v == 7);
    assert_false(reply_number(&items[3], &v));
    assert_false(reply_number(&items[4], &v));
    assert_false(reply_number(&items[5], &v));
    assert_true(reply_number(&items[6], &v) && v == UINT64_MAX);
    assert_true(reply_is(&items[1], "123"));
    assert_true(reply_is(&items[5], "5"));
    assert_false(reply_is(&items[1], "12"));
    assert_false(reply_is(&items[0], ""));
}

/* What is written is what a server reads; what doesn't fit is not written at all. */
static void test_requests(void **state)
{
    char buf[64];
    struct request_writer w;
    struct resp_request rq;
    enum resp_fault fault;
    size_t len;

    (void)state;
    request_begin(&w, buf, sizeof buf, 3);
    request_text(&w, "BLOCK");
    request_bytes(&w, "a\r\nb", 4);
    request_number(&w, UINT64_MAX);
    len = request_end(&w);
    assert_int_equal(resp_parse(buf, len, &rq, &fault), RESP_OK);
    assert_int_equal(rq.size, len);
    assert_int_equal(rq.argc, 3);
    assert_memory_equal(rq.argv[1].p, "a\r\nb", 4);
    assert_memory_equal(rq.argv[2].p, "18446744073709551615", 20);
    for (size_t size = 0; size < len; size++) {
        request_begin(&w, buf, size, 3);
        request_text(&w, "BLOCK");
        request_bytes(&w, "a\r\nb", 4);
        request_number(&w, UINT64_MAX);
        assert_int_equal(request_end(&w), 0);
    }
}

/* --- roster --- */

static struct identity server(const char *uuid, const char *boot, uint32_t lane,
                              uint64_t epoch)
{
    struct identity id = {.lane = {.number = lane, .lanes = 2, .stripe = 100},
                          .epoch = epoch};

    snprintf(id.uuid, sizeof id.uuid, "%s", uuid);
    snprintf(id.boot, sizeof id.boot, "%s", boot);
    return id;
}

static enum roster_verdict meet(struct roster *r, struct identity id, unsigned at,
                                unsigned *other)
{
    return roster_meet(r, &id, at, other);
}

static void test_a_pair_and_its_restarts(void **state)
{
    struct roster r;
    unsigned other;

    (void)state;
    roster_init(&r);
    assert_int_equal(meet(&r, server("a", "1", 1, 1), 0, &other), ROSTER_WELCOME);
    assert_int_equal(meet(&r, server("b", "1", 2, 1), 1, &other), ROSTER_WELCOME);
    for (int i = 2; i < 50; i++) {
        char boot[8];

        snprintf(boot, sizeof boot, "%d", i);
        assert_int_equal(meet(&r, server("a", boot, 1, 1), 0, &other), ROSTER_WELCOME);
        assert_int_equal(meet(&r, server("a", boot, 1, 1), 3, &other), ROSTER_WELCOME);
    }
}

static void test_who_is_refused(void **state)
{
    struct identity odd = server("c", "1", 2, 1);
    struct roster r;
    unsigned other = 9;

    (void)state;
    roster_init(&r);
    meet(&r, server("a", "1", 1, 1), 4, &other);
    assert_int_equal(meet(&r, server("b", "1", 1, 1), 1, &other), ROSTER_LANE);
    assert_int_equal(other, 4);
    odd.lane.stripe = 1;
    assert_int_equal(roster_meet(&r, &odd, 1, &other), ROSTER_LAYOUT);
    odd = server("c", "1", 2, 1);
    odd.lane.lanes = 3;
    assert_int_equal(roster_meet(&r, &odd, 1, &other), ROSTER_LAYOUT);
    assert_int_equal(meet(&r, server("a", "1", 2, 1), 1, &other), ROSTER_WELCOME);
}

static void test_a_copy_is_refused_for_good(void **state)
{
    struct roster r;
    unsigned other;

    (void)state;
    roster_init(&r);
    meet(&r, server("a", "1", 1, 1), 0, &other);
    assert_int_equal(meet(&r, server("a", "2", 1, 1), 1, &other), ROSTER_WELCOME);
    assert_int_equal(meet(&r, server("a", "1", 1, 1), 0, &other), ROSTER_CLONE);
    assert_int_equal(other, 1);
    assert_int_equal(meet(&r, server("a", "2", 1, 1), 1, &other), ROSTER_CLONE);
    assert_int_equal(meet(&r, server("a", "3", 1, 1), 1, &other), ROSTER_CLONE);
}

static void test_a_shared_engine_has_many_boots(void **state)
{
    struct identity a = server("a", "1", 1, 1), b = server("a", "2", 1, 1);
    struct roster r;
    unsigned other;

    (void)state;
    roster_init(&r);
    a.shared = b.shared = true;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(roster_meet(&r, &a, 0, &other), ROSTER_WELCOME);
        assert_int_equal(roster_meet(&r, &b, 1, &other), ROSTER_WELCOME);
    }
}

static void test_epochs(void **state)
{
    struct identity next = server("a", "2", 1, 2);
    struct roster r;
    unsigned other;

    (void)state;
    roster_init(&r);
    meet(&r, server("a", "1", 1, 1), 0, &other);
    meet(&r, server("b", "1", 2, 1), 1, &other);
    next.lane.lanes = 4;
    assert_int_equal(roster_meet(&r, &next, 0, &other), ROSTER_NEW_EPOCH);
    assert_int_equal(meet(&r, server("b", "1", 2, 1), 1, &other), ROSTER_OLD_EPOCH);
    assert_int_equal(other, 0);
}

static void test_too_many_stores(void **state)
{
    struct roster r;
    unsigned other;

    (void)state;
    roster_init(&r);
    for (uint32_t i = 1; i <= ROSTER_STORES + 1; i++) {
        struct identity id = server("", "1", i, 1);

        snprintf(id.uuid, sizeof id.uuid, "%u", i);
        id.lane.lanes = 100;
        assert_int_equal(roster_meet(&r, &id, 0, &other),
                         i <= ROSTER_STORES ? ROSTER_WELCOME : ROSTER_FULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind),
        cmocka_unit_test(test_nested_arrays_are_a_flat_list),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_numbers_and_words),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_a_pair_and_its_restarts),
        cmocka_unit_test(test_who_is_refused),
        cmocka_unit_test(test_a_copy_is_refused_for_good),
        cmocka_unit_test(test_a_shared_engine_has_many_boots),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_too_many_stores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
