/* option_table.c - the options, their values as text. */
#include "option_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "number.h"

#define AT(field) .offset = offsetof(struct options, field)
#define MODE_MAX  0777

const struct option_row option_rows[OPTION_COUNT] = {
    {.name = "data",
     .type = OPTION_TEXT,
     AT(data),
     .value = "./hilo-data",
     .argument = "DIR",
     .help = "the data directory; one hilod at a time",
     .more = "It is made if it is missing. It has to be on a local disk."},
    {.name = "listen",
     .type = OPTION_TEXT,
     AT(listen),
     .value = "127.0.0.1:4456",
     .argument = "HOST:PORT",
     .help = "address to listen on, or several with commas; port 0 picks one",
     .more = "IPv6 as [::1]:4456. Empty for none. An address that other machines can "
             "reach needs a password_file."},
    {.name = "unix",
     .type = OPTION_TEXT,
     AT(unix_path),
     .value = "",
     .argument = "PATH",
     .help = "Unix socket to listen on",
     .more = "A socket nobody listens on any more is replaced; anything else at that "
             "path is left alone and stops the start."},
    {.name = "unix_mode",
     .type = OPTION_MODE,
     AT(unix_mode),
     .value = "0660",
     .max = MODE_MAX,
     .argument = "MODE",
     .help = "permissions of the Unix socket",
     .more = "Who may write to it may connect."},
    {.name = "lane",
     .type = OPTION_LANE,
     AT(lane),
     .value = "",
     .argument = "I/N",
     .help = "this server's share of the ids, lane I of N",
     .more = "Fixed at the first start, which without it takes 1/1. A later start that "
             "says otherwise is refused."},
    {.name = "stripe",
     .type = OPTION_STRIPE,
     AT(lane),
     .value = "",
     .min = 1,
     .max = STRIPE_MAX,
     .unit = "ids",
     .argument = "U",
     .help = "neighbouring ids a lane owns at a time",
     .more = "Fixed at the first start, which without it takes 100000. With 1 on two "
             "lanes, one has the odd ids and the other the even ones."},
    {.name = "engine",
     .type = OPTION_CHOICE,
     AT(engine),
     .value = "sqlite",
     .choices = "sqlite|memory",
     .argument = "E",
     .help = "where the counters are kept: sqlite or memory",
     .more = "The engine memory forgets everything at its end and grants the same ids "
             "again: it is for tests."},
    {.name = "witness",
     .type = OPTION_TEXT,
     AT(witness),
     .value = "",
     .argument = "PATH",
     .help = "file that remembers the marks beside the database; or off",
     .more = "A database that was put back from an older copy is noticed by it, and "
             "goes on above what was granted. Empty is hilo.witness in the data "
             "directory; best it is on another disk."},
    {.name = "backup_dir",
     .type = OPTION_TEXT,
     .reload = true,
     AT(backup_dir),
     .value = "",
     .argument = "DIR",
     .help = "directory for what hilo backup makes",
     .more = "Empty is backup in the data directory; best it is on another disk."},
    {.name = "password_file",
     .type = OPTION_TEXT,
     .reload = true,
     AT(password_file),
     .value = "",
     .argument = "PATH",
     .help = "file with the passwords clients log in with",
     .more = "One password a line, 8 to 256 bytes; any of them is good, so that a "
             "new one can be brought in before the old one goes. Lines that are "
             "empty or begin with # don't count. A reload reads the file again; who "
             "is logged in stays so."},
    {.name = "insecure",
     .type = OPTION_BOOL,
     AT(insecure),
     .value = "no",
     .help = "listen beyond this machine without a password",
     .more = "Whoever reaches the port can then take ids and change sequences."},
    {.name = "auto_create",
     .type = OPTION_CHOICE,
     .reload = true,
     AT(auto_create),
     .value = "auto",
     .choices = "auto|yes|no",
     .argument = "A",
     .help = "make a sequence at its first use: yes, no, or auto",
     .more = "With auto it is yes on one lane and no on several, where each member has "
             "to know a sequence's START and MAX. In production no is the better "
             "choice: a typing error would start another counter."},
    {.name = "max_block",
     .type = OPTION_NUMBER,
     .reload = true,
     AT(max_block),
     .value = "1000000",
     .min = 1,
     .max = 1000000000,
     .unit = "ids",
     .argument = "N",
     .help = "ids in one block, at most"},
    {.name = "max_sequences",
     .type = OPTION_NUMBER,
     .reload = true,
     AT(max_sequences),
     .value = "1000000",
     .min = 1,
     .max = 100000000,
     .unit = "sequences",
     .argument = "N",
     .help = "sequences, at most",
     .more = "Those that are there already stay."},
    {.name = "max_tokens",
     .type = OPTION_NUMBER,
     .reload = true,
     AT(max_tokens),
     .value = "100000",
     .max = 10000000,
     .unit = "tokens",
     .argument = "N",
     .help = "tokens kept, at most; 0 for none",
     .more =
         "At the bound new ones are refused; none is forgotten early. Each takes up "
         "to 300 bytes of memory."},
    {.name = "token_ttl",
     .type = OPTION_NUMBER,
     .reload = true,
     AT(token_ttl_s),
     .value = "86400",
     .min = 1,
     .max = 31536000,
     .unit = "seconds",
     .argument = "S",
     .help = "how long a token is good for",
     .more = "While hilod runs: time during which it does not doesn't count."},
    {.name = "int_reply_max",
     .type = OPTION_NUMBER,
     .reload = true,
     AT(int_reply_max),
     .value = "9007199254740991",
     .min = 1,
     .max = (uint64_t)INT64_MAX,
     .argument = "ID",
     .help = "the last id INCR answers",
     .more = "The default is 2^53-1, above which many clients round integers. NEXT and "
             "BLOCK answer strings, which are exact."},
    {.name = "max_clients",
     .type = OPTION_NUMBER,
     .reload = true,
     AT(max_clients),
     .value = "10000",
     .min = 1,
     .max = 1000000,
     .unit = "connections",
     .argument = "N",
     .help = "connections, at most",
     .more =
         "One more is told so and closed. Where the system allows fewer open files, "
         "the number is lower; the log says so at the start."},
    {.name = "client_memory",
     .type = OPTION_NUMBER,
     .reload = true,
     AT(client_memory),
     .value = "67108864",
     .min = 1048576,
     .max = (uint64_t)1 << 40,
     .unit = "bytes",
     .argument = "N",
     .help = "memory for requests and answers under way, of all clients",
     .more = "Beyond it the connection that holds most is closed."},
    {.name = "request_timeout",
     .type = OPTION_NUMBER,
     .reload = true,
     AT(request_timeout_s),
     .value = "10",
     .min = 1,
     .max = 86400,
     .unit = "seconds",
     .argument = "S",
     .help = "time a request may take to arrive, from its first byte on",
     .more = "A connection is closed when it takes longer."},
    {.name = "output_timeout",
     .type = OPTION_NUMBER,
     .reload = true,
     AT(output_timeout_s),
     .value = "60",
     .min = 1,
     .max = 86400,
     .unit = "seconds",
     .argument = "S",
     .help = "time answers may wait for a client that takes none",
     .more =
         "A connection is closed when it takes longer. At most 64 KiB and one answer "
         "wait; with as much, no more commands of that connection run."},
    {.name = "idle_timeout",
     .type = OPTION_NUMBER,
     .reload = true,
     AT(idle_timeout_s),
     .value = "0",
     .max = 31536000,
     .unit = "seconds",
     .argument = "S",
     .help = "close connections that say nothing for so long; 0 for never"},
    {.name = "keepalive",
     .type = OPTION_NUMBER,
     .reload = true,
     AT(keepalive_s),
     .value = "300",
     .max = 32767,
     .unit = "seconds",
     .argument = "S",
     .help = "ask a silent TCP peer whether it is alive after so long; 0 for never",
     .more = "One that doesn't answer within the same time again is taken for gone. "
             "Holds for connections made afterwards."},
    {.name = "log_level",
     .type = OPTION_CHOICE,
     .reload = true,
     AT(log_level),
     .value = "info",
     .choices = "error|warning|info|debug",
     .argument = "L",
     .help = "error, warning, info or debug"},
    {.name = "log_format",
     .type = OPTION_CHOICE,
     .reload = true,
     AT(log_format),
     .value = "text",
     .choices = "text|json",
     .argument = "F",
     .help = "text, or json: an object a line",
     .more = "The log goes to standard error. Where that is the journal, text lines "
             "carry its priorities instead of the time."},
    {.name = "allow_network_fs",
     .type = OPTION_BOOL,
     AT(allow_network_fs),
     .value = "no",
     .help = "accept a data directory on a network file system",
     .more = "Locks of NFS and its like may let two servers grant the same ids."},
};

