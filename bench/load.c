/* load.c - a lean load generator: many connections, a fixed pipeline, one command.
 *
 *   load HOST PORT CONNECTIONS PIPELINE REQUESTS COMMAND [ARG ...]
 *   load unix PATH CONNECTIONS PIPELINE REQUESTS COMMAND [ARG ...]
 *
 * The argument "@N" is replaced by a name out of N: s0, s1 ... in an order that is the
 * same each time but looks random. With "memcached" before HOST the command is a line
 * of memcached's text protocol. Each connection keeps PIPELINE requests on their way;
 * every reply has to be one integer or bulk string. Prints requests per second, and
 * microseconds at the 50th, 99th and 99.9th percentile of a pipeline's round trip.
 * redis-benchmark uses up a core before the server does; this one writes a prepared
 * buffer and counts line ends. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX_CONNECTIONS 10000
#define MAX_PIPELINE    1024
#define DIGITS          7 /* of a name that changes */

struct peer {
    int fd;
    unsigned open; /* replies that are still to come */
    bool skip;     /* the next line is the body of a bulk string */
    char last;     /* first byte of a line that is not complete, or 0 */
    int64_t sent_ns;
};

struct load {
    struct peer peers[MAX_CONNECTIONS];
    unsigned n_peers, pipeline;
    uint64_t left, done; /* requests */
    char *batch;         /* one pipeline */
    size_t batch_len, one_len;
    size_t name_at; /* of the digits of a name that changes; 0: none does */
    uint64_t n_names, random;
    bool lines;      /* memcached's protocol */
    uint32_t *times; /* ns, a round trip of a pipeline each */
    uint64_t n_times;
    int epoll;
};

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static size_t put_argument(struct load *l, char *to, const char *arg)
{
    if (arg[0] != '@')
        return (size_t)sprintf(to, "$%zu\r\n%s\r\n", strlen(arg), arg);
    l->n_names = strtoull(arg + 1, NULL, 10);
    return (size_t)sprintf(to, "$%d\r\ns%0*d\r\n", 1 + DIGITS, DIGITS, 0);
}

static size_t put_line(char *to, int argc, char **argv)
{
    size_t len = 0;

    for (int i = 0; i < argc; i++)
        len += (size_t)sprintf(to + len, "%s%s", i > 0 ? " " : "", argv[i]);
    return len + (size_t)sprintf(to + len, "\r\n");
}

static void make_batch(struct load *l, int argc, char **argv)
{
    size_t room = 64, len;
    char *request;

    for (int i = 0; i < argc; i++)
        room += strlen(argv[i]) + 32;
    request = malloc(room);
    if (request == NULL)
        die("memory");
    if (l->lines) {
        len = put_line(request, argc, argv);
    } else {
        len = (size_t)sprintf(request, "*%d\r\n", argc);
        for (int i = 0; i < argc; i++) {
            len += put_argument(l, request + len, argv[i]);
            if (argv[i][0] == '@')
                l->name_at = len - 2 - DIGITS;
        }
    }
    l->one_len = len;
    l->batch_len = len * l->pipeline;
    l->batch = malloc(l->batch_len);
    if (l->batch == NULL)
        die("memory");
    for (unsigned i = 0; i < l->pipeline; i++)
        memcpy(l->batch + i * len, request, len);
    free(request);
}

/* Other names for the next batch: a linear congruence (Knuth's MMIX). */
static void change_names(struct load *l)
{
    for (unsigned i = 0; i < l->pipeline; i++) {
        char *digits = l->batch + i * l->one_len + l->name_at;
        uint64_t n;

        l->random =
            l->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        n = (l->random >> 33) % l->n_names;
        for (int d = DIGITS - 1; d >= 0; d--, n /= 10)
            digits[d] = (char)('0' + n % 10);
    }
}

static void send_batch(struct load *l, struct peer *p)
{
    size_t sent = 0;

    if (l->left < l->pipeline)
        return;
    l->left -= l->pipeline;
    p->open = l->pipeline;
    if (l->n_names > 0)
        change_names(l);
    p->sent_ns = now_ns();
    while (sent < l->batch_len) {
        ssize_t n = send(p->fd, l->batch + sent, l->batch_len - sent, MSG_NOSIGNAL);

        if (n < 0)
            die("send");
        sent += (size_t)n;
    }
}

