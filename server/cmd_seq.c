/* cmd_seq.c - commands that make, change and show sequences. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "command.h"
#include "error.h"
#include "name.h"
#include "number.h"

#define LIST_PAGE 100

/* [START s] [MAX m] [DURABILITY d], each at most once, from the fourth argument on. */
struct settings {
    struct counter_attr attr;
    bool has_start, has_max, has_durability;
};

/* One of them; NULL, or what is wrong with it. */
static const char *parse_setting(struct resp_arg word, struct resp_arg value,
                                 struct settings *ret)
{
    uint64_t n;
    bool number =
        number_parse_u64(value.p, value.len, &n) && n >= 1 && n <= HILO_ID_MAX;

    if (arg_is(word, "START")) {
        if (!number || ret->has_start)
            return "START has to be one number from 1 to 9223372036854775807";
        ret->attr.start = n;
        ret->has_start = true;
    } else if (arg_is(word, "MAX")) {
        if (!number || ret->has_max)
            return "MAX has to be one number from 1 to 9223372036854775807";
        ret->attr.max = n;
        ret->has_max = true;
    } else if (arg_is(word, "DURABILITY")) {
        ret->attr.each = arg_is(value, "EACH");
        if (ret->has_durability || (!ret->attr.each && !arg_is(value, "AHEAD")))
            return "DURABILITY has to be ahead or each, once";
        ret->has_durability = true;
    } else {
        return "unknown option; there are START, MAX and DURABILITY";
    }
    return NULL;
}

/* All of them; false when a refusal has been answered. */
static bool parse_settings(struct call *c, struct settings *ret)
{
    const struct resp_request *args = c->args;
    const char *wrong = NULL;

    *ret = (struct settings){.attr = {.start = 1, .max = HILO_ID_MAX}};
    for (size_t i = 3; i < args->argc && wrong == NULL; i += 2) {
        wrong = "the last option needs a value";
        if (i + 1 < args->argc)
            wrong = parse_setting(args->argv[i], args->argv[i + 1], ret);
    }
    if (wrong != NULL)
        command_fail(c, HILO_EBADARG, "%s", wrong);
    return wrong == NULL;
}

/* A sequence that exists; NULL when the refusal has been answered. */
static struct seq *existing(struct call *c, struct resp_arg name)
{
    struct server_refusal why;
    struct seq *s = server_seq_existing(c->server, name.p, name.len, &why);

    if (s == NULL)
        command_fail(c, why.err, "%s", why.text);
    return s;
}

enum command_result cmd_seq_create(struct call *c, struct request **ret_request)
{
    struct resp_arg name = c->args->argv[2];
    struct lane l = c->server->identity.lane;
    struct server_refusal why;
    struct settings set;
    struct request r;
    struct seq *s;

    if (!parse_settings(c, &set))
        return COMMAND_ANSWERED;
    if (seq_start_position(l, &set.attr) >= seq_limit(l, &set.attr))
        return command_fail(c, HILO_EBADARG,
                            "START %" PRIu64 " and MAX %" PRIu64
                            " leave no id to lane %" PRIu32 "/%" PRIu32,
                            set.attr.start, set.attr.max, l.number, l.lanes);
    s = server_seq_create(c->server, name.p, name.len, &set.attr, &why);
    if (s == NULL)
        return command_fail(c, why.err, "%s", why.text);
    request_init(&r, REQUEST_CREATE);
    r.attr = set.attr;
    return command_submit(c, s, &r, ret_request);
}

enum command_result cmd_seq_alter(struct call *c, struct request **ret_request)
{
    struct settings set;
    struct request r;
    struct seq *s;

    if (!parse_settings(c, &set))
        return COMMAND_ANSWERED;
    if (set.has_start)
        return command_fail(
            c, HILO_EBADARG,
            "START can't be changed; to skip ahead: SEQ ADVANCE name id");
    s = existing(c, c->args->argv[2]);
    if (s == NULL)
        return COMMAND_ANSWERED;
    request_init(&r, REQUEST_ALTER);
    r.attr = set.attr;
    r.set_max = set.has_max;
    r.set_each = set.has_durability;
    return command_submit(c, s, &r, ret_request);
}

