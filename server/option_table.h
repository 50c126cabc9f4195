/* option_table.h - the one table of what an administrator can set. Flags, the file,
 * --help, the sample configuration, the manual page and CONFIG GET are made from it. */
#ifndef HILO_OPTION_TABLE_H
#define HILO_OPTION_TABLE_H

#include "options.h"

enum option_type {
    OPTION_TEXT,
    OPTION_CHOICE, /* one of the words in `choices`, separated by '|' */
    OPTION_NUMBER, /* min..max */
    OPTION_MODE,   /* of a file, in octal digits */
    OPTION_BOOL,   /* "yes", "no" */
    OPTION_LANE,   /* I/N */
    OPTION_STRIPE, /* min..max, inside the lane */
};

struct option_row {
    const char *name; /* in the file; the flag has '-' for '_' */
    enum option_type type;
    bool reload;       /* a reload takes a new value over; others need a restart */
    size_t offset;     /* in struct options */
    const char *value; /* the default; "" for none */
    uint64_t min, max;
    const char *unit; /* of a number */
    const char *choices;
    const char *argument; /* for --help */
    const char *help;     /* one line */
    const char *more;     /* further sentences, or NULL */
};

enum { OPTION_COUNT = 26 };

extern const struct option_row option_rows[OPTION_COUNT];

/* I/N; the stripe is left as it is. False, and nothing written, if it is none. */
bool option_parse_lane(const char *text, struct lane *ret);

/* False, and why (OPTIONS_ERROR_MAX bytes), when the text is no value of this option.
 */
bool option_set(struct options *o, const struct option_row *row, const char *text,
                char *why);

/* The value as text, in buf or elsewhere; "" where none is set. */
const char *option_text(const struct options *o, const struct option_row *row,
                        char *buf, size_t size);

/* "--max-block" in buf. */
void option_flag(const struct option_row *row, char *buf, size_t size);

/* What a value has to be, such as "a number of ids from 1 to 1000000000". */
void option_rule(const struct option_row *row, char *buf, size_t size);

#endif
