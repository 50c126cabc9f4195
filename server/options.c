/* options.c - the option table, flags, and the file (libconfuse; no other file includes
 * it). */
#include "options.h"

#include <confuse.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "number.h"
#include "version.h"

enum option_type {
    TYPE_TEXT,
    TYPE_CHOICE, /* one of the words in `choices`, separated by '|' */
    TYPE_NUMBER, /* min..max */
    TYPE_BOOL,
    TYPE_LANE,   /* I/N */
    TYPE_STRIPE, /* min..max, inside the lane */
};

struct option_row {
    const char *name; /* in the file; the flag has '-' for '_' */
    enum option_type type;
    size_t offset;
    const char *value; /* the default */
    uint64_t min, max;
    const char *choices;
    const char *argument; /* for --help */
    const char *help;
};

#define AT(field) offsetof(struct options, field)

static const struct option_row rows[] = {
    {"data", TYPE_TEXT, AT(data), "./hilo-data", 0, 0, NULL, "DIR",
     "the data directory; one hilod at a time"},
    {"listen", TYPE_TEXT, AT(listen), "127.0.0.1:4456", 0, 0, NULL, "HOST:PORT",
     "address to listen on, or several with commas; port 0 picks one"},
    {"unix", TYPE_TEXT, AT(unix_path), "", 0, 0, NULL, "PATH",
     "Unix socket to listen on"},
    {"lane", TYPE_LANE, AT(lane), "", 0, 0, NULL, "I/N",
     "this server's share of the ids, lane I of N; fixed at the first start (1/1)"},
    {"stripe", TYPE_STRIPE, AT(lane), "", 1, STRIPE_MAX, NULL, "U",
     "neighbouring ids a lane owns at a time; fixed at the first start (100000)"},
    {"engine", TYPE_CHOICE, AT(engine), "sqlite", 0, 0, "sqlite|memory", "E",
     "where the counters are kept: sqlite, or memory (forgets; for tests)"},
    {"log_level", TYPE_CHOICE, AT(log_level), "info", 0, 0, "error|warning|info|debug",
     "L", "error, warning, info or debug"},
    {"auto_create", TYPE_CHOICE, AT(auto_create), "auto", 0, 0, "auto|yes|no", "A",
     "make a sequence at its first use: yes, no, or auto (yes on one lane only)"},
    {"max_block", TYPE_NUMBER, AT(max_block), "1000000", 1, 1000000000, NULL, "N",
     "ids in one block, at most"},
    {"max_sequences", TYPE_NUMBER, AT(max_sequences), "1000000", 1, 100000000, NULL,
     "N", "sequences, at most"},
    {"int_reply_max", TYPE_NUMBER, AT(int_reply_max), "9007199254740991", 1,
     (uint64_t)INT64_MAX, NULL, "ID",
     "the last id INCR answers; above it clients may round"},
    {"insecure", TYPE_BOOL, AT(insecure), "no", 0, 0, NULL, NULL,
     "listen beyond this machine without a password"},
    {"allow_network_fs", TYPE_BOOL, AT(allow_network_fs), "no", 0, 0, NULL, NULL,
     "accept a data directory on a network file system"},
};

#define FILE_MAX_BYTES 65536
#define N_ROWS         (sizeof rows / sizeof rows[0])

/* --- values --- */

static bool is_choice(const char *choices, const char *text)
{
    size_t len = strlen(text);

    for (const char *c = choices; *c != '\0'; c += strcspn(c, "|"), c += *c == '|') {
        if (strcspn(c, "|") == len && memcmp(c, text, len) == 0)
            return true;
    }
    return false;
}

static bool parse_lane(const char *text, struct lane *ret)
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

static bool set_text(char **field, const char *text)
{
    char *copy = strdup(text);

    if (copy == NULL)
        return false;
    free(*field);
    *field = copy;
    return true;
}

/* False, and why (OPTIONS_ERROR_MAX bytes), when the text is no value of this option.
 */
