/* cli_doctor.c - hilo doctor: looks for what is wrong, and says what to do.
 *
 * Each check looks at what the servers say of themselves and adds findings. A problem
 * makes the exit code 1, a warning doesn't. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "cli.h"
#include "number.h"
#include "roster.h"
#include "text.h"
#include "version.h"

#define FINDINGS_MAX   64
#define SLOW_COMMIT_US 100000
#define LOW_DISK       (UINT64_C(100) << 20)
#define SLOW_ROUND_US  20000

struct finding {
    bool problem;
    char text[512];
};

struct report {
    struct finding at[FINDINGS_MAX];
    size_t n;
};

static void __attribute__((format(printf, 3, 4)))
add(struct report *r, bool problem, const char *fmt, ...)
{
    va_list ap;

    if (r->n == FINDINGS_MAX)
        return;
    r->at[r->n].problem = problem;
    va_start(ap, fmt);
    vsnprintf(r->at[r->n++].text, sizeof r->at[0].text, fmt, ap);
    va_end(ap);
}

static uint64_t number(const struct link *l, const char *name)
{
    char text[64];
    uint64_t n = 0;

    info_value(l, name, text, sizeof text);
    return number_parse_u64(text, strlen(text), &n) ? n : 0;
}

/* --- servers --- */

static void check_reach(const struct cli *c, struct report *r)
{
    for (unsigned i = 0; i < c->n_members; i++) {
        const struct link *l = &c->members[i];

        if (l->err == HILO_EAUTH)
            add(r, true, "%s; give --password-file with the server's password", l->why);
        else if (l->err != 0)
            add(r, true, "%s; is hilod running there, and is the address right?",
                l->why);
        else if (l->round_us > SLOW_ROUND_US)
            add(r, false,
                "%s answers after %.0f ms: it is busy or far away; larger blocks "
                "(block_min) hide that",
                l->target.text, (double)l->round_us / 1e3);
    }
}

/* One server under two addresses helps nobody when it is down. */
static void check_twice(const struct cli *c, struct report *r)
{
    for (unsigned i = 0; i < c->n_members; i++) {
        for (unsigned k = 0; k < i; k++) {
            const struct link *a = &c->members[i], *b = &c->members[k];

            if (a->err == 0 && b->err == 0 && strcmp(a->id.boot, b->id.boot) == 0)
                add(r, false, "%s and %s are the same server", b->target.text,
                    a->target.text);
        }
    }
}

static void check_lanes(const struct cli *c, struct report *r)
{
    struct roster met;
    const struct link *first = NULL;
    unsigned other, there = 0;

    roster_init(&met);
    check_twice(c, r);
    for (unsigned i = 0; i < c->n_members; i++) {
        const struct link *l = &c->members[i];
        enum roster_verdict v;

        if (l->err != 0)
            continue;
        v = roster_meet(&met, &l->id, i, &other);
        if (v == ROSTER_LANE)
            add(r, true,
                "%s and %s both claim lane %u of %u with different stores: they grant "
                "the SAME ids. Stop one and start it with a lane and data directory of "
                "its own",
                c->members[other].target.text, l->target.text, l->id.lane.number,
                l->id.lane.lanes);
        else if (v == ROSTER_LAYOUT)
            add(r, true,
                "%s has %u lanes of stripe %" PRIu64
                ", %s has another layout: they can grant the same ids. All members "
                "need "
                "the same number of lanes and the same stripe",
                l->target.text, l->id.lane.lanes, l->id.lane.stripe,
                c->members[other].target.text);
        else if (v == ROSTER_OLD_EPOCH || v == ROSTER_NEW_EPOCH)
            add(r, true,
                "%s and %s are in different layout epochs: finish the change of "
                "lanes on all members",
                l->target.text, c->members[other].target.text);
        if (first == NULL)
            first = l;
        there++;
    }
    if (first != NULL && !first->id.shared && there == c->n_members &&
        first->id.lane.lanes > c->n_members)
        add(r, false,
            "the layout has %u lanes, but %u servers are named in --server: name them "
            "all, so that clients find every one",
            first->id.lane.lanes, c->n_members);
}

static void check_versions(const struct cli *c, struct report *r)
{
    for (unsigned i = 0; i < c->n_members; i++) {
        const struct link *l = &c->members[i];

        if (l->err == 0 && strcmp(l->version, HILO_VERSION) != 0)
            add(r, false, "%s runs hilod %s, this is hilo %s: upgrade the older one",
                l->target.text, l->version, HILO_VERSION);
    }
}

static void check_store(const struct link *l, struct report *r)
{
    const char *at = l->target.text;
    char text[256];
    uint64_t n;

    if (number(l, "ready") == 0)
        add(r, true, "%s can't grant: %s. Once the disk is well, restart hilod", at,
            info_value(l, "last_error", text, sizeof text));
    else if (number(l, "failed_commits") > 0)
        add(r, false, "%s: %" PRIu64 " commits failed since its start, the last: %s",
            at, number(l, "failed_commits"),
            info_value(l, "last_error", text, sizeof text));
    if (number(l, "durable") == 0)
        add(r, true,
            "%s keeps its counters in memory: after a restart ids REPEAT. Use "
            "engine = sqlite",
            at);
    info_value(l, "filesystem", text, sizeof text);
    if (strcmp(text, "memory") == 0)
        add(r, true,
            "%s has its data on a file system in memory: after a reboot ids "
            "REPEAT. Move the data directory to a disk",
            at);
    else if (strcmp(text, "network") == 0)
        add(r, false,
            "%s has its data on a network file system, whose locks may not "
            "hold. Move the data directory to a local disk",
            at);
    n = number(l, "longest_commit_us");
    if (n > SLOW_COMMIT_US)
        add(r, false, "%s: a commit took %" PRIu64 " ms; the disk is slow or shared",
            at, n / 1000);
    n = number(l, "disk_free_bytes");
    if (n > 0 && n < LOW_DISK)
        add(r, true,
            "%s has %" PRIu64 " MB of disk left: make room, or it stops granting", at,
            n >> 20);
}

