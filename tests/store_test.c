/* store_test.c - the one contract test of stores, run on each engine, and what is
 * SQLite's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "error.h"
#include "log.h"
#include "number.h"
#include "store.h"

/* The program's own symbols go before those of the C library: a sync that can be made
 * to fail, also inside SQLite. */
static unsigned syncs, sync_fails_from; /* the how manyeth sync fails; 0: none does */
int fdatasync(int fd);
int fsync(int fd);

int fdatasync(int fd)
{
    syncs++;
    errno = EIO;
    if (sync_fails_from > 0 && syncs >= sync_fails_from)
        return -1;
    return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    return fdatasync(fd);
}

/* The same for reads; writes that fail come from a limit on the size of files. */
static bool reads_fail;
ssize_t pread64(int fd, void *buf, size_t count, off64_t offset);

ssize_t pread64(int fd, void *buf, size_t count, off64_t offset)
{
    errno = EIO;
    return reads_fail ? -1 : syscall(SYS_pread64, fd, buf, count, offset);
}

struct fixture {
    const struct store_engine *engine;
    char dir[64];
    struct store *store;
    struct store_identity id;
};

static int try_open(struct fixture *f, struct lane lane, struct store_error *error)
{
    struct store_config config = {.dir = f->dir, .lane = lane};

    return f->engine->open(&config, &f->store, &f->id, error);
}

