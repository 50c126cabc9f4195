/* bare.c - the least a server of this kind can do: the ceiling beside which hilod is
 * measured.
 *
 *     bare UNIX-SOCKET [FILE]
 *
 * One thread, libevent, one recv and one send for each readable connection. A request
 * is an INCR with a name of up to 99 bytes and nothing else: it is recognised by its
 * length, the name isn't looked at, nothing is checked. The reply is a number counted
 * in memory. With FILE all replies of a turn of the loop wait for one pwrite and one
 * fdatasync of it, which is the least a durable server does for them. Listens on
 * loopback, too, and prints the port. */
#include <arpa/inet.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BUFFER 65536

struct peer {
    struct event ev;
    int fd;
    size_t have; /* bytes of a request that is not complete */
    char rest[128];
    size_t out_len;
    char *out; /* answers of this turn, with FILE */
    struct peer *next;
};

static struct event_base *base;
static uint64_t counter;
static int file = -1;
static struct peer *answered; /* this turn, with FILE */
static char in[BUFFER], out[BUFFER];

/* The length of one request, 0 when it isn't whole. */
static size_t request(const char *p, size_t len)
{
    size_t name, head = 15; /* up to the length of the name */

    if (len < head + 3)
        return 0;
    name = (size_t)(p[head] - '0');
    if (p[head + 1] != '\r') {
        name = name * 10 + (size_t)(p[head + 1] - '0');
        head++;
    }
    return len < head + 3 + name + 2 ? 0 : head + 3 + name + 2;
}

static size_t put_number(char *to, uint64_t n)
{
    char digits[24];
    size_t len = 0, at = 0;

    do {
        digits[len++] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    to[at++] = ':';
    while (len > 0)
        to[at++] = digits[--len];
    to[at++] = '\r';
    to[at++] = '\n';
    return at;
}

static void peer_free(struct peer *p)
{
    event_del(&p->ev);
    close(p->fd);
    free(p->out);
    free(p);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct peer *p = arg;
    size_t at = 0, size, len = p->have, n_out = 0;
    char *to = file < 0 ? out : p->out + p->out_len;
    ssize_t n;

    (void)what;
    memcpy(in, p->rest, p->have);
    n = recv(fd, in + p->have, BUFFER / 2, 0);
    if (n <= 0) {
        peer_free(p);
        return;
    }
    len += (size_t)n;
    while ((size = request(in + at, len - at)) > 0) {
        n_out += put_number(to + n_out, ++counter);
        at += size;
    }
    p->have = len - at;
    memcpy(p->rest, in + at, p->have < sizeof p->rest ? p->have : 0);
    if (file < 0) {
        if (n_out > 0 && send(fd, out, n_out, MSG_NOSIGNAL) != (ssize_t)n_out)
            peer_free(p);
        return;
    }
    if (p->out_len == 0 && n_out > 0) {
        p->next = answered;
        answered = p;
    }
    p->out_len += n_out;
}

static void answer_all(void)
{
    if (answered == NULL)
        return;
    if (pwrite(file, &counter, sizeof counter, 0) != (ssize_t)sizeof counter ||
        fdatasync(file) != 0)
        exit(1);
    while (answered != NULL) {
        struct peer *p = answered;

        answered = p->next;
        if (send(p->fd, p->out, p->out_len, MSG_NOSIGNAL) != (ssize_t)p->out_len)
            exit(1);
        p->out_len = 0;
    }
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
    struct peer *p = calloc(1, sizeof *p);
    int one = 1;

    (void)what, (void)arg;
    if (p == NULL)
        exit(1);
    p->fd = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (p->fd < 0) {
        free(p);
        return;
    }
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (file >= 0 && (p->out = malloc(BUFFER)) == NULL)
        exit(1);
    event_assign(&p->ev, base, p->fd, EV_READ | EV_PERSIST, on_readable, p);
    event_add(&p->ev, NULL);
}

static int listen_on(const struct sockaddr *sa, socklen_t len)
{
    int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, sa, len) != 0 || listen(fd, 1024) != 0)
        exit(1);
    return fd;
}

int main(int argc, char **argv)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un su = {.sun_family = AF_UNIX};
    socklen_t len = sizeof sa;
    struct event accepts[2];
    int fd[2];

    if (argc < 2 || strlen(argv[1]) >= sizeof su.sun_path)
        return 64;
    if (argc == 3 && (file = open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0)
        return 1;
    memcpy(su.sun_path, argv[1], strlen(argv[1]));
    fd[0] = listen_on((struct sockaddr *)&sa, sizeof sa);
    fd[1] = listen_on((struct sockaddr *)&su, sizeof su);
    base = event_base_new();
    for (int i = 0; i < 2; i++) {
        event_assign(&accepts[i], base, fd[i], EV_READ | EV_PERSIST, on_accept, NULL);
        event_add(&accepts[i], NULL);
    }
    getsockname(fd[0], (struct sockaddr *)&sa, &len);
    printf("%d\n", ntohs(sa.sin_port));
    fflush(stdout);
    for (;;) {
        event_base_loop(base, EVLOOP_ONCE);
        answer_all();
    }
}
