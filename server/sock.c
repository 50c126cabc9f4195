/* sock.c - plain sockets. */
#include "sock.h"

#include <errno.h>
#include <sys/socket.h>

static ssize_t plain_read(struct sock *s, void *buf, size_t len)
{
    ssize_t n;

    do {
        n = recv(s->fd, buf, len, 0);
    } while (n < 0 && errno == EINTR);
    return n;
}

static ssize_t plain_write(struct sock *s, const void *buf, size_t len)
{
    ssize_t n;

    do {
        n = send(s->fd, buf, len, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n;
}

const struct sock_ops sock_plain = {.read = plain_read, .write = plain_write};