static void open_store(struct fixture *f)
{
    struct store_error error;

    if (try_open(f, (struct lane){0}, &error) != 0)
        fail_msg("%s", error.text);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->engine = *state;
    strcpy(f->dir, "/tmp/hilo-store-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    open_store(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char command[128];

    sync_fails_from = 0;
    reads_fail = false;
    if (f->store != NULL)
        f->engine->close(f->store);
    snprintf(command, sizeof command, "rm -rf %s", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

static enum store_outcome commit(struct fixture *f, struct store_op *ops, size_t n)
{
    struct store_error error;

    return f->engine->commit(f->store, ops, n, &error);
}

static void commit_one(struct fixture *f, struct store_op *op)
{
    assert_int_equal(commit(f, op, 1), STORE_DONE);
}

static uint64_t create(struct fixture *f, const char *name, uint64_t mark)
{
    struct store_op op = {.kind = STORE_CREATE,
                          .name = name,
                          .name_len = strlen(name),
                          .attr = {.start = mark + 1, .max = HILO_ID_MAX},
                          .floor = mark};

    commit_one(f, &op);
    assert_int_equal(op.err, 0);
    assert_int_equal(op.mark, mark);
    return op.counter;
}

static struct store_op reserve(uint64_t counter, uint64_t min, uint64_t count,
                               uint64_t floor, uint64_t limit)
{
    return (struct store_op){.kind = STORE_RESERVE,
                             .counter = counter,
                             .min = min,
                             .count = count,
                             .floor = floor,
                             .limit = limit};
}

/* --- the contract --- */

static void test_reserve(void **state)
{
    struct fixture *f = *state;
    uint64_t a = create(f, "a", 0), b = create(f, "b", 500);
    struct store_op ops[] = {reserve(a, 1, 10, 0, 1000), reserve(b, 1, 5, 0, 1000)};

    assert_int_not_equal(a, b);
    assert_int_equal(commit(f, ops, 2), STORE_DONE);
    assert_int_equal(ops[0].first, 0);
    assert_int_equal(ops[0].mark, 10);
    assert_int_equal(ops[1].first, 500);
    ops[0] = reserve(a, 1, 10, 100, 1000); /* a floor above the mark */
    ops[1] = reserve(b, 1, 10, 100, 1000); /* and one below it */
    assert_int_equal(commit(f, ops, 2), STORE_DONE);
    assert_int_equal(ops[0].first, 100);
    assert_int_equal(ops[1].first, 505);
    ops[0] = reserve(a, 0, 0, 200, 1000); /* nothing but the floor */
    commit_one(f, &ops[0]);
    assert_int_equal(ops[0].mark, 200);
}

static void test_answers_to_one_are_no_failure_of_all(void **state)
{
    struct fixture *f = *state;
    uint64_t a = create(f, "a", 0), b = create(f, "b", 0);
    struct store_op ops[] = {reserve(a, 6, 10, 0, 5), reserve(b, 2, 10, 0, 5),
                             reserve(99, 1, 1, 0, 5), reserve(0, 1, 1, 0, 5)};

    assert_int_equal(commit(f, ops, 4), STORE_DONE);
    assert_int_equal(ops[0].err, HILO_EEXHAUSTED);
    assert_int_equal(ops[1].err, 0);
    assert_int_equal(ops[1].count, 5); /* what is left, since min is met */
    assert_int_equal(ops[2].err, HILO_ENOSEQ);
    assert_int_equal(ops[3].err, HILO_ENOSEQ);
    ops[0] = reserve(a, 5, 5, 0, 5);
    commit_one(f, &ops[0]);
    assert_int_equal(ops[0].first, 0); /* the refusal had moved nothing */
}

static void test_ends_of_the_range(void **state)
{
    struct fixture *f = *state;
    uint64_t a = create(f, "a", HILO_ID_MAX - 3);
    struct store_op op = reserve(a, 1, 100, 0, HILO_ID_MAX);

    commit_one(f, &op);
    assert_int_equal(op.first, HILO_ID_MAX - 3);
    assert_int_equal(op.count, 3);
    op = reserve(a, 1, 1, 0, HILO_ID_MAX);
    commit_one(f, &op);
    assert_int_equal(op.err, HILO_EEXHAUSTED);
    op = reserve(a, 1, 1, UINT64_MAX, HILO_ID_MAX);
    commit_one(f, &op);
    assert_int_equal(op.err, HILO_EEXHAUSTED);
}

static void test_marks_go_down_only_by_giving_back(void **state)
{
    struct fixture *f = *state;
    uint64_t a = create(f, "a", 0);
    struct store_op op = reserve(a, 1, 100, 0, 1000);

    commit_one(f, &op);
    op = (struct store_op){.kind = STORE_ALTER,
                           .counter = a,
                           .floor = 50,
                           .attr = {.start = 1, .max = 500, .each = true}};
    commit_one(f, &op);
    assert_int_equal(op.mark, 100);
    op = (struct store_op){
        .kind = STORE_GIVE_BACK, .counter = a, .floor = 10, .mark = 99};
    commit_one(f, &op); /* the mark is another one */
    assert_int_equal(op.mark, 100);
    op = (struct store_op){
        .kind = STORE_GIVE_BACK, .counter = a, .floor = 30, .mark = 100};
    commit_one(f, &op);
    assert_int_equal(op.mark, 30);
    op = reserve(a, 1, 1, 0, 1000);
    commit_one(f, &op);
    assert_int_equal(op.first, 30);
}

static void test_large_batches_and_empty_ones(void **state)
{
    enum { MANY = 5000 };
    struct fixture *f = *state;
    struct store_op *ops = calloc(MANY, sizeof *ops);
    char(*names)[16] = calloc(MANY, sizeof *names);

    assert_int_equal(commit(f, NULL, 0), STORE_DONE);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "n%u", i);
        ops[i] = (struct store_op){.kind = STORE_CREATE,
                                   .name = names[i],
                                   .name_len = strlen(names[i]),
                                   .floor = i,
                                   .attr = {.start = 1, .max = 9}};
    }
    assert_int_equal(commit(f, ops, MANY), STORE_DONE);
    for (unsigned i = 0; i < MANY; i++)
        ops[i] = reserve(ops[i].counter, 1, 1, 0, HILO_ID_MAX);
    assert_int_equal(commit(f, ops, MANY), STORE_DONE);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(ops[i].first, i);
    free(ops);
    free(names);
}

static void test_stats(void **state)
{
    struct fixture *f = *state;
    struct store_stats before, after;
    struct store_op op = reserve(create(f, "a", 0), 1, 1, 0, 10);

    f->engine->stats(f->store, &before);
    syncs = 0;
    commit_one(f, &op);
    f->engine->stats(f->store, &after);
    assert_int_equal(after.commits, before.commits + 1);
    assert_int_equal(after.syncs - before.syncs, syncs);
    assert_true(f->engine->durable == (syncs > 0));
}

/* --- SQLite --- */

struct seen {
    unsigned n;
    struct counter_attr attr[3];
    uint64_t mark[3];
};

static void see(void *arg, uint64_t counter, const char *name, size_t len,
                const struct counter_attr *attr, uint64_t mark)
{
    struct seen *seen = arg;

    assert_true(seen->n < 3 && counter == seen->n + 1);
    assert_int_equal(len, 1);
    assert_int_equal(name[0], 'a' + (int)seen->n);
    seen->attr[seen->n] = *attr;
    seen->mark[seen->n++] = mark;
}

static void reopen(struct fixture *f)
{
    f->engine->close(f->store);
    f->store = NULL;
    open_store(f);
}

static void load(struct fixture *f, struct seen *ret)
{
    struct store_error error;

    *ret = (struct seen){0};
    assert_int_equal(f->engine->load(f->store, see, ret, &error), 0);
}

static void test_everything_is_there_after_a_restart(void **state)
{
    struct fixture *f = *state;
    struct store_identity before = f->id;
    struct store_op op;
    struct seen seen;

    assert_non_null(
        strstr(f->id.settings, "journal_mode:wal\r\nsynchronous:2\r\nfilesystem:"));
    create(f, "a", 7);
    create(f, "b", 0);
    op = (struct store_op){
        .kind = STORE_ALTER,
        .counter = 1,
        .floor = 9,
        .attr = {.start = 8, .max = 99, .each = true, .retired = true}};
    commit_one(f, &op);
    reopen(f);
    load(f, &seen);
    assert_int_equal(seen.n, 2);
    assert_int_equal(seen.mark[0], 9);
    assert_int_equal(seen.attr[0].start, 8);
    assert_int_equal(seen.attr[0].max, 99);
    assert_true(seen.attr[0].each && seen.attr[0].retired);
    assert_false(seen.attr[1].each || seen.attr[1].retired);
    assert_string_equal(f->id.uuid, before.uuid);
    assert_int_equal(f->id.starts, before.starts + 1);
    assert_int_equal(create(f, "c", 0), 3);
}

static void test_a_contradicting_lane_is_refused(void **state)
{
    static const struct lane wrong[] = {{2, 2, 0}, {1, 2, 0}, {0, 0, 7}, {1, 1, 7}};
    struct fixture *f = *state;
    struct store_error error;

    f->engine->close(f->store);
    f->store = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(try_open(f, wrong[i], &error), -1);
        assert_true(error.config);
        assert_non_null(strstr(error.text, wrong[i].stripe ? "stripe 7" : "/2"));
        assert_non_null(
            strstr(error.text, wrong[i].stripe ? "stripe 100000" : "lane 1/1"));
    }
    assert_int_equal(try_open(f, (struct lane){1, 1, STRIPE_DEFAULT}, &error), 0);
}

