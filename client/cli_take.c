/* cli_take.c - hilo next, block and bench: ids through the library. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli.h"
#include "clock.h"
#include "number.h"
#include "text.h"

#define AT_ONCE     16384 /* ids taken and printed together */
#define BAR_WIDTH   40
#define BAR_EVERY   200000 /* microseconds */
#define BENCH_COUNT 1000000

int cli_open(const struct cli *c, const char *name, const hilo_seq_options *so,
             hilo **ret_h, hilo_seq **ret_s)
{
    hilo_options o;
    char text[512] = "";
    int rc;

    hilo_options_init(&o);
    o.servers = c->servers;
    o.password = c->password;
    o.client_name = "hilo";
    o.timeout_ms = (unsigned)c->timeout_ms;
    if (o.request_ms > o.timeout_ms)
        o.request_ms = o.timeout_ms;
    rc = hilo_open(&o, text, sizeof text, ret_h);
    if (rc != 0)
        return cli_fail(c, rc, "%s", text);
    rc = hilo_seq_open(*ret_h, name, so, ret_s);
    if (rc == 0)
        return 0;
    hilo_errmsg(*ret_h, text, sizeof text);
    hilo_close(*ret_h);
    return cli_fail(c, rc, "%s", text);
}

/* --- next --- */

struct progress {
    bool shown; /* where a terminal sees it and the ids go elsewhere */
    int64_t begin_us, last_us;
};

static void show_progress(struct progress *p, uint64_t done, uint64_t all, bool last)
{
    int64_t now_us = steady_us();
    double share = (double)done / (double)all, s = (double)(now_us - p->begin_us) / 1e6;
    int full = (int)(share * BAR_WIDTH);

    if (!p->shown || (!last && now_us - p->last_us < BAR_EVERY))
        return;
    p->last_us = now_us;
    fprintf(stderr, "\r[%-*.*s] %3.0f %%  %" PRIu64 " of %" PRIu64 "  %.1f M/s ",
            BAR_WIDTH, full, "########################################", share * 100,
            done, all, s > 0 ? (double)done / s / 1e6 : 0.0);
    if (last)
        fputc('\n', stderr);
}

/* Ids as lines, or as strings of a JSON array. */
static bool print_ids(const uint64_t *ids, size_t n, bool json, bool first)
{
    static char text[AT_ONCE * (NUMBER_MAX + 3)];
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        if (json && !(first && i == 0))
            text[len++] = ',';
        if (json)
            text[len++] = '"';
        len += number_format(text + len, ids[i]);
        text[len++] = json ? '"' : '\n';
    }
    return fwrite(text, 1, len, stdout) == len;
}

static int print_all(const struct cli *c, hilo *h, hilo_seq *s, const char *name,
                     uint64_t count)
{
    static uint64_t ids[AT_ONCE];
    struct progress p = {.shown = isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO) &&
                                  count > AT_ONCE,
                         .begin_us = steady_us()};
    uint64_t done = 0;
    char text[1024];

    while (done < count) {
        size_t n = count - done < AT_ONCE ? (size_t)(count - done) : AT_ONCE;
        int rc = hilo_next_many(s, n, ids);

        if (rc != 0) {
            hilo_errmsg(h, text, sizeof text);
            if (c->json && done > 0)
                printf("]}\n"); /* what was taken is there to be read */
            return cli_fail(c, rc, "%s (after %" PRIu64 " of %" PRIu64 " ids)", text,
                            done, count);
        }
        if (c->json && done == 0)
            printf("{\"sequence\":\"%s\",\"ids\":[", name);
        if (!print_ids(ids, n, c->json, done == 0))
            return cli_fail(c, HILO_ESYSTEM, "can't write: %s", strerror(errno));
        done += n;
        show_progress(&p, done, count, done == count);
    }
    return 0;
}

int cli_next(struct cli *c, int argc, char **argv)
{
    uint64_t count = c->count > 0 ? c->count : 1;
    hilo_seq_options so;
    hilo_seq *s;
    hilo *h;
    int rc;

    (void)argc;
    hilo_seq_options_init(&so);
    so.on_demand = 1;
    so.block_min = 1;
    rc = cli_open(c, argv[0], &so, &h, &s);
    if (rc != 0)
        return rc;
    rc = print_all(c, h, s, argv[0], count);
    if (c->json && rc == 0)
        printf("]}\n");
    hilo_close(h);
    return rc;
}

