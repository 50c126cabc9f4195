/* listener.c - sockets that accept connections. */
#include "listener.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/listener.h>
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
#include "address.h"
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
    bool reachable; /* from other machines */
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

/* For a while; where not even that can be had, it stays as it is. */
static void rest(const struct listener *l)
{
    const struct timeval pause = {.tv_usec = REST_US};

    if (event_add(l->rest, &pause) == 0)
        evconnlistener_disable(l->ev);
}

static void on_rested(evutil_socket_t fd, short what, void *arg)
{
    const struct listener *l = arg;

    (void)fd, (void)what;
    if (evconnlistener_enable(l->ev) != 0)
        rest(l);
}

static void on_error(struct evconnlistener *ev, void *arg)
{
    struct listener *l = arg;
    int why = errno;

    (void)ev;
    rest(l);
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

static bool is_reachable(int fd)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof sa;

    return getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
           !address_is_local((const struct sockaddr *)&sa);
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
    l->reachable = is_reachable(fd);
    l->rest = event_new(base, -1, 0, on_rested, l);
    l->ev = evconnlistener_new(
        base, on_accept, l,
        LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_DISABLED, BACKLOG, fd);
    /* Made enabled, it would not tell that it can't be watched. */
    if (l->ev == NULL || l->rest == NULL || evconnlistener_enable(l->ev) != 0) {
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

struct adding {
    struct listeners *all;
    struct event_base *base;
};

static int add_address(void *arg, const struct addrinfo *ai, const char *text,
                       char *error)
{
    const struct adding *adding = arg;
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
    return add(adding->all, adding->base, fd, l, error);
}

int listeners_add_tcp(struct listeners *l, struct event_base *base,
                      const char *addresses, bool open, char *error, bool *ret_config)
{
    struct adding adding = {.all = l, .base = base};

    return address_each(addresses, open, add_address, &adding, error, ret_config);
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
                       mode_t mode, char *error, bool *ret_config)
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
    /* The mode before the name, so that nobody gets in between; then what the umask
     * took from it. */
    if (fd < 0 || fchmod(fd, mode) != 0 ||
        bind(fd, (const struct sockaddr *)&sa, sizeof sa) != 0 ||
        chmod(path, mode) != 0 || lstat(path, &st) != 0) {
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

/* --- from the service manager --- */

int listeners_add_inherited(struct listeners *all, struct event_base *base, int fd,
                            bool open, char *error, bool *ret_config)
{
    union {
        struct sockaddr any;
        struct sockaddr_un un;
        struct sockaddr_storage room;
    } sa = {0};
    socklen_t len = sizeof sa, type_len = sizeof(int);
    struct listener *l;
    int type = 0;

    *ret_config = true;
    if (getsockname(fd, &sa.any, &len) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) != 0 ||
        type != SOCK_STREAM)
        return fail(error, "descriptor %d of LISTEN_FDS is no stream socket", fd);
    l = calloc(1, sizeof *l);
    if (l == NULL)
        return fail(error, "out of memory");
    l->is_tcp = sa.any.sa_family != AF_UNIX;
    if (l->is_tcp)
        name_tcp(fd, l->name);
    else
        snprintf(l->name, sizeof l->name, "unix:%s", sa.un.sun_path);
    if (address_check_reach(&sa.any, l->name, open, error) != 0) {
        free(l);
        return -1;
    }
    *ret_config = false;
    evutil_make_socket_nonblocking(fd);
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

bool listeners_reachable(const struct listeners *all)
{
    for (size_t i = 0; i < all->n; i++) {
        if (all->list[i]->reachable)
            return true;
    }
    return false;
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
