/* node.c - one hilod, without its sockets, threads and files: all else is the real one.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "clock.h"
#include "command.h"
#include "log.h"
#include "power.h"
#include "random.h"
#include "relane.h"
#include "server.h"
#include "settings.h"
#include "sim.h"

#define LOOK_US 1000000

/* A request that waits for its decision. */
struct pending {
    struct pending *next;
    struct request *r;
    char *line;
};

struct text {
    struct text *next;
    size_t len;
    char bytes[];
};

struct queue {
    struct text *first, *last;
};

struct conn {
    struct conn *next_of_all;
    struct node *node;
    bool alive;  /* for the client */
    bool served; /* by the node */
    bool broken; /* nothing comes through any more, though nobody knows yet */
    struct session session;
    struct queue to_node, to_client, inbox;
    int64_t to_node_us, to_client_us; /* what was sent last arrives then */
    struct pending *oldest, *newest;
    void *arg;
    void (*answer_fn)(void *arg, const char *reply, size_t len);
    void (*broken_fn)(void *arg);
};

struct node {
    unsigned number;
    char dir[64], witness[96], seal[96];
    bool up, at_store;
    bool sealed, opened; /* while lanes change */
    uint64_t life;       /* what was planned for another one is void */
    struct lane lane;
    struct options options;
    struct guard guard;
    struct server server;
    struct guard_acts acts;
    int64_t clock_us; /* of this life: its steady clock when the world began */
    int64_t wall_ms;
    bool lost_witness, older; /* what people did to it */
    bool unsynced;            /* its witness could not be, and it said so */
};

static struct node nodes[NODES];
static unsigned n_nodes; /* that have a lane */
static uint64_t epoch;

/* While lanes change. */
static enum { SERVING, SEALING, OPENING } phase;
static unsigned n_next;
static struct lane next_lanes[NODES];
static struct conn *all;
static struct node *here; /* whose code runs */

/* --- what hilod takes from the system --- */

int64_t clock_steady_us(void)
{
    return here->clock_us + sim_now_us;
}

int64_t clock_steady_ms(void)
{
    return clock_steady_us() / 1000;
}

int64_t clock_wall_ms(void)
{
    if (sim_mishap(50))
        here->wall_ms += (int64_t)sim_below(20000000) - 10000000;
    return here->wall_ms + sim_now_us / 1000;
}

int clock_ticker(int64_t us)
{
    (void)us;
    return -1;
}

void clock_sleep_ms(int64_t ms)
{
    (void)ms;
}

uint64_t random_u64(void)
{
    return sim_random();
}

void random_uuid(char ret[37])
{
    snprintf(ret, 37, "%08x-0000-4000-8000-%012" PRIx64,
             (unsigned)sim_below(UINT32_MAX), sim_random() >> 16);
}

bool log_level_parse(const char *word, enum log_level *ret)
{
    (void)word;
    *ret = LOG_INFO;
    return true;
}

void log_set_level(enum log_level level)
{
    (void)level;
}

void log_set_json(bool on)
{
    (void)on;
}

static void say(const char *fmt, va_list ap)
{
    char text[1024];

    if (!sim_tell)
        return;
    vsnprintf(text, sizeof text, fmt, ap);
    sim_say("node %u: %s", here->number, text);
}

void log_line(enum log_level level, const char *fmt, ...)
{
    va_list ap;

    (void)level;
    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
}

void log_limited(struct log_limit *limit, enum log_level level, const char *fmt, ...)
{
    va_list ap;

    (void)limit, (void)level;
    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
}

/* --- queues --- */

static void push(struct queue *q, const char *bytes, size_t len)
{
    struct text *t = malloc(sizeof *t + len + 1);

    if (t == NULL)
        abort();
    t->next = NULL;
    t->len = len;
    memcpy(t->bytes, bytes, len);
    t->bytes[len] = '\0';
    *(q->last != NULL ? &q->last->next : &q->first) = t;
    q->last = t;
}

static struct text *pop(struct queue *q)
{
    struct text *t = q->first;

    q->first = t->next;
    if (q->first == NULL)
        q->last = NULL;
    return t;
}