static bool set_option(struct options *o, const struct option_row *row,
                       const char *text, char *why)
{
    void *field = (char *)o + row->offset;
    uint64_t n = 0;

    switch (row->type) {
    case TYPE_TEXT:
        return set_text(field, text);
    case TYPE_CHOICE:
        if (is_choice(row->choices, text))
            return set_text(field, text);
        snprintf(why, OPTIONS_ERROR_MAX, "%s is '%.100s', but has to be one of %s",
                 row->name, text, row->choices);
        return false;
    case TYPE_BOOL:
        *(bool *)field = strcmp(text, "yes") == 0;
        if (*(bool *)field || strcmp(text, "no") == 0)
            return true;
        snprintf(why, OPTIONS_ERROR_MAX, "%s is '%.100s', but has to be yes or no",
                 row->name, text);
        return false;
    case TYPE_LANE:
        if (*text == '\0' || parse_lane(text, field))
            return true;
        snprintf(
            why, OPTIONS_ERROR_MAX,
            "%s is '%.100s', but has to be I/N with 1 <= I <= N <= %d, such as 1/2",
            row->name, text, LANES_MAX);
        return false;
    case TYPE_NUMBER:
    case TYPE_STRIPE:
        if (row->type == TYPE_STRIPE && *text == '\0')
            return true;
        if (!number_parse_u64(text, strlen(text), &n) || n < row->min || n > row->max) {
            snprintf(why, OPTIONS_ERROR_MAX,
                     "%s is '%.100s', but has to be a number from %" PRIu64
                     " to %" PRIu64,
                     row->name, text, row->min, row->max);
            return false;
        }
        if (row->type == TYPE_STRIPE)
            ((struct lane *)field)->stripe = n;
        else
            *(uint64_t *)field = n;
        return true;
    }
    return false;
}

bool options_show(const struct options *o, size_t i, const char **ret_name,
                  const char **ret_value, char *buf, size_t size)
{
    const struct option_row *row = &rows[i];
    const void *field;

    if (i >= N_ROWS)
        return false;
    field = (const char *)o + row->offset;
    *ret_name = row->name;
    *ret_value = buf;
    switch (row->type) {
    case TYPE_TEXT:
    case TYPE_CHOICE:
        *ret_value = *(char *const *)field;
        break;
    case TYPE_BOOL:
        *ret_value = *(const bool *)field ? "yes" : "no";
        break;
    case TYPE_LANE:
        snprintf(buf, size, "%" PRIu32 "/%" PRIu32, o->lane.number, o->lane.lanes);
        break;
    case TYPE_STRIPE:
        snprintf(buf, size, "%" PRIu64, o->lane.stripe);
        break;
    case TYPE_NUMBER:
        snprintf(buf, size, "%" PRIu64, *(const uint64_t *)field);
        break;
    }
    return true;
}

/* --- the file --- */

/* libconfuse reports through a function that has no argument of ours. It does know the
 * option list, so a nameless option in there leads to the place for the message. */
struct file_error {
    long marker;
    const char *path;
    char text[OPTIONS_ERROR_MAX];
};

static struct file_error *find_error(const cfg_t *cfg)
{
    for (const cfg_opt_t *opt = cfg->opts; opt->name != NULL; opt++) {
        if (opt->name[0] == '\0')
            return (struct file_error *)(void *)opt->simple_value.number;
    }
    return NULL;
}

static void __attribute__((format(printf, 2, 0)))
keep_error(cfg_t *cfg, const char *fmt, va_list ap)
{
    struct file_error *e = find_error(cfg);
    size_t len;

    if (e == NULL || e->text[0] != '\0')
        return; /* the first one counts */
    snprintf(e->text, sizeof e->text, "%.200s:%d: ", e->path, cfg->line);
    len = strlen(e->text);
    vsnprintf(e->text + len, sizeof e->text - len, fmt, ap);
}

/* Blanks comments: libconfuse 3.3 counts their lines more than once, and messages shall
 * name the right one. A comment begins a line or follows a blank. */
