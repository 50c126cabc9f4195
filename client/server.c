/* server.c - the connection to one server. */
#include "server.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "clock.h"
#include "request_write.h"
#include "text.h"

#define PAUSE_FIRST_US 50000   /* after the first failure; doubles, ... */
#define PAUSE_MOST_US  400000  /* ... up to this, give or take a quarter */
#define HELD_LOGIN_US  1500000 /* servers hold back the answer to a wrong password */
#define REFUSED_US     2000000 /* until one that must not be used is tried again */
#define KEEPALIVE_S    20

/* --- going down --- */

void server_init(struct server *sv)
{
    sv->fd = -1;
    ask_queue_init(&sv->asks);
}

static void close_fd(struct server *sv)
{
    int fd = sv->fd;

    if (sv->on_read != NULL)
        event_free(sv->on_read);
    if (sv->on_write != NULL)
        event_free(sv->on_write);
    sv->on_read = sv->on_write = NULL;
    sv->fd = -1; /* before it is closed, see server_abandon */
    if (fd >= 0)
        close(fd);
}

static void disconnect(struct server *sv)
{
    close_fd(sv);
    lookup_end(sv->lookup);
    sv->lookup = NULL;
    free(sv->in);
    free(sv->out);
    sv->in = sv->out = NULL;
    sv->in_len = sv->out_len = sv->out_sent = 0;
    sv->state = SERVER_DOWN;
}

/* Between three and five quarters of us. */
static int64_t jitter(int64_t us)
{
    return us * 3 / 4 + (int64_t)arc4random_uniform((uint32_t)(us / 2) + 1);
}

static int64_t next_pause(const struct server *sv)
{
    int64_t us = PAUSE_FIRST_US;

    for (unsigned i = 1; i < sv->failures && us < PAUSE_MOST_US; i++)
        us *= 2;
    return jitter(us < PAUSE_MOST_US ? us : PAUSE_MOST_US);
}

void server_drop(struct server *sv, int err, int64_t pause_us, const char *fmt, ...)
{
    struct ask_queue lost = sv->asks;
    struct ask *a;
    va_list ap;
    size_t len;

    len = (size_t)snprintf(sv->why, sizeof sv->why, "%s: ", sv->target.text);
    va_start(ap, fmt);
    vsnprintf(sv->why + len, sizeof sv->why - len, fmt, ap);
    va_end(ap);
    text_clean(sv->why);
    disconnect(sv);
    sv->err = err;
    sv->failures++;
    sv->n_failures++;
    sv->retry_us = steady_us() + (pause_us > 0 ? pause_us : next_pause(sv));
    if (lost.head == NULL)
        return;
    ask_queue_init(&sv->asks);
    while (lost.head != NULL) {
        a = lost.head;
        lost.head = a->next;
        sv->events->lost(sv, a);
    }
}

void server_free(struct server *sv)
{
    struct ask *a;

    disconnect(sv);
    while ((a = ask_pop(&sv->asks)) != NULL)
        free(a);
}

void server_abandon(struct server *sv)
{
    if (sv->fd >= 0)
        close(sv->fd);
    sv->fd = -1;
}

/* --- bytes out --- */

/* Sends what there is; false when the connection is gone. */
static bool flush(struct server *sv)
{
    while (sv->out_sent < sv->out_len) {
        ssize_t n = send(sv->fd, sv->out + sv->out_sent, sv->out_len - sv->out_sent,
                         MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            event_add(sv->on_write, NULL);
            return true;
        }
        if (n < 0) {
            server_drop(sv, HILO_EUNAVAIL, 0, "%s", strerror(errno));
            return false;
        }
        sv->out_sent += (size_t)n;
    }
    sv->out_len = sv->out_sent = 0;
    return true;
}

bool server_send(struct server *sv, struct ask *a, int64_t now_us)
{
    size_t n;

    if (sv->state != SERVER_READY)
        return false;
    n = ask_write(a, sv->out + sv->out_len, SERVER_OUT_MAX - sv->out_len);
    if (n == 0)
        return false;
    sv->out_len += n;
    a->sent_us = now_us;
    a->deadline_us = now_us + sv->limit_us;
    ask_push(&sv->asks, a);
    flush(sv);
    return true;
}

/* --- bytes in --- */

