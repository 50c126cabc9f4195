/* power_test.c - power that fails at every write (power.h): what was acknowledged is
 * still there when hilod starts anew. The power fails at the n-th call, and n goes from
 * 1 until a run meets no failure. */
#include "guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* After the four above, which it needs. */
#include <cmocka.h>
#include <unistd.h>
#include "number.h"
#include "power.h"
#include "relane.h"
#include "seal.h"

#define ACTS     14 /* of one run */
#define COUNTERS 3

static char dir[64];

/* --- what was acknowledged --- */

struct acked {
    uint64_t granted[COUNTERS]; /* positions below were granted */
    bool known[COUNTERS];       /* the counter was */
    uint64_t max[COUNTERS], wanted_max[COUNTERS];
    uint64_t handle[COUNTERS];
    uint64_t tokens; /* so many, numbered; each with the block of its own number */
    bool put_back;   /* the database is an older one, which knows fewer tokens */
};

static const char *const names[COUNTERS] = {"ahead", "each", "third"};

static struct counter_attr attr_of(int i, uint64_t max)
{
    return (struct counter_attr){.start = 1, .max = max, .each = i == 1};
}

static bool commit(struct guard *g, struct store_op *ops, size_t n)
{
    struct store_batch b = {.ops = ops, .n = n};

    guard_commit(g, &b);
    return b.outcome == STORE_DONE;
}

static struct store_op op_of(const struct acked *a, int i, enum store_kind kind)
{
    return (struct store_op){.kind = kind,
                             .counter = a->handle[i],
                             .name = names[i],
                             .name_len = strlen(names[i]),
                             .attr = attr_of(i, a->max[i])};
}

static void create(struct guard *g, struct acked *a, int i)
{
    struct store_op op = op_of(a, i, STORE_CREATE);

    op.attr = attr_of(i, 1000000);
    if (!commit(g, &op, 1))
        return;
    a->handle[i] = op.counter;
    a->known[i] = true;
    a->max[i] = a->wanted_max[i] = 1000000;
}

static void reserve(struct guard *g, struct acked *a, int i)
{
    struct store_op op = op_of(a, i, STORE_RESERVE);

    op.min = 1;
    op.count = 1 + (uint64_t)(rand() % 50);
    op.limit = 1000000;
    op.rate = op.count;
    if (!commit(g, &op, 1) || op.err != 0)
        return;
    assert_true(op.first >= a->granted[i]); /* never twice */
    a->granted[i] = op.first + op.count;
}

static void alter(struct guard *g, struct acked *a, int i)
{
    struct store_op op = op_of(a, i, STORE_ALTER);

    a->wanted_max[i] = op.attr.max = a->max[i] + 1;
    if (commit(g, &op, 1))
        a->max[i] = op.attr.max;
}

static void name_token(char *text, uint64_t n)
{
    snprintf(text, 16, "t%u", (unsigned)n);
}

/* Two counters and a token in one batch. */
static void grant_with_token(struct guard *g, struct acked *a)
{
    struct store_op ops[3] = {
        op_of(a, 0, STORE_RESERVE), {.kind = STORE_TOKEN}, op_of(a, 1, STORE_RESERVE)};
    char text[16];

    name_token(text, a->tokens);
    ops[0].min = ops[0].count = ops[2].min = ops[2].count = 5;
    ops[0].limit = ops[2].limit = 1000000;
    ops[1].token = (struct store_token){.text = text,
                                        .len = strlen(text),
                                        .counter = 1,
                                        .asked = 5,
                                        .first = a->tokens * 7,
                                        .count = 5,
                                        .at_ms = 1};
    if (!commit(g, ops, 3))
        return;
    a->tokens++;
    a->granted[0] = ops[0].first + 5;
    a->granted[1] = ops[2].first + 5;
}

/* As a clean stop does: what is granted is known, the rest goes back. */
static void give_back(struct guard *g, struct acked *a)
{
    struct store_op reserved = op_of(a, 0, STORE_RESERVE), back;
    struct store_batch b = {.ops = &back, .n = 1};

    reserved.min = reserved.count = 40;
    reserved.limit = 1000000;
    if (!commit(g, &reserved, 1) || reserved.err != 0)
        return;
    a->granted[0] = reserved.first + 10;
    back = op_of(a, 0, STORE_GIVE_BACK);
    back.floor = a->granted[0];
    back.mark = reserved.mark;
    guard_give_back(g, &b);
}