/* --- from text --- */

static bool is_choice(const char *choices, const char *text)
{
    size_t len = strlen(text);

    for (const char *c = choices; *c != '\0'; c += strcspn(c, "|"), c += *c == '|') {
        if (strcspn(c, "|") == len && memcmp(c, text, len) == 0)
            return true;
    }
    return false;
}

bool option_parse_lane(const char *text, struct lane *ret)
{
    const char *slash = strchr(text, '/');
    uint64_t number, lanes;

    if (slash == NULL || !number_parse_u64(text, (size_t)(slash - text), &number) ||
        !number_parse_u64(slash + 1, strlen(slash + 1), &lanes) || lanes > LANES_MAX ||
        number < 1 || number > lanes)
        return false;
    ret->number = (uint32_t)number;
    ret->lanes = (uint32_t)lanes;
    return true;
}

static bool parse_mode(const char *text, uint64_t *ret)
{
    size_t len = strlen(text);

    if (len < 3 || len > 4 || strspn(text, "01234567") != len)
        return false;
    *ret = strtoul(text, NULL, 8);
    return *ret <= MODE_MAX;
}

static bool parse_bool(const char *text, bool *ret)
{
    *ret = strcmp(text, "yes") == 0;
    return *ret || strcmp(text, "no") == 0;
}

