/* loop.c - the event loop, its turns, start and stop. */
#include "loop.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "clients.h"
#include "clock.h"
#include "conn.h"
#include "crew.h"
#include "listener.h"
#include "log.h"
#include "server.h"
#include "settings.h"
#include "systemd.h"

#define STOP_MS      4000 /* for answering what waits */
#define CLOSE_S      1    /* and then for giving back what is unused, and closing */
#define SWEEP_US     250000
#define LOOK_SWEEPS  4   /* so often the store looks at what it stands on */
#define STAY_MOST_US 500 /* commits that take longer are made without the loop */

struct loop {
    struct server server;
    struct listeners listeners;
    struct event_base *base;
    struct crew *crew;
    struct event *store_event, *sweep_event, *signal_event;
    int ticker;  /* -1 or a descriptor that is readable every SWEEP_US */
    int signals; /* -1 or a descriptor that is readable when there is a signal */
    unsigned sweeps;
    int stop_signals;
    int64_t stop_by_ms;
    int flags;              /* of the next turn */
    uint64_t commands_sent; /* how many there had been at the last batch */
    enum loop_end end;
};

/* --- events --- */

static void collect(struct loop *l)
{
    int64_t now_us = clock_steady_us();

    batcher_collect(&l->server.batcher, now_us / 1000, now_us);
}

static void on_store(evutil_socket_t fd, short what, void *arg)
{
    struct loop *l = arg;

    (void)fd, (void)what;
    crew_fd_read(l->crew);
    collect(l);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
    struct loop *l = arg;
    uint64_t ticks;

    (void)what;
    if (read(fd, &ticks, sizeof ticks) < 0)
        return;
    clients_sweep(&l->server, clock_steady_ms());
    if (++l->sweeps % LOOK_SWEEPS == 0)
        batcher_look(&l->server.batcher);
}

static void on_accepted(void *arg, int fd, bool is_tcp)
{
    struct loop *l = arg;

    clients_accept(&l->server, fd, is_tcp);
}

static void reload(struct server *s)
{
    systemd_notify_reloading();
    settings_reload(s);
    systemd_notify("READY=1");
}

static void stop(struct loop *l)
{
    systemd_notify("STOPPING=1");
    l->server.stopping = true;
    l->stop_by_ms = clock_steady_ms() + STOP_MS;
    listeners_close(&l->listeners);
    clients_drain(&l->server);
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
    struct signalfd_siginfo got;
    struct loop *l = arg;

    (void)what;
    if (read(fd, &got, sizeof got) != sizeof got)
        return;
    if (got.ssi_signo == SIGHUP)
        reload(&l->server);
    else if (++l->stop_signals == 1) {
        log_line(LOG_INFO, "signal %u: answering what waits, then stopping",
                 got.ssi_signo);
        if (!l->server.stopping)
            stop(l);
    }
}

/* --- turns --- */

static bool has_work(const struct loop *l)
{
    if (!l->server.stopping)
        return true;
    if (l->server.conns == NULL && batcher_idle(&l->server.batcher))
        return false;
    return l->stop_signals < 2 && clock_steady_ms() < l->stop_by_ms;
}

/* Whether a commit is best made where the loop is: it is short, and most of what was
 * asked since the last one waits for it. */
static bool stays(struct loop *l)
{
    const struct batcher *b = &l->server.batcher;
    uint64_t asked = l->server.commands - l->commands_sent;

    l->commands_sent = l->server.commands;
    return b->last_commit_us < STAY_MOST_US && 2 * b->env.waiting > asked;
}

static void send_answers(struct server *s)
{
    conn_flush_touched(s);
    clients_limit(s);
}

/* Answers go out first: who gets one may ask again in time for the next batch. False
 * when the loop is lost. */
static bool end_turn(struct loop *l)
{
    struct server *s = &l->server;
    enum batcher_step step;
    int64_t now_us;

    send_answers(s);
    now_us = clock_steady_us();
    step = batcher_make(&s->batcher, now_us / 1000, now_us);
    if (step == BATCHER_SENDS) {
        l->flags = EVLOOP_ONCE;
        send_answers(s); /* of what making it has decided: they need no store */
        if (!crew_commit(l->crew, &s->batcher.sent, stays(l)))
            return false;
        s->now_ms = 0;
        collect(l);
        send_answers(s);
    }
    /* Making a batch decides what needs no store after all, and who is answered may
     * have asked for more already: both are looked at in the next turn. */
    l->flags = step == BATCHER_GATHERS || s->touched != NULL ||
                       batcher_wanted(&s->batcher, now_us / 1000)
                   ? EVLOOP_ONCE | EVLOOP_NONBLOCK
                   : EVLOOP_ONCE;
    return true;
}

