/* handle.c - opening and closing, and the loop. */
#include "handle.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "clock.h"
#include "dispatch.h"
#include "error.h"
#include "name.h"
#include "options.h"
#include "seq.h"
#include "text.h"

#define ROUNDS_MAX 4 /* of a turn, before events are looked at again */

/* --- small things --- */

void waiter_queue_init(struct waiter_queue *q)
{
    q->head = NULL;
    q->tail = &q->head;
}

void waiter_push(struct waiter_queue *q, struct waiter *w)
{
    w->next = NULL;
    *q->tail = w;
    q->tail = &w->next;
}

struct waiter *waiter_pop(struct waiter_queue *q)
{
    struct waiter *w = q->head;

    if (w != NULL) {
        q->head = w->next;
        if (q->head == NULL)
            q->tail = &q->head;
    }
    return w;
}

bool handle_is_ours(const struct hilo *h)
{
    return hot_is_ours(h->mark, h->pid);
}

void handle_wake(struct hilo *h)
{
    uint64_t one = 1;
    ssize_t n;

    do {
        n = write(h->wake_fd, &one, sizeof one);
    } while (n < 0 && errno == EINTR);
}

void handle_say(struct hilo *h, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(h->message, sizeof h->message, fmt, ap);
    va_end(ap);
    text_clean(h->message);
}

static bool in_callback(const struct hilo *h)
{
    return h->calling && pthread_equal(h->caller, pthread_self());
}

/* --- the end --- */

/* Nobody else uses it any more. */
static void handle_free(struct hilo *h)
{
    for (unsigned i = 0; i < h->n_servers; i++)
        server_free(&h->servers[i]);
    if (h->on_wake != NULL)
        event_free(h->on_wake);
    if (h->on_time != NULL)
        event_free(h->on_time);
    if (h->own_base && h->base != NULL)
        event_base_free(h->base);
    if (h->wake_fd >= 0)
        close(h->wake_fd);
    if (h->password != NULL)
        explicit_bzero(h->password, strlen(h->password));
    free(h->password);
    free(h->client_name);
    seen_free(h->seen);
    hot_free(h->mark);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

/* In a forked child another thread may have been in the middle of anything, and the
 * event_base shares its kernel state with the parent's: only descriptors are closed. */
static void abandon(struct hilo *h)
{
    for (unsigned i = 0; i < h->n_servers; i++)
        server_abandon(&h->servers[i]);
    if (h->wake_fd >= 0)
        close(h->wake_fd);
    h->wake_fd = -1;
}

/* --- the loop --- */

static void turn_kicked(struct hilo *h, int64_t now_us)
{
    struct hilo_seq *list = atomic_exchange(&h->kicked, NULL), *s;

    while ((s = list) != NULL) {
        list = s->next_kicked;
        atomic_store(&s->kicked, false);
        seq_turn(s, now_us);
    }
}

static void sooner(int64_t *next_us, int64_t us)
{
    if (us < *next_us)
        *next_us = us;
}

/* Does what is due; when to come back. */
static int64_t look_round(struct hilo *h, int64_t now_us)
{
    int64_t next_us;

    turn_kicked(h, now_us);
    for (unsigned i = 0; i < h->n_servers; i++)
        server_check(&h->servers[i], now_us);
    next_us = dispatch_run(h, now_us);
    for (struct hilo_seq *s = h->seqs; s != NULL; s = s->next)
        sooner(&next_us, seq_check(s, now_us));
    for (unsigned i = 0; i < h->n_servers; i++)
        sooner(&next_us, server_next_us(&h->servers[i]));
    return next_us;
}

static void set_timer(struct hilo *h, int64_t now_us, int64_t next_us)
{
    int64_t us = next_us > now_us ? next_us - now_us : 0;
    struct timeval tv = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};

    if (next_us == INT64_MAX)
        event_del(h->on_time);
    else
        event_add(h->on_time, &tv);
}

/* Each callback is called once, without the lock: it may call us again. */
static void run_callbacks(struct hilo *h)
{
    struct waiter *w;

    while ((w = waiter_pop(&h->decided)) != NULL) {
        h->calling = true;
        h->caller = pthread_self();
        pthread_mutex_unlock(&h->lock);
        w->cb(w->arg, w->err == 0 ? w->id : 0, w->err);
        free(w);
        pthread_mutex_lock(&h->lock);
        h->calling = false;
    }
}

