/* client.c - what an id of libhilo costs, linked against the shared library.
 *
 *     client micro SERVER ROUNDS COUNT    in turn, ROUNDS times, nanoseconds each: an
 *         atomic add by one thread, an id of the shared block by one thread, atomic
 * adds by two threads on a variable each, ids of sub-blocks by two threads, a plain
 *         counter with an end in the memory of each of two threads, a call of an empty
 *         function of a shared library
 *     client blocks SERVER SIZE COUNT     COUNT ids out of blocks of SIZE; ids a second
 */
#include <hilo.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int empty_next(void *s, uint64_t *ret_id); /* empty.c */

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void die(const char *what, hilo *h)
{
    char text[512] = "";

    hilo_errmsg(h, text, sizeof text);
    fprintf(stderr, "%s: %s\n", what, text);
    exit(1);
}

static hilo_seq *open_seq(hilo *h, const char *name, uint64_t block, unsigned local)
{
    hilo_seq_options o;
    hilo_seq *s;

    hilo_seq_options_init(&o);
    o.block_min = o.block_max = block;
    o.hold_ms = 0;
    o.local_ids = local;
    o.timeout_ms = 10000;
    if (hilo_seq_open(h, name, &o, &s) != 0)
        die("hilo_seq_open", h);
    return s;
}

static hilo *open_handle(const char *server)
{
    hilo_options o;
    hilo *h;

    hilo_options_init(&o);
    o.servers = server;
    if (hilo_open(&o, NULL, 0, &h) != 0)
        die("hilo_open", NULL);
    return h;
}

/* --- micro --- */

struct job {
    pthread_barrier_t *start;
    hilo_seq *s;
    enum { ATOMIC, IDS, EMPTY, PLAIN } what;
    uint64_t count;
    uint64_t sum; /* so that nothing is optimized away */
    double ns;
};

static void *run(void *arg)
{
    struct job *j = arg;
    _Alignas(128) _Atomic uint64_t own = 0;
    _Alignas(128) struct {
        volatile uint64_t next, end;
    } plain = {.end = UINT64_MAX};
    hilo_seq *s = j->s;
    uint64_t id, sum = 0, count = j->count;
    double begin;

    if (s != NULL)
        hilo_next(s, &id); /* the first fetches a block */
    pthread_barrier_wait(j->start);
    begin = now_ns();
    if (j->what == EMPTY) {
        for (uint64_t i = 0; i < count; i++) {
            empty_next(j, &id);
            sum += id;
        }
    } else if (j->what == ATOMIC) {
        for (uint64_t i = 0; i < count; i++)
            sum += atomic_fetch_add(&own, 1);
    } else if (j->what == PLAIN) {
        for (uint64_t i = 0; i < count; i++) {
            id = plain.next;
            if (id == plain.end)
                abort();
            plain.next = id + 1;
            sum += id;
        }
    } else {
        for (uint64_t i = 0; i < count; i++) {
            if (hilo_next(s, &id) != 0)
                abort();
            sum += id;
        }
    }
    j->ns = (now_ns() - begin) / (double)count;
    j->sum = sum;
    return NULL;
}

/* The mean over threads of what one operation took a thread. */
static double measure(hilo_seq *s, int what, unsigned threads, uint64_t count)
{
    pthread_barrier_t start;
    pthread_t t[8];
    struct job j[8];
    double ns = 0;

    pthread_barrier_init(&start, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        j[i] = (struct job){.start = &start, .s = s, .what = what, .count = count};
        pthread_create(&t[i], NULL, run, &j[i]);
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(t[i], NULL);
        ns += j[i].ns / threads;
    }
    pthread_barrier_destroy(&start);
    return ns;
}

static void micro(const char *server, int rounds, uint64_t count)
{
    hilo *h = open_handle(server);
    hilo_seq *shared = open_seq(h, "shared", 4 * count, 0);
    hilo_seq *local = open_seq(h, "local", 8 * count, 10000);

    for (int i = 0; i < rounds; i++) {
        double one = measure(NULL, ATOMIC, 1, count);
        double block = measure(shared, IDS, 1, count);
        double two = measure(NULL, ATOMIC, 2, count);
        double sub = measure(local, IDS, 2, count);
        double plain = measure(NULL, PLAIN, 2, count);
        double empty = measure(NULL, EMPTY, 1, count);

        printf("%.3f %.3f %.3f %.3f %.3f %.3f\n", one, block, two, sub, plain, empty);
    }
    hilo_close(h);
}

/* --- blocks --- */

static void blocks(const char *server, uint64_t size, uint64_t count)
{
    hilo *h = open_handle(server);
    hilo_seq *s = open_seq(h, "blocks", size, 0);
    double begin;
    uint64_t id;

    hilo_next(s, &id);
    begin = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        if (hilo_next(s, &id) != 0)
            die("hilo_next", h);
    }
    printf("%.0f\n", (double)count / (now_ns() - begin) * 1e9);
    hilo_close(h);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 64;
    if (strcmp(argv[1], "micro") == 0)
        micro(argv[2], atoi(argv[3]), strtoull(argv[4], NULL, 10));
    else
        blocks(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    return 0;
}