static void clear(struct queue *q)
{
    while (q->first != NULL)
        free(pop(q));
}

/* --- a node and its connections --- */

static void turn(struct node *n);
static void boot(void *arg, uint64_t life);

/* The node forgets a connection, as conn_free does. */
static void drop(struct conn *c)
{
    while (c->oldest != NULL) {
        struct pending *p = c->oldest;

        c->oldest = p->next;
        if (p->r->decided)
            request_free(&c->node->server.batcher.env.pool, p->r);
        else
            p->r->owner = NULL;
        free(p->line);
        free(p);
    }
    c->newest = NULL;
    c->served = false;
    clear(&c->inbox);
    clear(&c->to_node);
}

static void on_broken(void *arg, uint64_t unused)
{
    struct conn *c = arg;

    (void)unused;
    if (!c->alive)
        return;
    c->alive = false;
    clear(&c->to_client);
    c->broken_fn(c->arg);
}

static void on_peer_gone(void *arg, uint64_t unused)
{
    struct conn *c = arg;

    (void)unused;
    if (c->served)
        drop(c);
}

void sim_break(struct conn *c)
{
    c->alive = false;
    clear(&c->to_client);
    sim_later((int64_t)sim_below(50000), on_peer_gone, c, 0);
}

static void on_answer(void *arg, uint64_t unused)
{
    struct conn *c = arg;
    struct text *t;

    (void)unused;
    if (!c->alive || c->to_client.first == NULL)
        return;
    t = pop(&c->to_client);
    c->answer_fn(c->arg, t->bytes, t->len);
    free(t);
}

/* When something sent now arrives, behind what was sent before. */
static int64_t arrival(int64_t *last_us)
{
    int64_t us = sim_now_us + 20 + (int64_t)sim_below(400);

    if (sim_mishap(200))
        us += (int64_t)sim_below(3000000);
    if (us <= *last_us)
        us = *last_us + 1;
    *last_us = us;
    return us - sim_now_us;
}

/* Whether it is, or breaks right now; both ends will hear of it. */
static bool is_broken(struct conn *c)
{
    if (c->broken || !sim_mishap(800))
        return c->broken;
    c->broken = true;
    sim_later((int64_t)sim_below(100000), on_broken, c, 0);
    sim_later((int64_t)sim_below(100000), on_peer_gone, c, 0);
    return true;
}

static void send_answer(struct conn *c, const char *line, const char *reply, size_t len)
{
    ledger_answered(c->node->number, c->node->lane, line, reply, len);
    if (!c->alive || is_broken(c))
        return;
    push(&c->to_client, reply, len);
    sim_later(arrival(&c->to_client_us), on_answer, c, 0);
}

static void on_decided(struct request *r)
{
    (void)r; /* looked for at the end of the turn */
}

static enum call_order order_of(const struct conn *c)
{
    if (c->newest == NULL)
        return CALL_FREE;
    return request_is_grant(c->newest->r) ? CALL_BEHIND_GRANTS : CALL_BEHIND_ADMIN;
}

/* Runs a request; false when it has to wait for its turn. */
static bool run(struct conn *c, const char *line)
{
    struct node *n = c->node;
    char text[RESP_MAX_INLINE], bytes[REPLY_MAX];
    struct reply out = {.data = bytes, .cap = sizeof bytes, .proto = 2};
    struct resp_request args;
    enum resp_fault fault;
    struct request *left = NULL;
    int len = snprintf(text, sizeof text, "%s\r\n", line);

    if (resp_parse(text, (size_t)len, &args, &fault) != RESP_OK)
        sim_found("a client's request does not parse: %s", line);
    struct call call = {.server = &n->server,
                        .session = &c->session,
                        .args = &args,
                        .rest = text + args.size,
                        .out = &out,
                        .order = order_of(c),
                        .now_ms = server_now_ms(&n->server),
                        .owner = c,
                        .decided_fn = on_decided};

    ledger_asked(n->number, n->lane, line);
    switch (command_run(&call, &left)) {
    case COMMAND_ANSWERED:
        send_answer(c, line, bytes, out.len);
        return true;
    case COMMAND_WAITS: {
        struct pending *p = malloc(sizeof *p);

        if (p == NULL)
            abort();
        *p = (struct pending){.r = left, .line = strdup(line)};
        *(c->newest != NULL ? &c->newest->next : &c->oldest) = p;
        c->newest = p;
        return true;
    }
    case COMMAND_CLOSE:
        sim_found("%s closes its connection", line);
    case COMMAND_BLOCKED:
        break;
    }
    return false;
}

