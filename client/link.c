/* link.c - a connection of the command line to one server. */
#include "link.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "clock.h"
#include "error.h"
#include "greeting.h"
#include "request_write.h"
#include "text.h"

#define TEXT_MAX_BYTES (64 * 1024)
#define ANSWER_MAX     (1024 * 1024)
#define ITEMS_MAX      8192
#define REQUEST_MAX    4096

static int __attribute__((format(printf, 3, 4)))
fail(struct link *l, int err, const char *fmt, ...)
{
    va_list ap;
    int n = snprintf(l->why, sizeof l->why, "%s: ", l->target.text);

    va_start(ap, fmt);
    vsnprintf(l->why + n, sizeof l->why - (size_t)n, fmt, ap);
    va_end(ap);
    text_clean(l->why);
    l->err = err;
    return err;
}

/* The connection can't be used any more. */
static int fail_closed(struct link *l, int err, const char *why)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    return fail(l, err, "%s", why);
}

void link_init(struct link *l, const struct target *t)
{
    *l = (struct link){.target = *t, .fd = -1};
}

void link_close(struct link *l)
{
    if (l->fd >= 0)
        close(l->fd);
    free(l->buf);
    free(l->items);
    l->fd = -1;
    l->buf = NULL;
    l->items = NULL;
}

static int wait_for(int fd, short events, int64_t deadline_us)
{
    struct pollfd p = {.fd = fd, .events = events};
    int64_t left_us;
    int rc;

    do {
        left_us = deadline_us - steady_us();
        rc = poll(&p, 1, left_us > 0 ? (int)(left_us / 1000) + 1 : 0);
    } while (rc < 0 && errno == EINTR);
    return rc;
}

/* --- connecting --- */

static int find_addresses(struct link *l, int64_t deadline_us, struct addresses *ret)
{
    struct lookup *k;
    int fd, rc = EAI_AGAIN;

    if (target_addresses(&l->target, ret))
        return 0;
    fd = eventfd(0, EFD_CLOEXEC);
    k = fd >= 0 ? lookup_start(&l->target, fd) : NULL;
    if (k != NULL && wait_for(fd, POLLIN, deadline_us) > 0 && !lookup_done(k, ret, &rc))
        rc = EAI_AGAIN;
    lookup_end(k);
    if (fd >= 0)
        close(fd);
    return rc == 0 ? 0 : fail(l, HILO_EUNAVAIL, "name lookup: %s", gai_strerror(rc));
}

static int connect_one(struct link *l, const struct addresses *a, size_t i,
                       int64_t deadline_us)
{
    const struct sockaddr *to = (const struct sockaddr *)(const void *)&a->at[i];
    socklen_t len = sizeof(int);
    int error = 0;

    l->fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0)
        return fail(l, HILO_ESYSTEM, "no socket: %s", strerror(errno));
    if (connect(l->fd, to, a->len[i]) == 0)
        return 0;
    error = errno;
    if (error == EINPROGRESS) {
        if (wait_for(l->fd, POLLOUT, deadline_us) <= 0)
            error = ETIMEDOUT;
        else if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
            error = errno;
    }
    return error == 0 ? 0 : fail_closed(l, HILO_EUNAVAIL, strerror(error));
}

static int greet(struct link *l, const char *password, int limit_ms)
{
    const char *argv[] = {"HELLO", "2", "AUTH", "default", password};
    char text[LINK_WHY_MAX];
    int err;

    link_call(l, limit_ms, password != NULL ? 5 : 2, argv);
    if (l->n == 0)
        return l->err;
    err = greeting_read(l->items, l->n, &l->id, text, sizeof text);
    if (err != 0)
        return fail_closed(l, err, text);
    for (size_t i = 1; i + 1 < l->n; i++) {
        if (reply_is(&l->items[i], "version"))
            snprintf(l->version, sizeof l->version, "%.*s", (int)l->items[i + 1].len,
                     l->items[i + 1].p);
    }
    text_clean(l->version);
    return 0;
}

