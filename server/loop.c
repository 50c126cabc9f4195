/* loop.c - the event loop, its turns, start and stop. */
#include "loop.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "clients.h"
#include "clock.h"
#include "conn.h"
#include "listener.h"
#include "log.h"
#include "server.h"
#include "settings.h"
#include "store_thread.h"
#include "systemd.h"

#define STOP_MS      4000 /* for answering what waits */
#define GIVE_BACK_MS 500  /* and then for giving back what is unused */
#define SWEEP_US     250000

struct loop {
    struct server server;
    struct listeners listeners;
    struct event_base *base;
    struct store_thread *thread;
    struct event *store_event, *sweep_event, *term_event, *int_event, *hangup_event;
    int ticker; /* -1 or a descriptor that is readable every SWEEP_US */
    int stop_signals;
    int64_t stop_by_ms;
};

/* --- events --- */

static void on_store(evutil_socket_t fd, short what, void *arg)
{
    struct loop *l = arg;

    (void)fd, (void)what;
    int64_t now_us = clock_steady_us();

    batcher_collect(&l->server.batcher, now_us / 1000, now_us);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
    struct loop *l = arg;
    uint64_t ticks;

    (void)what;
    if (read(fd, &ticks, sizeof ticks) < 0)
        return;
    clients_sweep(&l->server, clock_steady_ms());
}

static void on_accepted(void *arg, int fd, bool is_tcp)
{
    struct loop *l = arg;

    clients_accept(&l->server, fd, is_tcp);
}

static void on_hangup(evutil_socket_t signal, short what, void *arg)
{
    struct loop *l = arg;

    (void)signal, (void)what;
    systemd_notify_reloading();
    settings_reload(&l->server);
    systemd_notify("READY=1");
}

static void on_stop_signal(evutil_socket_t signal, short what, void *arg)
{
    struct loop *l = arg;

    (void)what;
    l->stop_signals++;
    if (l->stop_signals > 1)
        return;
    log_line(LOG_INFO, "signal %d: answering what waits, then stopping", (int)signal);
    systemd_notify("STOPPING=1");
    l->server.stopping = true;
    l->stop_by_ms = clock_steady_ms() + STOP_MS;
    listeners_close(&l->listeners);
    clients_drain(&l->server);
}

/* --- turns --- */

/* Answers go out first: who gets one may ask again in time for the next batch. False
 * when the next turn must not block. */
static bool end_turn(struct server *s)
{
    int64_t now_us;

    conn_flush_touched(s);
    clients_limit(s);
    now_us = clock_steady_us();
    /* Making a batch decides what needs no store after all: that is answered next. */
    return batcher_post(&s->batcher, now_us / 1000, now_us) && s->touched == NULL;
}

static bool has_work(const struct loop *l)
{
    if (!l->server.stopping)
        return true;
    if (l->server.conns == NULL && batcher_idle(&l->server.batcher))
        return false;
    return l->stop_signals < 2 && clock_steady_ms() < l->stop_by_ms;
}

static enum loop_end serve(struct loop *l)
{
    int flags = EVLOOP_ONCE;

    while (has_work(l)) {
        if (event_base_loop(l->base, flags) < 0) {
            log_line(LOG_ERROR, "the event loop failed: %s", strerror(errno));
            return LOOP_FAILED;
        }
        flags = end_turn(&l->server) ? EVLOOP_ONCE : EVLOOP_ONCE | EVLOOP_NONBLOCK;
    }
    return LOOP_STOPPED;
}

/* --- start and stop --- */

static bool add_event(struct event *e)
{
    return e != NULL && event_add(e, NULL) == 0;
}

static bool add_events(struct loop *l)
{
    /* By a timerfd: with a timer of libevent's each epoll_wait would have to set one in
     * the kernel, which on a virtual machine takes longer than a grant. */
    l->ticker = clock_ticker(SWEEP_US);
    if (l->ticker < 0)
        return false;
    l->store_event = event_new(l->base, store_thread_fd(l->thread),
                               EV_READ | EV_PERSIST, on_store, l);
    l->sweep_event = event_new(l->base, l->ticker, EV_READ | EV_PERSIST, on_sweep, l);
    l->term_event = evsignal_new(l->base, SIGTERM, on_stop_signal, l);
    l->int_event = evsignal_new(l->base, SIGINT, on_stop_signal, l);
    l->hangup_event = evsignal_new(l->base, SIGHUP, on_hangup, l);
    return add_event(l->store_event) && add_event(l->sweep_event) &&
           add_event(l->term_event) && add_event(l->int_event) &&
           add_event(l->hangup_event);
}

