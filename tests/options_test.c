/* options_test.c - the command line, the file, and what is said of mistakes in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "name.h"
#include "options.h"

#define MAX_WORDS 8

struct result {
    enum options_result result;
    struct options o;
    char error[OPTIONS_ERROR_MAX];
};

/* Reads a command line of words separated by blanks. */
static struct result read_line(const char *line)
{
    char copy[512], *words[MAX_WORDS + 1] = {(char[]){"hilod"}}, *rest = copy;
    struct result r = {0};
    int argc = 1;

    snprintf(copy, sizeof copy, "%s", line);
    while (argc < MAX_WORDS && rest != NULL && *rest != '\0')
        words[argc++] = strsep(&rest, " ");
    words[argc] = NULL;
    r.result = options_read(argc, words, &r.o, r.error);
    return r;
}

/* The same with a file of that text, as the last words of the line. */
static struct result read_file_text(const char *flags, const char *text)
{
    char path[] = "/tmp/hilo-conf-XXXXXX", line[256];
    int fd = mkstemp(path);
    struct result r;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    snprintf(line, sizeof line, "%s%s-c %s", flags, *flags ? " " : "", path);
    r = read_line(line);
    unlink(path);
    return r;
}

static void assert_fails(struct result r, enum options_result want, const char *text)
{
    assert_int_equal(r.result, want);
    if (strstr(r.error, text) == NULL)
        fail_msg("'%s' is not in '%s'", text, r.error);
    options_free(&r.o);
}

static void test_defaults(void **state)
{
    struct result r = read_line("");

    (void)state;
    assert_int_equal(r.result, OPTIONS_RUN);
    assert_string_equal(r.o.data, "./hilo-data");
    assert_string_equal(r.o.listen, "127.0.0.1:4456");
    assert_string_equal(r.o.unix_path, "");
    assert_string_equal(r.o.engine, "sqlite");
    assert_int_equal(r.o.lane.number, 0);
    assert_int_equal(r.o.lane.stripe, 0);
    assert_int_equal(r.o.max_block, 1000000);
    assert_int_equal(r.o.int_reply_max, 9007199254740991);
    assert_false(r.o.insecure || r.o.allow_network_fs);
    options_free(&r.o);
}

static void test_flags_go_before_the_file(void **state)
{
    static const char text[] = "# comment, with 'quotes and \"more\n"
                               "lane = \"2/3\" # behind\nstripe = 9\nmax_block = 77\n"
                               "insecure = yes\ndata = '/tmp/a # b'\n";
    struct result r = read_file_text("--stripe 5", text);

    (void)state;
    assert_int_equal(r.result, OPTIONS_RUN);
    assert_int_equal(r.o.lane.stripe, 5);
    assert_int_equal(r.o.lane.number, 2);
    assert_int_equal(r.o.lane.lanes, 3);
    assert_int_equal(r.o.max_block, 77);
    assert_true(r.o.insecure);
    assert_string_equal(r.o.data, "/tmp/a # b");
    options_free(&r.o);
}

static void test_usage(void **state)
{
    (void)state;
    assert_fails(read_line("--bogus"), OPTIONS_USAGE, "--bogus");
    assert_fails(read_line("--data"), OPTIONS_USAGE, "needs a value");
    assert_fails(read_line("stray"), OPTIONS_USAGE, "stray");
    assert_fails(read_line("-x"), OPTIONS_USAGE, "-x");
}

static void test_values_out_of_range(void **state)
{
    static const char *const bad[][2] = {
        {"--lane 0/1", "lane"},
        {"--lane 3/2", "I/N"},
        {"--lane 1", "lane"},
        {"--lane 1/1025", "1024"},
        {"--lane 1/", "lane"},
        {"--lane a/b", "lane"},
        {"--stripe 0", "1 to 1000000000"},
        {"--stripe 1000000001", "stripe"},
        {"--stripe 05", "stripe"},
        {"--max-block 0", "max_block"},
        {"--max-block 1000000001", "1000000000"},
        {"--engine tape", "sqlite|memory"},
        {"--log-level loud", "error|warning|info|debug"},
        {"--auto-create maybe", "auto|yes|no"},
        {"--insecure=perhaps", "yes or no"},
        {"--int-reply-max 9223372036854775808", "int_reply"},
    };
    static const char *const good[] = {
        "--lane 1024/1024", "--lane 1/1",
        "--stripe 1",       "--stripe 1000000000",
        "--max-block 1",    "--insecure=no",
        "--insecure",       "--int-reply-max 9223372036854775807"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(read_line(bad[i][0]), OPTIONS_CONFIG, bad[i][1]);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct result r = read_line(good[i]);

        assert_int_equal(r.result, OPTIONS_RUN);
        options_free(&r.o);
    }
}

