/* client.c - callers that take ids as libhilo does: blocks ahead of need, a FLOOR, a
 * time limit for each request, a connection that is closed when it has passed. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "cache.h"
#include "number.h"
#include "reply_parse.h"
#include "seen.h"
#include "sim.h"

#define TIMEOUT_US   2000000
#define LINE_MAX_LEN 160
#define ASKS_MAX     64

enum kind { BLOCK, TOKEN, OTHER, LOOK, ADMIN };

struct ask {
    enum kind kind;
    unsigned seq;
    uint64_t count, floor;
    unsigned token;
    int64_t sent_us;
};

struct link {
    struct client *client;
    unsigned node;
    struct conn *conn;
    struct identity id;        /* of the server, as it said when we came */
    uint64_t last[SEQS];       /* the last id that came through it */
    struct ask asks[ASKS_MAX]; /* in the order they were sent */
    size_t n;
};

struct stock {
    struct cache cache;
    struct run block; /* in use; step 0: none */
    uint64_t used;
    struct seen *seen;
};

struct token {
    bool given;  /* its block is known, ... */
    bool asking; /* ... or on its way */
    unsigned node, seq;
    uint64_t count;
    int64_t begun_us, given_us;
    struct run block;
};

struct client {
    unsigned number;
    struct link links[NODES];
    struct stock stocks[SEQS];
    struct token tokens[TOKENS];
    unsigned n_tokens, next_node;
    struct seen *seen;
};

static struct client clients[CLIENTS];

static struct identity identity_of(unsigned node)
{
    struct identity id = {.lane = sim_node_lane(sim_node(node)), .epoch = sim_epoch()};

    snprintf(id.uuid, sizeof id.uuid, "node %u", node);
    return id;
}

/* --- connections --- */

static void forget(struct client *c, const struct ask *a)
{
    if (a->kind == BLOCK)
        cache_failed(&c->stocks[a->seq].cache);
    if (a->kind == TOKEN)
        c->tokens[a->token].asking = false;
}

static void lose(struct link *l)
{
    l->conn = NULL;
    for (size_t i = 0; i < l->n; i++)
        forget(l->client, &l->asks[i]);
    l->n = 0;
}

static void on_broken(void *arg)
{
    lose(arg);
}

static void got_block(struct client *c, const struct link *l, const struct ask *a,
                      const struct reply_item *items, size_t n)
{
    struct stock *s = &c->stocks[a->seq];
    struct identity id = l->id;
    struct run r;

    if (n != 4 || !reply_number(&items[1], &r.first) ||
        !reply_number(&items[2], &r.last) || !reply_number(&items[3], &r.step) ||
        r.step != lane_step(id.lane) || run_count(r) > a->count)
        sim_found("client %u: no block of %s", c->number, sim_names[a->seq]);
    if (r.first <= a->floor)
        sim_found("client %u: %s begins at %" PRIu64 ", FLOOR was %" PRIu64, c->number,
                  sim_names[a->seq], r.first, a->floor);
    if (r.first <= seen_last(s->seen, &id, l->node))
        sim_found("client %u: %s of node %u goes back to %" PRIu64, c->number,
                  sim_names[a->seq], l->node, r.first);
    seen_note(s->seen, &id, l->node, r.last);
    ledger_taken(c->number, a->seq, r);
    cache_filled(&s->cache, r, sim_now_us);
}

/* Through one connection ids of a sequence rise: one, several, or a block. */
static void check_order(struct link *l, const struct ask *a,
                        const struct reply_item *items, size_t n)
{
    bool is_block = a->kind == BLOCK || (a->kind == OTHER && n == 4);
    uint64_t first, last;

    if (!reply_number(&items[is_block], &first) ||
        !reply_number(&items[is_block ? 2 : 0], &last))
        sim_found("client %u: no ids of %s", l->client->number, sim_names[a->seq]);
    if (first <= l->last[a->seq])
        sim_found("client %u: %s goes back from %" PRIu64 " to %" PRIu64
                  " on one connection",
                  l->client->number, sim_names[a->seq], l->last[a->seq], first);
    l->last[a->seq] = last;
}

static void got_token(struct client *c, const struct ask *a,
                      const struct reply_item *items, size_t n)
{
    struct token *t = &c->tokens[a->token];
    struct run r;

    t->asking = false;
    if (n != 4 || !reply_number(&items[1], &r.first) ||
        !reply_number(&items[2], &r.last) || !reply_number(&items[3], &r.step) ||
        run_count(r) != t->count)
        sim_found("client %u: no block for its token", c->number);
    if (!t->given)
        ledger_taken(c->number, a->seq, r);
    t->given = true;
    t->block = r;
}