/* Changes the closed database behind hilod's back, then expects it to be refused. */
static void refused_after(struct fixture *f, const char *statement, const char *why)
{
    struct store_error error;
    char command[256];

    if (f->store != NULL)
        f->engine->close(f->store);
    f->store = NULL;
    snprintf(command, sizeof command, "sqlite3 %s/hilo.db '%s'", f->dir, statement);
    assert_int_equal(system(command), 0);
    assert_int_equal(try_open(f, (struct lane){0}, &error), -1);
    assert_true(error.config);
    assert_non_null(strstr(error.text, why));
}

static void test_what_is_not_ours_is_refused(void **state)
{
    struct fixture *f = *state;

    refused_after(f, "PRAGMA user_version = 3", "schema 3");
    refused_after(f, "PRAGMA user_version = 2; PRAGMA application_id = 5",
                  "not one of");
    refused_after(f, "PRAGMA application_id = 0; DROP TABLE counter", "not one of");
}

static struct store_token token_seen;

static void see_token(void *arg, const struct store_token *t)
{
    ++*(int *)arg;
    token_seen = *t;
    token_seen.text = NULL;
}

static int count_tokens(struct fixture *f)
{
    struct store_error error;
    int n = 0;

    assert_int_equal(f->engine->load_tokens(f->store, see_token, &n, &error), 0);
    return n;
}

