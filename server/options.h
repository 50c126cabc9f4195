/* options.h - what an administrator has set: on the command line, in a file. */
#ifndef HILO_OPTIONS_H
#define HILO_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lane.h"

#define OPTIONS_ERROR_MAX 512

/* The fields of option_table.c, where each is explained. Times are in seconds. */
struct options {
    char *data;
    char *listen; /* addresses, separated by commas */
    char *unix_path;
    uint64_t unix_mode;
    char *engine;
    char *witness;    /* a path; "" for the one in the data directory, "off" for none */
    char *backup_dir; /* "" for backup in the data directory */
    char *password_file;
    char *log_level;
    char *log_format;
    char *auto_create; /* "auto", "yes", "no" */
    struct lane lane;  /* 0: not given */
    uint64_t max_block;
    uint64_t max_sequences;
    uint64_t max_tokens, token_ttl_s;
    uint64_t int_reply_max;
    uint64_t max_clients;
    uint64_t client_memory; /* bytes */
    uint64_t request_timeout_s, output_timeout_s, idle_timeout_s, keepalive_s;
    bool insecure;
    bool allow_network_fs;
    /* Of this start only; not in a file. */
    bool new_witness, from_witness;
    uint64_t skip;
    const char *relane_seal; /* a file, or NULL */
    struct lane relane_open; /* 0: not given; else with these files */
    char *const *files;
    size_t n_files;
    /* What they were read from; the caller's. */
    int argc;
    char **argv;
};

enum options_result {
    OPTIONS_RUN,
    OPTIONS_CHECK, /* --check-config: say whether this could run, and end */
    OPTIONS_DONE,  /* --help and its like have been printed */
    OPTIONS_USAGE, /* the command line is wrong: exit 64 */
    OPTIONS_CONFIG /* a value or the file is wrong: exit 78 */
};

/* Reads the command line and the file it names; a flag goes before the file, whatever
 * the order. error (OPTIONS_ERROR_MAX bytes) tells what is wrong, where, and what would
 * be right. *ret is to be freed in any case. */
enum options_result options_read(int argc, char **argv, struct options *ret,
                                 char *error);
void options_free(struct options *o);

/* Moves the values of options that can change in a running server from `next` to `now`.
 * Calls fn for each option that differs; taken is false where only a restart can. */
typedef void options_changed_fn(void *arg, const char *name, const char *value,
                                bool taken);
void options_take_over(struct options *now, struct options *next,
                       options_changed_fn *fn, void *arg);

/* The i-th option's name and its value as text (in buf or elsewhere); false past the
 * last. */
bool options_show(const struct options *o, size_t i, const char **ret_name,
                  const char **ret_value, char *buf, size_t size);

#endif