static bool greeted(struct server *sv, const struct reply_item *items, size_t n)
{
    char text[SERVER_WHY_MAX];
    int err = sv->events->greeted(sv, items, n, text);

    if (sv->state != SERVER_GREETING) /* dropped by its owner */
        return false;
    if (err != 0) {
        server_drop(sv, err, err == HILO_EUNAVAIL ? 0 : REFUSED_US, "%s", text);
        return false;
    }
    sv->state = SERVER_READY;
    sv->err = 0;
    return true;
}

static bool answered(struct server *sv, const struct reply_item *items, size_t n)
{
    struct ask *a = ask_pop(&sv->asks);
    char text[SERVER_WHY_MAX] = "an answer to no request";
    int err = HILO_EPROTO;

    if (a != NULL)
        err = sv->events->answered(sv, a, items, n, text);
    if (sv->state != SERVER_READY) /* dropped by its owner */
        return false;
    if (err != 0) {
        server_drop(sv, err, REFUSED_US, "%s", text);
        return false;
    }
    sv->failures = 0;
    return true;
}

/* All whole answers in the buffer; false when the connection is gone. */
static bool take_answers(struct server *sv)
{
    struct reply_item items[SERVER_ITEMS];
    size_t at = 0, n, size;

    for (;;) {
        enum reply_status status =
            reply_parse(sv->in + at, sv->in_len - at, SERVER_TEXT_MAX, items,
                        SERVER_ITEMS, &n, &size);

        if (status == REPLY_BAD ||
            (status == REPLY_MORE && sv->in_len - at == SERVER_IN_MAX)) {
            server_drop(sv, HILO_EPROTO, REFUSED_US,
                        "what it answers is not the protocol");
            return false;
        }
        if (status == REPLY_MORE)
            break;
        if (!(sv->state == SERVER_GREETING ? greeted(sv, items, n)
                                           : answered(sv, items, n)))
            return false;
        at += size;
    }
    sv->in_len -= at;
    memmove(sv->in, sv->in + at, sv->in_len);
    return true;
}

static void read_some(struct server *sv)
{
    ssize_t n = recv(sv->fd, sv->in + sv->in_len, SERVER_IN_MAX - sv->in_len, 0);

    if (n > 0) {
        sv->in_len += (size_t)n;
        take_answers(sv);
    } else if (n == 0) {
        server_drop(sv, HILO_EUNAVAIL, 0, "has closed the connection");
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        server_drop(sv, HILO_EUNAVAIL, 0, "%s", strerror(errno));
    }
}

static void on_read(evutil_socket_t fd, short what, void *arg)
{
    struct server *sv = arg;

    (void)fd;
    (void)what;
    if (!sv->events->enter(sv)) {
        event_del(sv->on_read); /* of a base that was made anew by event_reinit */
        return;
    }
    if (sv->fd >= 0)
        read_some(sv);
    sv->events->turn(sv);
}

/* --- connecting --- */

static bool greet(struct server *sv)
{
    struct request_writer w;

    sv->state = SERVER_GREETING;
    if (sv->password != NULL)
        sv->deadline_us += HELD_LOGIN_US;
    request_begin(&w, sv->out, SERVER_OUT_MAX,
                  2u + (sv->password != NULL ? 3u : 0u) +
                      (sv->client_name != NULL ? 2u : 0u));
    request_text(&w, "HELLO");
    request_text(&w, "2");
    if (sv->password != NULL) {
        request_text(&w, "AUTH");
        request_text(&w, "default");
        request_text(&w, sv->password);
    }
    if (sv->client_name != NULL) {
        request_text(&w, "SETNAME");
        request_text(&w, sv->client_name);
    }
    sv->out_len = request_end(&w);
    return flush(sv) && event_add(sv->on_read, NULL) == 0;
}

static void connect_next(struct server *sv);

/* The connection is made, or has failed. */
static void connected(struct server *sv, int error)
{
    if (error == 0) {
        greet(sv);
        return;
    }
    close_fd(sv);
    if (sv->address < sv->addresses.n)
        connect_next(sv);
    else
        server_drop(sv, HILO_EUNAVAIL, 0, "%s", strerror(error));
}