void handle_turn(struct hilo *h)
{
    int64_t now_us, next_us = 0;
    bool freeing;

    for (int round = 0; round < ROUNDS_MAX && !h->closed; round++) {
        now_us = steady_us();
        next_us = look_round(h, now_us);
        run_callbacks(h);
        if (atomic_load(&h->kicked) == NULL)
            break;
    }
    run_callbacks(h);
    if (!h->closed)
        set_timer(h, steady_us(), next_us);
    else if (h->own_base)
        event_base_loopbreak(h->base);
    freeing = h->closed && h->freed_by_loop && !h->own_base;
    pthread_mutex_unlock(&h->lock);
    if (freeing)
        handle_free(h);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct hilo *h = arg;
    uint64_t n;

    (void)what;
    if (!handle_is_ours(h)) {
        event_del(h->on_wake); /* of a base that was made anew by event_reinit */
        return;
    }
    if (read(fd, &n, sizeof n) < 0 && errno != EAGAIN)
        n = 0; /* an eventfd has no other errors; the turn below does no harm */
    pthread_mutex_lock(&h->lock);
    h->wakeups++;
    handle_turn(h);
}

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    struct hilo *h = arg;

    (void)fd;
    (void)what;
    if (!handle_is_ours(h))
        return;
    pthread_mutex_lock(&h->lock);
    h->wakeups++;
    handle_turn(h);
}

static void *loop_main(void *arg)
{
    struct hilo *h = arg;
    bool freeing;

    event_base_loop(h->base, EVLOOP_NO_EXIT_ON_EMPTY);
    pthread_mutex_lock(&h->lock);
    freeing = h->freed_by_loop;
    pthread_mutex_unlock(&h->lock);
    if (freeing)
        handle_free(h);
    return NULL;
}

/* --- opening --- */

static int parse_servers(struct hilo *h, const hilo_options *o, char *text, size_t size)
{
    const char *at = o->servers;

    while (*at != '\0') {
        struct server *sv = &h->servers[h->n_servers];

        if (h->n_servers == HILO_SERVERS_MAX) {
            snprintf(text, size, "servers: more than %d", HILO_SERVERS_MAX);
            return HILO_EARG;
        }
        server_init(sv);
        if (!target_parse(&at, &sv->target, text, size))
            return HILO_EARG;
        sv->number = h->n_servers++;
        sv->owner = h;
        sv->events = &dispatch_events;
        sv->limit_us = (int64_t)o->request_ms * 1000;
    }
    return 0;
}

static int fail_system(char *text, size_t size, const char *what)
{
    snprintf(text, size, "%s: %s", what, strerror(errno));
    return errno == ENOMEM ? HILO_ENOMEM : HILO_ESYSTEM;
}

static bool copy_text(char **ret, const char *text)
{
    *ret = text != NULL ? strdup(text) : NULL;
    return text == NULL || *ret != NULL;
}

static int set_up(struct hilo *h, const hilo_options *o, char *text, size_t size)
{
    int rc = parse_servers(h, o, text, size);

    if (rc != 0)
        return rc;
    h->policy = o->policy;
    h->timeout_ms = o->timeout_ms;
    h->mark = hot_new(&h->pid);
    if (h->mark == NULL || !copy_text(&h->password, o->password) ||
        !copy_text(&h->client_name, o->client_name))
        return fail_system(text, size, "no memory");
    h->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (h->wake_fd < 0)
        return fail_system(text, size, "no eventfd");
    h->own_base = o->base == NULL;
    h->base = h->own_base ? event_base_new() : o->base;
    if (h->base == NULL)
        return fail_system(text, size, "no event_base");
    h->on_wake = event_new(h->base, h->wake_fd, EV_READ | EV_PERSIST, on_wake, h);
    h->on_time = event_new(h->base, -1, 0, on_time, h);
    if (h->on_wake == NULL || h->on_time == NULL || event_add(h->on_wake, NULL) != 0)
        return fail_system(text, size, "no events");
    for (unsigned i = 0; i < h->n_servers; i++) {
        h->servers[i].base = h->base;
        h->servers[i].wake_fd = h->wake_fd;
        h->servers[i].password = h->password;
        h->servers[i].client_name = h->client_name;
    }
    return 0;
}

