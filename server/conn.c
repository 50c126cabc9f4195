/* conn.c - one connection. */
#include "conn.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "buffer.h"
#include "command.h"
#include "error.h"
#include "log.h"
#include "sock.h"

#define PENDING_MAX 1024 /* requests of one connection that may wait for the store */
#define LINGER_MS   1000
#define UNWATCHED   "the system can't watch it (memory, or fs.epoll.max_user_watches)"

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
    size_t text_size;  /* of the decided ones among them */
    struct buffer in;  /* what came and is not consumed */
    struct buffer out; /* answers that could not be sent yet */
    size_t counted;    /* of this connection in the server's client_bytes */
    int64_t heard_ms;  /* when something came last */
    int64_t begun_ms;  /* since when a request is incomplete; 0: none is */
    int64_t unread_ms; /* since when the peer has taken no answer; 0: none waits */
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
    struct conn *c = r->owner;

    c->text_size += request_text_size(r);
    touch(c);
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

void conn_free(struct conn *c)
{
    struct server *s = c->server;

    while (c->oldest != NULL) {
        struct request *r = c->oldest;

        c->oldest = r->later;
        if (r->decided)
            request_free(&s->batcher.env.pool, r);
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
    s->client_bytes -= c->counted;
    buffer_free(&c->in);
    buffer_free(&c->out);
    free(c);
}

static size_t memory(const struct conn *c)
{
    return c->in.cap + c->out.cap + c->n_pending * sizeof(struct request) +
           c->text_size;
}

/* Where all connections together hold too much, the turn ends, and clients_limit sees
 * to it. */
static void count_memory(struct conn *c)
{
    struct server *s = c->server;
    size_t now = memory(c);

    s->client_bytes += now - c->counted;
    c->counted = now;
    if (s->client_bytes > s->options->client_memory)
        event_base_loopbreak(s->base);
}

void conn_drop(struct conn *c, const char *why)
{
    struct server *s = c->server;
    char peer[SOCK_PEER_MAX];

    s->dropped++;
    sock_peer(&c->sock, peer);
    log_limited(&s->drop_log, LOG_INFO, "connection %" PRIu64 " from %s: %s; closed",
                c->session.id, peer, why);
    conn_free(c);
}

/* --- events --- */

/* False when the system can't watch for it: nothing would ever happen. */
static bool set_event(struct event *ev, bool *is_on, bool on)
{
    if (*is_on == on)
        return true;
    if (on && event_add(ev, NULL) != 0)
        return false;
    if (!on)
        event_del(ev);
    *is_on = on;
    return true;
}

/* Room for more input behind what is kept of a connection; without any, the buffer of
 * all connections. NULL when memory is out. */
static char *input_room(struct conn *c, size_t *ret_size)
{
    if (c->in.len > 0)
        return buffer_room(&c->in, ret_size);
    *ret_size = SERVER_READ_MAX;
    return c->server->in;
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
    process(c, room - c->in.len, c->in.len + (size_t)n);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct conn *c = arg;

    (void)fd, (void)what;
    process(c, c->in.data, c->in.len);
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
    while (has_answer(c) && out->len < COMMAND_OUT_HIGH) {
        struct request *r = c->oldest;

        command_answer(c->server, r, out);
        c->oldest = r->later;
        if (c->oldest == NULL)
            c->newest = NULL;
        c->n_pending--;
        c->text_size -= request_text_size(r);
        request_free(&c->server->batcher.env.pool, r);
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
    c->text_size += request_text_size(r);
}

static void note_wrong_password(const struct conn *c)
{
    char peer[SOCK_PEER_MAX];

    sock_peer(&c->sock, peer);
    log_limited(&c->server->auth_log, LOG_WARNING,
                "connection %" PRIu64 " from %s: wrong user or password", c->session.id,
                peer);
}

/* Runs the request at buf; false when it has to wait for its turn. *ret_size: bytes of
 * it and of those that were answered with it. */
static bool run(struct conn *c, const struct resp_request *args, const char *buf,
                size_t len, struct reply *out, int64_t now_ms, size_t *ret_size)
{
    unsigned failures = c->session.auth_failures;
    struct request *left = NULL;
    enum command_result result;
    struct call call = {
        .server = c->server,
        .session = &c->session,
        .args = args,
        .rest = buf + args->size,
        .rest_len = len - args->size,
        .out = out,
        .order = order(c),
        .now_ms = now_ms,
        .owner = c,
        .decided_fn = on_decided,
    };

    result = command_run(&call, &left);
    *ret_size = args->size * (1 + call.repeats);
    if (c->session.auth_failures > failures)
        note_wrong_password(c);
    switch (result) {
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
    char peer[SOCK_PEER_MAX];

    c->server->protocol_errors++;
    c->has_fault = fault != RESP_FAULT_HTTP;
    c->fault = fault;
    c->state = CONN_DRAINING;
    sock_peer(&c->sock, peer);
    log_limited(&c->server->fault_log, LOG_INFO,
                "connection %" PRIu64 " from %s: %s; closed", c->session.id, peer,
                resp_fault_text(fault));
}

/* A wrong password was given: neither its answer nor another command for a while. */
static bool is_held(const struct conn *c, int64_t now_ms)
{
    return c->session.held_until_ms > now_ms;
}

/* Runs commands as far as they are there and it is their turn. Returns the bytes
 * consumed; *ret_stuck tells that more could run later without more input. */
static size_t run_commands(struct conn *c, const char *buf, size_t len,
                           struct reply *out, int64_t now_ms, bool *ret_stuck)
{
    struct resp_request args;
    enum resp_fault fault;
    size_t at = 0, size;

    *ret_stuck = false;
    while (c->state == CONN_OPEN && at < len) {
        *ret_stuck = out->len >= COMMAND_OUT_HIGH || c->n_pending >= PENDING_MAX ||
                     out->failed || is_held(c, now_ms);
        if (*ret_stuck)
            return at;
        switch (resp_parse(buf + at, len - at, &args, &fault)) {
        case RESP_MORE:
            return at;
        case RESP_BAD:
            note_fault(c, fault);
            return len;
        case RESP_OK:
            size = args.size;
            if (args.argc > 0 &&
                !run(c, &args, buf + at, len - at, out, now_ms, &size)) {
                *ret_stuck = true;
                return at;
            }
            at += size;
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
        c->linger_until_ms = server_now_ms(c->server) + LINGER_MS;
        shutdown(c->sock.fd, SHUT_WR);
    }
    if (!set_event(&c->writable, &c->writing, false) ||
        !set_event(&c->readable, &c->reading, true))
        conn_drop(c, UNWATCHED);
}

/* Notes since when the connection waits for its peer. A request counts as begun only
 * while it is read; answers count as unread as long as none of them moves. */
static void note_waits(struct conn *c, bool moved, bool consumed, int64_t now_ms)
{
    if (c->in.len == 0 || !c->reading)
        c->begun_ms = 0;
    else if (consumed || c->begun_ms == 0)
        c->begun_ms = now_ms;
    if (!c->writing)
        c->unread_ms = 0;
    else if (moved || c->unread_ms == 0)
        c->unread_ms = now_ms;
}

/* Does everything that can be done now: answers what is decided, runs commands from buf
 * (the input kept so far and what has just come), sends, and decides what to wait for.
 */
static void process(struct conn *c, const char *buf, size_t len)
{
    struct server *s = c->server;
    struct reply out = {
        .data = s->out, .cap = s->out_cap, .proto = c->session.proto, .grow = grow_out};
    int64_t now_ms = server_now_ms(s);
    bool stuck = false, gone = false, full, moved = false, consumed = false;

    if (len > c->in.len)
        c->heard_ms = now_ms;
    out.len = c->out.len; /* what could not be sent goes first */
    if (out.len > out.cap && !grow_out(&out, 0))
        out.failed = true;
    else if (c->out.len > 0)
        memcpy(out.data, c->out.data, c->out.len);
    do {
        size_t used, before;

        answer_decided(c, &out);
        used = run_commands(c, buf, len, &out, now_ms, &stuck);
        consumed |= used > 0;
        buf += used;
        len -= used;
        if (c->oldest == NULL && c->has_fault) {
            reply_error(&out, HILO_EERR, resp_fault_text(c->fault));
            c->has_fault = false;
        }
        before = out.len;
        gone = out.failed || (!is_held(c, now_ms) && !send_out(c, &out));
        moved |= out.len < before;
        full = out.len > 0;
        /* Once more where only the size of the output stopped it. */
    } while (!gone && !full && (has_answer(c) || (stuck && c->oldest == NULL)));
    if (c->eof && c->state == CONN_OPEN && !stuck)
        c->state = CONN_DRAINING; /* half a command is all that may be left */
    s->out = out.data;
    s->out_cap = out.cap;
    if (gone || !buffer_keep(&c->in, buf, len) ||
        !buffer_keep(&c->out, out.data, out.len)) {
        conn_free(c);
        return;
    }
    if (c->state != CONN_OPEN && c->oldest == NULL && !full) {
        finish(c);
        return;
    }
    if (!set_event(&c->writable, &c->writing, full && !is_held(c, now_ms)) ||
        !set_event(&c->readable, &c->reading,
                   c->state == CONN_OPEN && !full && !stuck && !c->eof)) {
        conn_drop(c, UNWATCHED);
        return;
    }
    note_waits(c, moved, consumed, now_ms);
    count_memory(c);
}

/* --- for all of them --- */

struct conn *conn_new(struct server *s, int fd)
{
    struct conn *c = calloc(1, sizeof *c);

    if (c == NULL) {
        close(fd);
        return NULL;
    }
    c->server = s;
    c->sock = (struct sock){.ops = &sock_plain, .fd = fd};
    c->session.id = s->next_conn_id++;
    c->session.proto = 2;
    c->session.logged_in = s->passwords.n == 0;
    c->heard_ms = server_now_ms(s);
    event_assign(&c->readable, s->base, fd, EV_READ | EV_PERSIST, on_readable, c);
    event_assign(&c->writable, s->base, fd, EV_WRITE | EV_PERSIST, on_writable, c);
    c->next = s->conns;
    if (s->conns != NULL)
        s->conns->prev = c;
    s->conns = c;
    s->n_conns++;
    if (set_event(&c->readable, &c->reading, true))
        return c;
    conn_drop(c, UNWATCHED);
    return NULL;
}

struct conn *conn_next(const struct conn *c)
{
    return c->next;
}

size_t conn_memory(const struct conn *c)
{
    return c->counted;
}

void conn_flush_touched(struct server *s)
{
    while (s->touched != NULL) {
        struct conn *c = s->touched;

        s->touched = c->next_touched;
        c->touched = false;
        process(c, c->in.data, c->in.len);
    }
}

void conn_drain(struct conn *c)
{
    if (c->state == CONN_OPEN)
        c->state = CONN_DRAINING;
    process(c, NULL, 0);
}

static bool is_over(int64_t since_ms, uint64_t limit_s, int64_t now_ms)
{
    return now_ms - since_ms > (int64_t)limit_s * 1000;
}

void conn_check(struct conn *c, int64_t now_ms)
{
    const struct options *o = c->server->options;
    bool waits = c->oldest != NULL || c->out.len > 0;

    if (c->state == CONN_LINGERING) {
        if (now_ms >= c->linger_until_ms)
            conn_free(c);
    } else if (c->unread_ms != 0 &&
               is_over(c->unread_ms, o->output_timeout_s, now_ms)) {
        conn_drop(c, "it took no answer for output_timeout");
    } else if (c->begun_ms != 0 && is_over(c->begun_ms, o->request_timeout_s, now_ms)) {
        conn_drop(c, "a request took longer than request_timeout to arrive");
    } else if (o->idle_timeout_s != 0 && !waits &&
               is_over(c->heard_ms, o->idle_timeout_s, now_ms)) {
        conn_drop(c, "it said nothing for idle_timeout");
    } else if (c->session.held_until_ms != 0 && !is_held(c, now_ms)) {
        c->session.held_until_ms = 0;
        process(c, c->in.data, c->in.len);
    }
}
