/* resp_test.c - the request parser and the reply writer, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "number.h"
#include "reply.h"
#include "resp.h"

/* Parses from a buffer of exactly that size, so that a sanitizer sees every byte too
 * far. */
static enum resp_status parse(const char *text, size_t len, struct resp_request *ret,
                              enum resp_fault *ret_fault)
{
    char *exact = malloc(len > 0 ? len : 1);
    enum resp_status status;

    memcpy(exact, text, len);
    status = resp_parse(exact, len, ret, ret_fault);
    for (size_t i = 0; status == RESP_OK && i < ret->argc; i++) {
        assert_true(ret->argv[i].p >= exact &&
                    ret->argv[i].p + ret->argv[i].len <= exact + len);
        ret->argv[i].p = text + (ret->argv[i].p - exact);
    }
    free(exact);
    return status;
}

/* The request in text is complete with its last byte, not before; then argc words. */
static void assert_request(const char *text, size_t argc, const char *const *words)
{
    size_t len = strlen(text);
    struct resp_request rq;
    enum resp_fault fault;

    for (size_t cut = 0; cut < len; cut++)
        assert_int_equal(parse(text, cut, &rq, &fault), RESP_MORE);
    assert_int_equal(parse(text, len, &rq, &fault), RESP_OK);
    assert_int_equal(rq.size, len);
    assert_int_equal(rq.argc, argc);
    for (size_t i = 0; i < argc; i++) {
        assert_int_equal(rq.argv[i].len, strlen(words[i]));
        assert_memory_equal(rq.argv[i].p, words[i], rq.argv[i].len);
    }
}

/* Bad at some byte, and bad with whatever comes after; never complete before. */
static void assert_bad(const char *text, enum resp_fault want)
{
    size_t len = strlen(text);
    struct resp_request rq;
    enum resp_fault fault;
    enum resp_status last = RESP_MORE;

    for (size_t cut = 0; cut <= len; cut++) {
        enum resp_status status = parse(text, cut, &rq, &fault);

        assert_int_not_equal(status, RESP_OK);
        assert_true(last == RESP_MORE || status == RESP_BAD);
        last = status;
    }
    assert_int_equal(last, RESP_BAD);
    assert_int_equal(fault, want);
    assert_non_null(strstr(resp_fault_text(fault), "Protocol error"));
}

static void test_requests_cut_at_every_byte(void **state)
{
    static const char *const incr[] = {"INCR", "orders"}, *const one[] = {"PING"},
                             *const empty[] = {"ECHO", ""},
                             *const quoted[] = {"ECHO", "a b"};

    (void)state;
    assert_request("*2\r\n$4\r\nINCR\r\n$6\r\norders\r\n", 2, incr);
    assert_request("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", 2, empty);
    assert_request("INCR orders\r\n", 2, incr);
    assert_request("  INCR \t orders \n", 2, incr);
    assert_request("PING\n", 1, one);
    assert_request("ECHO 'a b'\r\n", 2, quoted);
    assert_request("ECHO \"a b\"\n", 2, quoted);
    assert_request("ECHO \"\"\n", 2, empty);
    assert_request("*0\r\n", 0, NULL);
    assert_request("*-1\r\n", 0, NULL);
    assert_request("\r\n", 0, NULL);
    assert_request("\n", 0, NULL);
}