static void test_mistakes_in_a_file_name_the_line(void **state)
{
    (void)state;
    assert_fails(read_file_text("", "stripe = 1\nlane = x\n"), OPTIONS_CONFIG,
                 ":2: lane is 'x'");
    assert_fails(read_file_text("", "# a\n\n  // b\nlane = x\n"), OPTIONS_CONFIG,
                 ":4: lane");
    assert_fails(read_file_text("", "stripe = 1 # c\nbogus = 5\n"), OPTIONS_CONFIG,
                 ":2: ");
    assert_fails(read_file_text("", "stripe = 1\nbogus = 5\n"), OPTIONS_CONFIG,
                 "bogus");
    assert_fails(read_file_text("", "stripe 5\n"), OPTIONS_CONFIG, ":1: ");
    assert_fails(read_file_text("", "stripe = 1\n\ndata = \"open\nlane = 1/1\n"),
                 OPTIONS_CONFIG, ":3: a quote that does not end");
    assert_fails(read_file_text("", "data = 'open\\"), OPTIONS_CONFIG,
                 ":1: a quote that does not end");
    assert_fails(read_file_text("", "data = a\"${b\"\n"), OPTIONS_CONFIG, ":");
    assert_fails(read_line("-c /does/not/exist"), OPTIONS_CONFIG, "/does/not/exist");
    assert_fails(read_line("-c /tmp"), OPTIONS_CONFIG, "/tmp");
}

static void test_every_option_is_shown(void **state)
{
    struct result r = read_line("--lane 2/3 --stripe 5 --unix /s");
    const char *name, *value;
    char buf[64];
    size_t n = 0;

    (void)state;
    for (; options_show(&r.o, n, &name, &value, buf, sizeof buf); n++) {
        assert_non_null(value);
        if (strcmp(name, "lane") == 0)
            assert_string_equal(value, "2/3");
        if (strcmp(name, "stripe") == 0)
            assert_string_equal(value, "5");
        if (strcmp(name, "unix") == 0)
            assert_string_equal(value, "/s");
        if (strcmp(name, "insecure") == 0)
            assert_string_equal(value, "no");
    }
    assert_true(n > 10);
    options_free(&r.o);
}

static void test_names(void **state)
{
    char name[NAME_MAX_LEN + 1];

    (void)state;
    memset(name, 'x', sizeof name);
    assert_true(name_valid(name, NAME_MAX_LEN));
    assert_false(name_valid(name, NAME_MAX_LEN + 1));
    assert_false(name_valid("", 0));
    for (int c = 0; c < 256; c++) {
        bool allowed =
            c != 0 && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                             "0123456789._:/-",
                             c) != NULL;

        name[5] = (char)c;
        assert_int_equal(name_valid(name, 9), allowed);
    }
}

static void test_patterns(void **state)
{
    static const struct {
        const char *pattern, *name;
        bool match;
    } rows[] = {
        {"*", "", true},          {"*", "abc", true},      {"", "", true},
        {"", "a", false},         {"a*", "abc", true},     {"*c", "abc", true},
        {"a*c*e", "abcde", true}, {"a?c", "abc", true},    {"a?c", "ac", false},
        {"*b*b*", "abcb", true},  {"*b*b*", "abc", false}, {"A", "a", false},
        {"**a", "a", true},       {"a?", "a", false},      {"*?", "", false},
    };
    char many[200], pattern[60];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(name_match(rows[i].pattern, strlen(rows[i].pattern),
                                    rows[i].name, strlen(rows[i].name)),
                         rows[i].match);
    memset(many, 'a', sizeof many); /* would take for ever if it tried all ways */
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = i % 2 ? 'a' : '*';
    pattern[sizeof pattern - 1] = 'b';
    assert_false(name_match(pattern, sizeof pattern, many, sizeof many));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_flags_go_before_the_file),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_values_out_of_range),
        cmocka_unit_test(test_mistakes_in_a_file_name_the_line),
        cmocka_unit_test(test_every_option_is_shown),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_patterns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
