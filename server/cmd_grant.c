/* cmd_grant.c - commands that take ids, and the replies grants become. */
#include <inttypes.h>
#include <string.h>
#include "command.h"
#include "error.h"
#include "name.h"
#include "number.h"
#include "run.h"

#define NEXT_MAX 1000

/* Goes to the sequence with a request that nothing is wrong with so far. */
static enum command_result submit(struct call *c, struct request *r,
                                  struct request **ret_request)
{
    struct resp_arg name = c->args->argv[1];
    struct server_refusal why;
    struct seq *s;

    if (r->decided)
        return command_refused(c, r, ret_request);
    s = server_seq(c->server, name.p, name.len, &why);
    if (s != NULL)
        return command_submit(c, s, r, ret_request);
    request_refuse(r, why.err, "%s", why.text);
    return command_refused(c, r, ret_request);
}

/* Redis's texts and Redis's order of complaints; only what Redis would do with a number
 * that makes no sense for ids (0, negative) is an error here. */
static void parse_increment(struct call *c, struct request *r)
{
    struct resp_arg name = c->args->argv[1], arg = c->args->argv[2];
    uint64_t most = c->server->options->max_block;
    const struct seq *s = catalog_find(&c->server->catalog, name.p, name.len);
    uint64_t last = s != NULL ? seq_last(s) : 0;
    int64_t n;

    if (!number_parse_i64(arg.p, arg.len, &n)) {
        request_refuse(r, HILO_EERR, "value is not an integer or out of range");
        return;
    }
    if (n < 0 || (uint64_t)n > HILO_ID_MAX - last)
        request_refuse(
            r, HILO_EERR,
            "increment or decrement would overflow: ids only go up, and n has to "
            "be 1 to %" PRIu64,
            most);
    else if (n == 0 || (uint64_t)n > most)
        request_refuse(r, HILO_EBADARG,
                       "n is %" PRId64 ", but has to be 1 to %" PRIu64 " (max_block)",
                       n, most);
    else if (n > 1 && lane_step(c->server->identity.lane) != 1)
        request_refuse(r, HILO_EBADARG,
                       "n ids of this server are not neighbours (their step is %" PRIu64
                       "), so the last one does not tell the others; use: BLOCK name n",
                       lane_step(c->server->identity.lane));
    else
        r->want.count = r->want.atleast = (uint64_t)n;
}

/* The longest block there is: max_block, and a stripe where blocks end with it. */
static uint64_t longest_block(const struct server *s, const char **ret_name)
{
    struct lane l = s->identity.lane;
    uint64_t most = s->options->max_block;

    *ret_name = "max_block";
    if (lane_boundary(l, 0) == LANE_NO_BOUNDARY || l.stripe >= most)
        return most;
    *ret_name = "stripe";
    return l.stripe;
}

static void check_stripe(struct call *c, struct request *r)
{
    const char *limit;
    uint64_t most = longest_block(c->server, &limit);

    if (!r->decided && r->want.count > most)
        request_refuse(r, HILO_EBADARG,
                       "n is %" PRIu64 ", but has to be 1 to %" PRIu64 " (%s)",
                       r->want.count, most, limit);
}

/* How many requests right behind this one are the same, byte by byte; at most so many.
 */
static uint64_t count_repeats(const struct call *c, uint64_t most)
{
    size_t size = c->args->size, at = 0;
    const char *request = c->rest - size;
    uint64_t n = 0;

    while (n < most && c->rest_len - at >= size &&
           memcmp(request, c->rest + at, size) == 0) {
        at += size;
        n++;
    }
    return n;
}

/* Takes one id that is in hand, where nothing of this connection waits: no request is
 * made. A pipeline often is one request many times over: those behind this one are
 * granted with it, without being parsed. */
static bool take_ones(struct call *c, uint64_t cap,
                      void (*reply)(struct reply *r, uint64_t id, uint64_t step,
                                    size_t n))
{
    struct lane l = c->server->identity.lane;
    struct resp_arg name = c->args->argv[1];
    uint64_t most, room, n, first, id;
    struct seq *s;

    if (c->args->argc != 2 || c->order != CALL_FREE)
        return false;
    s = catalog_find(&c->server->catalog, name.p, name.len);
    most = s != NULL ? seq_ones(s, cap) : 0;
    if (most == 0)
        return false;
    room = (COMMAND_OUT_HIGH - c->out->len) / REPLY_ID_MAX;
    n = lane_boundary(l, alloc_next(&s->alloc)) - alloc_next(&s->alloc);
    if (n < most)
        most = n;
    if (room < most)
        most = room;
    n = most > 1 ? 1 + count_repeats(c, most - 1) : 1;
    first = seq_take_ones(s, n, c->now_ms);
    if (!lane_id_at(l, first, &id))
        return false;
    reply(c->out, id, lane_step(l), n);
    c->repeats = n - 1;
    c->server->commands += c->repeats;
    return true;
}

