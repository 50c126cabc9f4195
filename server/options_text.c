/* options_text.c - the options for people. */
#include "options_text.h"

#include <ctype.h>
#include <string.h>
#include "option_table.h"
#include "version.h"

#define WIDTH    90
#define TEXT_MAX 1200

/* What is no option, since it holds for one start only. */
static const struct {
    const char *flag, *help;
} others[] = {
    {"--new-witness", "the witness is lost: go on without it; needs --skip"},
    {"--from-witness", "the database is lost: make a new one from its witness"},
    {"--skip IDS", "leave out so many ids in every sequence"},
    {"--relane-seal FILE", "end the layout of lanes for good, marks into FILE; exit"},
    {"--relane-open I/N FILE...", "begin the next one, from a FILE of each lane; exit"},
    {"--check-config", "say whether hilod could run with this, then exit"},
    {"--print-config", "print this as a configuration file, then exit"},
    {"--version", "print the version, then exit"},
    {"--help", "print this, then exit"},
};

void options_print_help(FILE *out)
{
    fprintf(out,
            "hilod " HILO_VERSION
            " - hands out blocks of unique ids over the Redis protocol\n"
            "\n"
            "usage: hilod [-c FILE] [options]\n"
            "\n"
            "  %-25s %s\n"
            "  %-25s %s\n",
            "-c FILE", "read options from FILE (name = \"value\", '_' for '-');", "",
            "flags go before it");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        char flag[40], head[80];

        option_flag(row, flag, sizeof flag);
        snprintf(head, sizeof head, "%s%s%s", flag, row->argument ? " " : "",
                 row->argument ? row->argument : "");
        fprintf(out, "  %-25s %s", head, row->help);
        if (row->value[0] != '\0')
            fprintf(out, " [%s]", row->value);
        fprintf(out, "\n");
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        fprintf(out, "  %-25s %s\n", others[i].flag, others[i].help);
}

/* What is known of an option, as sentences. */
static void explain(const struct option_row *row, char *text, size_t size)
{
    char rule[160];
    int len;

    option_rule(row, rule, sizeof rule);
    len = snprintf(text, size, "%c%s.%s%s", toupper((unsigned char)row->help[0]),
                   row->help + 1, row->more ? " " : "", row->more ? row->more : "");
    if (len >= 0 && (size_t)len < size && row->type != OPTION_TEXT)
        len += snprintf(text + len, size - (size_t)len, " It is %s.", rule);
    if (len >= 0 && (size_t)len < size && row->reload)
        snprintf(text + len, size - (size_t)len, " SIGHUP takes a new value over.");
}

static void print_wrapped(FILE *out, const char *prefix, const char *text)
{
    while (*text != '\0') {
        size_t room = WIDTH - strlen(prefix), len = strlen(text);

        if (len > room) {
            len = room;
            while (len > 0 && text[len] != ' ')
                len--;
        }
        fprintf(out, "%s%.*s\n", prefix, (int)len, text);
        text += len;
        text += strspn(text, " ");
    }
}

void options_print_config(const struct options *o, FILE *out)
{
    fprintf(out, "# Configuration of hilod " HILO_VERSION
                 ", for hilod -c FILE. What is commented out is the default.\n");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        char text[TEXT_MAX], buf[64];
        const char *value = option_text(o, row, buf, sizeof buf);

        explain(row, text, sizeof text);
        fprintf(out, "\n");
        print_wrapped(out, "# ", text);
        fprintf(out, "%s%s = \"", strcmp(value, row->value) == 0 ? "#" : "", row->name);
        for (const char *c = value; *c != '\0'; c++)
            fprintf(out, "%s%c", strchr("\"\\$", *c) ? "\\" : "", *c);
        fprintf(out, "\"\n");
    }
}

/* A line that begins with a dot or a quote would be a request; a hyphen is a minus. */
static void print_mdoc_text(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        fprintf(out, "\\&");
    for (; *text != '\0'; text++) {
        if (text[0] == '.' && text[1] == ' ' && isupper((unsigned char)text[2])) {
            fprintf(out, ".\n"); /* a sentence a line */
            text++;
        } else {
            fprintf(out, *text == '\\' ? "\\e" : *text == '-' ? "\\-" : "%c", *text);
        }
    }
    fprintf(out, "\n");
}

void options_print_mdoc(FILE *out)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        char text[TEXT_MAX], flag[40];

        option_flag(row, flag, sizeof flag);
        explain(row, text, sizeof text);
        fprintf(out, ".It Fl -%s%s%s\n", flag + 2, row->argument ? " Ar " : "",
                row->argument ? row->argument : "");
        print_mdoc_text(out, text);
        if (row->value[0] != '\0')
            fprintf(out, "The default is\n.Ql %s .\n", row->value);
    }
}
