/* options.h - what an administrator can set: one table makes the flags, the
 * configuration file, --help and CONFIG GET. */
#ifndef HILO_OPTIONS_H
#define HILO_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "lane.h"
#include "log.h"

#define OPTIONS_ERROR_MAX 512

struct options {
    char *data;
    char *listen; /* addresses, separated by commas */
    char *unix_path;
    char *engine;
    char *log_level;
    char *auto_create; /* "auto", "yes", "no" */
    struct lane lane;  /* 0: not given */
    uint64_t max_block;
    uint64_t max_sequences;
    uint64_t int_reply_max;
    bool insecure;
    bool allow_network_fs;
};

enum options_result {
    OPTIONS_RUN,
    OPTIONS_DONE,  /* --help or --version has been printed */
    OPTIONS_USAGE, /* the command line is wrong: exit 64 */
    OPTIONS_CONFIG /* a value or the file is wrong: exit 78 */
};

/* Reads the command line and the file it names; a flag goes before the file, whatever
 * the order. error (OPTIONS_ERROR_MAX bytes) tells what is wrong, where, and what would
 * be right. */
enum options_result options_read(int argc, char **argv, struct options *ret,
                                 char *error);
void options_free(struct options *o);

/* The i-th option's name and its value as text (in buf or elsewhere); false past the
 * last. */
bool options_show(const struct options *o, size_t i, const char **ret_name,
                  const char **ret_value, char *buf, size_t size);

#endif
