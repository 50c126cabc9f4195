/* listener.c - sockets that accept connections. */
#include "listener.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "log.h"

#define BACKLOG 511
/* Out of descriptors, a listener would be ready again at once, for ever; so it rests.
 */
#define REST_US 100000

struct listener {
    struct listeners *all;
    struct evconnlistener *ev;
    struct event *rest; /* ends a rest */
    struct log_limit error_log;
    bool is_tcp;
    char name[LISTENER_NAME_MAX];
    char unix_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    dev_t unix_dev;
    ino_t unix_ino;
};

static int __attribute__((format(printf, 2, 3))) fail(char *error, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(error, LISTENER_ERROR_MAX, fmt, ap);
    va_end(ap);
    return -1;
}

static void on_accept(struct evconnlistener *ev, evutil_socket_t fd,
                      struct sockaddr *addr, int len, void *arg)
{
    const struct listener *l = arg;

    (void)ev, (void)addr, (void)len;
    l->all->accepted_fn(l->all->arg, fd, l->is_tcp);
}

static void on_rested(evutil_socket_t fd, short what, void *arg)
{
    const struct listener *l = arg;

    (void)fd, (void)what;
    evconnlistener_enable(l->ev);
}

static void on_error(struct evconnlistener *ev, void *arg)
{
    const struct timeval rest = {.tv_usec = REST_US};
    struct listener *l = arg;
    int why = errno;

    evconnlistener_disable(ev);
    event_add(l->rest, &rest);
    log_limited(&l->error_log, LOG_WARNING, "%s: accept: %s", l->name, strerror(why));
}

static void listener_free(struct listener *l)
{
    if (l->ev != NULL)
        evconnlistener_free(l->ev);
    if (l->rest != NULL)
        event_free(l->rest);
    free(l);
}

/* Takes a bound socket over, whatever happens. */
static int add(struct listeners *all, struct event_base *base, int fd,
               struct listener *l, char *error)
{
    if (all->n == LISTENERS_MAX) {
        close(fd);
        free(l);
        return fail(error, "more than %d addresses to listen on", LISTENERS_MAX);
    }
    l->all = all;
    l->rest = event_new(base, -1, 0, on_rested, l);
    l->ev = evconnlistener_new(
        base, on_accept, l, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, BACKLOG, fd);
    if (l->ev == NULL || l->rest == NULL) {
        fail(error, "can't listen on %s: %s", l->name, strerror(errno));
        if (l->ev == NULL)
            close(fd);
        listener_free(l);
        return -1;
    }
    evconnlistener_set_error_cb(l->ev, on_error);
    all->list[all->n++] = l;
    return 0;
}

/* --- TCP --- */

static bool is_loopback(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;

        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    if (sa->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)sa;

        return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
    }
    return false;
}

static void name_tcp(int fd, char *name)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof sa;
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";

    if (getsockname(fd, (struct sockaddr *)&sa, &len) == 0)
        getnameinfo((struct sockaddr *)&sa, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(name, LISTENER_NAME_MAX,
             strchr(host, ':') ? "[%.100s]:%.8s" : "%.100s:%.8s", host, port);
}

static int add_address(struct listeners *all, struct event_base *base,
                       const struct addrinfo *ai, const char *text, char *error)
{
    struct listener *l = calloc(1, sizeof *l);
    int one = 1, fd;

    if (l == NULL)
        return fail(error, "out of memory");
    fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd >= 0 && ai->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (fd < 0 || bind(fd, ai->ai_addr, ai->ai_addrlen) != 0) {
        fail(error, "can't listen on %s: %s", text, strerror(errno));
        if (fd >= 0)
            close(fd);
        free(l);
        return -1;
    }
    l->is_tcp = true;
    name_tcp(fd, l->name);
    return add(all, base, fd, l, error);
}

/* Splits "HOST:PORT" or "[HOST]:PORT" in place. */
static bool split(char *text, char **ret_host, char **ret_port)
{
    char *colon = strrchr(text, ':');

    if (colon == NULL || colon == text || colon[1] == '\0')
        return false;
    *colon = '\0';
    *ret_host = text;
    *ret_port = colon + 1;
    if (text[0] == '[') {
        if (colon[-1] != ']')
            return false;
        colon[-1] = '\0';
        *ret_host = text + 1;
    }
    return strspn(*ret_port, "0123456789") == strlen(*ret_port) &&
           atol(*ret_port) <= 65535 && strlen(*ret_port) <= 5;
}