static void blank_comments(char *text)
{
    char quote = '\0';

    for (char *c = text; *c != '\0'; c++) {
        bool after_blank = c == text || strchr(" \t\n", c[-1]) != NULL;

        if (quote != '\0') {
            if (*c == '\\' && c[1] != '\0')
                c++;
            else if (*c == quote)
                quote = '\0';
        } else if (*c == '"' || *c == '\'') {
            quote = *c;
        } else if (after_blank && (*c == '#' || (*c == '/' && c[1] == '/'))) {
            size_t len = strcspn(c, "\n");

            memset(c, ' ', len);
            c += len - 1;
        }
    }
}

/* The whole file as a string; NULL, and why, when it can't be had. */
static char *read_text(const char *path, char *error)
{
    FILE *f = fopen(path, "re");
    char *text = malloc(FILE_MAX_BYTES + 1);
    size_t len = 0;
    bool good = f != NULL && text != NULL;

    if (good) {
        len = fread(text, 1, FILE_MAX_BYTES, f);
        good = ferror(f) == 0 && fgetc(f) == EOF && memchr(text, '\0', len) == NULL;
    }
    if (!good) {
        snprintf(error, OPTIONS_ERROR_MAX,
                 "can't read the configuration file %.300s: %s", path,
                 f == NULL || ferror(f) ? strerror(errno)
                                        : "not a text file, or too large");
        free(text);
        text = NULL;
    } else {
        text[len] = '\0';
        blank_comments(text);
    }
    if (f != NULL)
        fclose(f);
    return text;
}

static int check_value(cfg_t *cfg, cfg_opt_t *opt)
{
    struct options scratch = {0};
    char why[OPTIONS_ERROR_MAX] = "out of memory";
    bool good = false;

    for (size_t i = 0; i < N_ROWS; i++) {
        if (strcmp(rows[i].name, cfg_opt_name(opt)) == 0)
            good = set_option(&scratch, &rows[i], cfg_opt_getnstr(opt, 0), why);
    }
    options_free(&scratch);
    if (!good)
        cfg_error(cfg, "%s", why);
    return good ? 0 : -1;
}

static bool apply_file(cfg_t *cfg, struct options *o, char *error)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        const char *text = cfg_getstr(cfg, rows[i].name);

        if (text != NULL && !set_option(o, &rows[i], text, error))
            return false;
    }
    return true;
}

static bool read_file(const char *path, struct options *o, char *error)
{
    cfg_opt_t opts[N_ROWS + 2];
    struct file_error kept = {.path = path};
    char *text = read_text(path, error);
    cfg_t *cfg;
    bool good = false;

    if (text == NULL)
        return false;
    for (size_t i = 0; i < N_ROWS; i++)
        opts[i] = (cfg_opt_t)CFG_STR(rows[i].name, NULL, CFGF_NONE);
    opts[N_ROWS] = (cfg_opt_t)CFG_SIMPLE_INT("", &kept.marker);
    opts[N_ROWS + 1] = (cfg_opt_t)CFG_END();
    cfg = cfg_init(opts, CFGF_NONE);
    if (cfg != NULL) {
        cfg_set_error_function(cfg, keep_error);
        for (size_t i = 0; i < N_ROWS; i++)
            cfg_set_validate_func(cfg, rows[i].name, check_value);
        if (cfg_parse_buf(cfg, text) == CFG_SUCCESS)
            good = apply_file(cfg, o, error);
        else
            snprintf(error, OPTIONS_ERROR_MAX, "%s", kept.text);
        cfg_free(cfg);
    }
    free(text);
    return good;
}

/* --- the command line --- */

static void flag_name(const struct option_row *row, char *buf, size_t size)
{
    snprintf(buf, size, "%s", row->name);
    for (char *c = buf; *c != '\0'; c++) {
        if (*c == '_')
            *c = '-';
    }
}

