/* command.c - the command table and the way through it. */
#include "command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "login.h"
#include "name.h"

#define REFUSED(command, instead)                                             \
    {                                                                         \
        .name = (command), .min_args = 1, .max_args = -1, .run = cmd_refused, \
        .help = (instead)                                                     \
    }

/* What to do instead, where several commands share the answer. */
#define ONLY_UP                                                                       \
    "increment or decrement would overflow: ids only go up. To take ids: INCR name; " \
    "to "                                                                             \
    "skip ahead: SEQ ADVANCE name id"
#define NO_SET                                                                         \
    "a counter can't be set, ids would repeat. To start it at an id: SEQ CREATE name " \
    "START id; to skip ahead: SEQ ADVANCE name id"
#define NO_DEL                                                                    \
    "a counter can't be deleted, its ids would be granted again. To end it: SEQ " \
    "RETIRE "                                                                     \
    "name"
#define NO_EXPIRE                                                                    \
    "a counter can't expire, its ids would be granted again. To end it: SEQ RETIRE " \
    "name"

/* The order is the order of the search: what is hot comes first. */
const struct command command_rows[] = {
    {"INCR", NULL, 2, 2, COMMAND_GRANT, cmd_incr, "name",
     "take one id; answers it as an integer"},
    {"INCRBY", NULL, 3, 3, COMMAND_GRANT, cmd_incr, "name n",
     "take n ids; answers the last one, as in Redis"},
    {"NEXT", NULL, 2, 3, COMMAND_GRANT, cmd_next, "name [count]",
     "take one id as a string, or an array of up to 1000"},
    {"BLOCK", NULL, 3, 9, COMMAND_GRANT, cmd_block,
     "name count [ATLEAST m] [FLOOR id] [TOKEN t]",
     "take a block of ids; answers first, last and step"},
    {"GET", NULL, 2, 2, 0, cmd_get, "name", "the last id granted, or nil"},
    {"PING", NULL, 1, 2, 0, cmd_ping, "[text]", "answers PONG, or the text"},
    {"SEQ", "CREATE", 3, 9, 0, cmd_seq_create,
     "name [START s] [MAX m] [DURABILITY ahead|each]", "make a sequence"},
    {"SEQ", "ALTER", 5, 7, 0, cmd_seq_alter, "name [MAX m] [DURABILITY ahead|each]",
     "change a sequence"},
    {"SEQ", "ADVANCE", 4, 4, 0, cmd_seq_advance, "name id",
     "the next id is above this one; answers it"},
    {"SEQ", "RETIRE", 3, 3, 0, cmd_seq_retire, "name",
     "end granting; the mark is kept"},
    {"SEQ", "INFO", 3, 3, 0, cmd_seq_info, "name", "settings and state of a sequence"},
    {"SEQ", "LIST", 2, 6, 0, cmd_seq_list, "[CURSOR c] [MATCH pattern]",
     "sequences, up to 100 at a time"},
    {"BACKUP", NULL, 2, 2, 0, cmd_backup, "name",
     "copy the store to a file of backup_dir"},
    {"ECHO", NULL, 2, 2, 0, cmd_echo, "text", "answers the text"},
    {"HELLO", NULL, 1, 8, COMMAND_OPEN, cmd_hello,
     "[2|3 [AUTH user password] [SETNAME name]]",
     "choose the protocol; answers who this is"},
    {"AUTH", NULL, 2, 3, COMMAND_OPEN, cmd_auth, "[user] password", "log in"},
    {"SELECT", NULL, 2, 2, 0, cmd_select, "0", "there is one database, 0"},
    {"QUIT", NULL, 1, -1, COMMAND_OPEN, cmd_quit, "", "close the connection"},
    {"RESET", NULL, 1, 1, COMMAND_OPEN, cmd_reset, "", "forget protocol and name"},
    {"INFO", NULL, 1, -1, 0, cmd_info, "[section ...]", "state of the server"},
    {"COMMAND", "COUNT", 2, 2, 0, cmd_command_count, "", "how many commands there are"},
    {"COMMAND", "DOCS", 2, -1, 0, cmd_command_docs, "[name ...]", "what commands do"},
    {"COMMAND", "INFO", 2, -1, 0, cmd_command_info, "[name ...]", "shape of commands"},
    {"COMMAND", "LIST", 2, 2, 0, cmd_command_list, "", "names of commands"},
    {"COMMAND", NULL, 1, 1, 0, cmd_command, "", "shape of all commands"},
    {"CONFIG", "GET", 3, -1, 0, cmd_config_get, "pattern [pattern ...]",
     "options and their values"},
    {"CLIENT", "ID", 2, 2, 0, cmd_client_id, "", "number of this connection"},
    {"CLIENT", "GETNAME", 2, 2, 0, cmd_client_getname, "", "its name"},
    {"CLIENT", "SETNAME", 3, 3, 0, cmd_client_setname, "name", "give it a name"},
    {"CLIENT", "SETINFO", 4, 4, 0, cmd_client_setinfo, "LIB-NAME|LIB-VER value",
     "which library this is"},
    {"CLIENT", "INFO", 2, 2, 0, cmd_client_info, "", "what is known of it"},
    {"READONLY", NULL, 1, 1, 0, cmd_no_cluster, "", "refused: there is no cluster"},
    {"CLUSTER", NULL, 1, -1, 0, cmd_no_cluster, "", "refused: there is no cluster"},
    REFUSED("DECR", ONLY_UP),
    REFUSED("DECRBY", ONLY_UP),
    REFUSED("INCRBYFLOAT", "ids are whole numbers. To take n ids: INCRBY name n"),
    REFUSED("SET", NO_SET),
    REFUSED("SETNX", NO_SET),
    REFUSED("SETEX", NO_SET),
    REFUSED("PSETEX", NO_SET),
    REFUSED("GETSET", NO_SET),
    REFUSED("MSET", NO_SET),
    REFUSED("MSETNX", NO_SET),
    REFUSED("APPEND", NO_SET),
    REFUSED("RESTORE", NO_SET),
    REFUSED("RENAME",
            "a counter keeps its name. To go on under another one: SEQ CREATE "
            "name START id, then SEQ RETIRE the old name"),
    REFUSED("DEL", NO_DEL),
    REFUSED("UNLINK", NO_DEL),
    REFUSED("GETDEL", NO_DEL),
    REFUSED("FLUSHALL", NO_DEL),
    REFUSED("FLUSHDB", NO_DEL),
    REFUSED("EXPIRE", NO_EXPIRE),
    REFUSED("PEXPIRE", NO_EXPIRE),
    REFUSED("EXPIREAT", NO_EXPIRE),
    REFUSED("PEXPIREAT", NO_EXPIRE),
    REFUSED("GETEX", NO_EXPIRE),
    REFUSED("MULTI",
            "there are no transactions; BLOCK name count takes ids in one step"),
    REFUSED("KEYS", "sequences are listed by: SEQ LIST MATCH pattern"),
    REFUSED("SCAN", "sequences are listed by: SEQ LIST CURSOR c MATCH pattern"),
    REFUSED("MGET", "one name at a time: GET name"),
    {0},
};