static void serve(struct conn *c)
{
    bool moved = true;

    while (moved && c->served) {
        moved = false;
        while (c->oldest != NULL && c->oldest->r->decided) {
            char bytes[REPLY_MAX];
            struct reply out = {.data = bytes, .cap = sizeof bytes, .proto = 2};
            struct pending *p = c->oldest;

            command_answer(&c->node->server, p->r, &out);
            c->oldest = p->next;
            if (c->oldest == NULL)
                c->newest = NULL;
            request_free(&c->node->server.batcher.env.pool, p->r);
            send_answer(c, p->line, bytes, out.len);
            free(p->line);
            free(p);
            moved = true;
        }
        while (c->served && c->inbox.first != NULL && run(c, c->inbox.first->bytes)) {
            free(pop(&c->inbox));
            moved = true;
        }
    }
}

static void serve_all(struct node *n)
{
    for (struct conn *c = all; c != NULL; c = c->next_of_all) {
        if (c->node == n && c->served)
            serve(c);
    }
}

static void on_request(void *arg, uint64_t unused)
{
    struct conn *c = arg;
    struct text *t;

    (void)unused;
    if (c->to_node.first == NULL)
        return;
    t = pop(&c->to_node);
    if (c->served && c->node->up) {
        here = c->node;
        push(&c->inbox, t->bytes, t->len);
        turn(c->node);
    }
    free(t);
}

struct conn *sim_connect(struct node *n, void *arg,
                         void (*answer_fn)(void *arg, const char *reply, size_t len),
                         void (*broken_fn)(void *arg))
{
    struct conn *c;

    if (!n->up || n->server.stopping)
        return NULL;
    c = calloc(1, sizeof *c);
    if (c == NULL)
        abort();
    *c = (struct conn){.next_of_all = all,
                       .node = n,
                       .alive = true,
                       .served = true,
                       .session = {.proto = 2, .logged_in = true},
                       .arg = arg,
                       .answer_fn = answer_fn,
                       .broken_fn = broken_fn};
    all = c;
    return c;
}

void sim_send(struct conn *c, const char *line)
{
    if (is_broken(c))
        return;
    push(&c->to_node, line, strlen(line));
    sim_later(arrival(&c->to_node_us), on_request, c, 0);
}

/* --- the end of a life --- */

static void disconnect_all(struct node *n)
{
    for (struct conn *c = all; c != NULL; c = c->next_of_all) {
        if (c->node != n || !c->served)
            continue;
        drop(c);
        sim_later((int64_t)sim_below(200000), on_broken, c, 0);
    }
}

static void die(struct node *n)
{
    struct batcher *b = &n->server.batcher;

    disconnect_all(n);
    if (n->at_store) { /* nobody hears of it; only what waits for it is freed */
        b->sent.outcome = STORE_DEAD;
        store_error_set(&b->sent.error, false, "the process has ended");
        batcher_collect(b, clock_steady_ms(), clock_steady_us());
    }
    server_free(&n->server);
    n->unsynced = witness_stale(n->guard.witness);
    guard_close(&n->guard);
    n->up = n->at_store = false;
    n->life++;
}

static void append_to_witness(struct node *n)
{
    FILE *f = fopen(n->witness, "a");

    if (f == NULL)
        return;
    fprintf(f, "+ 00000000 what power left behind");
    fclose(f);
}

/* A byte before the last sync mark becomes another one. */
static void damage_witness(struct node *n)
{
    FILE *f = fopen(n->witness, "r+");
    long size;

    if (f == NULL)
        return;
    if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) > 40 &&
        fseek(f, 30, SEEK_SET) == 0)
        fputc('\a', f);
    fclose(f);
}

