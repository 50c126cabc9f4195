/* command.h - commands: one table, one row each; from arguments to an answer.
 *
 * A command answers at once, or leaves a request that will be decided later. Grants may
 * overlap: a connection can have many of them waiting, which lets a pipeline share a
 * commit. Everything else happens in order: not before all grants ahead of it are
 * answered, and nothing after it before it is. */
#ifndef HILO_COMMAND_H
#define HILO_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include "reply.h"
#include "request.h"
#include "resp.h"
#include "server.h"
#include "session.h"

enum call_order {
    CALL_FREE,          /* nothing of this connection waits */
    CALL_BEHIND_GRANTS, /* grants do */
    CALL_BEHIND_ADMIN,  /* something else does */
};

struct call {
    struct server *server;
    struct session *session;
    const struct resp_request *args;
    /* What came behind this request, and how many requests in it were answered with
     * this one. */
    const char *rest;
    size_t rest_len;
    uint64_t repeats;
    struct reply *out;
    enum call_order order;
    int64_t now_ms;
    /* Who waits for a request that this call leaves behind. */
    void *owner;
    void (*decided_fn)(struct request *r);
};

enum command_result {
    COMMAND_ANSWERED,
    COMMAND_WAITS, /* *ret_request is its connection's now; it may be decided already */
    COMMAND_BLOCKED, /* not its turn: run it again when what waits has been answered */
    COMMAND_CLOSE,   /* answered; close after the answer is out */
};

#define COMMAND_OUT_HIGH 65536 /* no more commands while this much waits to be sent */

enum command_result command_run(struct call *c, struct request **ret_request);

/* Writes the answer of a decided request. */
void command_answer(struct server *s, const struct request *r, struct reply *out);

/* --- for the files that hold commands --- */

enum command_flag {
    COMMAND_GRANT = 1, /* takes ids: may overlap with other grants of a connection */
    COMMAND_OPEN = 2,  /* before login, too */
};

struct command {
    const char *name;       /* upper case */
    const char *sub;        /* second word, or NULL */
    int min_args, max_args; /* with the words of the name; -1: no limit */
    unsigned flags;         /* enum command_flag */
    enum command_result (*run)(struct call *c, struct request **ret_request);
    const char *usage; /* arguments */
    const char *help;  /* for refused commands, what to do instead */
};

/* All rows; ended by a row without a name. */
extern const struct command command_rows[];

bool arg_is(struct resp_arg a, const char *word); /* case does not matter */

/* Answers with an error made from a format. */
enum command_result command_fail(struct call *c, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Submits the request to the sequence; answers now or leaves it behind. */
enum command_result command_submit(struct call *c, struct seq *s, struct request *r,
                                   struct request **ret_request);

/* The same for a request that has been refused before it came to a sequence. A grant
 * reports its errors this way, so that they keep their place behind grants that wait.
 */
enum command_result command_refused(struct call *c, struct request *r,
                                    struct request **ret_request);

/* Leaves the request behind for something else than a sequence to decide; with
 * COMMAND_WAITS, *ret_request is what that holds. */
enum command_result command_wait(struct call *c, struct request *r,
                                 struct request **ret_request);

/* Taking ids (cmd_grant.c). */
enum command_result cmd_incr(struct call *c, struct request **ret_request);
enum command_result cmd_next(struct call *c, struct request **ret_request);
enum command_result cmd_block(struct call *c, struct request **ret_request);
enum command_result cmd_get(struct call *c, struct request **ret_request);

/* Sequences (cmd_seq.c). */
enum command_result cmd_seq_create(struct call *c, struct request **ret_request);
enum command_result cmd_seq_alter(struct call *c, struct request **ret_request);
enum command_result cmd_seq_advance(struct call *c, struct request **ret_request);
enum command_result cmd_seq_retire(struct call *c, struct request **ret_request);
enum command_result cmd_seq_info(struct call *c, struct request **ret_request);
enum command_result cmd_seq_list(struct call *c, struct request **ret_request);

/* A copy of the store (cmd_backup.c). */
enum command_result cmd_backup(struct call *c, struct request **ret_request);

/* What a Redis client expects (cmd_redis.c, cmd_info.c). */
enum command_result cmd_ping(struct call *c, struct request **ret_request);
enum command_result cmd_echo(struct call *c, struct request **ret_request);
enum command_result cmd_hello(struct call *c, struct request **ret_request);
enum command_result cmd_auth(struct call *c, struct request **ret_request);
enum command_result cmd_select(struct call *c, struct request **ret_request);
enum command_result cmd_quit(struct call *c, struct request **ret_request);
enum command_result cmd_reset(struct call *c, struct request **ret_request);
enum command_result cmd_no_cluster(struct call *c, struct request **ret_request);
enum command_result cmd_refused(struct call *c, struct request **ret_request);
enum command_result cmd_client_id(struct call *c, struct request **ret_request);
enum command_result cmd_client_getname(struct call *c, struct request **ret_request);
enum command_result cmd_client_setname(struct call *c, struct request **ret_request);
enum command_result cmd_client_setinfo(struct call *c, struct request **ret_request);
enum command_result cmd_client_info(struct call *c, struct request **ret_request);
enum command_result cmd_config_get(struct call *c, struct request **ret_request);
enum command_result cmd_command(struct call *c, struct request **ret_request);
enum command_result cmd_command_count(struct call *c, struct request **ret_request);
enum command_result cmd_command_docs(struct call *c, struct request **ret_request);
enum command_result cmd_command_info(struct call *c, struct request **ret_request);
enum command_result cmd_command_list(struct call *c, struct request **ret_request);
enum command_result cmd_info(struct call *c, struct request **ret_request);

#endif
