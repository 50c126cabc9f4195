/* cmd_redis.c - what a Redis client says before it gets to work, answered as Redis
 * does. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "command.h"
#include "error.h"
#include "login.h"
#include "name.h"
#include "number.h"
#include "version.h"

enum command_result cmd_ping(struct call *c, struct request **ret_request)
{
    (void)ret_request;
    if (c->args->argc == 2)
        reply_bulk(c->out, c->args->argv[1].p, c->args->argv[1].len);
    else
        reply_status(c->out, "PONG");
    return COMMAND_ANSWERED;
}

enum command_result cmd_echo(struct call *c, struct request **ret_request)
{
    (void)ret_request;
    reply_bulk(c->out, c->args->argv[1].p, c->args->argv[1].len);
    return COMMAND_ANSWERED;
}

enum command_result cmd_select(struct call *c, struct request **ret_request)
{
    struct resp_arg db = c->args->argv[1];
    int64_t n;

    (void)ret_request;
    if (!number_parse_i64(db.p, db.len, &n))
        return command_fail(c, HILO_EERR, "value is not an integer or out of range");
    if (n != 0)
        return command_fail(c, HILO_EERR, "DB index is out of range");
    reply_status(c->out, "OK");
    return COMMAND_ANSWERED;
}

enum command_result cmd_quit(struct call *c, struct request **ret_request)
{
    (void)ret_request;
    reply_status(c->out, "OK");
    return COMMAND_CLOSE;
}

enum command_result cmd_reset(struct call *c, struct request **ret_request)
{
    (void)ret_request;
    c->session->name[0] = '\0';
    c->session->logged_in = c->server->passwords.n == 0;
    c->session->proto = c->out->proto = 2;
    reply_status(c->out, "RESET");
    return COMMAND_ANSWERED;
}

enum command_result cmd_no_cluster(struct call *c, struct request **ret_request)
{
    (void)ret_request;
    return command_fail(c, HILO_EERR, "This instance has cluster support disabled");
}

enum command_result cmd_refused(struct call *c, struct request **ret_request)
{
    const struct command *row = command_rows;

    (void)ret_request;
    while (!arg_is(c->args->argv[0], row->name))
        row++;
    return command_fail(c, HILO_EERR, "%s", row->help);
}

/* --- HELLO --- */

static void pair(struct reply *out, const char *key, const char *value)
{
    reply_text(out, key);
    reply_text(out, value);
}

static void pair_int(struct reply *out, const char *key, uint64_t n)
{
    reply_text(out, key);
    reply_int(out, n);
}

static void answer_hello(struct call *c)
{
    const struct server *s = c->server;
    struct reply *out = c->out;

    reply_map(out, 14);
    pair(out, "server", "hilo");
    pair(out, "version", HILO_VERSION);
    pair_int(out, "proto", (uint64_t)c->session->proto);
    pair_int(out, "id", c->session->id);
    pair(out, "mode", "standalone");
    pair(out, "role", "master");
    reply_text(out, "modules");
    reply_array(out, 0);
    pair(out, "uuid", s->identity.uuid);
    pair(out, "boot", s->boot_id);
    pair_int(out, "lane", s->identity.lane.number);
    pair_int(out, "lanes", s->identity.lane.lanes);
    pair_int(out, "stripe", s->identity.lane.stripe);
    pair_int(out, "epoch", s->identity.epoch);
    pair_int(out, "shared", s->guard->engine->shared);
}

/* Names and versions end up in lists of words. */
static bool set_word(char *field, struct resp_arg value)
{
    if (value.len > SESSION_NAME_MAX)
        return false;
    for (size_t i = 0; i < value.len; i++) {
        if (value.p[i] < '!' || value.p[i] > '~')
            return false;
    }
    memcpy(field, value.p, value.len);
    field[value.len] = '\0';
    return true;
}

static enum command_result refuse_word(struct call *c, const char *what)
{
    return command_fail(
        c, HILO_EERR,
        "%s cannot contain spaces, newlines or special characters, and has "
        "at most %d bytes",
        what, SESSION_NAME_MAX);
}

/* AUTH and SETNAME behind HELLO; false when the command has been answered. */
static bool read_hello(struct call *c, struct session *next, size_t *ret_auth,
                       enum command_result *ret_result)
{
    const struct resp_request *args = c->args;
    size_t i = 2;

    *ret_auth = 0;
    while (i < args->argc) {
        if (arg_is(args->argv[i], "AUTH") && i + 2 < args->argc) {
            *ret_auth = i;
            i += 3;
        } else if (!arg_is(args->argv[i], "SETNAME") || i + 1 == args->argc) {
            *ret_result = command_fail(c, HILO_EERR, "Syntax error in HELLO option");
            return false;
        } else if (!set_word(next->name, args->argv[i + 1])) {
            *ret_result = refuse_word(c, "Client names");
            return false;
        } else {
            i += 2;
        }
    }
    return true;
}