static void test_bad_frames(void **state)
{
    (void)state;
    assert_bad("*65\r\n", RESP_FAULT_COUNT);
    assert_bad("*1x\r\n", RESP_FAULT_COUNT);
    assert_bad("*\r\n", RESP_FAULT_COUNT);
    assert_bad("*99999999999999999999999999", RESP_FAULT_COUNT);
    assert_bad("*1\rx", RESP_FAULT_COUNT);
    /* Zeros in front would make a request longer than RESP_MAX_REQUEST. */
    assert_bad("*01", RESP_FAULT_COUNT);
    assert_bad("*-01", RESP_FAULT_COUNT);
    assert_bad("*00", RESP_FAULT_COUNT);
    assert_bad("*1\r\n$04", RESP_FAULT_LENGTH);
    assert_bad("*1\r\n$0000000000000004096", RESP_FAULT_LENGTH);
    assert_bad("*1\r\n:5\r\n", RESP_FAULT_DOLLAR);
    assert_bad("*1\r\n$4097\r\n", RESP_FAULT_LENGTH);
    assert_bad("*1\r\n$-1\r\n", RESP_FAULT_LENGTH);
    assert_bad("*1\r\n$18446744073709551617\r\n", RESP_FAULT_LENGTH);
    assert_bad("*1\r\n$5\r\nabcd\r\nx", RESP_FAULT_END);
    assert_bad("*1\r\n$4\r\nPINGX", RESP_FAULT_END);
    assert_bad("*1\r\n$4\r\nPING\rx", RESP_FAULT_END);
    assert_bad("INCR 'x\r\n", RESP_FAULT_QUOTES);
    assert_bad("INCR \"a\\n\"\r\n", RESP_FAULT_QUOTES);
    assert_bad("INCR 'a'b\r\n", RESP_FAULT_QUOTES);
    assert_bad("\x16\x03\x01", RESP_FAULT_BYTES);
    assert_bad("INCR a\x01\r\n", RESP_FAULT_BYTES);
    assert_bad("INCR a\x7f\n", RESP_FAULT_BYTES);
    assert_bad("INCR a\rb\n", RESP_FAULT_BYTES);
    assert_bad("GET / HTTP/1.1\r\n", RESP_FAULT_HTTP);
    assert_bad("OPTIONS / HTTP/1.0\n", RESP_FAULT_HTTP);
    assert_bad("POST /\r\n", RESP_FAULT_HTTP);
    assert_bad("Host: x\r\n", RESP_FAULT_HTTP);
}

static void test_limits_and_one_over(void **state)
{
    static char text[RESP_MAX_REQUEST + 64];
    struct resp_request rq;
    enum resp_fault fault;
    size_t len = (size_t)sprintf(text, "*%d\r\n", RESP_MAX_ARGS);

    (void)state;
    for (int i = 0; i < RESP_MAX_ARGS; i++) {
        len += (size_t)sprintf(text + len, "$%d\r\n", RESP_MAX_ARG);
        memset(text + len, 'x', RESP_MAX_ARG);
        len += RESP_MAX_ARG;
        len += (size_t)sprintf(text + len, "\r\n");
    }
    assert_int_equal(len, RESP_MAX_REQUEST);
    assert_int_equal(parse(text, len - 1, &rq, &fault), RESP_MORE);
    assert_int_equal(parse(text, len, &rq, &fault), RESP_OK);
    assert_int_equal(rq.argc, RESP_MAX_ARGS);
    memset(text, 'x', RESP_MAX_INLINE);
    text[RESP_MAX_INLINE - 1] = '\n';
    assert_int_equal(parse(text, RESP_MAX_INLINE, &rq, &fault), RESP_OK);
    text[RESP_MAX_INLINE - 1] = 'x';
    assert_int_equal(parse(text, RESP_MAX_INLINE - 1, &rq, &fault), RESP_MORE);
    assert_int_equal(parse(text, RESP_MAX_INLINE, &rq, &fault), RESP_BAD);
    assert_int_equal(fault, RESP_FAULT_LONGLINE);
    for (int i = 0; i < RESP_MAX_ARGS + 1; i++)
        memcpy(text + 2 * i, "x ", 2);
    text[2 * RESP_MAX_ARGS - 1] = '\n';
    assert_int_equal(parse(text, 2 * RESP_MAX_ARGS, &rq, &fault), RESP_OK);
    text[2 * RESP_MAX_ARGS - 1] = ' ';
    text[2 * RESP_MAX_ARGS + 1] = '\n';
    assert_int_equal(parse(text, 2 * RESP_MAX_ARGS + 2, &rq, &fault), RESP_BAD);
    assert_int_equal(fault, RESP_FAULT_WORDS);
}