static void on_answer(void *arg, const char *reply, size_t len)
{
    struct link *l = arg;
    struct client *c = l->client;
    struct ask a = l->asks[0];
    struct reply_item items[64];
    size_t n, size;

    if (l->n == 0)
        sim_found("client %u: an answer nobody asked for", c->number);
    memmove(l->asks, l->asks + 1, --l->n * sizeof a);
    if (reply_parse(reply, len, REPLY_MAX, items, 64, &n, &size) != REPLY_OK)
        sim_found("client %u: no reply", c->number);
    if (items[0].type == REPLY_ERROR) {
        forget(c, &a);
        return;
    }
    if (a.kind == BLOCK || a.kind == OTHER)
        check_order(l, &a, items, n);
    if (a.kind == BLOCK)
        got_block(c, l, &a, items, n);
    else if (a.kind == TOKEN)
        got_token(c, &a, items, n);
}

/* Sends a request; false when there is no way to now. */
static bool ask(struct client *c, unsigned node, struct ask a, const char *line)
{
    struct link *l = &c->links[node];

    if (l->conn == NULL) {
        l->n = 0;
        l->conn = sim_connect(sim_node(node), l, on_answer, on_broken);
        l->id = identity_of(node);
        memset(l->last, 0, sizeof l->last);
    }
    if (l->conn == NULL || l->n == ASKS_MAX)
        return false;
    a.sent_us = sim_now_us;
    l->asks[l->n++] = a;
    sim_send(l->conn, line);
    return true;
}

/* What takes too long ends its connection. */
static void check_time(struct client *c)
{
    for (unsigned i = 0; i < NODES; i++) {
        struct link *l = &c->links[i];

        if (l->conn == NULL || l->n == 0 ||
            sim_now_us - l->asks[0].sent_us < TIMEOUT_US)
            continue;
        sim_break(l->conn);
        lose(l);
    }
}

/* --- what they want --- */

static void use(struct stock *s, uint64_t n)
{
    while (n > 0) {
        uint64_t left = s->block.step == 0 ? 0 : run_count(s->block), take;

        if (left == 0 && !cache_pop(&s->cache, &s->block)) {
            s->block.step = 0;
            cache_ran_dry(&s->cache);
            return;
        }
        left = run_count(s->block);
        take = n < left ? n : left;
        n -= take;
        s->used += take;
        if (take == left)
            s->block.step = 0;
        else
            s->block.first += take * s->block.step;
    }
}

static void refill(struct client *c, unsigned seq)
{
    struct stock *s = &c->stocks[seq];
    uint64_t hand = s->block.step == 0 ? 0 : run_count(s->block);
    uint64_t want = cache_ask(&s->cache, hand, hand == 0, s->used, sim_now_us);
    unsigned node = c->next_node++ % sim_nodes();
    struct identity id = identity_of(node);
    char line[LINE_MAX_LEN];
    uint64_t floor;

    if (want == 0)
        return;
    floor = seen_highest(s->seen, &id, node);
    snprintf(line, sizeof line, "BLOCK %s %" PRIu64 " ATLEAST 1 FLOOR %" PRIu64,
             sim_names[seq], want, floor);
    if (!ask(c, node,
             (struct ask){.kind = BLOCK, .seq = seq, .count = want, .floor = floor},
             line))
        cache_failed(&s->cache);
}

/* A block that has to be had once: asked for until it comes, and sometimes again. */
static void see_to_tokens(struct client *c)
{
    char line[LINE_MAX_LEN];
    unsigned i;

    if (!sim_calm && c->n_tokens < TOKENS && sim_below(20) == 0) {
        struct token *t = &c->tokens[c->n_tokens++];

        *t = (struct token){.node = (unsigned)sim_below(sim_nodes()),
                            .seq = (unsigned)sim_below(2),
                            .count = 1 + sim_below(20),
                            .begun_us = sim_now_us};
    }
    if (c->n_tokens == 0)
        return;
    i = (unsigned)sim_below(c->n_tokens);
    if (c->tokens[i].asking && sim_below(4) > 0)
        return;
    if (c->tokens[i].given && sim_below(10) > 0)
        return;
    snprintf(line, sizeof line, "BLOCK %s %" PRIu64 " TOKEN c%u-%u%s",
             sim_names[c->tokens[i].seq], c->tokens[i].count, c->number, i,
             sim_below(4) == 0 ? " FLOOR 1" : "");
    c->tokens[i].asking =
        ask(c, c->tokens[i].node % sim_nodes(),
            (struct ask){.kind = TOKEN, .seq = c->tokens[i].seq, .token = i}, line);
}

