/* server.h - what the parts of a running hilod share. Whoever has the loop only: see
 * crew.h. */
#ifndef HILO_SERVER_H
#define HILO_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "batcher.h"
#include "catalog.h"
#include "log.h"
#include "options.h"
#include "password.h"
#include "resp.h"
#include "store.h"

#define BOOT_ID_MAX 40

/* Two buffers serve one connection at a time. Input: what is read at once; a request
 * that comes in pieces is gathered in its connection. Output, to begin with: it grows
 * with an answer. */
#define SERVER_READ_MAX 65536
#define SERVER_OUT_SIZE 131072
#define SERVER_TEXT_MAX 400 /* of an error made on the spot */

struct event_base;
struct conn;

struct server {
    struct options *options;
    const struct guard *guard;
    struct event_base *base;
    struct store_identity identity;
    char boot_id[BOOT_ID_MAX]; /* durable count of starts, and 64 random bits */
    struct batcher batcher;
    struct catalog catalog;
    bool auto_create;
    uint64_t int_cap;   /* positions below this one fit an integer reply */
    bool stopping;      /* no new commands */
    bool reachable;     /* from other machines */
    int64_t started_ms; /* steady */
    int64_t now_ms;     /* of this turn of the loop; 0: nobody has looked yet */

    struct request *backup; /* who waits for it; NULL: none is being made */
    char *backup_path;

    /* Connections. */
    struct conn *conns; /* all of them */
    struct conn
        *touched; /* those with something decided since they were last looked at */
    uint64_t n_conns, client_cap, next_conn_id;
    uint64_t client_bytes; /* requests and answers under way */
    uint64_t accepted, turned_away, dropped, auth_failures;
    uint64_t commands, protocol_errors;
    struct log_limit fault_log, drop_log, cap_log, auth_log;
    struct passwords passwords;
    char *in;  /* what was read last, of one connection at a time */
    char *out; /* replies on their way, of one connection at a time */
    size_t out_cap;
};

/* Loads all sequences. Settings are applied (settings_apply) and the passwords set by
 * the caller. 0, or -1 and *ret_error; server_free is due either way, after all
 * connections. */
int server_init(struct server *s, struct options *o, const struct guard *g,
                struct event_base *base, struct store_error *ret_error);
void server_free(struct server *s);

/* The steady clock, read once in a turn of the loop. */
int64_t server_now_ms(struct server *s);

/* Whether the server can grant. */
bool server_ready(const struct server *s);

/* Why a name leads to no sequence: a code and a text for the reply. */
struct server_refusal {
    int err;
    char text[SERVER_TEXT_MAX];
};

/* The sequence of that name; NULL and *ret_why if there is none, HILO_ENOSEQ only when
 * that is certain. */
struct seq *server_seq_existing(struct server *s, const char *name, size_t len,
                                struct server_refusal *ret_why);

/* The sequence of that name, which is made if it is missing and auto_create says so.
 * NULL and *ret_why if there is none. */
struct seq *server_seq(struct server *s, const char *name, size_t len,
                       struct server_refusal *ret_why);

/* The same for SEQ CREATE: one that is missing is made with these attributes. */
struct seq *server_seq_create(struct server *s, const char *name, size_t len,
                              const struct counter_attr *attr,
                              struct server_refusal *ret_why);

#endif
