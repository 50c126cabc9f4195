/* record_test.c - the lines of a witness: what is read is what was written, or nothing.
 */
#include "record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* After the four above, which it needs. */
#include <cmocka.h>
#include "crc.h"
#include "number.h"

#define LINES 6

static const struct record_header header = {
    .uuid = "01234567-89ab-4cde-8f01-23456789abcd",
    .lane = {.number = 2, .lanes = 3, .stripe = 1000},
    .epoch = 7};

static const struct record lines[LINES] = {
    {.name = "a", .name_len = 1, .last = 0, .start = 1, .max = 1},
    {.name = "a",
     .name_len = 1,
     .last = HILO_ID_MAX,
     .start = HILO_ID_MAX,
     .max = HILO_ID_MAX,
     .each = true,
     .retired = true,
     .rate = HILO_ID_MAX},
    {.name = "A.b_c:/-9", .name_len = 9, .last = 12345, .start = 1, .max = 99999},
    {.name = "a", .name_len = 1, .last = 7, .start = 1, .max = 9, .rate = 3},
    {.name = "s", .name_len = 1, .last = 7, .start = 1, .max = 9},
    {.name = "m", .name_len = 1, .last = 8, .start = 2, .max = 10, .each = true},
};

struct file {
    char data[(LINES + 2) * RECORD_MAX];
    size_t len, synced; /* what stands before the last sync mark */
    size_t ends[LINES];
};

/* A header, a sync mark before the fourth line, and two lines behind it. */
static struct file write_file(void)
{
    struct record_chain chain;
    struct file f = {.len = 0};

    f.len = record_put_header(f.data, &header, &chain);
    for (int i = 0; i < LINES; i++) {
        if (i == 4) {
            f.synced = f.len;
            f.len += record_put_sync(f.data + f.len, f.len, &chain);
        }
        f.len += record_put(f.data + f.len, &lines[i], &chain);
        f.ends[i] = f.len;
    }
    return f;
}

static bool same(const struct record *a, const struct record *b)
{
    return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0 &&
           a->last == b->last && a->start == b->start && a->max == b->max &&
           a->each == b->each && a->retired == b->retired && a->rate == b->rate;
}

/* How many lines are read, each of which has to be what was written; and how it ended.
 */
static int read_lines(const char *data, size_t len, enum record_kind *ret_end,
                      bool *ret_damaged)
{
    struct record_reader in;
    struct record_header h;
    struct record r;
    int n = 0;

    *ret_damaged = false;
    *ret_end = RECORD_BAD;
    if (!record_begin(&in, data, len, &h))
        return -1;
    assert_string_equal(h.uuid, header.uuid);
    assert_true(h.epoch == 7 && h.lane.number == 2 && h.lane.lanes == 3 &&
                h.lane.stripe == 1000);
    while ((*ret_end = record_next(&in, &r)) > RECORD_BAD) {
        if (*ret_end == RECORD_SYNC)
            continue;
        assert_true(n < LINES);
        assert_true(same(&r, &lines[n]));
        n++;
    }
    *ret_damaged = *ret_end == RECORD_BAD && record_was_synced(&in);
    return n;
}

static void test_crc(void **state)
{
    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
    assert_int_equal(crc32c(0, "", 0), 0);
}

static void test_what_was_written_is_read(void **state)
{
    struct file f = write_file();
    enum record_kind end;
    bool damaged;

    (void)state;
    assert_int_equal(read_lines(f.data, f.len, &end, &damaged), LINES);
    assert_int_equal(end, RECORD_END);
}

static void test_the_longest_line_fits(void **state)
{
    char name[128], line[RECORD_MAX + 1];
    struct record r = {.name = name,
                       .name_len = 128,
                       .last = HILO_ID_MAX,
                       .start = HILO_ID_MAX,
                       .max = HILO_ID_MAX,
                       .rate = HILO_ID_MAX};
    struct record_chain chain;

    (void)state;
    memset(name, 'x', sizeof name);
    assert_true(record_put_header(line, &header, &chain) <= RECORD_MAX);
    assert_true(record_put(line, &r, &chain) <= RECORD_MAX);
    assert_true(record_put_sync(line, UINT64_MAX, &chain) <= RECORD_MAX);
}

static void test_a_file_that_ends_anywhere_says_what_is_whole(void **state)
{
    struct file f = write_file();

    (void)state;
    for (size_t len = 0; len <= f.len; len++) {
        enum record_kind end;
        bool damaged;
        int whole = 0, n = read_lines(f.data, len, &end, &damaged);

        while (whole < LINES && f.ends[whole] <= len)
            whole++;
        assert_true(n == whole || (n == -1 && len < f.ends[0]));
        assert_false(damaged);
    }
}

static void test_a_changed_bit_is_noticed(void **state)
{
    struct file f = write_file();

    (void)state;
    for (size_t bit = 0; bit < 8 * f.len; bit++) {
        enum record_kind end;
        bool damaged;
        int n;

        f.data[bit / 8] ^= (char)(1 << bit % 8);
        n = read_lines(f.data, f.len, &end, &damaged);
        assert_true(n < LINES);
        assert_int_equal(end, RECORD_BAD);
        assert_true(n == -1 || damaged == (bit / 8 < f.synced));
        f.data[bit / 8] ^= (char)(1 << bit % 8);
    }
}