/* --- runs --- */

static const struct store_config config = {.dir = dir, .allow_network_fs = true};

/* A path in the directory. */
static const char *in(const char *name)
{
    static char path[2][128];
    static int turn;

    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static int start(struct guard *g, struct store_error *error)
{
    const struct guard_acts acts = {.skip = 0};

    return guard_open(g, &store_sqlite, &config, in("hilo.witness"), &acts, error);
}

struct found {
    struct acked *acked;
    bool seen[COUNTERS];
    uint64_t tokens;
};

static void check_counter(void *arg, uint64_t counter, const char *name,
                          size_t name_len, const struct counter_attr *attr,
                          uint64_t mark)
{
    struct found *f = arg;

    for (int i = 0; i < COUNTERS; i++) {
        if (strlen(names[i]) != name_len || memcmp(names[i], name, name_len) != 0)
            continue;
        f->seen[i] = true;
        f->acked->handle[i] = counter;
        assert_true(mark >= f->acked->granted[i]);
        if (f->acked->known[i])
            assert_true(attr->max == f->acked->max[i] ||
                        attr->max == f->acked->wanted_max[i]);
        f->acked->known[i] = true;
        f->acked->max[i] = f->acked->wanted_max[i] = attr->max;
    }
}

static void check_token(void *arg, const struct store_token *t)
{
    struct found *f = arg;
    char text[16];

    /* One more than was acknowledged may be there: its answer was on its way. */
    assert_true(f->tokens <= f->acked->tokens);
    for (uint64_t n = 0; n <= f->acked->tokens; n++) {
        name_token(text, n);
        if (strlen(text) != t->len || memcmp(text, t->text, t->len) != 0)
            continue;
        assert_true(t->first == n * 7 && t->count == 5 && t->asked == 5);
        f->tokens++;
        return;
    }
    fail_msg("a token that was never given");
}

/* All that was acknowledged is there. */
static void check(struct guard *g, struct acked *a)
{
    struct found f = {.acked = a};
    struct store_error error;

    assert_true(g->behind == 0 || a->put_back);
    assert_int_equal(g->engine->load(g->store, check_counter, &f, &error), 0);
    assert_int_equal(g->engine->load_tokens(g->store, check_token, &f, &error), 0);
    for (int i = 0; i < COUNTERS; i++)
        assert_true(f.seen[i] || !a->known[i]);
    assert_true(f.tokens >= a->tokens || a->put_back);
    a->tokens = f.tokens;
    a->put_back = false;
}

static void act(struct guard *g, struct acked *a, int i)
{
    if (i < COUNTERS && !a->known[i])
        create(g, a, i);
    else if (i == 9)
        give_back(g, a);
    else if (i % 5 == 3)
        alter(g, a, rand() % COUNTERS);
    else if (i % 5 == 4)
        grant_with_token(g, a);
    else
        reserve(g, a, rand() % COUNTERS);
}

/* One life: a start, acts, a stop; the power may fail anywhere in it. */
static void live(struct acked *a)
{
    struct store_error error;
    struct guard g;

    if (start(&g, &error) != 0) {
        assert_true(power_is_out());
        return;
    }
    check(&g, a);
    for (int i = 0; i < ACTS && !power_is_out(); i++)
        act(&g, a, i);
    guard_close(&g);
}

static void begin(const char *first)
{
    char command[1200];

    snprintf(command, sizeof command, "rm -rf %s; mkdir %s", dir, dir);
    assert_int_equal(system(command), 0);
    if (first == NULL)
        return;
    snprintf(command, sizeof command, "sqlite3 %s/hilo.db '%s'", dir, first);
    assert_int_equal(system(command), 0);
}

/* What happens around the life in which the power fails. */
struct story {
    const char *first; /* the database there is to begin with, as SQL; or NULL */
    bool second;       /* there was a life before */
    bool put_back;     /* ... and afterwards the database is the one it left */
};

static void in_dir(const char *command)
{
    char line[1200];

    snprintf(line, sizeof line, "cd %s && %s", dir, command);
    assert_int_equal(system(line), 0);
}

/* The power fails at the n-th call. */
static bool run(const struct story *s, unsigned n, enum fate fate, unsigned seed)
{
    struct acked a = {.tokens = 0};
    bool died;

    srand(seed);
    begin(s->first);
    if (s->second)
        live(&a);
    if (s->put_back)
        in_dir("cp hilo.db old");
    power_watch(dir);
    power_out_at(n);
    live(&a);
    died = power_is_out();
    power_on(dir, fate);
    power_watch(NULL);
    if (s->put_back)
        in_dir("mv old hilo.db && rm -f hilo.db-wal");
    a.put_back = s->put_back;
    live(&a); /* checks, and goes on */
    live(&a);
    return died;
}

static void try_all(const struct story *s)
{
    const char *text = getenv("HILO_LONG");
    bool all = text != NULL && strcmp(text, "1") == 0, died = true;
    unsigned n = 0;

    while (died) {
        n++;
        for (unsigned k = 0; k < (all ? 3 * FATES : 1); k++)
            died = run(s, n, (enum fate)((n + k) % FATES), n + 1000 * k);
    }
    assert_true(n > 30);
    print_message("the power failed at each of %u calls\n", n - 1);
}

static void test_at_every_write_of_a_new_store(void **state)
{
    (void)state;
    try_all(&(struct story){.second = false});
}

static void test_at_every_write_of_one_that_is_used_again(void **state)
{
    (void)state;
    try_all(&(struct story){.second = true});
}

/* What the witness has on the disk has to do. */
static void test_at_every_write_and_then_an_older_copy_is_put_back(void **state)
{
    (void)state;
    try_all(&(struct story){.second = true, .put_back = true});
}

/* As hilod left it before there were tokens and witnesses. */
static void test_at_every_write_while_the_schema_changes(void **state)
{
    static const char *const old =
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE counter (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,"
        " mark INTEGER NOT NULL, start INTEGER NOT NULL, max INTEGER NOT NULL,"
        " each INTEGER NOT NULL, retired INTEGER NOT NULL) STRICT;"
        "INSERT INTO meta VALUES (\"uuid\", \"01234567-89ab-4cde-8f01-23456789abcd\"),"
        " (\"lane\", 1), (\"lanes\", 1), (\"stripe\", 100000), (\"epoch\", 1),"
        " (\"starts\", 3);"
        "PRAGMA application_id = 1751739503; PRAGMA user_version = 1";

    (void)state;
    try_all(&(struct story){.first = old});
}

/* --- a change of lanes --- */

static bool seal(void)
{
    const struct guard_acts acts = {.seal = true};
    struct store_error error;
    struct guard g;
    bool done;

    if (guard_open(&g, &store_sqlite, &config, in("hilo.witness"), &acts, &error) != 0)
        return false;
    done = relane_seal(&g, in("seal"), &error) == 0;
    guard_close(&g);
    return done;
}

static bool open_lane(void)
{
    char *const files[] = {(char *)(uintptr_t)in("seal")};
    const struct relane_open wanted = {.engine = &store_sqlite,
                                       .config = config,
                                       .witness = in("hilo.witness"),
                                       .lane = {1, 2, 1},
                                       .files = files,
                                       .n_files = 1};
    struct store_error error;

    return relane_open(&wanted, &error) == 0;
}

/* What a counter grants next lies above all that was granted before. */
static void check_above(void *arg, uint64_t counter, const char *name, size_t name_len,
                        const struct counter_attr *attr, uint64_t mark)
{
    struct acked *a = arg;
    uint64_t id;

    (void)counter;
    assert_true(lane_id_at((struct lane){1, 2, 1}, mark, &id));
    for (int i = 0; i < COUNTERS; i++) {
        if (strlen(names[i]) != name_len || memcmp(names[i], name, name_len) != 0)
            continue;
        assert_true(id > a->granted[i]);
        assert_true(!a->known[i] || attr->max == a->max[i] ||
                    attr->max == a->wanted_max[i]);
        a->handle[i]++; /* it was seen */
    }
}

/* Whatever state it was left in: the old layout goes on, or nothing does, or the new
 * one does. True for the new one. */
static bool goes_on(struct acked *a, bool sealed)
{
    struct store_error error;
    struct guard g;
    bool is_new;

    if (start(&g, &error) != 0) {
        assert_non_null(strstr(error.text, "sealed"));
        return false;
    }
    is_new = g.id.epoch == 2;
    if (is_new) {
        assert_true(g.id.lane.lanes == 2 && !g.id.sealed);
        memset(a->handle, 0, sizeof a->handle);
        assert_int_equal(g.engine->load(g.store, check_above, a, &error), 0);
        for (int i = 0; i < COUNTERS; i++)
            assert_true(!a->known[i] || a->handle[i] == 1);
    } else {
        assert_false(sealed); /* once it was said to be, it stays so */
        check(&g, a);
        reserve(&g, a, 0);
    }
    guard_close(&g);
    return is_new;
}

/* Whether the file says that a lane was opened from it. */
static bool is_noted(void)
{
    struct store_error error;
    struct seal s;
    bool noted = seal_read(in("seal"), &s, &error) == 0 && s.n_openings == 1;

    seal_free(&s);
    return noted;
}

static bool change_lanes(unsigned n, enum fate fate, unsigned seed)
{
    struct acked a = {.tokens = 0};
    bool died, sealed;

    srand(seed);
    begin(NULL);
    live(&a);
    power_watch(dir);
    power_out_at(n);
    sealed = seal();
    if (sealed)
        open_lane();
    died = power_is_out();
    power_on(dir, fate);
    power_watch(NULL);
    if (!goes_on(&a, sealed)) {
        assert_true(seal());
        assert_false(goes_on(&a, true));
        assert_true(open_lane());
    }
    assert_true(is_noted()); /* before the lane was, whatever the power did */
    assert_true(goes_on(&a, true));
    assert_false(open_lane()); /* never twice from the same file */
    assert_true(goes_on(&a, true));
    return died;
}

static void test_at_every_write_while_lanes_change(void **state)
{
    bool died = true;
    unsigned n = 0;

    (void)state;
    while (died) {
        n++;
        for (unsigned k = 0; k < FATES; k++)
            died = change_lanes(n, (enum fate)k, n + 1000 * k);
    }
    assert_true(n > 30);
    print_message("the power failed at each of %u calls\n", n - 1);
}

/* --- a witness by itself --- */

static struct witness *open_witness(void)
{
    struct store_error error;
    struct witness *w = witness_open(in("hilo.witness"), false, &error);

    if (w == NULL)
        fail_msg("%s", error.text);
    return w;
}

static void add_line(struct witness *w, const char *name)
{
    const struct record r = {
        .name = name, .name_len = strlen(name), .last = 5, .start = 1, .max = 1000};
    struct store_error error;

    assert_true(witness_add(w, &r));
    assert_int_equal(witness_write(w, false, &error), 0);
}

/* A sync has failed, and the process has ended: what it wrote is there to be read, but
 * the next sync says nothing of it. What comes behind it is lost with it. */
static void lose_lines(unsigned seed)
{
    const struct record_header h = {
        .uuid = "01234567-89ab-4cde-8f01-23456789abcd", .lane = {1, 1, 1}, .epoch = 1};
    struct store_error error;
    struct witness *w;
    struct record r;

    srand(seed);
    begin(NULL);
    power_watch(dir);
    w = open_witness();
    assert_int_equal(witness_renew_begin(w, &h, &error), 0);
    assert_int_equal(witness_renew_end(w, false, &error), 0);
    add_line(w, "first");
    power_flaky(1);
    assert_int_equal(witness_sync(w, &error), -1);
    power_flaky(0);
    witness_close(w);
    w = open_witness();
    assert_true(witness_take(w, "first", 5, &r));
    witness_forget(w);
    add_line(w, "second");
    assert_int_equal(witness_sync(w, &error), 0);
    witness_close(w);
    power_on(dir, DROPPED);
    power_watch(NULL);
    w = open_witness();
    assert_true(witness_take(w, "first", 5, &r));
    assert_true(witness_take(w, "second", 6, &r));
    witness_close(w);
}

static void test_lines_whose_sync_failed_are_written_again(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++)
        lose_lines(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_whose_sync_failed_are_written_again),
        cmocka_unit_test(test_at_every_write_of_a_new_store),
        cmocka_unit_test(test_at_every_write_of_one_that_is_used_again),
        cmocka_unit_test(test_at_every_write_and_then_an_older_copy_is_put_back),
        cmocka_unit_test(test_at_every_write_while_the_schema_changes),
        cmocka_unit_test(test_at_every_write_while_lanes_change),
    };
    int failed;

    strcpy(dir, "/tmp/hilo-power-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    begin(NULL);
    rmdir(dir);
    return failed;
}