static void print_help(void)
{
    printf("hilod " HILO_VERSION
           " - hands out blocks of unique ids over the Redis protocol\n"
           "\n"
           "usage: hilod [-c FILE] [options]\n"
           "\n"
           "  -c FILE                   read options from FILE (name = value, '_' for "
           "'-');\n"
           "                            flags go before it\n");
    for (size_t i = 0; i < N_ROWS; i++) {
        char flag[40], head[80];

        flag_name(&rows[i], flag, sizeof flag);
        snprintf(head, sizeof head, "--%s%s%s", flag, rows[i].argument ? " " : "",
                 rows[i].argument ? rows[i].argument : "");
        printf("  %-25s %s", head, rows[i].help);
        if (rows[i].value[0] != '\0')
            printf(" [%s]", rows[i].value);
        printf("\n");
    }
    printf("  %-25s %s\n  %-25s %s\n", "--version", "print the version", "--help",
           "print this");
}

struct command_line {
    const char *file;
    const char *value[N_ROWS]; /* NULL: no such flag was given */
};

static enum options_result scan(int argc, char **argv, struct command_line *ret,
                                char *error)
{
    struct option flags[N_ROWS + 3] = {0};
    char names[N_ROWS][40];
    enum { FLAG_HELP = 1000, FLAG_VERSION };
    int c;

    for (size_t i = 0; i < N_ROWS; i++) {
        flag_name(&rows[i], names[i], sizeof names[i]);
        flags[i] = (struct option){
            names[i], rows[i].type == TYPE_BOOL ? optional_argument : required_argument,
            NULL, (int)i + 1};
    }
    flags[N_ROWS] = (struct option){"help", no_argument, NULL, FLAG_HELP};
    flags[N_ROWS + 1] = (struct option){"version", no_argument, NULL, FLAG_VERSION};
    opterr = 0;
    optind = 0; /* glibc: begin anew, whatever was scanned before */
    while ((c = getopt_long(argc, argv, ":c:h", flags, NULL)) != -1) {
        if (c == 'c') {
            ret->file = optarg;
        } else if (c == 'h' || c == FLAG_HELP) {
            print_help();
            return OPTIONS_DONE;
        } else if (c == FLAG_VERSION) {
            printf("hilod " HILO_VERSION "\n");
            return OPTIONS_DONE;
        } else if (c >= 1 && c <= (int)N_ROWS) {
            ret->value[c - 1] = optarg != NULL ? optarg : "yes";
        } else {
            snprintf(error, OPTIONS_ERROR_MAX,
                     "%s%.200s; hilod --help lists the options",
                     c == ':' ? "this option needs a value: " : "unknown option: ",
                     argv[optind - 1]);
            return OPTIONS_USAGE;
        }
    }
    if (optind == argc)
        return OPTIONS_RUN;
    snprintf(error, OPTIONS_ERROR_MAX,
             "unexpected word: %.200s; hilod --help lists the options", argv[optind]);
    return OPTIONS_USAGE;
}

enum options_result options_read(int argc, char **argv, struct options *ret,
                                 char *error)
{
    struct command_line line = {0};
    enum options_result result = scan(argc, argv, &line, error);

    *ret = (struct options){0};
    if (result != OPTIONS_RUN)
        return result;
    snprintf(error, OPTIONS_ERROR_MAX, "out of memory");
    for (size_t i = 0; i < N_ROWS; i++) {
        if (rows[i].value[0] == '\0' && rows[i].type != TYPE_TEXT)
            continue;
        if (!set_option(ret, &rows[i], rows[i].value, error))
            return OPTIONS_CONFIG;
    }
    if (line.file != NULL && !read_file(line.file, ret, error))
        return OPTIONS_CONFIG;
    for (size_t i = 0; i < N_ROWS; i++) {
        if (line.value[i] != NULL && !set_option(ret, &rows[i], line.value[i], error))
            return OPTIONS_CONFIG;
    }
    return OPTIONS_RUN;
}

void options_free(struct options *o)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        if (rows[i].type == TYPE_TEXT || rows[i].type == TYPE_CHOICE)
            free(*(char **)((char *)o + rows[i].offset));
    }
    *o = (struct options){0};
}