/* Signals are the program's: its handlers never run on our thread. */
static int start_thread(struct hilo *h, char *text, size_t size)
{
    sigset_t all, old;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&h->thread, NULL, loop_main, h);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = rc;
    return rc == 0 ? 0 : fail_system(text, size, "no thread");
}

static int open_handle(const hilo_options *o, struct hilo **ret, char *text,
                       size_t size)
{
    struct hilo *h;
    hilo_options all;
    int rc = options_read(o, &all, text, size);

    if (rc != 0)
        return rc;
    h = calloc(1, sizeof *h);
    if (h == NULL)
        return fail_system(text, size, "no memory");
    h->wake_fd = -1;
    pthread_mutex_init(&h->lock, NULL);
    roster_init(&h->roster);
    ask_queue_init(&h->unsent);
    waiter_queue_init(&h->decided);
    rc = set_up(h, &all, text, size);
    if (rc == 0 && h->own_base)
        rc = start_thread(h, text, size);
    if (rc != 0) {
        handle_free(h);
        return rc;
    }
    *ret = h;
    return 0;
}

/* --- the public functions --- */

int hilo_open(const hilo_options *o, char *errbuf, size_t errlen, hilo **ret)
{
    char text[MESSAGE_MAX] = "";
    int rc = ret != NULL ? open_handle(o, ret, text, sizeof text) : HILO_EARG;

    if (rc != 0 && errbuf != NULL && errlen > 0)
        snprintf(errbuf, errlen, "%s", text[0] != '\0' ? text : error_text(rc));
    return rc;
}

void hilo_close(hilo *h)
{
    bool own_base, callback;

    if (h == NULL)
        return;
    if (!handle_is_ours(h)) {
        abandon(h);
        return;
    }
    pthread_mutex_lock(&h->lock);
    while (h->seqs != NULL)
        seq_end(h->seqs);
    own_base = h->own_base;
    callback = in_callback(h);
    h->freed_by_loop = callback;
    h->closed = true;
    if (callback && own_base)
        pthread_detach(h->thread);
    if (!callback && !own_base)
        run_callbacks(h);
    pthread_mutex_unlock(&h->lock);
    if (callback)
        return; /* the loop goes on from here when the callback has returned */
    if (own_base) {
        handle_wake(h);
        pthread_join(h->thread, NULL);
    }
    handle_free(h);
}

void hilo_errmsg(hilo *h, char *buf, size_t n)
{
    if (h == NULL || buf == NULL || n == 0)
        return;
    if (!handle_is_ours(h)) {
        snprintf(buf, n, "%s", error_text(HILO_EFORK));
        return;
    }
    pthread_mutex_lock(&h->lock);
    snprintf(buf, n, "%s", h->message);
    pthread_mutex_unlock(&h->lock);
}

const char *hilo_strerror(int err)
{
    return error_text(err);
}

int hilo_seq_open(hilo *h, const char *name, const hilo_seq_options *o, hilo_seq **ret)
{
    hilo_seq_options all;
    char text[MESSAGE_MAX] = "";
    struct hilo_seq *s;
    int rc;

    if (h == NULL || ret == NULL)
        return HILO_EARG;
    if (!handle_is_ours(h))
        return HILO_EFORK;
    rc = options_read_seq(o, &all, text, sizeof text);
    if (rc == 0 && (name == NULL || !name_valid(name, strlen(name)))) {
        rc = HILO_EARG;
        snprintf(text, sizeof text, "the name of a sequence has to be " NAME_RULE);
    }
    s = rc == 0 ? seq_new(h, name, &all) : NULL;
    if (s != NULL) {
        *ret = s;
        return 0;
    }
    pthread_mutex_lock(&h->lock);
    handle_say(h, "%s", rc != 0 ? text : "out of memory");
    pthread_mutex_unlock(&h->lock);
    return rc != 0 ? rc : HILO_ENOMEM;
}

void hilo_seq_close(hilo_seq *s)
{
    struct hilo *h;

    if (s == NULL || !hot_is_ours(s->head.hot, s->pid))
        return;
    h = s->h;
    pthread_mutex_lock(&h->lock);
    seq_end(s);
    handle_wake(h); /* for its callbacks */
    pthread_mutex_unlock(&h->lock);
}