static void on_write(evutil_socket_t fd, short what, void *arg)
{
    struct server *sv = arg;
    socklen_t len = sizeof(int);
    int error = 0;

    (void)fd;
    (void)what;
    if (!sv->events->enter(sv))
        return;
    if (sv->state == SERVER_CONNECTING) {
        if (getsockopt(sv->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
            error = errno;
        connected(sv, error);
    } else if (sv->fd >= 0) {
        flush(sv);
    }
    sv->events->turn(sv);
}

static void set_options(int fd)
{
    int on = 1, seconds = KEEPALIVE_S;

    /* Each fails on Unix sockets, where none is needed. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
}

static bool make_socket(struct server *sv, int family)
{
    sv->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (sv->fd < 0)
        return false;
    set_options(sv->fd);
    sv->on_read = event_new(sv->base, sv->fd, EV_READ | EV_PERSIST, on_read, sv);
    sv->on_write = event_new(sv->base, sv->fd, EV_WRITE, on_write, sv);
    errno = ENOMEM;
    return sv->on_read != NULL && sv->on_write != NULL;
}

static void connect_next(struct server *sv)
{
    size_t i = sv->address++;
    const struct sockaddr *to =
        (const struct sockaddr *)(const void *)&sv->addresses.at[i];

    sv->state = SERVER_CONNECTING;
    if (!make_socket(sv, to->sa_family)) {
        server_drop(sv, HILO_ESYSTEM, 0, "no socket: %s", strerror(errno));
        return;
    }
    if (connect(sv->fd, to, sv->addresses.len[i]) == 0)
        connected(sv, 0);
    else if (errno == EINPROGRESS)
        event_add(sv->on_write, NULL);
    else
        connected(sv, errno);
}

/* Another address first than the last time, so that one that swallows everything
 * doesn't keep the others from their turn. */
static void rotate(struct addresses *a, unsigned by)
{
    struct addresses turned = *a;

    for (size_t i = 0; i < a->n; i++) {
        turned.at[i] = a->at[(i + by) % a->n];
        turned.len[i] = a->len[(i + by) % a->n];
    }
    *a = turned;
}

static void connect_first(struct server *sv)
{
    sv->address = 0;
    if (sv->addresses.n == 0) {
        server_drop(sv, HILO_EUNAVAIL, 0, "has no address");
        return;
    }
    rotate(&sv->addresses, sv->failures);
    connect_next(sv);
}

void server_connect(struct server *sv, int64_t now_us)
{
    sv->deadline_us = now_us + sv->limit_us;
    sv->in = malloc(SERVER_IN_MAX);
    sv->out = malloc(SERVER_OUT_MAX);
    if (sv->in == NULL || sv->out == NULL) {
        server_drop(sv, HILO_ENOMEM, 0, "out of memory");
        return;
    }
    if (target_addresses(&sv->target, &sv->addresses)) {
        connect_first(sv);
        return;
    }
    sv->state = SERVER_LOOKING_UP;
    sv->lookup = lookup_start(&sv->target, sv->wake_fd);
    if (sv->lookup == NULL)
        server_drop(sv, HILO_ESYSTEM, 0, "no thread to look up its name");
}

/* --- times --- */

static void check_lookup(struct server *sv)
{
    int rc;

    if (!lookup_done(sv->lookup, &sv->addresses, &rc))
        return;
    lookup_end(sv->lookup);
    sv->lookup = NULL;
    if (rc == 0)
        connect_first(sv);
    else
        server_drop(sv, HILO_EUNAVAIL, 0, "name lookup: %s", gai_strerror(rc));
}

void server_check(struct server *sv, int64_t now_us)
{
    static const char *const doing[] = {[SERVER_LOOKING_UP] = "its name was not found",
                                        [SERVER_CONNECTING] = "no connection",
                                        [SERVER_GREETING] = "no greeting"};
    int ms = (int)(sv->limit_us / 1000);

    if (sv->state == SERVER_LOOKING_UP)
        check_lookup(sv);
    if (sv->state == SERVER_DOWN)
        return;
    if (sv->state != SERVER_READY) {
        if (now_us >= sv->deadline_us)
            server_drop(sv, HILO_ETIMEDOUT, 0, "%s within %d ms", doing[sv->state], ms);
    } else if (sv->asks.head != NULL && now_us >= sv->asks.head->deadline_us) {
        server_drop(sv, HILO_ETIMEDOUT, 0, "no answer within %d ms", ms);
    }
}

int64_t server_next_us(const struct server *sv)
{
    if (sv->state == SERVER_DOWN)
        return INT64_MAX;
    if (sv->state != SERVER_READY)
        return sv->deadline_us;
    return sv->asks.head != NULL ? sv->asks.head->deadline_us : INT64_MAX;
}

const char *server_state_word(const struct server *sv)
{
    if (sv->state == SERVER_READY)
        return "ready";
    if (sv->state != SERVER_DOWN)
        return "connecting";
    return sv->err == 0 || sv->err == HILO_EUNAVAIL || sv->err == HILO_ETIMEDOUT
               ? "down"
               : "refused";
}