/* What people do while nobody serves. */
static void interfere(struct node *n)
{
    struct sim_disk *d = sim_disk_of(n->dir);

    if (sim_calm)
        return;
    power_on(n->dir, KEPT); /* by the time people come, all of it is on the disk */
    switch (sim_below(24)) {
    case 0:
    case 1:
    case 2:
        if (sim_disk_put_back(d, true)) {
            sim_say("node %u: an older copy is put back", n->number);
            n->older = true;
        }
        break;
    case 3:
        if (sim_disk_put_back_backup(d)) {
            sim_say("node %u: a backup is put back", n->number);
            n->older = true;
        }
        break;
    case 4:
        sim_say("node %u: the database is lost", n->number);
        sim_disk_delete(d);
        n->older = true;
        break;
    case 5:
        sim_say("node %u: the witness is lost", n->number);
        unlink(n->witness);
        n->lost_witness = true;
        break;
    case 6:
        sim_say("node %u: the witness is damaged", n->number);
        damage_witness(n);
        n->lost_witness = true;
        break;
    case 7:
        append_to_witness(n);
        break;
    case 8:
        if (sim_disk_put_back(d, false)) {
            sim_say("node %u: an older copy is put back, the witness is lost",
                    n->number);
            unlink(n->witness);
            n->older = n->lost_witness = true;
        }
        break;
    default:
        return;
    }
    if (n->older || n->lost_witness)
        ledger_put_back(n->number, n->lost_witness);
}

/* A process has ended; people may come, then there is another one. */
static void go_on(struct node *n, bool power)
{
    struct sim_disk *d = sim_disk_of(n->dir);

    if (power)
        power_on(n->dir, (enum fate)sim_below(FATES));
    else
        power_back();
    sim_disk_revive(d);
    interfere(n);
    /* The last second of `each` may have been the witness's memory only: hilod(8). */
    if ((power || n->unsynced) && n->older && !n->lost_witness && sim_disk_is_there(d))
        n->acts.skip = ledger_skip(n->number, d) + 1;
    sim_later((int64_t)sim_below(400000), boot, n, n->life);
}

static void crash(struct node *n)
{
    bool power = sim_below(3) == 0;

    sim_say("node %u: %s", n->number, power ? "the power is out" : "killed");
    here = n;
    power_out();
    die(n);
    go_on(n, power);
}

/* As a signal does: nothing waits any more, and what is in hand goes back. The power
 * may fail in the middle of it. That the last sync of a witness fails is told by a
 * warning only, and left out here: nobody would know what to do about a copy then. */
static bool stop(struct node *n)
{
    struct batcher *b = &n->server.batcher;
    bool idle = !n->at_store && batcher_idle(b);
    unsigned flaky;

    for (struct conn *c = all; c != NULL && idle; c = c->next_of_all)
        idle =
            c->node != n || !c->served || (c->oldest == NULL && c->inbox.first == NULL);
    if (!idle)
        return false;
    sim_say("node %u: stops", n->number);
    if (sim_mishap(4))
        power_out_at(1 + (unsigned)sim_below(6));
    n->server.stopping = true;
    batcher_give_back(b, &n->server.catalog, &n->guard);
    flaky = power_flaky(0);
    die(n);
    power_flaky(flaky);
    go_on(n, power_is_out());
    return true;
}

/* --- turns --- */

static void on_turn(void *arg, uint64_t life)
{
    struct node *n = arg;

    if (n->life != life || !n->up)
        return;
    here = n;
    turn(n);
}

static void on_collect(void *arg, uint64_t life)
{
    struct node *n = arg;

    if (n->life != life)
        return;
    here = n;
    n->at_store = false;
    n->server.now_ms = 0;
    batcher_collect(&n->server.batcher, clock_steady_ms(), clock_steady_us());
    turn(n);
}

