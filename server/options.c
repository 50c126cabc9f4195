/* options.c - the command line, and what a reload changes. */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include "number.h"
#include "option_table.h"
#include "options_file.h"
#include "options_text.h"
#include "version.h"

/* What a command line asks for. */
struct command_line {
    const char *file;
    const char *value[OPTION_COUNT]; /* NULL: no such flag was given */
    enum options_result result;
    bool print;
    bool new_witness, from_witness;
    const char *skip, *relane_seal, *relane_open;
    char *const *files;
    size_t n_files;
};

enum {
    FLAG_HELP = 1000,
    FLAG_VERSION,
    FLAG_CHECK,
    FLAG_PRINT,
    FLAG_NEW_WITNESS,
    FLAG_FROM_WITNESS,
    FLAG_SKIP,
    FLAG_RELANE_SEAL,
    FLAG_RELANE_OPEN,
};

static enum options_result refuse(char *error, const char *what, const char *word)
{
    snprintf(error, OPTIONS_ERROR_MAX, "%s: %.200s; hilod --help lists the options",
             what, word);
    return OPTIONS_USAGE;
}

/* False where nothing further is to be done. */
static bool take_flag(struct command_line *line, int c)
{
    switch (c) {
    case 'c':
        line->file = optarg;
        return true;
    case FLAG_CHECK:
        line->result = OPTIONS_CHECK;
        return true;
    case FLAG_PRINT:
        line->print = true;
        return true;
    case FLAG_NEW_WITNESS:
        line->new_witness = true;
        return true;
    case FLAG_FROM_WITNESS:
        line->from_witness = true;
        return true;
    case FLAG_SKIP:
        line->skip = optarg;
        return true;
    case FLAG_RELANE_SEAL:
        line->relane_seal = optarg;
        return true;
    case FLAG_RELANE_OPEN:
        line->relane_open = optarg;
        return true;
    case 'h':
    case FLAG_HELP:
        options_print_help(stdout);
        break;
    case FLAG_VERSION:
        printf("hilod " HILO_VERSION "\n");
        break;
    default:
        line->value[c - 1] = optarg != NULL ? optarg : "yes";
        return true;
    }
    line->result = OPTIONS_DONE;
    return false;
}

static enum options_result scan(int argc, char **argv, struct command_line *line,
                                char *error)
{
    static const struct option others[] = {
        {"help", no_argument, NULL, FLAG_HELP},
        {"version", no_argument, NULL, FLAG_VERSION},
        {"check-config", no_argument, NULL, FLAG_CHECK},
        {"print-config", no_argument, NULL, FLAG_PRINT},
        {"new-witness", no_argument, NULL, FLAG_NEW_WITNESS},
        {"from-witness", no_argument, NULL, FLAG_FROM_WITNESS},
        {"skip", required_argument, NULL, FLAG_SKIP},
        {"relane-seal", required_argument, NULL, FLAG_RELANE_SEAL},
        {"relane-open", required_argument, NULL, FLAG_RELANE_OPEN},
        {0},
    };
    struct option flags[OPTION_COUNT + sizeof others / sizeof others[0]];
    char names[OPTION_COUNT][40];
    int c;

    for (int i = 0; i < OPTION_COUNT; i++) {
        int has_argument =
            option_rows[i].type == OPTION_BOOL ? optional_argument : required_argument;

        option_flag(&option_rows[i], names[i], sizeof names[i]);
        flags[i] = (struct option){names[i] + 2, has_argument, NULL, i + 1};
    }
    memcpy(flags + OPTION_COUNT, others, sizeof others);
    opterr = 0;
    optind = 0; /* glibc: begin anew, whatever was scanned before */
    while ((c = getopt_long(argc, argv, ":c:h", flags, NULL)) != -1) {
        if (c == ':')
            return refuse(error, "this option needs a value", argv[optind - 1]);
        if (c == '?')
            return refuse(error, "unknown option", argv[optind - 1]);
        if (!take_flag(line, c))
            return line->result;
    }
    if (optind < argc && line->relane_open == NULL)
        return refuse(error, "unexpected word", argv[optind]);
    line->files = argv + optind;
    line->n_files = (size_t)(argc - optind);
    return line->result;
}