/* The word has capital letters, digits and '-': the small letter of each, and no other
 * byte, is the word's with bit 5 set. */
bool arg_is(struct resp_arg a, const char *word)
{
    for (size_t i = 0; i < a.len; i++) {
        char c = a.p[i];

        if ((c != word[i] && c != (word[i] | 0x20)) || word[i] == '\0')
            return false;
    }
    return word[a.len] == '\0';
}

enum command_result command_fail(struct call *c, int err, const char *fmt, ...)
{
    char text[SERVER_TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    reply_error(c->out, err, text);
    return COMMAND_ANSWERED;
}

static int clipped(struct resp_arg a)
{
    return a.len > NAME_MAX_LEN ? NAME_MAX_LEN : (int)a.len;
}

/* The texts are Redis's, since clients look for them. */
static enum command_result unknown(struct call *c, bool known_name)
{
    const struct resp_arg *argv = c->args->argv;

    if (!known_name)
        return command_fail(c, HILO_EERR, "unknown command '%.*s'", clipped(argv[0]),
                            argv[0].p);
    if (c->args->argc < 2)
        return command_fail(c, HILO_EERR,
                            "wrong number of arguments for '%.*s' command",
                            clipped(argv[0]), argv[0].p);
    return command_fail(c, HILO_EERR, "unknown subcommand '%.*s' of '%.*s'",
                        clipped(argv[1]), argv[1].p, clipped(argv[0]), argv[0].p);
}

static const struct command *find(const struct resp_request *args, bool *ret_known_name)
{
    *ret_known_name = false;
    for (const struct command *row = command_rows; row->name != NULL; row++) {
        if (!arg_is(args->argv[0], row->name))
            continue;
        *ret_known_name = true;
        if (row->sub == NULL || (args->argc > 1 && arg_is(args->argv[1], row->sub)))
            return row;
    }
    return NULL;
}

static bool in_turn(const struct command *row, enum call_order order)
{
    return order == CALL_FREE || (order == CALL_BEHIND_GRANTS && row != NULL &&
                                  (row->flags & COMMAND_GRANT) != 0);
}

enum command_result command_run(struct call *c, struct request **ret_request)
{
    int argc = (int)c->args->argc;
    bool known_name, wrong;
    const struct command *row = find(c->args, &known_name);