/* What a Redis client would send. */
static void see_to_others(struct client *c)
{
    unsigned seq = (unsigned)sim_below(SEQS), node = (unsigned)sim_below(sim_nodes());
    enum kind kind = OTHER;
    char line[LINE_MAX_LEN];

    if (sim_calm || sim_below(6) > 0)
        return;
    switch (sim_below(4)) {
    case 0:
        snprintf(line, sizeof line, "INCR %s", sim_names[seq]);
        break;
    case 1:
        snprintf(line, sizeof line, "NEXT %s", sim_names[seq]);
        break;
    case 2:
        snprintf(line, sizeof line, "GET %s", sim_names[seq]);
        kind = LOOK;
        break;
    default:
        snprintf(line, sizeof line, "BLOCK %s %" PRIu64, sim_names[seq],
                 1 + sim_below(900));
        break;
    }
    for (uint64_t n = 1 + sim_below(4); n > 0; n--)
        ask(c, node, (struct ask){.kind = kind, .seq = seq}, line);
}

/* One of them is the administrator of one server after the other. */
static void administer(struct client *c)
{
    unsigned seq = (unsigned)sim_below(SEQS), node = (unsigned)sim_below(sim_nodes());
    const char *each = seq == 1 ? " DURABILITY each" : "";
    char line[LINE_MAX_LEN];

    if (c->number != 0 || c->links[node].n > 0)
        return;
    if (sim_calm && seq > 1)
        return;
    switch (sim_calm ? 0 : sim_below(12)) {
    case 0:
    case 1:
    case 2:
        if (seq == 2)
            snprintf(line, sizeof line, "SEQ CREATE small START 5 MAX 3000");
        else
            snprintf(line, sizeof line, "SEQ CREATE %s%s", sim_names[seq], each);
        break;
    case 3:
    case 4:
        snprintf(line, sizeof line, "SEQ ALTER small MAX %" PRIu64,
                 3000 + sim_below(20000));
        break;
    case 5:
        snprintf(line, sizeof line, "SEQ ALTER other MAX %" PRIu64, sim_below(100000));
        break;
    case 6:
        snprintf(line, sizeof line, "SEQ ALTER other DURABILITY %s",
                 sim_below(2) == 0 ? "each" : "ahead");
        break;
    case 7:
        snprintf(line, sizeof line, "SEQ ADVANCE other %" PRIu64, sim_below(100000));
        break;
    case 8:
        snprintf(line, sizeof line, "SEQ RETIRE other");
        break;
    case 9:
        snprintf(line, sizeof line, "BACKUP b%" PRIu64, sim_random());
        break;
    default:
        return;
    }
    ask(c, node, (struct ask){.kind = ADMIN, .seq = seq}, line);
}

static void on_tick(void *arg, uint64_t unused)
{
    struct client *c = arg;

    (void)unused;
    sim_later(5000 + (int64_t)sim_below(sim_mishap(100) ? 2000000 : 60000), on_tick, c,
              0);
    check_time(c);
    administer(c);
    for (unsigned s = 0; s < SEQS; s++) {
        if (s >= 2 && sim_calm)
            continue;
        use(&c->stocks[s], sim_below(s == 2 ? 3 : 60));
        refill(c, s);
    }
    see_to_tokens(c);
    see_to_others(c);
}

/* --- all of them --- */

uint64_t sim_client_ids(unsigned client, unsigned seq)
{
    return clients[client].stocks[seq].used;
}

void sim_clients_start(void)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct client *c = &clients[i];

        *c = (struct client){.number = i};
        for (unsigned k = 0; k < NODES; k++)
            c->links[k] = (struct link){.client = c, .node = k};
        for (unsigned s = 0; s < SEQS; s++) {
            const struct cache_limits limits = {
                .block_min = 1, .block_max = 5000, .hold_ms = 100 * sim_below(5)};

            cache_init(&c->stocks[s].cache, &limits);
            c->stocks[s].seen = seen_of(&c->seen, sim_names[s]);
        }
        sim_later((int64_t)sim_below(100000), on_tick, c, 0);
    }
}

void sim_clients_end(void)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        seen_free(clients[i].seen);
}
