/* client.c - what an id of libhilo costs, linked against the shared library.
 *
 *     client micro SERVER ROUNDS COUNT    in turn, ROUNDS times: an atomic add by one
 *         thread, an id of the shared block by one thread, atomic adds by two threads
 * on a variable each, ids of sub-blocks by two threads; nanoseconds each client blocks
 * SERVER SIZE COUNT     COUNT ids out of blocks of SIZE; ids a second */
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
    hilo_seq *s; /* NULL: atomic adds */
    bool empty;  /* calls of a function that does nothing */
    uint64_t count;
    uint64_t sum; /* so that nothing is optimized away */
    double ns;
};

static void *run(void *arg)
{
    struct job *j = arg;
    _Alignas(128) _Atomic uint64_t own = 0;
    uint64_t id, sum = 0;
    double begin;

    if (j->s != NULL)
        hilo_next(j->s, &id); /* the first fetches a block */
    pthread_barrier_wait(j->start);
    begin = now_ns();
    if (j->empty) {
        for (uint64_t i = 0; i < j->count; i++) {
            empty_next(j, &id);
            sum += id;
        }
    } else if (j->s == NULL) {
        for (uint64_t i = 0; i < j->count; i++)
            sum += atomic_fetch_add(&own, 1);
    } else {
        for (uint64_t i = 0; i < j->count; i++) {
            if (hilo_next(j->s, &id) != 0)
                abort();
            sum += id;
        }
    }
    j->ns = (now_ns() - begin) / (double)j->count;
    j->sum = sum;
    return NULL;
}

/* The mean over threads of what one operation took a thread. */
static double measure(hilo_seq *s, bool empty, unsigned threads, uint64_t count)
{
    pthread_barrier_t start;
    pthread_t t[8];
    struct job j[8];
    double ns = 0;

    pthread_barrier_init(&start, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        j[i] = (struct job){.start = &start, .s = s, .empty = empty, .count = count};
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
        double one = measure(NULL, false, 1, count);
        double block = measure(shared, false, 1, count);
        double two = measure(NULL, false, 2, count);
        double sub = measure(local, false, 2, count);
        double empty = measure(NULL, true, 1, count);

        printf("%.3f %.3f %.3f %.3f %.3f\n", one, block, two, sub, empty);
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
