/* driver.c - libhilo, driven by lines on standard input, for the tests in Python.
 *
 *     open SERVERS [timeout_ms=N request_ms=N policy=primary password=W name=W]
 *     seq HANDLE NAME [block_min=N block_max=N hold_ms=N local_ids=N on_demand=N
 *         timeout_ms=N]
 *     next SEQ [COUNT] | try SEQ | many SEQ COUNT | block SEQ COUNT [TOKEN]
 *     blocks SEQ THREADS COUNT  a block of COUNT for each thread, at once
 *     async SEQ COUNT         COUNT callbacks; waits for all of them
 *     burst SEQ THREADS COUNT COUNT ids by each thread; keep=FILE writes them down
 *     forks SEQ SERVERS CHILDREN COUNT
 *     stats SEQ | message HANDLE | shut SEQ | close HANDLE
 *
 * Handles and sequences are numbers, from 0. Each line gets one line back: "ok ..." or
 * "error WORD MILLISECONDS MESSAGE". Ids come as runs: first-last/step. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "error.h"
#include "hilo.h"

#define MAX 64

static hilo *handles[MAX];
static hilo_seq *seqs[MAX];
static hilo *handle_of[MAX];
static int n_handles, n_seqs;

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Prints ids as runs, in their order; neighbours of one step make a run. */
static void print_runs(const uint64_t *ids, size_t n)
{
    size_t i = 0;

    while (i < n) {
        uint64_t step = i + 1 < n && ids[i + 1] > ids[i] ? ids[i + 1] - ids[i] : 1;
        size_t j = i + 1;

        while (j < n && ids[j] - ids[j - 1] == step && ids[j] > ids[j - 1])
            j++;
        printf(" %" PRIu64 "-%" PRIu64 "/%" PRIu64, ids[i], ids[j - 1],
               j == i + 1 ? 1 : step);
        i = j;
    }
}

static void fail(int err, double begin, hilo *h)
{
    char text[1024] = "";

    hilo_errmsg(h, text, sizeof text);
    printf("error %s %.0f %s\n", error_word(err), now_ms() - begin, text);
}

static char *value(char *word, const char *name)
{
    size_t n = strlen(name);

    return strncmp(word, name, n) == 0 && word[n] == '=' ? word + n + 1 : NULL;
}

static void do_open(char **w, int n)
{
    hilo_options o;
    char text[512] = "";
    double begin = now_ms();
    int rc;

    hilo_options_init(&o);
    o.servers = strcmp(w[1], "-") == 0 ? NULL : w[1];
    for (int i = 2; i < n; i++) {
        char *v;

        if ((v = value(w[i], "timeout_ms")) != NULL)
            o.timeout_ms = (unsigned)atoi(v);
        else if ((v = value(w[i], "request_ms")) != NULL)
            o.request_ms = (unsigned)atoi(v);
        else if ((v = value(w[i], "policy")) != NULL)
            o.policy = strcmp(v, "primary") == 0 ? HILO_PRIMARY : HILO_ROUND_ROBIN;
        else if ((v = value(w[i], "password")) != NULL)
            o.password = v;
        else if ((v = value(w[i], "name")) != NULL)
            o.client_name = v;
    }
    rc = hilo_open(&o, text, sizeof text, &handles[n_handles]);
    if (rc == 0)
        printf("ok %d\n", n_handles++);
    else
        printf("error %s %.0f %s\n", error_word(rc), now_ms() - begin, text);
}

static void do_seq(char **w, int n)
{
    hilo *h = handles[atoi(w[1])];
    hilo_seq_options o;
    double begin = now_ms();
    int rc;

    hilo_seq_options_init(&o);
    for (int i = 3; i < n; i++) {
        char *v;

        if ((v = value(w[i], "block_min")) != NULL)
            o.block_min = strtoull(v, NULL, 10);
        else if ((v = value(w[i], "block_max")) != NULL)
            o.block_max = strtoull(v, NULL, 10);
        else if ((v = value(w[i], "hold_ms")) != NULL)
            o.hold_ms = (unsigned)atoi(v);
        else if ((v = value(w[i], "on_demand")) != NULL)
            o.on_demand = (unsigned)atoi(v);
        else if ((v = value(w[i], "local_ids")) != NULL)
            o.local_ids = (unsigned)atoi(v);
        else if ((v = value(w[i], "timeout_ms")) != NULL)
            o.timeout_ms = (unsigned)atoi(v);
    }
    rc = hilo_seq_open(h, strcmp(w[2], "-") == 0 ? "" : w[2], &o, &seqs[n_seqs]);
    if (rc != 0) {
        fail(rc, begin, h);
        return;
    }
    handle_of[n_seqs] = h;
    printf("ok %d\n", n_seqs++);
}