/* Runs the loop; false when it is lost to the other thread, true at its end. */
static bool serve(struct loop *l)
{
    while (has_work(l)) {
        l->server.now_ms = 0;
        if (event_base_loop(l->base, l->flags) < 0) {
            log_line(LOG_ERROR, "the event loop failed: %s", strerror(errno));
            l->end = LOOP_FAILED;
            break;
        }
        if (!end_turn(l))
            return false;
        if (l->server.batcher.gone && !l->server.stopping) {
            l->end = LOOP_MEND; /* its log line has been written */
            stop(l);
        }
    }
    if (l->server.batcher.busy) {
        log_line(LOG_WARNING, "leaving while the store is still busy");
        /* No clean-up can wait for it; what it reserves is a gap. */
        _exit((int)l->end);
    }
    return true;
}

static void serve_second(void *arg)
{
    struct loop *l = arg;

    if (serve(l))
        crew_hand_over(l->crew);
}

/* --- start and stop --- */

static bool add_event(struct event *e)
{
    return e != NULL && event_add(e, NULL) == 0;
}

/* Signals wait for whoever has the loop. */
static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

static bool add_events(struct loop *l)
{
    /* By a timerfd: with a timer of libevent's each epoll_wait would have to set one in
     * the kernel, which on a virtual machine takes longer than a grant. */
    l->ticker = clock_ticker(SWEEP_US);
    l->signals = open_signals();
    if (l->ticker < 0 || l->signals < 0)
        return false;
    l->store_event =
        event_new(l->base, crew_fd(l->crew), EV_READ | EV_PERSIST, on_store, l);
    l->sweep_event = event_new(l->base, l->ticker, EV_READ | EV_PERSIST, on_sweep, l);
    l->signal_event =
        event_new(l->base, l->signals, EV_READ | EV_PERSIST, on_signal, l);
    return add_event(l->store_event) && add_event(l->sweep_event) &&
           add_event(l->signal_event);
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
    return config ? LOOP_MEND : LOOP_FAILED;
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
                           const struct passwords *passwords, struct guard *g)
{
    struct store_error error;

    l->base = new_base();
    if (l->base == NULL) {
        log_line(LOG_ERROR, "can't make an event loop");
        return LOOP_FAILED;
    }
    if (server_init(&l->server, o, g, l->base, &error) != 0) {
        log_line(LOG_ERROR, "%s", error.text);
        return LOOP_FAILED;
    }
    l->server.passwords = *passwords;
    settings_apply(&l->server);
    l->crew = crew_new(g, serve_second, l);
    if (l->crew == NULL) {
        log_line(LOG_ERROR, "can't start the second thread: %s", strerror(errno));
        return LOOP_FAILED;
    }
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

/* All that was acknowledged is on disk: leaving without another step is in order. */
static void leave_stopped(int signal)
{
    (void)signal;
    _exit(LOOP_STOPPED);
}

static void leave_failed(int signal)
{
    (void)signal;
    _exit(LOOP_FAILED);
}

static void leave_to_mend(int signal)
{
    (void)signal;
    _exit(LOOP_MEND);
}

/* From now on a signal ends the process at once, and so does a disk that takes too
 * long. */
static void leave_on_signals(enum loop_end end)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGALRM};
    void (*leave)(int) = end == LOOP_STOPPED ? leave_stopped
                         : end == LOOP_MEND  ? leave_to_mend
                                             : leave_failed;
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        signal(signals[i], leave);
        sigaddset(&set, signals[i]);
    }
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    alarm(CLOSE_S);
}

static void free_all(struct loop *l)
{
    clients_free(&l->server);
    server_free(&l->server);
    free_event(l->store_event);
    free_event(l->sweep_event);
    free_event(l->signal_event);
    if (l->ticker >= 0)
        close(l->ticker);
    if (l->signals >= 0)
        close(l->signals);
    if (l->base != NULL)
        event_base_free(l->base);
}

enum loop_end loop_run(struct options *o, const struct passwords *passwords,
                       struct guard *g)
{
    struct loop l = {.ticker = -1, .signals = -1, .flags = EVLOOP_ONCE};

    l.end = start(&l, o, passwords, g);
    if (l.end == LOOP_STOPPED) {
        say_ready(&l);
        while (!serve(&l))
            crew_stand_by(l.crew);
    }
    listeners_close(&l.listeners);
    if (l.crew != NULL)
        crew_end(l.crew);
    leave_on_signals(l.end);
    if (l.end == LOOP_STOPPED && l.stop_signals < 2 && !g->engine->shared)
        batcher_give_back(&l.server.batcher, &l.server.catalog, g);
    if (l.server.batcher.gone)
        leave_on_signals(l.end = LOOP_MEND);
    free_all(&l);
    return l.end;
}