/* The store's part of a batch; the process may end in it, or before it tells. */
static void on_commit(void *arg, uint64_t life)
{
    struct node *n = arg;
    struct sim_disk *d = sim_disk_of(n->dir);

    if (n->life != life)
        return;
    here = n;
    if (sim_mishap(300))
        power_out_at(1 + (unsigned)sim_below(4));
    if (sim_mishap(300))
        sim_disk_kill(d);
    guard_commit(&n->guard, &n->server.batcher.sent);
    if (power_is_out() || sim_disk_killed(d) || sim_mishap(400)) {
        crash(n);
        return;
    }
    power_back();
    sim_later((int64_t)sim_below(200), on_collect, n, n->life);
}

static void turn(struct node *n)
{
    struct batcher *b = &n->server.batcher;
    int64_t us = 20 + (int64_t)sim_below(400);
    enum batcher_step step;

    n->server.now_ms = 0;
    if (sim_mishap(20000)) {
        crash(n);
        return;
    }
    serve_all(n);
    step = batcher_make(b, clock_steady_ms(), clock_steady_us());
    if (step == BATCHER_SENDS) {
        n->at_store = true;
        if (sim_mishap(300))
            us += (int64_t)sim_below(2000000);
        sim_later(us, on_commit, n, n->life);
    }
    serve_all(n);
    if (step == BATCHER_GATHERS || batcher_wanted(b, clock_steady_ms()))
        sim_later(50, on_turn, n, n->life);
}

static void on_second(void *arg, uint64_t life)
{
    struct node *n = arg;

    if (n->life != life || !n->up)
        return;
    here = n;
    sim_later(LOOK_US, on_second, n, life);
    if ((n->server.batcher.env.ended || sim_mishap(10)) && stop(n))
        return;
    if (n->server.batcher.env.ended && !n->at_store && sim_below(3) == 0) {
        crash(n); /* people do not wait for ever */
        return;
    }
    batcher_look(&n->server.batcher);
    turn(n);
}

/* --- the start of one --- */

/* What an administrator does with a start that was refused. */
static void mend(struct node *n, const char *why)
{
    struct sim_disk *d = sim_disk_of(n->dir);

    sim_say("node %u: %s", n->number, why);
    bool half_made =
        n->acts.from_witness; /* the database, by a start that ended early */

    n->acts = (struct guard_acts){.skip = 0};
    if (half_made)
        return;
    if (strstr(why, "lanes were changed since") != NULL) {
        sim_disk_delete(d);
        n->acts.from_witness = true;
    } else if (strstr(why, "is a backup") != NULL) {
        n->acts.skip = ledger_skip(n->number, d) + 1;
        n->acts.new_witness = n->lost_witness;
        ledger_put_back(n->number, true);
    } else if (!sim_disk_is_there(d) && !n->lost_witness) {
        n->acts.from_witness = true;
    } else if (n->lost_witness || n->older) {
        n->acts.new_witness = true;
        n->acts.skip = ledger_skip(n->number, d);
    } else {
        sim_found("node %u does not start, though nobody did anything to it: %s",
                  n->number, why);
    }
    sim_say("node %u: from_witness %d new_witness %d skip %" PRIu64, n->number,
            n->acts.from_witness, n->acts.new_witness, n->acts.skip);
}

static struct store_config config_of(const struct node *n)
{
    return (struct store_config){
        .dir = n->dir, .lane = n->lane, .allow_network_fs = true};
}

/* A start, or what does not get that far, has ended early or was refused. */
static void try_again(struct node *n, const struct store_error *error)
{
    if (power_is_out())
        power_on(n->dir, (enum fate)sim_below(FATES));
    else if (error->config)
        mend(n, error->text);
    power_back();
    sim_disk_revive(sim_disk_of(n->dir));
    sim_later(100000, boot, n, n->life);
}

/* --- lanes that change --- */