enum command_result cmd_seq_advance(struct call *c, struct request **ret_request)
{
    struct resp_arg id = c->args->argv[3];
    struct request r;
    struct seq *s;

    request_init(&r, REQUEST_ADVANCE);
    if (!number_parse_u64(id.p, id.len, &r.id) || r.id > HILO_ID_MAX)
        return command_fail(c, HILO_EBADARG, "id has to be a number from 0 to %" PRIu64,
                            HILO_ID_MAX);
    s = existing(c, c->args->argv[2]);
    return s == NULL ? COMMAND_ANSWERED : command_submit(c, s, &r, ret_request);
}

enum command_result cmd_seq_retire(struct call *c, struct request **ret_request)
{
    struct seq *s = existing(c, c->args->argv[2]);
    struct request r;

    request_init(&r, REQUEST_RETIRE);
    return s == NULL ? COMMAND_ANSWERED : command_submit(c, s, &r, ret_request);
}

/* --- showing --- */

static void pair_number(struct reply *out, const char *key, uint64_t n)
{
    reply_text(out, key);
    reply_id(out, n);
}

static void answer_info(struct call *c, const struct seq *s)
{
    struct reply *out = c->out;

    reply_map(out, 11);
    reply_text(out, "name");
    reply_bulk(out, s->name, s->name_len);
    reply_text(out, "state");
    reply_text(out, s->state != SEQ_LIVE ? "new"
                    : s->attr.retired    ? "retired"
                                         : "live");
    pair_number(out, "start", s->attr.start);
    pair_number(out, "max", s->attr.max);
    reply_text(out, "durability");
    reply_text(out, s->attr.each ? "each" : "ahead");
    pair_number(out, "last", seq_last(s));
    pair_number(out, "granted", s->granted);
    pair_number(out, "reserved", alloc_in_hand(&s->alloc));
    pair_number(out, "remaining", alloc_remaining(&s->alloc));
    pair_number(out, "used_percent", s->state == SEQ_LIVE ? seq_used_percent(s) : 0);
    pair_number(out, "rate", seq_rate(s, c->now_ms));
}

enum command_result cmd_seq_info(struct call *c, struct request **ret_request)
{
    const struct seq *s = existing(c, c->args->argv[2]);

    (void)ret_request;
    if (s != NULL)
        answer_info(c, s);
    return COMMAND_ANSWERED;
}

struct list_options {
    uint64_t cursor;
    struct resp_arg match;
};

static bool parse_list(const struct resp_request *args, struct list_options *ret)
{
    *ret = (struct list_options){.match = {"*", 1}};
    for (size_t i = 2; i < args->argc; i += 2) {
        if (i + 1 == args->argc)
            return false;
        if (arg_is(args->argv[i], "MATCH"))
            ret->match = args->argv[i + 1];
        else if (!arg_is(args->argv[i], "CURSOR") ||
                 !number_parse_u64(args->argv[i + 1].p, args->argv[i + 1].len,
                                   &ret->cursor))
            return false;
    }
    return true;
}

/* The cursor is a place in the order of creation, which never changes; so a walk sees
 * each sequence that was there at its begin exactly once. */
enum command_result cmd_seq_list(struct call *c, struct request **ret_request)
{
    const struct catalog *all = &c->server->catalog;
    uint64_t page[LIST_PAGE];
    struct list_options o;
    struct seq room;
    uint64_t at, looked = 0;
    size_t n = 0;

    (void)ret_request;
    if (!parse_list(c->args, &o))
        return command_fail(c, HILO_EBADARG,
                            "it is SEQ LIST [CURSOR number] [MATCH pattern]");
    for (at = o.cursor; at < all->n_live && n < LIST_PAGE && looked < 100 * LIST_PAGE;
         at++) {
        const struct entry *e = all->live[at];

        looked++;
        if (name_match(o.match.p, o.match.len, e->name, e->name_len))
            page[n++] = at;
    }
    reply_array(c->out, 2);
    reply_id(c->out, at < all->n_live ? at : 0);
    reply_array(c->out, n);
    for (size_t i = 0; i < n; i++)
        answer_info(c, catalog_look(all, page[i], &room));
    return COMMAND_ANSWERED;
}