static void put_token(struct fixture *f, const char *text, uint64_t first,
                      int64_t at_ms)
{
    struct store_op op = {.kind = STORE_TOKEN,
                          .token = {.text = text,
                                    .len = strlen(text),
                                    .counter = 1,
                                    .asked = 5,
                                    .atleast = 4,
                                    .first = first,
                                    .count = 3,
                                    .at_ms = at_ms}};

    commit_one(f, &op);
}

/* What hilod 0.1.0 left before there were tokens. */
static void test_an_older_schema_is_brought_up(void **state)
{
    struct fixture *f = *state;
    struct store_error error;
    char command[256];
    struct seen seen;

    create(f, "a", 7);
    f->engine->close(f->store);
    f->store = NULL;
    snprintf(command, sizeof command,
             "sqlite3 %s/hilo.db 'DROP TABLE token; PRAGMA user_version = 1'", f->dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(try_open(f, (struct lane){0}, &error), 0);
    load(f, &seen);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.mark[0], 7);
    put_token(f, "t", 1, 0);
    assert_int_equal(count_tokens(f), 1);
}

/* Tokens are kept with the batch, replaced by one of the same text, and forgotten when
 * that is asked for; also after a restart. */
static void test_tokens(void **state)
{
    struct fixture *f = *state;
    struct store_op ops[3] = {
        {.kind = STORE_TOKEN,
         .token = {.text = "u", .len = 1, .first = 9, .at_ms = 20}},
        reserve(create(f, "a", 0), 1, 10, 0, 1000),
        {.kind = STORE_PURGE, .token = {.at_ms = 10}, .uptime_ms = 77}};

    put_token(f, "t", 1, 5);
    put_token(f, "t", 2, 6);
    assert_int_equal(count_tokens(f), 1);
    assert_true(token_seen.first == 2 && token_seen.count == 3 &&
                token_seen.asked == 5 && token_seen.atleast == 4 &&
                token_seen.counter == 1 && token_seen.at_ms == 6 &&
                token_seen.len == 1);
    assert_int_equal(commit(f, ops, 3), STORE_DONE);
    reopen(f);
    assert_int_equal(count_tokens(f), 1);
    assert_int_equal(token_seen.first, 9);
    assert_int_equal(f->id.uptime_ms, 77);
}