enum command_result cmd_incr(struct call *c, struct request **ret_request)
{
    struct request r;

    if (take_ones(c, c->server->int_cap, reply_ints))
        return COMMAND_ANSWERED;
    request_init(&r, REQUEST_INCR);
    r.want.cap = c->server->int_cap;
    if (c->args->argc == 3) {
        parse_increment(c, &r);
        check_stripe(c, &r);
    }
    return submit(c, &r, ret_request);
}

enum command_result cmd_next(struct call *c, struct request **ret_request)
{
    struct request r;
    uint64_t n = 1;

    if (take_ones(c, ALLOC_NO_CAP, reply_ids))
        return COMMAND_ANSWERED;
    request_init(&r, c->args->argc == 3 ? REQUEST_NEXTS : REQUEST_NEXT);
    if (c->args->argc == 3 &&
        (!number_parse_u64(c->args->argv[2].p, c->args->argv[2].len, &n) || n < 1 ||
         n > NEXT_MAX))
        request_refuse(
            &r, HILO_EBADARG,
            "count has to be a number from 1 to %d; for more ids: BLOCK name count",
            NEXT_MAX);
    r.want.count = r.want.atleast = n;
    r.want.span = true;
    return submit(c, &r, ret_request);
}

/* One option of BLOCK; false when it is refused. */
static bool parse_block_option(struct resp_arg word, struct resp_arg value,
                               struct request *r, uint64_t most, const char *limit)
{
    if (arg_is(word, "ATLEAST")) {
        if (number_parse_u64(value.p, value.len, &r->want.atleast) &&
            r->want.atleast >= 1 && r->want.atleast <= r->want.count &&
            r->want.atleast <= most)
            return true;
        request_refuse(
            r, HILO_EBADARG,
            "ATLEAST has to be a number from 1 to count, and at most %" PRIu64 " (%s)",
            most, limit);
    } else if (arg_is(word, "FLOOR")) {
        if (number_parse_u64(value.p, value.len, &r->id) && r->id <= HILO_ID_MAX)
            return true;
        request_refuse(r, HILO_EBADARG, "FLOOR has to be a number from 0 to %" PRIu64,
                       HILO_ID_MAX);
    } else if (arg_is(word, "TOKEN")) {
        if (token_valid(value.p, value.len))
            return true;
        request_refuse(r, HILO_EBADARG, "TOKEN has to be " TOKEN_RULE);
    } else {
        request_refuse(r, HILO_EBADARG,
                       "unknown option '%.*s'; BLOCK name count [ATLEAST m] [FLOOR id] "
                       "[TOKEN t]",
                       (int)(word.len > 32 ? 32 : word.len), word.p);
    }
    return false;
}

/* The options of BLOCK, each of which may come once. */
enum block_option { BLOCK_ATLEAST, BLOCK_FLOOR, BLOCK_TOKEN, BLOCK_OPTIONS };

static const char *const block_options[BLOCK_OPTIONS] = {"ATLEAST", "FLOOR", "TOKEN"};

static enum block_option block_option(struct resp_arg word)
{
    enum block_option i = 0;

    while (i < BLOCK_OPTIONS && !arg_is(word, block_options[i]))
        i++;
    return i;
}

/* *ret_token: an argument, or one without bytes where there is none. */
static void parse_block(struct call *c, struct request *r, struct resp_arg *ret_token)
{
    const struct resp_request *args = c->args;
    const char *limit;
    uint64_t most = longest_block(c->server, &limit);
    bool given[BLOCK_OPTIONS + 1] = {false};

    if (!number_parse_u64(args->argv[2].p, args->argv[2].len, &r->want.count) ||
        r->want.count < 1) {
        request_refuse(r, HILO_EBADARG,
                       "count has to be a number from 1 to %" PRIu64 " (%s)", most,
                       limit);
        return;
    }
    r->want.atleast = r->want.count;
    for (size_t i = 3; i < args->argc; i += 2) {
        enum block_option option = block_option(args->argv[i]);

        if (i + 1 == args->argc) {
            request_refuse(r, HILO_EBADARG, "the last option needs a value");
            return;
        }
        if (!parse_block_option(args->argv[i], args->argv[i + 1], r, most, limit))
            return;
        if (given[option]) {
            request_refuse(r, HILO_EBADARG, "%s is given twice", block_options[option]);
            return;
        }
        given[option] = true;
        if (option == BLOCK_TOKEN)
            *ret_token = args->argv[i + 1];
    }
    if (r->want.count > most && !given[BLOCK_ATLEAST])
        request_refuse(r, HILO_EBADARG,
                       "count is %" PRIu64 ", but has to be 1 to %" PRIu64
                       " (%s); with ATLEAST m a shorter block is fine",
                       r->want.count, most, limit);
    if (r->want.count > most)
        r->want.count = most;
    if (r->id > 0)
        r->want.floor = lane_first_above(c->server->identity.lane, r->id);
}