int link_open(struct link *l, const char *password, int limit_ms)
{
    int64_t deadline_us = steady_us() + (int64_t)limit_ms * 1000;
    struct addresses a;

    l->n = 0;
    if (find_addresses(l, deadline_us, &a) != 0)
        return l->err;
    for (size_t i = 0; i < a.n; i++) {
        if (connect_one(l, &a, i, deadline_us) == 0)
            return greet(l, password, limit_ms);
    }
    return l->err;
}

/* --- commands --- */

static int send_all(struct link *l, const char *p, size_t n, int64_t deadline_us)
{
    while (n > 0) {
        ssize_t sent = send(l->fd, p, n, MSG_NOSIGNAL);

        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return fail_closed(l, HILO_EUNAVAIL, strerror(errno));
        if (sent < 0 && wait_for(l->fd, POLLOUT, deadline_us) == 0)
            return fail_closed(l, HILO_ETIMEDOUT, "takes no request in time");
        if (sent > 0) {
            p += sent;
            n -= (size_t)sent;
        }
    }
    return 0;
}

static int make_room(struct link *l)
{
    size_t cap = l->cap > 0 ? 2 * l->cap : 16384;
    char *buf;

    if (l->len < l->cap)
        return 0;
    buf = cap <= ANSWER_MAX ? realloc(l->buf, cap) : NULL;
    if (buf == NULL)
        return fail_closed(l, HILO_EPROTO, "its answer is too long");
    l->buf = buf;
    l->cap = cap;
    return 0;
}

static int read_some(struct link *l, int64_t deadline_us)
{
    ssize_t got;

    if (make_room(l) != 0)
        return l->err;
    if (wait_for(l->fd, POLLIN, deadline_us) == 0)
        return fail_closed(l, HILO_ETIMEDOUT, "no answer in time");
    got = recv(l->fd, l->buf + l->len, l->cap - l->len, 0);
    if (got == 0)
        return fail_closed(l, HILO_EUNAVAIL, "has closed the connection");
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        return fail_closed(l, HILO_EUNAVAIL, strerror(errno));
    l->len += got > 0 ? (size_t)got : 0;
    return 0;
}

static int read_answer(struct link *l, int64_t deadline_us)
{
    enum reply_status status;
    size_t size;

    l->len = 0;
    for (;;) {
        if (read_some(l, deadline_us) != 0)
            return l->err;
        status = reply_parse(l->buf, l->len, TEXT_MAX_BYTES, l->items, ITEMS_MAX, &l->n,
                             &size);
        if (status == REPLY_OK && size == l->len)
            return 0;
        l->n = 0;
        if (status != REPLY_MORE)
            return fail_closed(l, HILO_EPROTO, "what it answers is not the protocol");
    }
}

int link_call(struct link *l, int limit_ms, size_t argc, const char *const *argv)
{
    int64_t begin_us = steady_us(), deadline_us = begin_us + (int64_t)limit_ms * 1000;
    char request[REQUEST_MAX];
    struct request_writer w;
    const struct reply_item *first;

    l->err = 0;
    l->n = 0;
    if (l->items == NULL)
        l->items = malloc(ITEMS_MAX * sizeof *l->items);
    if (l->items == NULL)
        return fail(l, HILO_ENOMEM, "out of memory");
    if (l->fd < 0)
        return fail(l, HILO_EUNAVAIL, "is not connected");
    request_begin(&w, request, sizeof request, argc);
    for (size_t i = 0; i < argc; i++)
        request_text(&w, argv[i]);
    if (request_end(&w) == 0)
        return fail(l, HILO_EARG, "the command is too long");
    if (send_all(l, request, request_end(&w), deadline_us) != 0 ||
        read_answer(l, deadline_us) != 0)
        return l->err;
    l->round_us = steady_us() - begin_us;
    first = &l->items[0];
    if (first->type != REPLY_ERROR)
        return 0;
    return fail(l, error_code(first->p, first->len), "%.*s", (int)first->len, first->p);
}
