/* cmd_info.c - INFO: the state of the server, as lines of "name:value". */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include "command.h"
#include "version.h"

/* The level of Redis whose clients are expected to be content. */
#define REDIS_VERSION "7.0.0"

struct text {
    char buf[8192];
    size_t len;
};

typedef void section_fn(const struct call *c, struct text *t);

static void __attribute__((format(printf, 2, 3)))
add(struct text *t, const char *fmt, ...)
{
    size_t left = sizeof t->buf - t->len;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(t->buf + t->len, left, fmt, ap);
    va_end(ap);
    if (n > 0)
        t->len += (size_t)n < left ? (size_t)n : left - 1;
}

static void add_number(struct text *t, const char *name, uint64_t n)
{
    add(t, "%s:%" PRIu64 "\r\n", name, n);
}

static void section_server(const struct call *c, struct text *t)
{
    add(t, "redis_version:" REDIS_VERSION "\r\n"
           "redis_mode:standalone\r\n"
           "hilo_version:" HILO_VERSION "\r\n");
    add_number(t, "process_id", (uint64_t)getpid());
    add_number(t, "uptime_in_seconds",
               (uint64_t)(c->now_ms - c->server->started_ms) / 1000);
}

static void section_clients(const struct call *c, struct text *t)
{
    const struct server *s = c->server;

    add_number(t, "connected_clients", s->n_conns);
    add_number(t, "maxclients", s->client_cap);
    add_number(t, "client_bytes", s->client_bytes);
    add_number(t, "total_connections_received", s->accepted);
    add_number(t, "rejected_connections", s->turned_away);
    add_number(t, "dropped_connections", s->dropped);
    add_number(t, "auth_failures", s->auth_failures);
    add_number(t, "total_commands_processed", s->commands);
    add_number(t, "protocol_errors", s->protocol_errors);
}

static void section_persistence(const struct call *c, struct text *t)
{
    (void)c;
    add(t, "loading:0\r\n");
}

static void section_replication(const struct call *c, struct text *t)
{
    (void)c;
    add(t, "role:master\r\nconnected_slaves:0\r\n");
}

static void add_witness(struct text *t, const struct server *s)
{
    const struct witness_stats *stats = &s->batcher.witness_stats;
    const struct witness *w = s->guard->witness;

    add(t, "witness:%s\r\n", w != NULL ? witness_path(w) : "off");
    if (w == NULL)
        return;
    add_number(t, "witness_bytes", stats->bytes);
    add_number(t, "witness_syncs", stats->syncs);
    add_number(t, "witness_failures", stats->failures);
    add_number(t, "witness_renewals", stats->renewals);
    add_number(t, "behind_at_start", s->guard->behind);
}

static void section_store(const struct call *c, struct text *t)
{
    const struct batcher *b = &c->server->batcher;
    uint64_t commits = b->store_stats.commits;

    add(t, "engine:%s\r\n", c->server->guard->engine->name);
    add_number(t, "durable", c->server->guard->engine->durable);
    add(t, "%s", c->server->identity.settings);
    add_number(t, "commits", commits);
    add_number(t, "syncs", b->store_stats.syncs);
    add_number(t, "failed_commits", b->store_stats.failures);
    add_number(t, "disk_free_bytes", b->store_stats.free_bytes);
    add(t, "grants_per_commit:%.2f\r\n",
        commits > 0 ? (double)b->env.grants / (double)commits : 0.0);
    add_number(t, "last_commit_us", (uint64_t)b->last_commit_us);
    add_number(t, "longest_commit_us", (uint64_t)b->longest_commit_us);
    add_witness(t, c->server);
    add_number(t, "last_error_time_ms", (uint64_t)b->last_error_ms);
    add(t, "last_error:%s\r\n", b->last_error);
}

static void section_hilo(const struct call *c, struct text *t)
{
    const struct server *s = c->server;

    add(t, "version:" HILO_VERSION "\r\nstore_uuid:%s\r\nboot_id:%s\r\n",
        s->identity.uuid, s->boot_id);
    add_number(t, "lane", s->identity.lane.number);
    add_number(t, "lanes", s->identity.lane.lanes);
    add_number(t, "stripe", s->identity.lane.stripe);
    add_number(t, "epoch", s->identity.epoch);
    add_number(t, "shared", s->guard->engine->shared);
    add_number(t, "ready", server_ready(s) && !s->batcher.held);
    add_number(t, "auto_create", s->auto_create);
    add_number(t, "sequences", s->catalog.n_live);
    add_number(t, "sequences_near_end", s->batcher.env.near_end);
    add_number(t, "grants", s->batcher.env.grants);
    add_number(t, "ids_granted", s->batcher.env.ids);
    add_number(t, "tokens", s->batcher.tokens.n);
    add_number(t, "token_repeats", s->batcher.tokens.repeats);
    add_number(t, "tokens_refused", s->batcher.tokens.refused);
    add_number(t, "floors_refused", s->batcher.env.floors_refused);
}

struct section {
    const char *name, *title;
    section_fn *fn;
};

static const struct section sections[] = {
    {"SERVER", "Server", section_server},
    {"CLIENTS", "Clients", section_clients},
    {"PERSISTENCE", "Persistence", section_persistence},
    {"REPLICATION", "Replication", section_replication},
    {"STORE", "Store", section_store},
    {"HILO", "Hilo", section_hilo},
};

static bool wanted(const struct resp_request *args, const char *name)
{
    if (args->argc == 1)
        return true;
    for (size_t i = 1; i < args->argc; i++) {
        struct resp_arg a = args->argv[i];

        if (arg_is(a, name) || arg_is(a, "ALL") || arg_is(a, "DEFAULT") ||
            arg_is(a, "EVERYTHING"))
            return true;
    }
    return false;
}

enum command_result cmd_info(struct call *c, struct request **ret_request)
{
    struct text t;

    (void)ret_request;
    t.len = 0;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (!wanted(c->args, sections[i].name))
            continue;
        add(&t, "%s# %s\r\n", t.len > 0 ? "\r\n" : "", sections[i].title);
        sections[i].fn(c, &t);
    }
    reply_verbatim(c->out, t.buf, t.len);
    return COMMAND_ANSWERED;
}