static enum command_result submit_token(struct call *c, struct resp_arg text,
                                        struct seq *s, struct request *r,
                                        struct request **ret_request)
{
    struct tokens *all = &c->server->batcher.tokens;
    enum command_result result;
    struct token *token;

    if (!server_ready(c->server)) {
        request_refuse(r, HILO_ESTORAGE, "%s", c->server->batcher.env.why);
        return command_refused(c, r, ret_request);
    }
    switch (tokens_claim(all, text.p, text.len, s, r, &token)) {
    case TOKEN_NEW:
        result = command_submit(c, s, r, ret_request);
        if (result != COMMAND_WAITS)
            tokens_disclaim(all, token);
        return result;
    case TOKEN_FOLLOWS:
        result = command_wait(c, r, ret_request);
        if (result == COMMAND_WAITS)
            tokens_follow(token, *ret_request);
        return result;
    case TOKEN_KNOWN:
        break;
    }
    return command_refused(c, r, ret_request); /* decided, one way or the other */
}

enum command_result cmd_block(struct call *c, struct request **ret_request)
{
    struct resp_arg name = c->args->argv[1], token = {0};
    struct server_refusal why;
    struct request r;
    struct seq *s;

    request_init(&r, REQUEST_BLOCK);
    parse_block(c, &r, &token);
    if (r.decided || token.len == 0)
        return submit(c, &r, ret_request);
    s = server_seq(c->server, name.p, name.len, &why);
    if (s != NULL)
        return submit_token(c, token, s, &r, ret_request);
    request_refuse(&r, why.err, "%s", why.text);
    return command_refused(c, &r, ret_request);
}

enum command_result cmd_get(struct call *c, struct request **ret_request)
{
    struct resp_arg name = c->args->argv[1];
    struct server_refusal why;
    const struct seq *s = server_seq_existing(c->server, name.p, name.len, &why);
    uint64_t last = s != NULL ? seq_last(s) : 0;

    (void)ret_request;
    if (s == NULL && why.err != HILO_ENOSEQ)
        return command_fail(c, why.err, "%s", why.text);
    if (last == 0)
        reply_null(c->out);
    else
        reply_id(c->out, last);
    return COMMAND_ANSWERED;
}

/* --- replies --- */

static void answer_ids(struct lane l, const struct request *r, struct reply *out)
{
    reply_array(out, r->grant.count);
    for (uint64_t at = r->grant.first, end = at + r->grant.count; at < end;) {
        uint64_t id = 0, next = lane_boundary(l, at);
        uint64_t n = (next < end ? next : end) - at;

        lane_id_at(l, at, &id);
        reply_ids(out, id, lane_step(l), n);
        at += n;
    }
}

static void answer_block(struct lane l, const struct request *r, struct reply *out)
{
    struct run run = {0};

    run_at(l, r->grant.first, r->grant.count, &run);
    reply_array(out, 3);
    reply_id(out, run.first);
    reply_id(out, run.last);
    reply_id(out, run.step);
}

void command_answer(struct server *s, const struct request *r, struct reply *out)
{
    struct lane l = s->identity.lane;
    uint64_t id = 0;

    if (r->err != 0) {
        reply_error(out, r->err, request_why(r));
        return;
    }
    switch (r->kind) {
    case REQUEST_INCR:
        lane_id_at(l, r->grant.first + r->grant.count - 1, &id);
        reply_int(out, id);
        break;
    case REQUEST_NEXT:
    case REQUEST_ADVANCE:
        lane_id_at(l, r->grant.first, &id);
        reply_id(out, id);
        break;
    case REQUEST_NEXTS:
        answer_ids(l, r, out);
        break;
    case REQUEST_BLOCK:
        answer_block(l, r, out);
        break;
    case REQUEST_CREATE:
    case REQUEST_ALTER:
    case REQUEST_RETIRE:
    case REQUEST_BACKUP:
        reply_status(out, "OK");
        break;
    }
}