/* On sockets a service manager has handed over, or on those of the options. */
static int add_listeners(struct loop *l, const struct options *o, char *error,
                         bool *ret_config)
{
    struct listeners *all = &l->listeners;
    bool open = o->insecure || l->server.passwords.n > 0;
    int inherited = systemd_listen_fds(), rc = 0;

    for (int i = 0; i < inherited && rc == 0; i++)
        rc = listeners_add_inherited(all, l->base, SYSTEMD_FIRST_FD + i, open, error,
                                     ret_config);
    if (inherited > 0 || rc != 0)
        return rc;
    rc = listeners_add_tcp(all, l->base, o->listen, open, error, ret_config);
    if (rc == 0 && o->unix_path[0] != '\0')
        rc = listeners_add_unix(all, l->base, o->unix_path, (mode_t)o->unix_mode, error,
                                ret_config);
    return rc;
}

static enum loop_end start_listening(struct loop *l, const struct options *o)
{
    char error[LISTENER_ERROR_MAX];
    bool config;

    l->listeners.accepted_fn = on_accepted;
    l->listeners.arg = l;
    if (add_listeners(l, o, error, &config) == 0) {
        l->server.reachable = listeners_reachable(&l->listeners);
        return LOOP_STOPPED;
    }
    log_line(LOG_ERROR, "%s", error);
    return config ? LOOP_CONFIG : LOOP_FAILED;
}

static void say_ready(const struct loop *l)
{
    printf("ready");
    for (size_t i = 0; i < l->listeners.n; i++) {
        const struct listener *one = l->listeners.list[i];

        printf(" %s%s", listener_is_tcp(one) ? "resp=" : "", listener_name(one));
    }
    printf("\n");
    fflush(stdout);
    systemd_notify("READY=1");
}

static struct event_base *new_base(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base;

    if (config == NULL)
        return NULL;
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

static enum loop_end start(struct loop *l, struct options *o,
                           const struct passwords *passwords,
                           const struct store_engine *engine, struct store *store,
                           const struct store_identity *identity)
{
    struct store_error error;

    l->base = new_base();
    if (l->base == NULL) {
        log_line(LOG_ERROR, "can't make an event loop");
        return LOOP_FAILED;
    }
    if (server_init(&l->server, o, engine, store, identity, l->base, &error) != 0) {
        log_line(LOG_ERROR, "%s", error.text);
        return LOOP_FAILED;
    }
    l->server.passwords = *passwords;
    settings_apply(&l->server);
    l->thread = store_thread_start(engine, store);
    if (l->thread == NULL) {
        log_line(LOG_ERROR, "can't start the store thread: %s", strerror(errno));
        return LOOP_FAILED;
    }
    l->server.batcher.thread = l->thread;
    if (!add_events(l)) {
        log_line(LOG_ERROR, "can't add events to the loop");
        return LOOP_FAILED;
    }
    return start_listening(l, o);
}

static void free_event(struct event *e)
{
    if (e != NULL)
        event_free(e);
}

/* The end of the store thread; false when it does not come back. */
static bool stop_store(struct loop *l, const struct store_engine *engine)
{
    bool orderly = l->server.stopping && l->stop_signals < 2;

    if (l->thread == NULL)
        return true;
    if (store_thread_busy(l->thread))
        return false; /* it has had its time; what it reserves is a gap */
    if (orderly && !engine->shared &&
        !batcher_give_back(&l->server.batcher, &l->server.catalog, GIVE_BACK_MS))
        return false;
    store_thread_stop(l->thread);
    return true;
}

static void free_all(struct loop *l)
{
    clients_free(&l->server);
    server_free(&l->server);
    free_event(l->store_event);
    free_event(l->sweep_event);
    free_event(l->term_event);
    free_event(l->int_event);
    free_event(l->hangup_event);
    if (l->ticker >= 0)
        close(l->ticker);
    if (l->base != NULL)
        event_base_free(l->base);
}

/* The handlers go with the loop; a signal that comes now waits for main's. */
static void block_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

enum loop_end loop_run(struct options *o, const struct passwords *passwords,
                       const struct store_engine *engine, struct store *store,
                       const struct store_identity *identity)
{
    struct loop l = {.ticker = -1};
    enum loop_end end = start(&l, o, passwords, engine, store, identity);

    if (end == LOOP_STOPPED) {
        say_ready(&l);
        end = serve(&l);
    }
    block_signals();
    listeners_close(&l.listeners);
    if (!stop_store(&l, engine)) {
        log_line(LOG_WARNING, "leaving while the store is still busy");
        return LOOP_ABANDONED;
    }
    free_all(&l);
    return end;
}