/* Marks of the next one may be lower, as positions of other lanes are. */
static void test_a_layout_ends_and_another_one_begins(void **state)
{
    struct fixture *f = *state;
    struct store_op ops[2] = {
        {.name = "a", .name_len = 1, .mark = 4, .attr = {.start = 3, .max = 9}},
        {.name = "b", .name_len = 1, .mark = 7, .attr = {.start = 1, .retired = true}}};
    struct store_identity next;
    struct store_error error;
    struct seen seen;

    create(f, "a", 100);
    put_token(f, "t", 1, 5);
    assert_false(f->id.sealed);
    assert_int_equal(f->engine->set_witnessed(f->store, true, &error), 0);
    assert_int_equal(f->engine->seal(f->store, &error), 0);
    reopen(f);
    assert_true(f->id.sealed && f->id.witnessed == 1);
    next = f->id;
    next.lane = (struct lane){.number = 2, .lanes = 3, .stripe = 5};
    next.epoch = 8;
    next.skip = 11;
    assert_int_equal(f->engine->relane(f->store, &next, ops, 2, &error), 0);
    reopen(f);
    assert_true(!f->id.sealed && f->id.witnessed == 1 && f->id.epoch == 8 &&
                f->id.skip == 11);
    assert_true(f->id.lane.number == 2 && f->id.lane.lanes == 3 &&
                f->id.lane.stripe == 5);
    assert_string_equal(f->id.uuid, next.uuid);
    assert_int_equal(count_tokens(f), 0);
    load(f, &seen);
    assert_true(seen.n == 2 && seen.mark[0] == 4 && seen.mark[1] == 7);
    assert_true(seen.attr[0].max == 9 && seen.attr[1].retired);
    assert_int_equal(f->engine->set_witnessed(f->store, true, &error), 0);
    reopen(f);
    assert_int_equal(f->id.witnessed, 8);
}

/* All of it, or nothing. */
static void test_a_layout_whose_beginning_failed_has_not_begun(void **state)
{
    struct fixture *f = *state;
    struct store_op ops[2] = {{.name = "a", .name_len = 1, .mark = 4},
                              {.name = "a", .name_len = 1, .mark = 7}}; /* twice */
    struct store_identity next = f->id;
    struct store_error error;
    struct seen seen;

    create(f, "a", 100);
    assert_int_equal(f->engine->seal(f->store, &error), 0);
    next.epoch = 8;
    assert_int_equal(f->engine->relane(f->store, &next, ops, 2, &error), -1);
    reopen(f);
    assert_true(f->id.sealed && f->id.epoch == 1);
    load(f, &seen);
    assert_true(seen.n == 1 && seen.mark[0] == 100);
}

static void test_a_seal_whose_sync_failed_is_none(void **state)
{
    struct fixture *f = *state;
    struct store_error error;

    sync_fails_from = syncs + 1;
    assert_int_equal(f->engine->seal(f->store, &error), -1);
    sync_fails_from = 0;
    assert_non_null(strstr(error.text, "refused a sync"));
}

/* A failed sync: the batch grants nothing, and nothing is believed afterwards. */
static void test_a_failed_sync_is_the_end(void **state)
{
    struct fixture *f = *state;
    uint64_t a = create(f, "a", 0);
    struct store_op op = reserve(a, 1, 10, 0, 1000);
    struct seen seen;

    commit_one(f, &op);
    syncs = 0;
    sync_fails_from = 1;
    op = reserve(a, 1, 10, 0, 1000);
    assert_int_equal(commit(f, &op, 1), STORE_DEAD);
    sync_fails_from = 0;
    reopen(f);
    load(f, &seen);
    assert_true(seen.mark[0] >= 10);
}