static uint64_t rnd(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* Random bytes, and valid requests with a byte changed: any verdict, no byte too far.
 */
static void test_noise(void **state)
{
    static const char valid[] = "*3\r\n$5\r\nBLOCK\r\n$6\r\norders\r\n$2\r\n10\r\n";
    static const char alphabet[] = "*$:+-0123456789\r\n'\" \\abz\0\377";
    const char *env = getenv("HILO_SEED");
    uint64_t seed = env != NULL ? strtoull(env, NULL, 10) | 1 : 20261130;
    struct resp_request rq;
    enum resp_fault fault;
    char text[64];

    (void)state;
    print_message("HILO_SEED=%llu\n", (unsigned long long)seed);
    for (unsigned i = 0; i < 200000; i++) {
        size_t len = rnd(&seed) % sizeof text;

        if (i % 2 == 0) {
            len = sizeof valid - 1;
            memcpy(text, valid, len);
            text[rnd(&seed) % len] = alphabet[rnd(&seed) % sizeof alphabet];
        } else {
            for (size_t j = 0; j < len; j++)
                text[j] = alphabet[rnd(&seed) % sizeof alphabet];
        }
        if (parse(text, len, &rq, &fault) == RESP_OK)
            assert_true(rq.size >= 1 && rq.size <= len && rq.argc <= RESP_MAX_ARGS);
    }
}

/* --- replies --- */

static void write_all(struct reply *r)
{
    reply_status(r, "OK");
    reply_error(r, HILO_ENOSEQ, "no 'a\r\n+OK\x1b\xff'");
    reply_int(r, UINT64_MAX);
    reply_signed(r, -6);
    reply_bulk(r, "a\r\nb", 4);
    reply_text(r, "");
    reply_id(r, HILO_ID_MAX);
    reply_verbatim(r, "hi", 2);
    reply_array(r, 2);
    reply_map(r, 3);
    reply_set(r, 1);
    reply_null(r);
}

#define COMMON_REPLIES                                       \
    "+OK\r\n-NOSEQ no 'a  +OK?"                              \
    "?'\r\n:18446744073709551615\r\n:-6\r\n$4\r\na\r\nb\r\n" \
    "$0\r\n\r\n$19\r\n9223372036854775807\r\n"

static void test_replies(void **state)
{
    static const char *const want[] = {
        COMMON_REPLIES "$2\r\nhi\r\n*2\r\n*6\r\n*1\r\n$-1\r\n",
        COMMON_REPLIES "=6\r\ntxt:hi\r\n*2\r\n%3\r\n~1\r\n_\r\n"};
    char buf[512];

    (void)state;
    for (int proto = 2; proto <= 3; proto++) {
        struct reply r = {.data = buf, .cap = sizeof buf, .proto = proto};

        write_all(&r);
        assert_false(r.failed);
        assert_int_equal(r.len, strlen(want[proto - 2]));
        assert_memory_equal(buf, want[proto - 2], r.len);
    }
}

/* However little room there is, nothing is written past it, and failed stays set. */
static void test_replies_without_room(void **state)
{
    (void)state;
    for (size_t cap = 1; cap < 100; cap++) {
        char *exact = malloc(cap);
        struct reply r = {.data = exact, .cap = cap, .proto = 3};
        size_t len;

        write_all(&r);
        assert_true(r.failed && r.len <= cap);
        len = r.len;
        reply_null(&r);
        assert_int_equal(r.len, len);
        free(exact);
    }
}

/* --- numbers and errors --- */

static void test_numbers(void **state)
{
    static const char *const bad[] = {"",
                                      "05",
                                      "+5",
                                      " 5",
                                      "5 ",
                                      "-0",
                                      "0x10",
                                      "1e3",
                                      "1.0",
                                      "-",
                                      "18446744073709551616",
                                      "99999999999999999999"};
    uint64_t u = 7;
    int64_t i = 7;
    char buf[NUMBER_MAX];

    (void)state;
    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        assert_false(number_parse_u64(bad[n], strlen(bad[n]), &u));
        assert_false(number_parse_i64(bad[n], strlen(bad[n]), &i));
    }
    assert_true(u == 7 && i == 7);
    assert_false(number_parse_u64("-1", 2, &u));
    assert_true(number_parse_u64("18446744073709551615", 20, &u) && u == UINT64_MAX);
    assert_true(number_parse_i64("-9223372036854775808", 20, &i) && i == INT64_MIN);
    assert_false(number_parse_i64("-9223372036854775809", 20, &i));
    assert_true(number_parse_i64("9223372036854775807", 19, &i) && i == INT64_MAX);
    assert_false(number_parse_i64("9223372036854775808", 19, &i));
    assert_int_equal(number_format(buf, 0), 1);
    assert_int_equal(number_format(buf, UINT64_MAX), 20);
    assert_memory_equal(buf, "18446744073709551615", 20);
}

static void test_errors_have_words_of_their_own(void **state)
{
    (void)state;
    for (int a = -1; a >= -14; a--) {
        assert_true(strlen(error_text(a)) > 5);
        for (int b = -1; b > a; b--)
            assert_string_not_equal(error_word(a), error_word(b));
    }
    assert_string_equal(error_word(HILO_EREGRESS), "REGRESS");
    assert_string_equal(error_word(-99), "ERR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_cut_at_every_byte),
        cmocka_unit_test(test_bad_frames),
        cmocka_unit_test(test_limits_and_one_over),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_replies_without_room),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_errors_have_words_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
