/* sock.c - plain sockets. */
#include "sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
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

void sock_peer(const struct sock *s, char *ret)
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_storage room;
    } sa;
    socklen_t len = sizeof sa;
    char host[INET6_ADDRSTRLEN] = "?";

    if (getpeername(s->fd, &sa.any, &len) != 0) {
        snprintf(ret, SOCK_PEER_MAX, "?");
    } else if (sa.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &sa.in.sin_addr, host, sizeof host);
        snprintf(ret, SOCK_PEER_MAX, "%s:%u", host, ntohs(sa.in.sin_port));
    } else if (sa.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &sa.in6.sin6_addr, host, sizeof host);
        snprintf(ret, SOCK_PEER_MAX, "[%s]:%u", host, ntohs(sa.in6.sin6_port));
    } else {
        snprintf(ret, SOCK_PEER_MAX, "unix");
    }
}
