/* options_file.c - the configuration file, by libconfuse; no other file includes it. */
#include "options_file.h"

#include <confuse.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "option_table.h"

#define FILE_MAX_BYTES 65536

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
 * name the right one. A comment begins a line or follows a blank. Returns the line of a
 * quote that does not end, of which the library says nothing; 0 if there is none. */
static int blank_comments(char *text)
{
    char quote = '\0';
    int line = 1, quote_line = 0;

    for (char *c = text; *c != '\0'; c++) {
        bool after_blank = c == text || strchr(" \t\n", c[-1]) != NULL;

        line += *c == '\n';
        if (quote != '\0') {
            if (*c == '\\' && c[1] != '\0' && c[1] != '\n')
                c++;
            else if (*c == quote)
                quote = '\0';
        } else if (*c == '"' || *c == '\'') {
            quote = *c;
            quote_line = line;
        } else if (after_blank && (*c == '#' || (*c == '/' && c[1] == '/'))) {
            size_t len = strcspn(c, "\n");

            memset(c, ' ', len);
            c += len - 1;
        }
    }
    return quote != '\0' ? quote_line : 0;
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

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strcmp(option_rows[i].name, cfg_opt_name(opt)) == 0)
            good = option_set(&scratch, &option_rows[i], cfg_opt_getnstr(opt, 0), why);
    }
    options_free(&scratch);
    if (!good)
        cfg_error(cfg, "%s", why);
    return good ? 0 : -1;
}

static bool apply_file(cfg_t *cfg, struct options *o, char *error)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const char *text = cfg_getstr(cfg, option_rows[i].name);

        if (text != NULL && !option_set(o, &option_rows[i], text, error))
            return false;
    }
    return true;
}

bool options_read_text(const char *path, char *text, struct options *o, char *error)
{
    cfg_opt_t opts[OPTION_COUNT + 2];
    struct file_error kept = {.path = path};
    int open_line = blank_comments(text);
    bool good = false;
    cfg_t *cfg;

    if (open_line != 0) {
        snprintf(error, OPTIONS_ERROR_MAX, "%.200s:%d: a quote that does not end", path,
                 open_line);
        return false;
    }
    for (size_t i = 0; i < OPTION_COUNT; i++)
        opts[i] = (cfg_opt_t)CFG_STR(option_rows[i].name, NULL, CFGF_NONE);
    opts[OPTION_COUNT] = (cfg_opt_t)CFG_SIMPLE_INT("", &kept.marker);
    opts[OPTION_COUNT + 1] = (cfg_opt_t)CFG_END();
    cfg = cfg_init(opts, CFGF_NONE);
    if (cfg == NULL) {
        snprintf(error, OPTIONS_ERROR_MAX, "out of memory");
        return false;
    }
    cfg_set_error_function(cfg, keep_error);
    for (size_t i = 0; i < OPTION_COUNT; i++)
        cfg_set_validate_func(cfg, option_rows[i].name, check_value);
    if (cfg_parse_buf(cfg, text) == CFG_SUCCESS)
        good = apply_file(cfg, o, error);
    else if (kept.text[0] != '\0')
        snprintf(error, OPTIONS_ERROR_MAX, "%s", kept.text);
    else /* the library says nothing of some mistakes */
        snprintf(error, OPTIONS_ERROR_MAX, "%.200s:%d: this is not name = \"value\"",
                 path, cfg->line);
    cfg_free(cfg);
    return good;
}

bool options_read_file(const char *path, struct options *o, char *error)
{
    char *text = read_text(path, error);
    bool good = text != NULL && options_read_text(path, text, o, error);

    free(text);
    return good;
}