/* Somebody starts it all the same, with an older copy even. */
static void tempt(struct node *n)
{
    const struct store_config config = config_of(n);
    const struct guard_acts none = {.skip = 0};
    struct store_error error;
    struct guard g;

    if (sim_below(2) == 0 && sim_disk_put_back(sim_disk_of(n->dir), true)) {
        sim_say("node %u: an older copy is put back, though it was sealed", n->number);
        n->sealed = false; /* has to be sealed once more, for the database's sake */
        n->older = true;
        ledger_put_back(n->number, false);
    }
    if (guard_open(&g, &sim_engine, &config, n->witness, &none, &error) == 0)
        sim_found("node %u starts, though its layout was sealed", n->number);
    sim_say("node %u: %s", n->number, error.text);
}

static bool all_sealed(void)
{
    for (unsigned i = 0; i < n_nodes; i++) {
        if (!nodes[i].sealed)
            return false;
    }
    return true;
}

static void begin_opening(void)
{
    static const uint64_t stripes[] = {1, 1000, 100000};
    uint64_t stripe = stripes[sim_below(3)];

    phase = OPENING;
    n_next = 1 + (unsigned)sim_below(NODES);
    for (unsigned i = 0; i < n_next; i++) {
        next_lanes[i] =
            (struct lane){.number = i + 1, .lanes = n_next, .stripe = stripe};
        nodes[i].opened = false;
        ledger_relane(i, next_lanes[i]);
    }
    ledger_relaned();
    sim_say("opening %u lanes with stripe %" PRIu64, n_next, stripe);
    for (unsigned i = 0; i < n_next; i++)
        sim_later((int64_t)sim_below(100000), boot, &nodes[i], nodes[i].life);
}

static void try_seal(struct node *n)
{
    const struct store_config config = config_of(n);
    struct guard_acts acts = n->acts;
    struct store_error error;
    struct guard g;
    int rc;

    acts.seal = true;
    rc = guard_open(&g, &sim_engine, &config, n->witness, &acts, &error);
    if (rc == 0) {
        n->acts = (struct guard_acts){.skip = 0};
        rc = relane_seal(&g, n->seal, &error);
        guard_close(&g);
    }
    if (rc != 0 || power_is_out()) {
        try_again(n, &error);
        return;
    }
    power_back();
    n->sealed = true;
    n->older = n->lost_witness = false;
    if (sim_mishap(3))
        tempt(n);
    if (!n->sealed)
        sim_later(100000, boot, n, n->life);
    else if (all_sealed())
        begin_opening();
}

static void try_open(struct node *n)
{
    struct sim_disk *d = sim_disk_of(n->dir);
    struct relane_open wanted = {.engine = &sim_engine,
                                 .config = config_of(n),
                                 .witness = n->witness,
                                 .lane = next_lanes[n->number],
                                 .n_files = n_nodes};
    char *files[NODES];
    struct store_error error;
    int rc;

    for (unsigned i = 0; i < n_nodes; i++)
        files[i] = nodes[i].seal;
    wanted.files = files;
    rc = relane_open(&wanted, &error);
    if (rc != 0)
        sim_say("node %u: %s", n->number, error.text);
    if (power_is_out())
        power_on(n->dir, (enum fate)sim_below(FATES));
    else if (rc != 0 && error.config && sim_disk_epoch(d) != epoch + 1)
        sim_found("node %u: lane %u is not opened: %s", n->number, n->number + 1,
                  error.text);
    power_back();
    sim_disk_revive(d);
    n->opened = sim_disk_epoch(d) == epoch + 1;
    if (!n->opened) {
        sim_later(100000, boot, n, n->life);
        return;
    }
    for (unsigned i = 0; i < n_next; i++) {
        if (!nodes[i].opened)
            return;
    }
    phase = SERVING;
    epoch++;
    n_nodes = n_next;
    for (unsigned i = 0; i < n_nodes; i++) {
        nodes[i].lane = next_lanes[i];
        sim_later((int64_t)sim_below(100000), boot, &nodes[i], nodes[i].life);
    }
}

void sim_change_lanes(void)
{
    if (phase != SERVING)
        return;
    sim_say("lanes are going to change");
    phase = SEALING;
    for (unsigned i = 0; i < NODES; i++) {
        snprintf(nodes[i].seal, sizeof nodes[i].seal, "%s/seal-%" PRIu64, nodes[i].dir,
                 epoch);
        nodes[i].sealed = false;
    }
    for (unsigned i = 0; i < n_nodes; i++) {
        here = &nodes[i];
        if (nodes[i].up && (sim_below(2) == 0 || !stop(&nodes[i])))
            crash(&nodes[i]);
    }
}

