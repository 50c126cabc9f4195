/* server.h - one server, as a handle sees it: its connection and what it owes.
 *
 *          due, wanted               addresses              connected
 *     DOWN ───────────▶ LOOKING_UP ───────────▶ CONNECTING ───────────▶ GREETING
 *      ▲                    │                       │                       │
 *      │ failed: tried again after a pause that     │                 HELLO, welcome
 *      │ grows              │                       │                       ▼
 *      └────────────────────┴───────────────────────┴─────────────────── READY
 *
 * A server that must not be used (another store in its lane, a wrong password) is DOWN
 * as well, for longer; `err` tells.
 *
 * Requests are answered in order, so they stand in a queue. One time limit covers all
 * from the lookup to the greeting, and each request has its own: when it passes, the
 * connection is closed, so that a late answer can't be taken for another request's.
 * What was in the queue failed with an outcome nobody knows: those ids are never used.
 *
 * Belongs to the loop; everything here is called with the handle locked. */
#ifndef HILO_CLIENT_SERVER_H
#define HILO_CLIENT_SERVER_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ask.h"
#include "reply_parse.h"
#include "resolve.h"
#include "roster.h"

#define SERVER_IN_MAX   16384 /* bytes of one answer at most */
#define SERVER_OUT_MAX  32768 /* bytes of requests not yet sent */
#define SERVER_TEXT_MAX 1024  /* bytes of one text in an answer */
#define SERVER_ITEMS    64    /* items of one answer */
#define SERVER_WHY_MAX  256

enum server_state {
    SERVER_DOWN,
    SERVER_LOOKING_UP,
    SERVER_CONNECTING,
    SERVER_GREETING,
    SERVER_READY,
};

struct server;

/* What a server tells the one it works for. */
struct server_events {
    /* It has said who it is: 0, or an error and why in text (SERVER_WHY_MAX bytes). */
    int (*greeted)(struct server *sv, const struct reply_item *items, size_t n,
                   char *text);
    /* An answer, in order: 0, or an error that ends the connection and why in text. The
     * request is no longer the server's. */
    int (*answered)(struct server *sv, struct ask *a, const struct reply_item *items,
                    size_t n, char *text);
    /* This request is lost with its connection. */
    void (*lost)(struct server *sv, struct ask *a);
    /* An event begins: locks, or says that this is a forked child, which has no
     * business with it. It has ended: look at everything again, then unlock. */
    bool (*enter)(struct server *sv);
    void (*turn)(struct server *sv);
};

struct server {
    struct target target;
    unsigned number; /* among those of its handle */
    void *owner;
    const struct server_events *events;
    struct event_base *base;
    int wake_fd;
    const char *password; /* NULL for none */
    const char *client_name;
    int64_t limit_us; /* for a connection, and for a request */

    enum server_state state;
    bool met;           /* id is known */
    int64_t heard_us;   /* when it last said who it is */
    struct identity id; /* as of the last greeting */
    int err;            /* why it is down; 0 before the first attempt */
    char why[SERVER_WHY_MAX];
    int64_t retry_us;    /* when it may be tried again */
    int64_t deadline_us; /* of the connection being made */
    unsigned failures;   /* in a row */
    uint64_t n_failures;

    struct lookup *lookup;
    struct addresses addresses;
    size_t address; /* the one to try next */
    int fd;
    struct event *on_read, *on_write;
    struct ask_queue asks; /* sent, in order */
    char *in, *out;        /* only while connected */
    size_t in_len, out_len, out_sent;
};

void server_init(struct server *sv);

/* Begins a connection; only from DOWN. */
void server_connect(struct server *sv, int64_t now_us);

/* Sends a request; false when it isn't READY or has no room. */
bool server_send(struct server *sv, struct ask *a, int64_t now_us);

/* Closes the connection for a reason: everything in the queue is lost. The server may
 * be tried again after pause_us, or 0 for the usual growing pause. */
void server_drop(struct server *sv, int err, int64_t pause_us, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* A lookup may be done; a time may have passed. */
void server_check(struct server *sv, int64_t now_us);

/* When server_check has to be called next; INT64_MAX for never. */
int64_t server_next_us(const struct server *sv);

/* Frees what it holds; requests in its queue are lost, without a word. */
void server_free(struct server *sv);

/* In a forked child: closes the inherited descriptor and touches nothing else. */
void server_abandon(struct server *sv);

const char *server_state_word(const struct server *sv);

#endif
