/* conn.c - connections. */
#include "conn.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "clock.h"
#include "command.h"
#include "error.h"
#include "log.h"
#include "sock.h"

#define OUT_HIGH    65536 /* no more commands while this much waits to be sent */
#define PENDING_MAX 1024  /* requests of one connection that may wait for the store */
#define LINGER_MS   1000
#define IN_ROOM     4096 /* free at least, where a request is read piece by piece */

enum conn_state {
    CONN_OPEN,
    CONN_DRAINING,
    CONN_LINGERING,
};

struct conn {
    struct server *server;
    struct sock sock;
    struct session session;
    struct event readable, writable;
    enum conn_state state;
    bool reading, writing; /* which of the events are on */
    bool touched;          /* in the server's list */
    bool eof;              /* the peer sends no more */
    bool has_fault;        /* a protocol error waits for its turn */
    enum resp_fault fault;
    int64_t linger_until_ms;
    /* Requests that wait, in the order of their commands. */
    struct request *oldest, *newest;
    unsigned n_pending;
    /* Bytes that came and are not consumed; answers that could not be sent yet. */
    char *in, *out;
    size_t in_len, in_cap, out_len;
    struct conn *next, *prev;
    struct conn *next_touched;
};

static void process(struct conn *c, const char *buf, size_t len);

/* --- life --- */

static void touch(struct conn *c)
{
    if (c->touched)
        return;
    c->touched = true;
    c->next_touched = c->server->touched;
    c->server->touched = c;
}

static void on_decided(struct request *r)
{
    touch(r->owner);
}

static void untouch(struct conn *c)
{
    struct conn **link = &c->server->touched;

    if (!c->touched)
        return;
    while (*link != c)
        link = &(*link)->next_touched;
    *link = c->next_touched;
}

static void conn_free(struct conn *c)
{
    struct server *s = c->server;

    while (c->oldest != NULL) {
        struct request *r = c->oldest;

        c->oldest = r->later;
        if (r->decided)
            free(r);
        else
            r->owner = NULL; /* its sequence frees it */
    }
    untouch(c);
    event_del(&c->readable);
    event_del(&c->writable);
    close(c->sock.fd);
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        s->conns = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
    s->n_conns--;
    free(c->in);
    free(c->out);
    free(c);
}

/* --- events --- */

static void set_event(struct event *ev, bool *is_on, bool on)
{
    if (*is_on == on)
        return;
    *is_on = on;
    if (on)
        event_add(ev, NULL);
    else
        event_del(ev);
}

/* Room for more input behind what is kept of a connection; without any, the buffer of
 * all connections. NULL when memory is out. */
static char *input_room(struct conn *c, size_t *ret_size)
{
    if (c->in_len == 0) {
        *ret_size = SERVER_READ_MAX;
        return c->server->in;
    }
    if (c->in_cap - c->in_len < IN_ROOM) {
        size_t cap = 2 * c->in_cap + IN_ROOM;
        char *in = realloc(c->in, cap);

        if (in == NULL)
            return NULL;
        c->in = in;
        c->in_cap = cap;
    }
    *ret_size = c->in_cap - c->in_len;
    return c->in + c->in_len;
}

/* Keeps input for later; it may lie in what is kept already. False when memory is out.
 */
static bool keep_input(struct conn *c, const char *from, size_t n)
{
    if (n == 0) {
        free(c->in);
        c->in = NULL;
        c->in_cap = 0;
    } else if (c->in == NULL) {
        c->in = malloc(n);
        if (c->in == NULL)
            return false;
        memcpy(c->in, from, n);
        c->in_cap = n;
    } else if (from != c->in) {
        memmove(c->in, from, n);
    }
    c->in_len = n;
    return true;
}

/* The same for answers, which never do. */
static bool keep_output(struct conn *c, const char *from, size_t n)
{
    char *copy = NULL;

    if (n > 0) {
        copy = malloc(n);
        if (copy == NULL)
            return false;
        memcpy(copy, from, n);
    }
    free(c->out);
    c->out = copy;
    c->out_len = n;
    return true;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct conn *c = arg;
    size_t size;
    char *room = input_room(c, &size);
    ssize_t n;

    (void)fd, (void)what;
    if (room == NULL) {
        conn_free(c);
        return;
    }
    n = c->sock.ops->read(&c->sock, room, size);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n < 0 || (n == 0 && c->state == CONN_LINGERING)) {
        conn_free(c);
        return;
    }
    if (c->state != CONN_OPEN)
        return; /* thrown away */
    c->eof = n == 0;
    process(c, room - c->in_len, c->in_len + (size_t)n);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct conn *c = arg;

    (void)fd, (void)what;
    process(c, c->in, c->in_len);
}

