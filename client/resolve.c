/* resolve.c - addresses of a server. */
#include "resolve.h"

#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Owned by both the thread and the one who asked; the last to leave frees it. */
struct lookup {
    pthread_mutex_t lock;
    struct target target;
    struct addresses found;
    int rc;
    int wake_fd; /* our own copy, so that it is open when the thread writes */
    bool done;
    bool given_up;
};

static bool is_port(const char *p)
{
    size_t n = strspn(p, "0123456789");

    return n > 0 && n <= 5 && p[n] == '\0' && atol(p) >= 1 && atol(p) <= 65535;
}

/* Splits HOST:PORT; a host with colons has to stand in brackets. */
static bool split_host(struct target *t)
{
    char copy[TARGET_MAX], *host = copy, *colon;

    memcpy(copy, t->text, sizeof copy);
    colon = strrchr(copy, ':');
    if (colon == NULL || !is_port(colon + 1))
        return false;
    *colon = '\0';
    if (host[0] == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        host++;
    } else if (strchr(host, ':') != NULL) {
        return false;
    }
    memcpy(t->port, colon + 1, strlen(colon + 1) + 1);
    memcpy(t->host, host, strlen(host) + 1);
    return host[0] != '\0';
}

static bool is_path(const struct target *t)
{
    return t->port[0] == '\0';
}

bool target_parse(const char **at, struct target *ret, char *error, size_t error_size)
{
    const char *from = *at + strspn(*at, " ");
    size_t len = strcspn(from, ",");

    *at = from + len + (from[len] == ',');
    while (len > 0 && from[len - 1] == ' ')
        len--;
    memset(ret, 0, sizeof *ret);
    if (len >= sizeof ret->text) {
        snprintf(error, error_size,
                 "servers: '%.40s...' is too long, at most %zu bytes", from,
                 sizeof ret->text - 1);
        return false;
    }
    memcpy(ret->text, from, len);
    if (strncmp(ret->text, "unix:", 5) == 0) {
        memcpy(ret->host, ret->text + 5, len - 5);
        if (len > 5 && len - 5 < sizeof((struct sockaddr_un *)0)->sun_path)
            return true;
        snprintf(error, error_size,
                 "servers: '%s' has to be unix: and a path of 1 to %zu bytes",
                 ret->text, sizeof((struct sockaddr_un *)0)->sun_path - 1);
        return false;
    }
    if (split_host(ret))
        return true;
    snprintf(
        error, error_size,
        "servers: '%s' has to be HOST:PORT with a port from 1 to 65535, [IPv6]:PORT "
        "or unix:/path, several with commas",
        ret->text);
    return false;
}

static int look_up(const struct target *t, int flags, struct addresses *ret)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICSERV | flags,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    int rc = getaddrinfo(t->host, t->port, &hints, &list);

    ret->n = 0;
    if (rc != 0)
        return rc;
    for (const struct addrinfo *ai = list; ai != NULL && ret->n < ADDRESSES_MAX;
         ai = ai->ai_next) {
        memcpy(&ret->at[ret->n], ai->ai_addr, ai->ai_addrlen);
        ret->len[ret->n++] = ai->ai_addrlen;
    }
    freeaddrinfo(list);
    return 0;
}

bool target_addresses(const struct target *t, struct addresses *ret)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};

    if (!is_path(t))
        return look_up(t, AI_NUMERICHOST, ret) == 0;
    memcpy(un.sun_path, t->host, strlen(t->host) + 1);
    memcpy(&ret->at[0], &un, sizeof un);
    ret->len[0] = sizeof un;
    ret->n = 1;
    return true;
}

static void lookup_free(struct lookup *l)
{
    pthread_mutex_destroy(&l->lock);
    close(l->wake_fd);
    free(l);
}

static void *lookup_main(void *arg)
{
    struct lookup *l = arg;
    struct addresses found;
    int rc = look_up(&l->target, 0, &found);
    uint64_t one = 1;
    bool given_up;

    pthread_mutex_lock(&l->lock);
    l->rc = rc;
    l->found = found;
    l->done = true;
    given_up = l->given_up;
    if (!given_up && write(l->wake_fd, &one, sizeof one) < 0)
        l->rc = EAI_SYSTEM; /* an eventfd that can't count further is readable anyway */
    pthread_mutex_unlock(&l->lock);
    if (given_up)
        lookup_free(l);
    return NULL;
}

static bool start_thread(struct lookup *l)
{
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_t thread;
    int rc;

    if (pthread_attr_init(&attr) != 0)
        return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread, &attr, lookup_main, l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return rc == 0;
}

struct lookup *lookup_start(const struct target *t, int wake_fd)
{
    struct lookup *l = calloc(1, sizeof *l);

    if (l == NULL)
        return NULL;
    l->target = *t;
    l->wake_fd = fcntl(wake_fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_init(&l->lock, NULL);
    if (l->wake_fd >= 0 && start_thread(l))
        return l;
    lookup_free(l);
    return NULL;
}

bool lookup_done(struct lookup *l, struct addresses *ret, int *ret_rc)
{
    bool done;

    pthread_mutex_lock(&l->lock);
    done = l->done;
    if (done) {
        *ret = l->found;
        *ret_rc = l->rc;
    }
    pthread_mutex_unlock(&l->lock);
    return done;
}

void lookup_end(struct lookup *l)
{
    bool done;

    if (l == NULL)
        return;
    pthread_mutex_lock(&l->lock);
    done = l->done;
    l->given_up = true;
    pthread_mutex_unlock(&l->lock);
    if (done)
        lookup_free(l);
}