/* A change of lanes; NULL, or what is wrong with it. */
static const char *take_relane(struct options *o, const struct command_line *line)
{
    o->relane_seal = line->relane_seal;
    o->files = line->files;
    o->n_files = line->n_files;
    if (line->relane_seal != NULL && *line->relane_seal == '\0')
        return "--relane-seal needs the name of a file to write";
    if (line->relane_open == NULL)
        return NULL;
    if (!option_parse_lane(line->relane_open, &o->relane_open))
        return "--relane-open has to be I/N with 1 <= I <= N <= 1024, such as 1/2";
    o->relane_open.stripe = o->lane.stripe;
    if (line->n_files == 0)
        return "--relane-open needs the files --relane-seal has written, one of each "
               "lane";
    if (line->relane_seal != NULL)
        return "--relane-seal and --relane-open exclude each other: seal every lane "
               "first";
    if (line->new_witness || line->from_witness || line->skip != NULL)
        return "--relane-open goes with none of --new-witness, --from-witness and "
               "--skip: they are for the sealing";
    return NULL;
}

/* A start after a loss; NULL, or what is wrong with it. */
static const char *take_losses(struct options *o, const struct command_line *line)
{
    o->new_witness = line->new_witness;
    o->from_witness = line->from_witness;
    if (line->skip != NULL &&
        (!number_parse_u64(line->skip, strlen(line->skip), &o->skip) || o->skip < 1 ||
         o->skip > HILO_ID_MAX))
        return "--skip has to be 1 to 9223372036854775807 ids";
    if (o->new_witness && line->skip == NULL)
        return "--new-witness needs --skip IDS: at least as many as may have been "
               "granted since what the database says";
    if (o->new_witness && o->from_witness)
        return "--new-witness and --from-witness exclude each other";
    if ((o->new_witness || o->from_witness) && strcmp(o->witness, "off") == 0)
        return "--new-witness and --from-witness need a witness, which is off";
    return NULL;
}

/* What is asked for at this start only. */
static bool take_acts(struct options *o, const struct command_line *line, char *error)
{
    const char *wrong = take_losses(o, line);

    if (wrong == NULL)
        wrong = take_relane(o, line);
    if (wrong != NULL)
        snprintf(error, OPTIONS_ERROR_MAX, "%s", wrong);
    return wrong == NULL;
}

enum options_result options_read(int argc, char **argv, struct options *ret,
                                 char *error)
{
    struct command_line line = {.result = OPTIONS_RUN};
    enum options_result result = scan(argc, argv, &line, error);

    *ret = (struct options){.argc = argc, .argv = argv};
    if (result != OPTIONS_RUN && result != OPTIONS_CHECK)
        return result;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (!option_set(ret, &option_rows[i], option_rows[i].value, error))
            return OPTIONS_CONFIG;
    }
    if (line.file != NULL && !options_read_file(line.file, ret, error))
        return OPTIONS_CONFIG;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (line.value[i] != NULL &&
            !option_set(ret, &option_rows[i], line.value[i], error))
            return OPTIONS_CONFIG;
    }
    if (!take_acts(ret, &line, error))
        return OPTIONS_USAGE;
    if (!line.print)
        return result;
    options_print_config(ret, stdout);
    return OPTIONS_DONE;
}

static size_t field_size(const struct option_row *row)
{
    switch (row->type) {
    case OPTION_TEXT:
    case OPTION_CHOICE:
        return sizeof(char *);
    case OPTION_BOOL:
        return sizeof(bool);
    default:
        return sizeof(uint64_t);
    }
}

/* Exchanges the values, so that each of the two still owns its own. */
static void exchange(struct options *a, struct options *b, const struct option_row *row)
{
    char kept[sizeof(uint64_t)], *in_a = (char *)a + row->offset,
                                 *in_b = (char *)b + row->offset;
    size_t size = field_size(row);

    memcpy(kept, in_a, size);
    memcpy(in_a, in_b, size);
    memcpy(in_b, kept, size);
}

void options_take_over(struct options *now, struct options *next,
                       options_changed_fn *fn, void *arg)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        char a[64], b[64];
        const char *wanted = option_text(next, row, a, sizeof a);

        if (strcmp(option_text(now, row, b, sizeof b), wanted) == 0)
            continue;
        fn(arg, row->name, wanted, row->reload);
        if (row->reload)
            exchange(now, next, row);
    }
}

bool options_show(const struct options *o, size_t i, const char **ret_name,
                  const char **ret_value, char *buf, size_t size)
{
    if (i >= OPTION_COUNT)
        return false;
    *ret_name = option_rows[i].name;
    *ret_value = option_text(o, &option_rows[i], buf, size);
    return true;
}