static void do_next(char **w, int n)
{
    int at = atoi(w[1]), count = n > 2 ? atoi(w[2]) : 1;
    uint64_t *ids = malloc(sizeof *ids * (size_t)(count > 0 ? count : 1));
    bool trying = strcmp(w[0], "try") == 0;
    double begin = now_ms();
    int rc = 0;

    for (int i = 0; i < count && rc == 0; i++)
        rc = trying ? hilo_try_next(seqs[at], &ids[i]) : hilo_next(seqs[at], &ids[i]);
    if (rc != 0) {
        fail(rc, begin, handle_of[at]);
    } else {
        printf("ok");
        print_runs(ids, (size_t)count);
        printf("\n");
    }
    free(ids);
}

static void do_many(char **w)
{
    int at = atoi(w[1]);
    size_t n = strtoull(w[2], NULL, 10);
    uint64_t *ids = malloc(sizeof *ids * (n > 0 && n < 100000000 ? n : 1));
    double begin = now_ms();
    int rc = hilo_next_many(seqs[at], n, ids);

    if (rc != 0) {
        fail(rc, begin, handle_of[at]);
    } else {
        printf("ok");
        print_runs(ids, n);
        printf("\n");
    }
    free(ids);
}

static void do_block(char **w, int n)
{
    int at = atoi(w[1]);
    double begin = now_ms();
    hilo_run r;
    int rc = hilo_block(seqs[at], strtoull(w[2], NULL, 10), n > 3 ? w[3] : NULL, &r);

    if (rc != 0)
        fail(rc, begin, handle_of[at]);
    else
        printf("ok %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\n", r.first, r.last, r.step);
}

/* Several threads ask for a block at once. */
struct block_worker {
    hilo_seq *seq;
    uint64_t count;
    hilo_run run;
    int rc;
};

static void *one_block(void *arg)
{
    struct block_worker *b = arg;

    b->rc = hilo_block(b->seq, b->count, NULL, &b->run);
    return NULL;
}

static void do_blocks(char **w)
{
    struct block_worker b[MAX];
    pthread_t t[MAX];
    int n = atoi(w[2]);

    for (int i = 0; i < n; i++) {
        b[i].seq = seqs[atoi(w[1])];
        b[i].count = strtoull(w[3], NULL, 10);
        if (pthread_create(&t[i], NULL, one_block, &b[i]) != 0)
            abort();
    }
    printf("ok");
    for (int i = 0; i < n; i++) {
        pthread_join(t[i], NULL);
        if (b[i].rc != 0)
            printf(" %s", error_word(b[i].rc));
        else
            printf(" %" PRIu64 "-%" PRIu64 "/%" PRIu64, b[i].run.first, b[i].run.last,
                   b[i].run.step);
    }
    printf("\n");
}

/* --- callbacks --- */

struct calls {
    pthread_mutex_t lock;
    pthread_cond_t done;
    size_t n, want;
    size_t failed;
    int err;
    uint64_t *ids;
};

static void on_id(void *arg, uint64_t id, int err)
{
    struct calls *c = arg;

    pthread_mutex_lock(&c->lock);
    if (err != 0) {
        c->failed++;
        c->err = err;
    } else {
        c->ids[c->n] = id;
        c->n++;
    }
    if (c->n + c->failed == c->want)
        pthread_cond_signal(&c->done);
    pthread_mutex_unlock(&c->lock);
}

static void do_async(char **w)
{
    int at = atoi(w[1]);
    size_t want = strtoull(w[2], NULL, 10);
    struct calls c = {.want = want, .ids = malloc(sizeof(uint64_t) * want)};
    double begin = now_ms();

    pthread_mutex_init(&c.lock, NULL);
    pthread_cond_init(&c.done, NULL);
    for (size_t i = 0; i < want; i++) {
        if (hilo_next_async(seqs[at], on_id, &c) != 0)
            abort();
    }
    pthread_mutex_lock(&c.lock);
    while (c.n + c.failed < want)
        pthread_cond_wait(&c.done, &c.lock);
    pthread_mutex_unlock(&c.lock);
    if (c.failed > 0) {
        fail(c.err, begin, handle_of[at]);
    } else {
        printf("ok");
        print_runs(c.ids, c.n);
        printf("\n");
    }
    free(c.ids);
}