static void boot(void *arg, uint64_t life)
{
    struct node *n = arg;
    const struct store_config config = config_of(n);
    struct store_error error;

    if (n->life != life || n->up)
        return;
    here = n;
    n->clock_us = 1000000 + (int64_t)sim_below(INT64_C(1) << 40);
    if (sim_mishap(20))
        power_out_at(1 + (unsigned)sim_below(12));
    if (phase == SEALING) {
        if (!n->sealed && n->number < n_nodes)
            try_seal(n);
        return;
    }
    if (phase == OPENING) {
        if (!n->opened && n->number < n_next)
            try_open(n);
        return;
    }
    if (n->number >= n_nodes)
        return;
    if (guard_open(&n->guard, &sim_engine, &config, n->witness, &n->acts, &error) !=
        0) {
        try_again(n, &error);
        return;
    }
    if (server_init(&n->server, &n->options, &n->guard, NULL, &error) != 0)
        sim_found("node %u: %s", n->number, error.text);
    settings_apply(&n->server);
    n->up = true;
    if (power_is_out()) {
        crash(n);
        return;
    }
    power_back();
    n->acts = (struct guard_acts){.skip = 0};
    n->older = n->lost_witness = false;
    sim_say("node %u: serves", n->number);
    ledger_started(n->number, n->lane, sim_disk_of(n->dir));
    sim_later(LOOK_US, on_second, n, n->life);
    turn(n);
}

/* --- all of them --- */

unsigned sim_nodes(void)
{
    return n_nodes;
}

struct node *sim_node(unsigned i)
{
    return &nodes[i];
}

bool sim_node_is_up(const struct node *n)
{
    return n->up;
}

uint64_t sim_epoch(void)
{
    return epoch;
}

struct lane sim_node_lane(const struct node *n)
{
    return n->lane;
}

void sim_nodes_start(unsigned count, const char *dir)
{
    static const uint64_t stripes[] = {1, 1000, 100000};
    uint64_t stripe = stripes[sim_below(3)];

    n_nodes = count;
    epoch = 1;
    phase = SERVING;
    for (unsigned i = 0; i < NODES; i++) {
        struct node *n = &nodes[i];
        char program[] = "hilod", ttl[] = "--token-ttl=20";
        char *argv[] = {program, ttl, NULL};
        char error[OPTIONS_ERROR_MAX];

        *n = (struct node){.number = i, .life = 1};
        if (i < count)
            n->lane = (struct lane){.number = i + 1, .lanes = count, .stripe = stripe};
        snprintf(n->dir, sizeof n->dir, "%s/n%u", dir, i);
        snprintf(n->witness, sizeof n->witness, "%s/hilo.witness", n->dir);
        mkdir(n->dir, 0700);
        unlink(n->witness);
        if (options_read(2, argv, &n->options, error) != OPTIONS_RUN)
            sim_found("%s", error);
        free(n->options.data);
        n->options.data = strdup(n->dir);
        n->wall_ms = INT64_C(1700000000000);
        if (i < count)
            sim_later(0, boot, n, n->life);
    }
}

/* Each story begins with directories that are not there, or it would not be the same.
 */
static void empty(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    char path[512];

    while (d != NULL && (e = readdir(d)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (unlink(path) != 0)
            rmdir(path);
    }
    if (d != NULL)
        closedir(d);
    rmdir(dir);
}

void sim_nodes_end(void)
{
    for (unsigned i = 0; i < NODES; i++) {
        here = &nodes[i];
        if (nodes[i].up)
            die(&nodes[i]);
        options_free(&nodes[i].options);
        empty(nodes[i].dir);
    }
    while (all != NULL) {
        struct conn *c = all;

        all = c->next_of_all;
        clear(&c->to_node);
        clear(&c->to_client);
        clear(&c->inbox);
        free(c);
    }
}
