/* cli.h - what the commands of hilo share: options, members, output, exit codes. */
#ifndef HILO_CLI_H
#define HILO_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "hilo.h"
#include "link.h"

#define EXIT_FAILED    1
#define EXIT_USAGE     64 /* EX_USAGE of sysexits(3) */
#define EXIT_UNAVAIL   69 /* EX_UNAVAILABLE: no server, or not all, could be reached */
#define EXIT_TRY_AGAIN 75 /* EX_TEMPFAIL */

struct cli {
    const char *servers;
    char *password; /* NULL for none */
    bool json;
    int timeout_ms;

    /* Of single commands; NULL or 0 where not given. */
    uint64_t count;
    const char *start, *max, *durability, *token;
    unsigned threads;
    unsigned rounds;
    double interval_s;

    struct link members[HILO_SERVERS_MAX];
    unsigned n_members;
};

/* A command: runs with its arguments, returns an exit code. */
typedef int cli_fn(struct cli *c, int argc, char **argv);

cli_fn cli_next, cli_block, cli_create, cli_alter, cli_advance, cli_retire, cli_backup,
    cli_ls, cli_info, cli_ping, cli_top, cli_bench, cli_doctor;

/* The exit code an error stands for. */
int cli_exit_code(int err);

/* Says what failed, on standard error, with --json as an object; returns the exit
 * code. */
int cli_fail(const struct cli *c, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints a document and frees it; returns 0, or EXIT_FAILED when it can't be written.
 */
int cli_print(json_t *document);

/* A number an argument has to be; false and usage said where it isn't. */
bool cli_number(const struct cli *c, const char *name, const char *text, uint64_t least,
                uint64_t most, uint64_t *ret);

/* Opens the library with the options given; 0 or an exit code, the failure said. */
int cli_open(const struct cli *c, const char *name, const hilo_seq_options *so,
             hilo **ret_h, hilo_seq **ret_s);

/* --- members: every server of the list --- */

/* Connects to all of them; those that fail have members[i].err. How many are there. */
unsigned members_open(struct cli *c);
void members_close(struct cli *c);

/* Says which members are missing; EXIT_UNAVAIL, or the first failure's code when
 * `first` is set. 0 for none. */
int members_missing(const struct cli *c, const char *what);

/* Whether those that are there can be members of one deployment; said when not. */
bool members_agree(const struct cli *c);

/* A command to one member, with --timeout. */
int member_call(const struct cli *c, struct link *l, size_t argc,
                const char *const *argv);

/* A sequence as one member has it. */
struct seq_row {
    char name[HILO_NAME_MAX + 1];
    char state[16], durability[16];
    uint64_t start, max, last, granted, reserved, remaining, used_percent, rate;
    unsigned member;
};

/* Reads the map that begins at items[0]. */
void seq_row_read(const struct reply_item *items, unsigned member, struct seq_row *ret);

/* All sequences of all members that are connected, by name and member; NULL and said
 * when one can't tell. Free it. */
struct seq_row *members_sequences(struct cli *c, const char *pattern, size_t *ret_n);

/* A value of INFO's "name:value" lines, or "". */
const char *info_value(const struct link *l, const char *name, char *buf, size_t size);

#endif