/* --- threads --- */

struct worker {
    pthread_t thread;
    hilo_seq *seq;
    size_t count, have, failed;
    int err;
    double longest_ms;
    uint64_t *ids;
};

static void *work(void *arg)
{
    struct worker *k = arg;

    for (size_t i = 0; i < k->count; i++) {
        double begin = now_ms(), ms;
        int rc = hilo_next(k->seq, &k->ids[k->have]);

        ms = now_ms() - begin;
        if (ms > k->longest_ms)
            k->longest_ms = ms;
        if (rc == 0)
            k->have++;
        else
            k->failed++, k->err = rc;
        if (k->failed > 1000)
            break;
    }
    return NULL;
}

/* ok=N failed=N word=W longest=MS twice=N and the ids as runs, sorted, unless they are
 * kept. */
static void do_burst(char **w, int n)
{
    int at = atoi(w[1]);
    size_t threads = strtoull(w[2], NULL, 10), count = strtoull(w[3], NULL, 10);
    struct worker *k = calloc(threads, sizeof *k);
    uint64_t *all = malloc(sizeof *all * threads * count);
    size_t have = 0, failed = 0, twice = 0;
    double longest = 0;
    pthread_attr_t attr;
    int err = 0;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    for (size_t i = 0; i < threads; i++) {
        k[i] = (struct worker){
            .seq = seqs[at], .count = count, .ids = malloc(sizeof(uint64_t) * count)};
        if (pthread_create(&k[i].thread, &attr, work, &k[i]) != 0)
            abort();
    }
    for (size_t i = 0; i < threads; i++) {
        pthread_join(k[i].thread, NULL);
        memcpy(all + have, k[i].ids, sizeof *all * k[i].have);
        have += k[i].have;
        failed += k[i].failed;
        err = k[i].err != 0 ? k[i].err : err;
        longest = k[i].longest_ms > longest ? k[i].longest_ms : longest;
        free(k[i].ids);
    }
    qsort(all, have, sizeof *all, by_id);
    for (size_t i = 1; i < have; i++)
        twice += all[i] == all[i - 1];
    printf("ok ok=%zu failed=%zu word=%s longest=%.0f twice=%zu", have, failed,
           err != 0 ? error_word(err) : "-", longest, twice);
    (void)n;
    print_runs(all, have);
    printf("\n");
    free(all);
    free(k);
}

/* --- fork --- */

/* What a child may not do, then what it may; ids go to the parent. */
static void child(int at, char *servers, size_t count, int fd)
{
    hilo_options o;
    hilo_seq_stats st = {.size = sizeof st};
    hilo_run run;
    hilo *h;
    hilo_seq *s;
    uint64_t id;

    if (hilo_next(seqs[at], &id) != HILO_EFORK ||
        hilo_try_next(seqs[at], &id) != HILO_EFORK ||
        hilo_next_many(seqs[at], 1, &id) != HILO_EFORK ||
        hilo_block(seqs[at], 1, NULL, &run) != HILO_EFORK ||
        hilo_next_async(seqs[at], on_id, NULL) != HILO_EFORK ||
        hilo_stats(seqs[at], &st) != HILO_EFORK ||
        hilo_seq_open(handle_of[at], "x", NULL, &s) != HILO_EFORK)
        _exit(1);
    hilo_seq_close(seqs[at]);
    hilo_close(handle_of[at]);
    hilo_options_init(&o);
    o.servers = servers;
    if (hilo_open(&o, NULL, 0, &h) != 0 || hilo_seq_open(h, "orders", NULL, &s) != 0)
        _exit(1);
    for (size_t i = 0; i < count; i++) {
        if (hilo_next(s, &id) != 0 || write(fd, &id, sizeof id) != sizeof id)
            _exit(2);
    }
    hilo_close(h);
    _exit(0);
}

static void *fork_one(void *arg)
{
    char **w = arg;
    int fd[2];

    if (pipe(fd) != 0)
        abort();
    if (fork() == 0)
        child(atoi(w[1]), w[2], strtoull(w[4], NULL, 10), fd[1]);
    close(fd[1]);
    return (void *)(intptr_t)fd[0];
}

