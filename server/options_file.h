/* options_file.h - the configuration file. */
#ifndef HILO_OPTIONS_FILE_H
#define HILO_OPTIONS_FILE_H

#include "options.h"

/* Sets what the file sets. False, and why (OPTIONS_ERROR_MAX bytes, with file and
 * line), when it can't be read or something in it is wrong. */
bool options_read_file(const char *path, struct options *o, char *error);

/* The same for its text, which is changed; path is for messages. */
bool options_read_text(const char *path, char *text, struct options *o, char *error);

#endif