static int add_host(struct listeners *all, struct event_base *base, const char *text,
                    bool insecure, char *error, bool *ret_config)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char copy[256], *host, *port;
    int rc;

    *ret_config = true;
    if (strlen(text) >= sizeof copy || !split(strcpy(copy, text), &host, &port))
        return fail(
            error,
            "listen is '%.100s', but has to be HOST:PORT with a port from 0 to 65535 "
            "(IPv6: [HOST]:PORT)",
            text);
    rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        return fail(error, "listen: '%.100s': %s", text, gai_strerror(rc));
    rc = 0;
    for (const struct addrinfo *ai = found; ai != NULL && rc == 0; ai = ai->ai_next) {
        if (insecure || is_loopback(ai->ai_addr)) {
            *ret_config = false;
            rc = add_address(all, base, ai, text, error);
            continue;
        }
        *ret_config = true;
        rc = fail(
            error,
            "listen: %.100s can be reached from other machines, where anybody could "
            "take "
            "ids and change sequences. Listen on 127.0.0.1, or give --insecure if the "
            "network is your own",
            text);
    }
    freeaddrinfo(found);
    return rc;
}

int listeners_add_tcp(struct listeners *l, struct event_base *base,
                      const char *addresses, bool insecure, char *error,
                      bool *ret_config)
{
    char *copy = strdup(addresses), *rest = copy, *one;
    int rc = 0;

    *ret_config = false;
    if (copy == NULL)
        return fail(error, "out of memory");
    while (rc == 0 && (one = strsep(&rest, ",")) != NULL) {
        one += strspn(one, " ");
        if (*one != '\0')
            rc = add_host(l, base, one, insecure, error, ret_config);
    }
    free(copy);
    return rc;
}

/* --- Unix --- */

/* Removes a socket nobody listens on. False, and why, when the path is not free. */
static bool clear_path(const struct sockaddr_un *sa, char *error)
{
    struct stat st;
    int fd;
    bool dead;

    if (lstat(sa->sun_path, &st) != 0)
        return true; /* nothing there; bind tells of anything else */
    if (!S_ISSOCK(st.st_mode)) {
        fail(error, "%s is there and not a socket; remove it or choose another --unix",
             sa->sun_path);
        return false;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    dead = fd >= 0 && connect(fd, (const struct sockaddr *)sa, sizeof *sa) != 0 &&
           errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    if (dead && unlink(sa->sun_path) == 0)
        return true;
    fail(error, "%s is the socket of a program that is running", sa->sun_path);
    return false;
}

int listeners_add_unix(struct listeners *all, struct event_base *base, const char *path,
                       char *error, bool *ret_config)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    struct listener *l;
    struct stat st;
    int fd;

    *ret_config = true;
    if (strlen(path) >= sizeof sa.sun_path)
        return fail(error, "unix: the path is longer than %zu bytes",
                    sizeof sa.sun_path - 1);
    strcpy(sa.sun_path, path);
    *ret_config = false;
    if (!clear_path(&sa, error))
        return -1;
    l = calloc(1, sizeof *l);
    if (l == NULL)
        return fail(error, "out of memory");
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&sa, sizeof sa) != 0 ||
        lstat(path, &st) != 0) {
        fail(error, "can't listen on unix socket %s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        free(l);
        return -1;
    }
    snprintf(l->name, sizeof l->name, "unix:%s", path);
    strcpy(l->unix_path, path);
    l->unix_dev = st.st_dev;
    l->unix_ino = st.st_ino;
    return add(all, base, fd, l, error);
}

const char *listener_name(const struct listener *l)
{
    return l->name;
}

bool listener_is_tcp(const struct listener *l)
{
    return l->is_tcp;
}

void listeners_close(struct listeners *all)
{
    for (size_t i = 0; i < all->n; i++) {
        struct listener *l = all->list[i];
        struct stat st;

        if (l->unix_path[0] != '\0' && lstat(l->unix_path, &st) == 0 &&
            st.st_dev == l->unix_dev && st.st_ino == l->unix_ino)
            unlink(l->unix_path);
        listener_free(l);
    }
    all->n = 0;
}