/* --- answers --- */

static bool grow_out(struct reply *r, size_t need)
{
    size_t cap = 2 * r->cap;
    char *data;

    while (cap < r->len + need)
        cap *= 2;
    data = realloc(r->data, cap);
    if (data == NULL)
        return false;
    r->data = data;
    r->cap = cap;
    return true;
}

/* Whether the oldest request can be answered. */
static bool has_answer(const struct conn *c)
{
    return c->oldest != NULL && c->oldest->decided;
}

/* Writes the answers of requests that are decided and have none before them that isn't.
 */
static void answer_decided(struct conn *c, struct reply *out)
{
    while (has_answer(c) && out->len < OUT_HIGH) {
        struct request *r = c->oldest;

        command_answer(c->server, r, out);
        c->oldest = r->later;
        if (c->oldest == NULL)
            c->newest = NULL;
        c->n_pending--;
        free(r);
    }
}

/* Sends what can be sent. False when the peer is gone. */
static bool send_out(struct conn *c, struct reply *out)
{
    size_t sent = 0;

    while (sent < out->len) {
        ssize_t n = c->sock.ops->write(&c->sock, out->data + sent, out->len - sent);

        if (n < 0 && errno != EAGAIN)
            return false;
        if (n < 0)
            break;
        sent += (size_t)n;
    }
    memmove(out->data, out->data + sent, out->len - sent);
    out->len -= sent;
    return true;
}

/* --- commands --- */

static enum call_order order(const struct conn *c)
{
    if (c->newest == NULL)
        return CALL_FREE;
    return request_is_grant(c->newest) ? CALL_BEHIND_GRANTS : CALL_BEHIND_ADMIN;
}

static void append(struct conn *c, struct request *r)
{
    if (c->newest != NULL)
        c->newest->later = r;
    else
        c->oldest = r;
    c->newest = r;
    c->n_pending++;
}

/* Runs one request; false when it has to wait for its turn. */
static bool run(struct conn *c, const struct resp_request *args, struct reply *out,
                int64_t now_ms)
{
    struct request *left = NULL;
    struct call call = {
        .server = c->server,
        .session = &c->session,
        .args = args,
        .out = out,
        .order = order(c),
        .now_ms = now_ms,
        .owner = c,
        .decided_fn = on_decided,
    };

    switch (command_run(&call, &left)) {
    case COMMAND_ANSWERED:
        return true;
    case COMMAND_WAITS:
        append(c, left);
        return true;
    case COMMAND_CLOSE:
        c->state = CONN_DRAINING;
        return true;
    case COMMAND_BLOCKED:
        break;
    }
    return false;
}

static void note_fault(struct conn *c, enum resp_fault fault)
{
    c->server->protocol_errors++;
    c->has_fault = fault != RESP_FAULT_HTTP;
    c->fault = fault;
    c->state = CONN_DRAINING;
    log_limited(&c->server->fault_log, LOG_INFO, "connection %" PRIu64 ": %s; closed",
                c->session.id, resp_fault_text(fault));
}

/* Runs commands as far as they are there and it is their turn. Returns the bytes
 * consumed; *ret_stuck tells that more could run later without more input. */
static size_t run_commands(struct conn *c, const char *buf, size_t len,
                           struct reply *out, bool *ret_stuck)
{
    int64_t now_ms = clock_steady_ms();
    struct resp_request args;
    enum resp_fault fault;
    size_t at = 0;

    *ret_stuck = false;
    while (c->state == CONN_OPEN && at < len) {
        *ret_stuck = out->len >= OUT_HIGH || c->n_pending >= PENDING_MAX || out->failed;
        if (*ret_stuck)
            return at;
        switch (resp_parse(buf + at, len - at, &args, &fault)) {
        case RESP_MORE:
            return at;
        case RESP_BAD:
            note_fault(c, fault);
            return len;
        case RESP_OK:
            if (args.argc > 0 && !run(c, &args, out, now_ms)) {
                *ret_stuck = true;
                return at;
            }
            at += args.size;
            break;
        }
    }
    return c->state == CONN_OPEN ? at : len;
}

