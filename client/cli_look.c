/* cli_look.c - hilo ls, info, ping and top. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cli.h"
#include "name.h"
#include "text.h"

/* --- one sequence over all members --- */

/* The rows of one name, from at on; sums and the highest of them. */
static size_t merge(const struct seq_row *rows, size_t n, size_t at,
                    struct seq_row *ret)
{
    size_t end = at + 1;

    *ret = rows[at];
    for (; end < n && strcmp(rows[end].name, ret->name) == 0; end++) {
        const struct seq_row *r = &rows[end];

        ret->last = r->last > ret->last ? r->last : ret->last;
        ret->granted += r->granted;
        ret->reserved += r->reserved;
        ret->remaining += r->remaining;
        ret->rate += r->rate;
        if (r->used_percent > ret->used_percent)
            ret->used_percent = r->used_percent;
        if (strcmp(r->state, ret->state) != 0)
            snprintf(ret->state, sizeof ret->state, "differs");
    }
    return end;
}

static json_t *row_json(const struct seq_row *r, unsigned members)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:i}", "name",
                     r->name, "state", r->state, "durability", r->durability, "start",
                     json_sprintf("%" PRIu64, r->start), "max",
                     json_sprintf("%" PRIu64, r->max), "last",
                     json_sprintf("%" PRIu64, r->last), "remaining",
                     json_sprintf("%" PRIu64, r->remaining), "used_percent",
                     (json_int_t)r->used_percent, "rate", (json_int_t)r->rate,
                     "servers", (int)members);
}

static void print_rows(const struct cli *c, const struct seq_row *rows, size_t n,
                       unsigned there)
{
    struct seq_row r;
    size_t end;

    printf("%-32s %-8s %20s %6s %12s %10s  %s\n", "NAME", "STATE", "LAST ID", "USED",
           "IDS/S", "RESERVED", "SERVERS");
    for (size_t at = 0; at < n; at = end) {
        end = merge(rows, n, at, &r);
        printf("%-32s %-8s %20" PRIu64 " %5" PRIu64 "%% %12" PRIu64 " %10" PRIu64
               "  %zu of %u%s\n",
               r.name, r.state, r.last, r.used_percent, r.rate, r.reserved, end - at,
               c->n_members, end - at < there ? "  hilo create it on all" : "");
    }
}

static json_t *rows_json(const struct seq_row *rows, size_t n)
{
    json_t *list = json_array();
    struct seq_row r;
    size_t end;

    for (size_t at = 0; at < n; at = end) {
        end = merge(rows, n, at, &r);
        json_array_append_new(list, row_json(&r, (unsigned)(end - at)));
    }
    return list;
}

int cli_ls(struct cli *c, int argc, char **argv)
{
    unsigned there = members_open(c);
    struct seq_row *rows;
    size_t n;
    int rc;

    if (there == 0)
        return members_missing(c, "listed");
    rows = members_sequences(c, argc > 0 ? argv[0] : "*", &n);
    if (rows == NULL)
        return EXIT_FAILED;
    if (c->json)
        cli_print(rows_json(rows, n));
    else if (n > 0)
        print_rows(c, rows, n, there);
    else
        printf("no sequences; make one with: hilo create NAME\n");
    rc = members_missing(c, "listed");
    free(rows);
    return rc;
}

/* --- info --- */

static const char *const info_fields[] = {"version",
                                          "uptime_in_seconds",
                                          "lane",
                                          "lanes",
                                          "stripe",
                                          "epoch",
                                          "store_uuid",
                                          "boot_id",
                                          "engine",
                                          "shared",
                                          "ready",
                                          "sequences",
                                          "grants",
                                          "ids_granted",
                                          "commits",
                                          "longest_commit_us",
                                          "filesystem",
                                          "disk_free_bytes",
                                          "failed_commits",
                                          "last_error",
                                          "connected_clients",
                                          "maxclients"};

static int info_servers(struct cli *c)
{
    const char *words[] = {"INFO", "everything"};
    json_t *list = json_array();
    char value[512];

    for (unsigned i = 0; i < c->n_members; i++) {
        struct link *l = &c->members[i];
        json_t *one;

        if (l->err != 0 || member_call(c, l, 2, words) != 0)
            continue;
        one = json_pack("{s:s}", "server", l->target.text);
        if (!c->json)
            printf("%s%s\n", i > 0 ? "\n" : "", l->target.text);
        for (size_t k = 0; k < sizeof info_fields / sizeof info_fields[0]; k++) {
            info_value(l, info_fields[k], value, sizeof value);
            if (value[0] == '\0')
                continue;
            json_object_set_new(one, info_fields[k], json_string(value));
            if (!c->json)
                printf("  %-18s %s\n", info_fields[k], value);
        }
        json_array_append_new(list, one);
    }
    if (c->json)
        return cli_print(list);
    json_decref(list);
    return 0;
}

static void print_sequence(const struct link *l, const struct seq_row *r)
{
    printf("%s\n  state %s, durability %s\n  start %" PRIu64 ", max %" PRIu64
           ", last %" PRIu64 "\n  %" PRIu64 " %% used, %" PRIu64
           " ids of this server left, %" PRIu64 " of them reserved\n  %" PRIu64
           " granted since it started, %" PRIu64 " a second now\n",
           l->target.text, r->state, r->durability, r->start, r->max, r->last,
           r->used_percent, r->remaining, r->reserved, r->granted, r->rate);
}

