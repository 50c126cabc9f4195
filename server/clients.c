/* clients.c - all connections. */
#include "clients.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "conn.h"
#include "log.h"
#include "sock.h"

#define RESERVE        32 /* descriptors for the store, the log, listeners, the loop */
#define KEEPALIVE_ASKS 3

static uint64_t descriptors(uint64_t wanted)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return wanted;
    if (limit.rlim_cur < wanted) {
        struct rlimit more = limit;

        more.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        if (setrlimit(RLIMIT_NOFILE, &more) == 0)
            limit = more;
    }
    return limit.rlim_cur;
}

void clients_set_cap(struct server *s)
{
    uint64_t most = s->options->max_clients, have = descriptors(most + RESERVE);

    s->client_cap = most;
    if (have >= most + RESERVE)
        return;
    s->client_cap = have > RESERVE ? have - RESERVE : 1;
    log_line(LOG_WARNING,
             "only %" PRIu64 " files can be open, so there are at most %" PRIu64
             " connections, not max_clients %" PRIu64 "; raise the limit (ulimit -n, "
             "LimitNOFILE) to %" PRIu64 ", or lower max_clients",
             have, s->client_cap, most, most + RESERVE);
}

static void set_int(int fd, int level, int option, uint64_t value)
{
    int n = (int)value;

    setsockopt(fd, level, option, &n, sizeof n);
}

static void set_up_tcp(int fd, uint64_t keepalive_s)
{
    uint64_t apart_s = keepalive_s / KEEPALIVE_ASKS;

    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (keepalive_s == 0)
        return;
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, keepalive_s);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, apart_s > 0 ? apart_s : 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_ASKS);
}

static void turn_away(struct server *s, int fd)
{
    static const char text[] = "-ERR max number of clients reached\r\n";
    struct sock sock = {.ops = &sock_plain, .fd = fd};
    char peer[SOCK_PEER_MAX];

    s->turned_away++;
    sock_peer(&sock, peer);
    log_limited(&s->cap_log, LOG_WARNING,
                "connection from %s turned away: there are %" PRIu64
                ", as many as can be (max_clients)",
                peer, s->n_conns);
    sock.ops->write(&sock, text, sizeof text - 1);
    close(fd);
}

void clients_accept(struct server *s, int fd, bool is_tcp)
{
    s->accepted++;
    if (s->stopping) {
        close(fd);
    } else if (s->n_conns >= s->client_cap) {
        turn_away(s, fd);
    } else {
        if (is_tcp)
            set_up_tcp(fd, s->options->keepalive_s);
        conn_new(s, fd);
    }
}

void clients_limit(struct server *s)
{
    while (s->client_bytes > s->options->client_memory && s->conns != NULL) {
        struct conn *most = s->conns;

        for (struct conn *c = s->conns; c != NULL; c = conn_next(c)) {
            if (conn_memory(c) > conn_memory(most))
                most = c;
        }
        conn_drop(most, "it held most of client_memory, which is used up");
    }
}

void clients_sweep(struct server *s, int64_t now_ms)
{
    for (struct conn *c = s->conns, *next; c != NULL; c = next) {
        next = conn_next(c);
        conn_check(c, now_ms);
    }
}

void clients_drain(struct server *s)
{
    for (struct conn *c = s->conns, *next; c != NULL; c = next) {
        next = conn_next(c);
        conn_drain(c);
    }
}

void clients_free(struct server *s)
{
    while (s->conns != NULL)
        conn_free(s->conns);
}
