/* cmd_command.c - COMMAND: the table shows itself. */
#include <string.h>
#include "command.h"

/* Rows of one name stand together; the first one speaks for all. What is only there to
 * be refused is not shown: clients look here for what they can use. */
static bool is_shown(const struct command *row)
{
    return row->run != cmd_refused &&
           (row == command_rows || strcmp(row[-1].name, row->name) != 0);
}

static size_t count(void)
{
    size_t n = 0;

    for (const struct command *row = command_rows; row->name != NULL; row++)
        n += is_shown(row);
    return n;
}

static void lower_case(struct reply *out, const char *name)
{
    char lower[32];
    size_t len = strlen(name);

    for (size_t i = 0; i < len; i++)
        lower[i] =
            (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    reply_bulk(out, lower, len);
}

/* Name, arity, flags, first key, last key, step, ACL categories, tips, key
 * specifications, subcommands: as Redis 7 has it. */
static void shape(struct reply *out, const struct command *row)
{
    bool exact = row->sub == NULL && row->min_args == row->max_args;
    unsigned key = row->usage == NULL || strncmp(row->usage, "name", 4) != 0 ? 0
                   : row->sub == NULL                                        ? 1
                                                                             : 2;

    reply_array(out, 10);
    lower_case(out, row->name);
    reply_signed(out, exact ? row->min_args : row->sub ? -2 : -row->min_args);
    reply_set(out, 1);
    reply_status(out, row->flags & COMMAND_GRANT ? "write" : "fast");
    reply_int(out, key);
    reply_int(out, key);
    reply_int(out, key != 0);
    for (int i = 0; i < 4; i++)
        reply_array(out, 0);
}

/* The first row of a command somebody asked about; NULL if there is none. */
static const struct command *asked(struct resp_arg name)
{
    const struct command *row = command_rows;

    while (row->name != NULL && !(is_shown(row) && arg_is(name, row->name)))
        row++;
    return row->name != NULL ? row : NULL;
}

enum command_result cmd_command(struct call *c, struct request **ret_request)
{
    (void)ret_request;
    reply_array(c->out, count());
    for (const struct command *row = command_rows; row->name != NULL; row++) {
        if (is_shown(row))
            shape(c->out, row);
    }
    return COMMAND_ANSWERED;
}

enum command_result cmd_command_count(struct call *c, struct request **ret_request)
{
    (void)ret_request;
    reply_int(c->out, count());
    return COMMAND_ANSWERED;
}

enum command_result cmd_command_info(struct call *c, struct request **ret_request)
{
    if (c->args->argc == 2)
        return cmd_command(c, ret_request);
    reply_array(c->out, c->args->argc - 2);
    for (size_t i = 2; i < c->args->argc; i++) {
        const struct command *row = asked(c->args->argv[i]);

        if (row != NULL)
            shape(c->out, row);
        else
            reply_null(c->out);
    }
    return COMMAND_ANSWERED;
}

enum command_result cmd_command_list(struct call *c, struct request **ret_request)
{
    (void)ret_request;
    reply_array(c->out, count());
    for (const struct command *row = command_rows; row->name != NULL; row++) {
        if (is_shown(row))
            lower_case(c->out, row->name);
    }
    return COMMAND_ANSWERED;
}

static void docs(struct reply *out, const struct command *row)
{
    lower_case(out, row->name);
    reply_map(out, 3);
    reply_text(out, "summary");
    reply_text(out, row->help);
    reply_text(out, "since");
    reply_text(out, "0.1.0");
    reply_text(out, "group");
    reply_text(out, row->flags & COMMAND_GRANT ? "ids" : "server");
}

enum command_result cmd_command_docs(struct call *c, struct request **ret_request)
{
    size_t n = 0;

    (void)ret_request;
    if (c->args->argc == 2) {
        reply_map(c->out, count());
        for (const struct command *row = command_rows; row->name != NULL; row++) {
            if (is_shown(row))
                docs(c->out, row);
        }
        return COMMAND_ANSWERED;
    }
    for (size_t i = 2; i < c->args->argc; i++)
        n += asked(c->args->argv[i]) != NULL;
    reply_map(c->out, n);
    for (size_t i = 2; i < c->args->argc; i++) {
        if (asked(c->args->argv[i]) != NULL)
            docs(c->out, asked(c->args->argv[i]));
    }
    return COMMAND_ANSWERED;
}