static int connect_unix(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (strlen(path) >= sizeof sa.sun_path)
        die("PATH is too long");
    memcpy(sa.sun_path, path, strlen(path));
    if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof sa) != 0)
        die("connect");
    return fd;
}

static int connect_tcp(const char *host, int port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (inet_pton(AF_INET, host, &sa.sin_addr) != 1)
        die("HOST has to be an IPv4 address");
    if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof sa) != 0)
        die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void connect_peer(struct load *l, struct peer *p, const char *host,
                         const char *port)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = p};

    p->fd =
        strcmp(host, "unix") == 0 ? connect_unix(port) : connect_tcp(host, atoi(port));
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, p->fd, &ev) != 0)
        die("epoll_ctl");
}

/* Counts replies: a line is one, unless it begins with '$', when the next one is. */
static void count(struct load *l, struct peer *p, const char *buf, size_t len)
{
    const char *at = buf, *end = buf + len;

    while (at < end) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        char first = p->last ? p->last : *at;

        if (nl == NULL) {
            p->last = first;
            return;
        }
        p->last = 0;
        at = nl + 1;
        if (first == '-' && !p->skip) {
            fprintf(stderr, "load: the server answered an error\n");
            exit(1);
        }
        if (first == '$' && !p->skip) {
            p->skip = true;
            continue;
        }
        if (first == '*' && !p->skip) { /* BLOCK's: three bulk strings, one reply */
            p->open += 2;
            l->done -= 2;
            continue;
        }
        p->skip = false;
        p->open--;
        l->done++;
    }
}

static void receive(struct load *l, struct peer *p)
{
    static char buf[1 << 16];
    ssize_t n = recv(p->fd, buf, sizeof buf, 0);

    if (n <= 0)
        die("recv");
    count(l, p, buf, (size_t)n);
    if (p->open > 0)
        return;
    l->times[l->n_times++] = (uint32_t)(now_ns() - p->sent_ns);
    send_batch(l, p);
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Microseconds. */
static double percentile(const struct load *l, double share)
{
    return l->times[(uint64_t)((double)(l->n_times - 1) * share)] / 1e3;
}

static void run(struct load *l)
{
    struct epoll_event events[256];
    uint64_t all = l->left;
    int64_t begin = now_ns();

    for (unsigned i = 0; i < l->n_peers; i++)
        send_batch(l, &l->peers[i]);
    while (l->done < all) {
        int n = epoll_wait(l->epoll, events, 256, 30000);

        if (n == 0) {
            fprintf(stderr, "load: no reply for 30 s\n");
            exit(1);
        }
        for (int i = 0; i < n; i++)
            receive(l, events[i].data.ptr);
    }
    begin = now_ns() - begin;
    qsort(l->times, l->n_times, sizeof *l->times, by_size);
    printf("%.0f requests/s p50 %.1f us p99 %.1f us p99.9 %.1f us max %.1f us\n",
           (double)all * 1e9 / (double)begin, percentile(l, 0.5), percentile(l, 0.99),
           percentile(l, 0.999), percentile(l, 1));
}

int main(int argc, char **argv)
{
    struct load *l = calloc(1, sizeof *l);

    if (l != NULL && argc > 1 && strcmp(argv[1], "memcached") == 0) {
        l->lines = true;
        argv++;
        argc--;
    }
    if (argc < 7 || l == NULL) {
        fprintf(stderr, "usage: load [memcached] HOST PORT CONNECTIONS PIPELINE "
                        "REQUESTS COMMAND [ARG]\n");
        return 64;
    }
    l->n_peers = (unsigned)atoi(argv[3]);
    l->pipeline = (unsigned)atoi(argv[4]);
    l->left = strtoull(argv[5], NULL, 10);
    if (l->n_peers < 1 || l->n_peers > MAX_CONNECTIONS || l->pipeline < 1 ||
        l->pipeline > MAX_PIPELINE || l->left < l->pipeline) {
        fprintf(stderr,
                "load: 1 to %d connections, 1 to %d requests each, and as many "
                "requests as that\n",
                MAX_CONNECTIONS, MAX_PIPELINE);
        return 64;
    }
    l->left -= l->left % l->pipeline;
    l->times = calloc(l->left / l->pipeline, sizeof *l->times);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll < 0 || l->times == NULL)
        die("setup");
    make_batch(l, argc - 6, argv + 6);
    for (unsigned i = 0; i < l->n_peers; i++)
        connect_peer(l, &l->peers[i], argv[1], argv[2]);
    run(l);
    return 0;
}