/* --- block --- */

static json_t *id_text(uint64_t id)
{
    return json_sprintf("%" PRIu64, id);
}

int cli_block(struct cli *c, int argc, char **argv)
{
    char text[1024];
    uint64_t count;
    hilo_seq *s;
    hilo_run r;
    hilo *h;
    int rc;

    (void)argc;
    if (!cli_number(c, "COUNT", argv[1], 1, HILO_BLOCK_MAX, &count))
        return EXIT_USAGE;
    rc = cli_open(c, argv[0], NULL, &h, &s);
    if (rc != 0)
        return rc;
    rc = hilo_block(s, count, c->token, &r);
    hilo_errmsg(h, text, sizeof text);
    hilo_close(h);
    if (rc != 0)
        return cli_fail(c, rc, "%s", text);
    if (c->json)
        return cli_print(json_pack("{s:s, s:o, s:o, s:o, s:o}", "sequence", argv[0],
                                   "first", id_text(r.first), "last", id_text(r.last),
                                   "step", id_text(r.step), "count", id_text(count)));
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", r.first, r.last, r.step);
    return 0;
}

/* --- bench --- */

struct worker {
    pthread_t thread;
    hilo_seq *s;
    uint64_t count;
    int err;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    uint64_t id;

    for (uint64_t i = 0; i < w->count && w->err == 0; i++)
        w->err = hilo_next(w->s, &id);
    return NULL;
}

static int run_workers(hilo_seq *s, unsigned threads, uint64_t count)
{
    struct worker *w = calloc(threads, sizeof *w);
    int err = w == NULL ? HILO_ENOMEM : 0;
    unsigned started = 0;

    for (; started < threads && err == 0; started++) {
        w[started] = (struct worker){.s = s, .count = count / threads};
        if (pthread_create(&w[started].thread, NULL, work, &w[started]) != 0) {
            err = HILO_ESYSTEM;
            break;
        }
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(w[i].thread, NULL);
        err = w[i].err != 0 ? w[i].err : err;
    }
    free(w);
    return err;
}

/* Round trips first, one block of one id each; then ids out of blocks. */
int cli_bench(struct cli *c, int argc, char **argv)
{
    uint64_t count = c->count > 0 ? c->count : BENCH_COUNT, trips = 1000;
    unsigned threads = c->threads > 0 ? c->threads : 1;
    int64_t begin_us, trip_us, took_us;
    char text[1024];
    hilo_seq *s;
    hilo_run r;
    hilo *h;
    int rc;

    (void)argc;
    rc = cli_open(c, argv[0], NULL, &h, &s);
    if (rc != 0)
        return rc;
    begin_us = steady_us();
    for (uint64_t i = 0; i < trips && rc == 0; i++)
        rc = hilo_block(s, 1, NULL, &r);
    trip_us = steady_us() - begin_us;
    begin_us = steady_us();
    if (rc == 0)
        rc = run_workers(s, threads, count);
    took_us = steady_us() - begin_us;
    hilo_errmsg(h, text, sizeof text);
    hilo_close(h);
    if (rc != 0)
        return cli_fail(c, rc, "%s", text[0] != '\0' ? text : hilo_strerror(rc));
    if (c->json)
        return cli_print(json_pack(
            "{s:f, s:I, s:i, s:f, s:f}", "round_trip_us",
            (double)trip_us / (double)trips, "ids", (json_int_t)count, "threads",
            (int)threads, "ns_per_id", (double)took_us * 1e3 / (double)count,
            "ids_per_second", (double)count * 1e6 / (double)took_us));
    printf("a round trip, one id:  %.1f us\n"
           "ids out of blocks:     %.1f M/s, %.1f ns each, %" PRIu64
           " ids by %u thread%s\n",
           (double)trip_us / (double)trips, (double)count / (double)took_us,
           (double)took_us * 1e3 / (double)count, count, threads,
           threads == 1 ? "" : "s");
    return 0;
}
