/* options_text.h - the options for people, all made from the table. */
#ifndef HILO_OPTIONS_TEXT_H
#define HILO_OPTIONS_TEXT_H

#include <stdio.h>
#include "options.h"

/* --help. */
void options_print_help(FILE *out);

/* A configuration file with every option, its meaning and its value in o; commented out
 * where that is the default. */
void options_print_config(const struct options *o, FILE *out);

/* The list of options of the manual page, in mdoc. */
void options_print_mdoc(FILE *out);

#endif