static int info_sequence(struct cli *c, const char *name)
{
    const char *words[] = {"SEQ", "INFO", name};
    json_t *list = json_array();
    struct seq_row r;

    for (unsigned i = 0; i < c->n_members; i++) {
        struct link *l = &c->members[i];
        json_t *one;

        if (l->err != 0 || member_call(c, l, 3, words) != 0 ||
            l->items[0].type != REPLY_ARRAY)
            continue;
        seq_row_read(l->items, i, &r);
        one = row_json(&r, 1);
        json_object_set_new(one, "server", json_string(l->target.text));
        json_array_append_new(list, one);
        if (!c->json)
            print_sequence(l, &r);
    }
    if (c->json)
        return cli_print(list);
    json_decref(list);
    return 0;
}

int cli_info(struct cli *c, int argc, char **argv)
{
    int rc, missing;

    if (argc > 0 && !name_valid(argv[0], strlen(argv[0])))
        return cli_fail(c, HILO_EARG, "the name of a sequence has to be " NAME_RULE);
    if (members_open(c) == 0)
        return members_missing(c, "asked");
    rc = argc > 0 ? info_sequence(c, argv[0]) : info_servers(c);
    missing = members_missing(c, "asked");
    return missing != 0 ? missing : rc;
}

/* --- ping --- */

int cli_ping(struct cli *c, int argc, char **argv)
{
    const char *words[] = {"PING"};
    json_t *list = json_array();

    (void)argc;
    (void)argv;
    members_open(c);
    for (unsigned i = 0; i < c->n_members; i++) {
        struct link *l = &c->members[i];

        if (l->err != 0 || member_call(c, l, 1, words) != 0)
            continue;
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i, s:I}", "server",
                                              l->target.text, "version", l->version,
                                              "lane", (int)l->id.lane.number, "lanes",
                                              (int)l->id.lane.lanes, "round_us",
                                              (json_int_t)l->round_us));
        if (!c->json)
            printf("%s  hilod %s, lane %u of %u, %.2f ms\n", l->target.text, l->version,
                   l->id.lane.number, l->id.lane.lanes, (double)l->round_us / 1e3);
    }
    if (c->json)
        cli_print(list);
    else
        json_decref(list);
    return members_missing(c, "answered");
}

/* --- top --- */

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
    (void)sig;
    stopped = 1;
}

static int by_rate(const void *a, const void *b)
{
    const struct seq_row *x = a, *y = b;

    return x->rate > y->rate ? -1 : x->rate < y->rate ? 1 : strcmp(x->name, y->name);
}

/* Members that went away are tried again, each time. */
static unsigned reconnect(struct cli *c)
{
    unsigned there = 0;

    for (unsigned i = 0; i < c->n_members; i++) {
        struct link *l = &c->members[i];

        if (l->fd < 0) {
            l->err = 0;
            link_open(l, c->password, c->timeout_ms);
        }
        there += l->err == 0;
    }
    return there;
}

static void draw(const struct cli *c, struct seq_row *rows, size_t n, unsigned there,
                 bool terminal)
{
    size_t shown = 0, end;
    uint64_t rate = 0;
    char now[32];
    time_t t = time(NULL);
    struct tm tm;

    for (size_t at = 0; at < n; at = end, shown++) {
        struct seq_row r;

        end = merge(rows, n, at, &r);
        r.member = (unsigned)(end - at);
        rate += r.rate;
        rows[shown] = r;
    }
    if (shown > 1)
        qsort(rows, shown, sizeof *rows, by_rate);
    strftime(now, sizeof now, "%H:%M:%S", localtime_r(&t, &tm));
    printf("%s%s  %u of %u servers, %zu sequences, %" PRIu64 " ids/s\n",
           terminal ? "\033[H\033[J" : "", now, there, c->n_members, shown, rate);
    for (unsigned i = 0; i < c->n_members; i++) {
        if (c->members[i].err != 0)
            printf("  down: %s\n", c->members[i].why);
    }
    printf("%12s %20s %6s %7s  %s\n", "IDS/S", "LAST ID", "USED", "SERVERS", "NAME");
    for (size_t i = 0; i < shown && (!terminal || i < 40); i++)
        printf("%12" PRIu64 " %20" PRIu64 " %5" PRIu64 "%% %7u  %s\n", rows[i].rate,
               rows[i].last, rows[i].used_percent, rows[i].member, rows[i].name);
    fflush(stdout);
}

int cli_top(struct cli *c, int argc, char **argv)
{
    double interval_s = c->interval_s > 0 ? c->interval_s : 1;
    struct timespec pause = {
        .tv_sec = (time_t)interval_s,
        .tv_nsec = (long)((interval_s - (double)(time_t)interval_s) * 1e9)};
    struct sigaction act = {.sa_handler = on_signal};
    bool terminal = isatty(STDOUT_FILENO) && !c->json;

    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    if (members_open(c) == 0)
        return members_missing(c, "watched");
    for (uint64_t round = 0; !stopped && (c->count == 0 || round < c->count); round++) {
        struct seq_row *rows;
        unsigned there;
        size_t n = 0;

        if (round > 0)
            nanosleep(&pause, NULL);
        there = reconnect(c);
        rows = members_sequences(c, argc > 0 ? argv[0] : "*", &n);
        if (rows == NULL)
            continue; /* said; the member is tried again */
        if (c->json)
            cli_print(rows_json(rows, n));
        else
            draw(c, rows, n, there, terminal);
        free(rows);
    }
    return 0;
}