enum command_result cmd_hello(struct call *c, struct request **ret_request)
{
    const struct resp_request *args = c->args;
    struct session next = *c->session;
    int64_t proto = next.proto;
    enum command_result result;
    size_t auth;

    (void)ret_request;
    if (args->argc > 1 && !number_parse_i64(args->argv[1].p, args->argv[1].len, &proto))
        return command_fail(c, HILO_EERR,
                            "Protocol version is not an integer or out of range");
    if (proto != 2 && proto != 3)
        return command_fail(c, HILO_ENOPROTO, "unsupported protocol version");
    if (!read_hello(c, &next, &auth, &result))
        return result;
    if (auth == 0 && !next.logged_in)
        return login_missing(c);
    if (auth != 0 && !login(c, args->argv[auth + 1], args->argv[auth + 2], &result))
        return result;
    next.logged_in = true;
    next.proto = (int)proto;
    *c->session = next;
    c->out->proto = next.proto;
    answer_hello(c);
    return COMMAND_ANSWERED;
}

/* --- CLIENT --- */

enum command_result cmd_client_id(struct call *c, struct request **ret_request)
{
    (void)ret_request;
    reply_int(c->out, c->session->id);
    return COMMAND_ANSWERED;
}

enum command_result cmd_client_getname(struct call *c, struct request **ret_request)
{
    (void)ret_request;
    if (c->session->name[0] == '\0')
        reply_null(c->out);
    else
        reply_text(c->out, c->session->name);
    return COMMAND_ANSWERED;
}

enum command_result cmd_client_setname(struct call *c, struct request **ret_request)
{
    (void)ret_request;
    if (!set_word(c->session->name, c->args->argv[2]))
        return refuse_word(c, "Client names");
    reply_status(c->out, "OK");
    return COMMAND_ANSWERED;
}

enum command_result cmd_client_setinfo(struct call *c, struct request **ret_request)
{
    struct resp_arg what = c->args->argv[2];
    char *field;

    (void)ret_request;
    if (arg_is(what, "LIB-NAME"))
        field = c->session->lib_name;
    else if (arg_is(what, "LIB-VER"))
        field = c->session->lib_version;
    else
        return command_fail(c, HILO_EERR,
                            "Unrecognized option; there are LIB-NAME, LIB-VER");
    if (!set_word(field, c->args->argv[3]))
        return refuse_word(c, "LIB-NAME and LIB-VER");
    reply_status(c->out, "OK");
    return COMMAND_ANSWERED;
}

enum command_result cmd_client_info(struct call *c, struct request **ret_request)
{
    const struct session *s = c->session;
    char line[4 * SESSION_NAME_MAX];
    int len = snprintf(line, sizeof line,
                       "id=%" PRIu64 " name=%s db=0 resp=%d lib-name=%s lib-ver=%s\n",
                       s->id, s->name, s->proto, s->lib_name, s->lib_version);

    (void)ret_request;
    reply_verbatim(c->out, line, (size_t)len);
    return COMMAND_ANSWERED;
}

/* --- CONFIG --- */

/* Asked for by redis-benchmark. */
static const char *const fixed_config[][2] = {
    {"save", ""},
    {"appendonly", "yes"},
};

static bool show(const struct call *c, size_t i, const char **ret_name,
                 const char **ret_value, char *buf, size_t size)
{
    const size_t n_fixed = sizeof fixed_config / sizeof fixed_config[0];

    if (i >= n_fixed)
        return options_show(c->server->options, i - n_fixed, ret_name, ret_value, buf,
                            size);
    *ret_name = fixed_config[i][0];
    *ret_value = fixed_config[i][1];
    return true;
}

static bool wanted(const struct resp_request *args, const char *name)
{
    for (size_t i = 2; i < args->argc; i++) {
        if (name_match(args->argv[i].p, args->argv[i].len, name, strlen(name)))
            return true;
    }
    return false;
}

enum command_result cmd_config_get(struct call *c, struct request **ret_request)
{
    const char *name, *value;
    char buf[64];
    size_t n = 0;

    (void)ret_request;
    for (size_t i = 0; show(c, i, &name, &value, buf, sizeof buf); i++)
        n += wanted(c->args, name);
    reply_map(c->out, n);
    for (size_t i = 0; show(c, i, &name, &value, buf, sizeof buf); i++) {
        if (wanted(c->args, name))
            pair(c->out, name, value);
    }
    return COMMAND_ANSWERED;
}