/* Nothing waits any more on a connection that takes no commands. */
static void finish(struct conn *c)
{
    if (c->eof) {
        conn_free(c);
        return;
    }
    if (c->state == CONN_DRAINING) {
        c->state = CONN_LINGERING;
        c->linger_until_ms = clock_steady_ms() + LINGER_MS;
        shutdown(c->sock.fd, SHUT_WR);
    }
    set_event(&c->writable, &c->writing, false);
    set_event(&c->readable, &c->reading, true);
}

/* Does everything that can be done now: answers what is decided, runs commands from buf
 * (the input kept so far and what has just come), sends, and decides what to wait for.
 */
static void process(struct conn *c, const char *buf, size_t len)
{
    struct server *s = c->server;
    struct reply out = {
        .data = s->out, .cap = s->out_cap, .proto = c->session.proto, .grow = grow_out};
    bool stuck = false, gone = false, full;

    out.len = c->out_len; /* what could not be sent goes first */
    if (out.len > out.cap && !grow_out(&out, 0))
        out.failed = true;
    else if (c->out_len > 0)
        memcpy(out.data, c->out, c->out_len);
    do {
        size_t used;

        answer_decided(c, &out);
        used = run_commands(c, buf, len, &out, &stuck);
        buf += used;
        len -= used;
        if (c->oldest == NULL && c->has_fault) {
            reply_error(&out, HILO_EERR, resp_fault_text(c->fault));
            c->has_fault = false;
        }
        gone = out.failed || !send_out(c, &out);
        full = out.len > 0;
        /* Once more where only the size of the output stopped it. */
    } while (!gone && !full && (has_answer(c) || (stuck && c->oldest == NULL)));
    if (c->eof && c->state == CONN_OPEN && !stuck)
        c->state = CONN_DRAINING; /* half a command is all that may be left */
    s->out = out.data;
    s->out_cap = out.cap;
    if (gone || !keep_input(c, buf, len) || !keep_output(c, out.data, out.len)) {
        conn_free(c);
        return;
    }
    if (c->state != CONN_OPEN && c->oldest == NULL && !full) {
        finish(c);
        return;
    }
    set_event(&c->writable, &c->writing, full);
    set_event(&c->readable, &c->reading,
              c->state == CONN_OPEN && !full && !stuck && !c->eof);
}

/* --- all of them --- */

void conn_accept(struct server *s, int fd, bool is_tcp)
{
    struct conn *c = s->stopping ? NULL : calloc(1, sizeof *c);
    int one = 1;

    if (c == NULL) {
        close(fd);
        return;
    }
    if (is_tcp) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    }
    c->server = s;
    c->sock = (struct sock){.ops = &sock_plain, .fd = fd};
    c->session.id = s->next_conn_id++;
    c->session.proto = 2;
    event_assign(&c->readable, s->base, fd, EV_READ | EV_PERSIST, on_readable, c);
    event_assign(&c->writable, s->base, fd, EV_WRITE | EV_PERSIST, on_writable, c);
    set_event(&c->readable, &c->reading, true);
    c->next = s->conns;
    if (s->conns != NULL)
        s->conns->prev = c;
    s->conns = c;
    s->n_conns++;
    s->accepted++;
}

void conn_flush_touched(struct server *s)
{
    while (s->touched != NULL) {
        struct conn *c = s->touched;

        s->touched = c->next_touched;
        c->touched = false;
        process(c, c->in, c->in_len);
    }
}

void conn_drain_all(struct server *s)
{
    for (struct conn *c = s->conns, *next; c != NULL; c = next) {
        next = c->next;
        if (c->state == CONN_OPEN)
            c->state = CONN_DRAINING;
        process(c, NULL, 0);
    }
}

void conn_sweep(struct server *s, int64_t now_ms)
{
    for (struct conn *c = s->conns, *next; c != NULL; c = next) {
        next = c->next;
        if (c->state == CONN_LINGERING && now_ms >= c->linger_until_ms)
            conn_free(c);
    }
}

void conn_free_all(struct server *s)
{
    while (s->conns != NULL)
        conn_free(s->conns);
}