static void check_clients(const struct link *l, struct report *r)
{
    uint64_t now = number(l, "connected_clients"), most = number(l, "maxclients");

    if (most > 0 && now > most / 10 * 8)
        add(r, false,
            "%s has %" PRIu64 " of at most %" PRIu64
            " connections: raise max_clients and its limit of open files",
            l->target.text, now, most);
    if (number(l, "rejected_connections") > 0)
        add(r, false,
            "%s turned %" PRIu64 " connections away since its start (%" PRIu64
            " at most): raise max_clients",
            l->target.text, number(l, "rejected_connections"), most);
    if (number(l, "auth_failures") > 0)
        add(r, false, "%s: %" PRIu64 " wrong passwords since its start", l->target.text,
            number(l, "auth_failures"));
    if (number(l, "floors_refused") > 0)
        add(r, true,
            "%s refused %" PRIu64
            " floors far above its counters: was an old copy of its data put "
            "back? Compare hilo ls with the largest ids in use, then: hilo "
            "advance NAME ID",
            l->target.text, number(l, "floors_refused"));
}

static void check_servers(struct cli *c, struct report *r)
{
    const char *words[] = {"INFO", "everything"};

    for (unsigned i = 0; i < c->n_members; i++) {
        struct link *l = &c->members[i];

        if (l->err != 0 || member_call(c, l, 2, words) != 0)
            continue;
        check_store(l, r);
        check_clients(l, r);
    }
}

/* --- sequences --- */

static void check_one(const struct cli *c, const struct seq_row *rows, size_t n,
                      unsigned there, struct report *r)
{
    const struct seq_row *a = &rows[0];

    if (n < there && strcmp(a->state, "retired") != 0)
        add(r, true,
            "sequence %s is on %zu of %u servers: hilo create --start %" PRIu64
            " --max %" PRIu64
            " -- %s; where that leaves a server no ids, alter it to a "
            "larger --max first, or retire it",
            a->name, n, there, a->start, a->max, a->name);
    for (size_t i = 1; i < n; i++) {
        if (rows[i].start != a->start || rows[i].max != a->max)
            add(r, true,
                "sequence %s is %" PRIu64 " to %" PRIu64 " on %s, but %" PRIu64
                " to %" PRIu64 " on %s: hilo alter %s --max ID",
                a->name, a->start, a->max, c->members[a->member].target.text,
                rows[i].start, rows[i].max, c->members[rows[i].member].target.text,
                a->name);
        if (strcmp(rows[i].state, a->state) != 0)
            add(r, true, "sequence %s is %s on %s, but %s on %s", a->name, a->state,
                c->members[a->member].target.text, rows[i].state,
                c->members[rows[i].member].target.text);
    }
    if (a->used_percent >= 80 && strcmp(a->state, "live") == 0)
        add(r, a->used_percent >= 95,
            "sequence %s has used %" PRIu64
            " %% of its ids: hilo alter %s --max ID, if its column can hold more",
            a->name, a->used_percent, a->name);
}

static void check_sequences(struct cli *c, unsigned there, struct report *r)
{
    struct seq_row *rows;
    size_t n = 0, end;

    rows = members_sequences(c, "*", &n);
    for (size_t at = 0; rows != NULL && at < n; at = end) {
        for (end = at + 1; end < n && strcmp(rows[end].name, rows[at].name) == 0;)
            end++;
        check_one(c, rows + at, end - at, there, r);
    }
    free(rows);
}

/* --- here --- */

static void check_here(struct report *r)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < 1024)
        add(r, false,
            "programs here may open %" PRIu64
            " files; each handle of libhilo needs three and one for each "
            "server: ulimit -n 1024",
            (uint64_t)files.rlim_cur);
}

/* --- the report --- */

static int print_report(const struct cli *c, const struct report *r, unsigned there)
{
    json_t *list = json_array();
    size_t problems = 0;

    for (size_t i = 0; i < r->n; i++) {
        const struct finding *f = &r->at[i];

        problems += f->problem;
        json_array_append_new(list, json_pack("{s:s, s:s}", "level",
                                              f->problem ? "problem" : "warning",
                                              "text", f->text));
        if (!c->json)
            printf("%s: %s\n", f->problem ? "PROBLEM" : "warning", f->text);
    }
    if (c->json)
        cli_print(json_pack("{s:i, s:i, s:o}", "servers", (int)c->n_members, "reached",
                            (int)there, "findings", list));
    else
        json_decref(list);
    if (!c->json)
        printf("%u of %u servers looked at, %zu problems, %zu warnings\n", there,
               c->n_members, problems, r->n - problems);
    for (unsigned i = 0; i < c->n_members; i++) {
        int err = c->members[i].err;

        if (err == HILO_EUNAVAIL || err == HILO_ETIMEDOUT)
            return EXIT_UNAVAIL;
    }
    return problems > 0 ? EXIT_FAILED : 0;
}

int cli_doctor(struct cli *c, int argc, char **argv)
{
    struct report *r = calloc(1, sizeof *r);
    unsigned there;
    int rc;

    (void)argc;
    (void)argv;
    if (r == NULL)
        return cli_fail(c, HILO_ENOMEM, "out of memory");
    there = members_open(c);
    check_reach(c, r);
    check_lanes(c, r);
    check_versions(c, r);
    check_servers(c, r);
    check_sequences(c, there, r);
    check_here(r);
    rc = print_report(c, r, there);
    free(r);
    return rc;
}