/* A batch that can't be written. */
static void fail_to_write(struct fixture *f, uint64_t counter)
{
    struct rlimit before, small = {.rlim_cur = 8192};
    struct store_op op = reserve(counter, 1, 10, 0, 1000);

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(commit(f, &op, 1), STORE_FAILED);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

/* A write that fails: nothing is granted, and it goes on where it stood when the disk
 * is well again, however often it has failed. */
static void test_a_failed_write_moves_nothing(void **state)
{
    struct fixture *f = *state;
    uint64_t a = create(f, "a", 0);
    struct store_op op = reserve(a, 1, 10, 0, 1000);
    struct seen seen;

    commit_one(f, &op);
    for (int i = 0; i < 200; i++)
        fail_to_write(f, a);
    op = reserve(a, 1, 10, 0, 1000);
    commit_one(f, &op);
    assert_int_equal(op.first, 10);
    reopen(f);
    load(f, &seen);
    assert_int_equal(seen.mark[0], 20);
}

/* Where the row can't be read after the failure its range may have been reserved. */
static void test_what_a_failed_write_may_have_moved_is_burnt(void **state)
{
    struct fixture *f = *state;
    uint64_t a = create(f, "a", 0);
    struct store_op op = reserve(a, 1, 10, 0, 1000);

    commit_one(f, &op);
    reads_fail = true;
    fail_to_write(f, a);
    reads_fail = false;
    op = reserve(a, 1, 10, 0, 1000);
    commit_one(f, &op);
    assert_int_equal(op.first, 20);
}

/* The sync that fails is one of a checkpoint, which COMMIT does not report. A commit is
 * one sync, so a second one within a commit is the checkpoint's. */
static void test_a_failed_sync_of_a_checkpoint_is_the_end(void **state)
{
    struct fixture *f = *state;
    uint64_t a = create(f, "a", 0);

    sync_fails_from = 2;
    for (unsigned i = 0; i < 5000; i++) {
        struct store_op op = reserve(a, 1, 1, 0, HILO_ID_MAX);
        enum store_outcome outcome;

        syncs = 0;
        outcome = commit(f, &op, 1);
        if (syncs > 1) {
            assert_int_equal(outcome, STORE_DEAD);
            return;
        }
        assert_int_equal(outcome, STORE_DONE);
    }
    fail_msg("no checkpoint in 5000 commits");
}

/* A crash: the log is all there is of the last commits. */
static void test_a_log_left_by_a_crash_is_read(void **state)
{
    struct fixture *f = *state;
    struct seen seen;
    int status;
    pid_t child;

    f->engine->close(f->store);
    f->store = NULL;
    child = fork();
    if (child == 0) {
        struct store_op op;

        open_store(f);
        create(f, "a", 0);
        op = reserve(1, 1, 77, 0, 1000);
        _exit(commit(f, &op, 1) == STORE_DONE ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    open_store(f);
    load(f, &seen);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.mark[0], 77);
}

static void test_a_directory_that_can_not_be(void **state)
{
    struct fixture *f = *state;
    struct fixture other = {.engine = f->engine, .dir = "/dev/null/x"};
    struct store_error error;

    assert_int_equal(try_open(&other, (struct lane){0}, &error), -1);
    assert_non_null(strstr(error.text, "/dev/null/x"));
}

#define CONTRACT(engine)                                                             \
    of(test_reserve, engine), of(test_answers_to_one_are_no_failure_of_all, engine), \
        of(test_ends_of_the_range, engine),                                          \
        of(test_marks_go_down_only_by_giving_back, engine),                          \
        of(test_large_batches_and_empty_ones, engine), of(test_stats, engine)
#define of(test, engine)                                              \
    cmocka_unit_test_prestate_setup_teardown(test, set_up, tear_down, \
                                             (void *)(uintptr_t)(engine))

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTRACT(&store_memory),
        CONTRACT(&store_sqlite),
        of(test_everything_is_there_after_a_restart, &store_sqlite),
        of(test_a_contradicting_lane_is_refused, &store_sqlite),
        of(test_what_is_not_ours_is_refused, &store_sqlite),
        of(test_an_older_schema_is_brought_up, &store_sqlite),
        of(test_tokens, &store_sqlite),
        of(test_a_layout_ends_and_another_one_begins, &store_sqlite),
        of(test_a_layout_whose_beginning_failed_has_not_begun, &store_sqlite),
        of(test_a_seal_whose_sync_failed_is_none, &store_sqlite),
        of(test_a_failed_write_moves_nothing, &store_sqlite),
        of(test_what_a_failed_write_may_have_moved_is_burnt, &store_sqlite),
        of(test_a_failed_sync_is_the_end, &store_sqlite),
        of(test_a_failed_sync_of_a_checkpoint_is_the_end, &store_sqlite),
        of(test_a_log_left_by_a_crash_is_read, &store_sqlite),
        of(test_a_directory_that_can_not_be, &store_sqlite),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