    if (!in_turn(row, c->order))
        return COMMAND_BLOCKED;
    wrong = row != NULL &&
            (argc < row->min_args || (row->max_args >= 0 && argc > row->max_args));
    if (wrong && c->order != CALL_FREE)
        return COMMAND_BLOCKED;
    c->server->commands++;
    if (!c->session->logged_in && (row == NULL || (row->flags & COMMAND_OPEN) == 0))
        return login_missing(c);
    if (row == NULL)
        return unknown(c, known_name);
    if (wrong) {
        return command_fail(
            c, HILO_EERR,
            "wrong number of arguments for '%s%s%s' command: it is %s%s%s %s",
            row->name, row->sub ? "|" : "", row->sub ? row->sub : "", row->name,
            row->sub ? " " : "", row->sub ? row->sub : "", row->usage);
    }
    return row->run(c, ret_request);
}

static struct request *keep(struct call *c, struct request *r)
{
    struct request *copy = request_keep(&c->server->batcher.env.pool, r);

    if (copy == NULL)
        return NULL;
    copy->owner = c->owner;
    copy->decided_fn = c->decided_fn;
    copy->later = NULL;
    return copy;
}

enum command_result command_wait(struct call *c, struct request *r,
                                 struct request **ret_request)
{
    *ret_request = keep(c, r);
    if (*ret_request != NULL)
        return COMMAND_WAITS;
    request_clear(r);
    if (c->order != CALL_FREE)
        return COMMAND_CLOSE; /* there is no memory to answer in order */
    return command_fail(c, HILO_ETRYAGAIN, "out of memory");
}

/* Answers a decided request (on is NULL), or leaves one behind that waits on a
 * sequence. */
static enum command_result deliver(struct call *c, struct seq *on, struct request *r,
                                   struct request **ret_request)
{
    enum command_result result;

    if (on == NULL && c->order == CALL_FREE) {
        command_answer(c->server, r, c->out);
        request_clear(r);
        return COMMAND_ANSWERED;
    }
    result = command_wait(c, r, ret_request);
    if (result == COMMAND_WAITS && on != NULL)
        seq_enqueue(on, *ret_request);
    return result;
}

enum command_result command_submit(struct call *c, struct seq *s, struct request *r,
                                   struct request **ret_request)
{
    return deliver(c, seq_submit(s, r, c->now_ms) ? NULL : s, r, ret_request);
}

enum command_result command_refused(struct call *c, struct request *r,
                                    struct request **ret_request)
{
    return deliver(c, NULL, r, ret_request);
}