static void do_forks(char **w)
{
    size_t children = strtoull(w[3], NULL, 10), have = 0, bad = 0, twice = 0;
    size_t count = strtoull(w[4], NULL, 10), most = children * count;
    uint64_t *ids = malloc(sizeof *ids * (most + count)), id;
    int fds[MAX], status, at = atoi(w[1]);
    pthread_t thread;
    void *fd;

    for (size_t i = 0; i < children; i++) {
        if (pthread_create(&thread, NULL, fork_one, w) != 0)
            abort();
        pthread_join(thread, &fd);
        fds[i] = (int)(intptr_t)fd;
    }
    for (size_t i = 0; i < children; i++) {
        while (read(fds[i], &id, sizeof id) == sizeof id && have < most)
            ids[have++] = id;
        close(fds[i]);
    }
    while (wait(&status) > 0)
        bad += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    for (size_t i = 0; i < count; i++)
        bad += hilo_next(seqs[at], &ids[have++]) != 0;
    qsort(ids, have, sizeof *ids, by_id);
    for (size_t i = 1; i < have; i++)
        twice += ids[i] == ids[i - 1];
    printf("ok ids=%zu twice=%zu bad=%zu\n", have, twice, bad);
    free(ids);
}

/* --- the rest --- */

static void do_stats(char **w)
{
    int at = atoi(w[1]);
    hilo_seq_stats st = {.size = sizeof st};
    int rc = hilo_stats(seqs[at], &st);

    if (rc != 0) {
        fail(rc, now_ms(), handle_of[at]);
        return;
    }
    printf("ok granted=%" PRIu64 " in_hand=%" PRIu64 " block=%" PRIu64
           " per_second=%" PRIu64 " refills=%" PRIu64 " failures=%" PRIu64
           " waits=%" PRIu64 " round_us=%" PRIu64 " wakeups=%" PRIu64,
           st.granted, st.in_hand, st.block, st.per_second, st.refills, st.failures,
           st.waits, st.round_us, st.wakeups);
    for (unsigned i = 0; i < st.servers; i++)
        printf(" %u.state=%s %u.lane=%u %u.requests=%" PRIu64 " %u.ids=%" PRIu64
               " %u.failures=%" PRIu64,
               i, st.server[i].state, i, st.server[i].lane, i, st.server[i].requests, i,
               st.server[i].ids, i, st.server[i].failures);
    printf("\n");
}

static void run(char **w, int n)
{
    char text[1024];

    if (strcmp(w[0], "open") == 0) {
        do_open(w, n);
    } else if (strcmp(w[0], "seq") == 0) {
        do_seq(w, n);
    } else if (strcmp(w[0], "next") == 0 || strcmp(w[0], "try") == 0) {
        do_next(w, n);
    } else if (strcmp(w[0], "many") == 0) {
        do_many(w);
    } else if (strcmp(w[0], "block") == 0) {
        do_block(w, n);
    } else if (strcmp(w[0], "blocks") == 0) {
        do_blocks(w);
    } else if (strcmp(w[0], "async") == 0) {
        do_async(w);
    } else if (strcmp(w[0], "burst") == 0) {
        do_burst(w, n);
    } else if (strcmp(w[0], "forks") == 0) {
        do_forks(w);
    } else if (strcmp(w[0], "stats") == 0) {
        do_stats(w);
    } else if (strcmp(w[0], "message") == 0) {
        hilo_errmsg(handles[atoi(w[1])], text, sizeof text);
        printf("ok %s\n", text);
    } else if (strcmp(w[0], "shut") == 0) {
        hilo_seq_close(seqs[atoi(w[1])]);
        printf("ok\n");
    } else if (strcmp(w[0], "close") == 0) {
        hilo_close(handles[atoi(w[1])]);
        printf("ok\n");
    } else {
        printf("error what?\n");
    }
}

int main(void)
{
    static char line[65536];
    char *w[16], *rest;
    int n;

    while (fgets(line, sizeof line, stdin) != NULL) {
        n = 0;
        for (char *p = strtok_r(line, " \n", &rest); p != NULL && n < 16;
             p = strtok_r(NULL, " \n", &rest))
            w[n++] = p;
        if (n > 0)
            run(w, n);
        fflush(stdout);
    }
    return 0;
}
