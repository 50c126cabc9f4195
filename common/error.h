/* error.h - words and texts of the errors in hilo_error.h. */
#ifndef HILO_ERROR_WORDS_H
#define HILO_ERROR_WORDS_H

#include <stddef.h>
#include "hilo_error.h"

/* The word an error reply begins with; "ERR" for a code that is not in the table. */
const char *error_word(int code);

/* One short sentence for people; never NULL. */
const char *error_text(int code);

/* The code of an error reply, p[0..len), by its first word; HILO_EERR for a word that
 * is no server's. */
int error_code(const char *p, size_t len);

#endif