static void test_a_line_that_is_missing_or_twice_ends_it(void **state)
{
    struct file f = write_file();
    size_t line = f.ends[5] - f.ends[4];
    enum record_kind end;
    bool damaged;

    (void)state;
    memmove(f.data + f.ends[4] - line, f.data + f.ends[4],
            line); /* over the one before */
    read_lines(f.data, f.len, &end, &damaged);
    assert_int_equal(end, RECORD_BAD);
    f = write_file();
    memcpy(f.data + f.len, f.data + f.ends[4], line);
    assert_int_equal(read_lines(f.data, f.len + line, &end, &damaged), LINES);
    assert_int_equal(end, RECORD_BAD);
    assert_false(damaged);
}

static void test_a_sync_mark_counts_where_it_was_written_only(void **state)
{
    struct file f = write_file();
    enum record_kind end;
    size_t sync = f.ends[4] - f.synced;
    bool damaged;

    (void)state;
    memcpy(f.data + f.len, f.data + f.synced, sync);
    read_lines(f.data, f.len + sync, &end, &damaged);
    assert_int_equal(end, RECORD_BAD);
    assert_false(damaged);
}

static void test_noise(void **state)
{
    char data[600];

    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct file f = write_file();
        enum record_kind end;
        size_t at = (size_t)rand() % f.len, n = (size_t)rand() % 40;
        bool damaged;

        for (size_t k = 0; k < n; k++)
            data[k] = (char)rand();
        memcpy(f.data + at, data, n);
        read_lines(f.data, at + n > f.len ? at + n : f.len, &end, &damaged);
    }
}

/* --- of a seal --- */

/* A header, all lines, the end, and two openings. Returns its length. */
static size_t write_seal(char *data, size_t *ret_whole)
{
    struct record_header h = header;
    struct record_opening o = {.lane = {1, 2, 5}};
    struct record_chain chain;
    size_t len;

    h.is_seal = true;
    memcpy(o.uuid, header.uuid, sizeof o.uuid);
    len = record_put_header(data, &h, &chain);
    for (int i = 0; i < LINES; i++)
        len += record_put(data + len, &lines[i], &chain);
    len += record_put_end(data + len, LINES, &chain);
    *ret_whole = len;
    len += record_put_opening(data + len, &o, &chain);
    o.lane.number = 2;
    return len + record_put_opening(data + len, &o, &chain);
}

struct seen {
    int marks, openings;
    bool whole;
};

/* What is read has to be what was written, up to where it ends or turns bad. */
static struct seen read_seal(const char *data, size_t len)
{
    struct seen seen = {.whole = false};
    struct record_reader in;
    struct record_header h;
    enum record_kind kind;
    struct record r;

    if (!record_begin(&in, data, len, &h))
        return seen;
    assert_true(h.is_seal && !h.sealed && h.epoch == header.epoch);
    while ((kind = record_next(&in, &r)) > RECORD_BAD) {
        assert_int_not_equal(kind, RECORD_SYNC);
        if (kind == RECORD_MARK)
            assert_true(same(&r, &lines[seen.marks++]));
        if (kind == RECORD_OPENING)
            assert_int_equal(in.opening.lane.number, ++seen.openings);
        seen.whole |= kind == RECORD_WHOLE;
    }
    return seen;
}

static void test_a_seal_is_whole_or_not(void **state)
{
    char data[(LINES + 4) * RECORD_MAX];
    size_t whole, len = write_seal(data, &whole);
    struct seen all = read_seal(data, len);

    (void)state;
    assert_true(all.marks == LINES && all.openings == 2 && all.whole);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(read_seal(data, i).whole, i >= whole);
}

static void test_no_byte_of_a_seal_changes_unseen(void **state)
{
    char data[(LINES + 4) * RECORD_MAX];
    size_t whole, len = write_seal(data, &whole);

    (void)state;
    for (size_t i = 0; i < len; i++) {
        struct seen seen;

        data[i] ^= 1;
        seen = read_seal(data, len);
        assert_true(i >= whole ? seen.openings < 2 : !seen.whole);
        data[i] ^= 1;
    }
}

/* A seal that lacks a line is not whole, even where the line's chain would do. */
static void test_the_end_of_a_seal_counts_its_lines(void **state)
{
    struct record_header h = header;
    struct record_chain chain;
    char data[4 * RECORD_MAX];
    size_t len;

    (void)state;
    h.is_seal = true;
    len = record_put_header(data, &h, &chain);
    len += record_put(data + len, &lines[0], &chain);
    len += record_put_end(data + len, 2, &chain);
    assert_false(read_seal(data, len).whole);
}

static void test_a_witness_says_whether_it_is_sealed(void **state)
{
    struct record_header h = header, read;
    struct record_chain chain;
    struct record_reader in;
    char data[RECORD_MAX];

    (void)state;
    for (int sealed = 0; sealed <= 1; sealed++) {
        h.sealed = sealed;
        assert_true(
            record_begin(&in, data, record_put_header(data, &h, &chain), &read));
        assert_true(read.sealed == h.sealed && !read.is_seal);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc),
        cmocka_unit_test(test_what_was_written_is_read),
        cmocka_unit_test(test_the_longest_line_fits),
        cmocka_unit_test(test_a_file_that_ends_anywhere_says_what_is_whole),
        cmocka_unit_test(test_a_changed_bit_is_noticed),
        cmocka_unit_test(test_a_line_that_is_missing_or_twice_ends_it),
        cmocka_unit_test(test_a_sync_mark_counts_where_it_was_written_only),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_a_seal_is_whole_or_not),
        cmocka_unit_test(test_no_byte_of_a_seal_changes_unseen),
        cmocka_unit_test(test_the_end_of_a_seal_counts_its_lines),
        cmocka_unit_test(test_a_witness_says_whether_it_is_sealed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