static bool parse_number(const struct option_row *row, const char *text, uint64_t *ret)
{
    return number_parse_u64(text, strlen(text), ret) && *ret >= row->min &&
           *ret <= row->max;
}

static bool set_text(char **field, const char *text)
{
    char *copy = strdup(text);

    if (copy == NULL)
        return false;
    free(*field);
    *field = copy;
    return true;
}

/* Whether the text is a value; text options take their copy afterwards. */
static bool set_value(void *field, const struct option_row *row, const char *text)
{
    struct lane *lane = field;

    switch (row->type) {
    case OPTION_TEXT:
        return true;
    case OPTION_CHOICE:
        return is_choice(row->choices, text);
    case OPTION_BOOL:
        return parse_bool(text, field);
    case OPTION_MODE:
        return parse_mode(text, field);
    case OPTION_LANE:
        return *text == '\0' || option_parse_lane(text, lane);
    case OPTION_STRIPE:
        return *text == '\0' || parse_number(row, text, &lane->stripe);
    case OPTION_NUMBER:
        return parse_number(row, text, field);
    }
    return false;
}

static bool is_text(const struct option_row *row)
{
    return row->type == OPTION_TEXT || row->type == OPTION_CHOICE;
}

bool option_set(struct options *o, const struct option_row *row, const char *text,
                char *why)
{
    void *field = (char *)o + row->offset;
    char rule[OPTIONS_ERROR_MAX / 2];

    if (!set_value(field, row, text)) {
        option_rule(row, rule, sizeof rule);
        snprintf(why, OPTIONS_ERROR_MAX, "%s is '%.100s', but has to be %s", row->name,
                 text, rule);
        return false;
    }
    if (is_text(row) && !set_text(field, text)) {
        snprintf(why, OPTIONS_ERROR_MAX, "out of memory");
        return false;
    }
    return true;
}

void options_free(struct options *o)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (is_text(&option_rows[i]))
            free(*(char **)((char *)o + option_rows[i].offset));
    }
    *o = (struct options){0};
}

/* --- to text --- */

const char *option_text(const struct options *o, const struct option_row *row,
                        char *buf, size_t size)
{
    const void *field = (const char *)o + row->offset;

    snprintf(buf, size, "%s", "");
    switch (row->type) {
    case OPTION_TEXT:
    case OPTION_CHOICE:
        return *(char *const *)field;
    case OPTION_BOOL:
        return *(const bool *)field ? "yes" : "no";
    case OPTION_LANE:
        if (o->lane.number != 0)
            snprintf(buf, size, "%" PRIu32 "/%" PRIu32, o->lane.number, o->lane.lanes);
        break;
    case OPTION_STRIPE:
        if (o->lane.stripe != 0)
            snprintf(buf, size, "%" PRIu64, o->lane.stripe);
        break;
    case OPTION_MODE:
        snprintf(buf, size, "%04" PRIo64, *(const uint64_t *)field);
        break;
    case OPTION_NUMBER:
        snprintf(buf, size, "%" PRIu64, *(const uint64_t *)field);
        break;
    }
    return buf;
}

void option_flag(const struct option_row *row, char *buf, size_t size)
{
    snprintf(buf, size, "--%s", row->name);
    for (char *c = buf; *c != '\0'; c++) {
        if (*c == '_')
            *c = '-';
    }
}

void option_rule(const struct option_row *row, char *buf, size_t size)
{
    switch (row->type) {
    case OPTION_TEXT:
        snprintf(buf, size, "text");
        break;
    case OPTION_CHOICE:
        snprintf(buf, size, "one of %s", row->choices);
        break;
    case OPTION_BOOL:
        snprintf(buf, size, "yes or no");
        break;
    case OPTION_MODE:
        snprintf(buf, size, "an octal number from 0000 to %04o", MODE_MAX);
        break;
    case OPTION_LANE:
        snprintf(buf, size, "I/N with 1 <= I <= N <= %d, such as 1/2", LANES_MAX);
        break;
    case OPTION_STRIPE:
    case OPTION_NUMBER:
        snprintf(buf, size, "a number%s%s from %" PRIu64 " to %" PRIu64,
                 row->unit ? " of " : "", row->unit ? row->unit : "", row->min,
                 row->max);
        break;
    }
}
