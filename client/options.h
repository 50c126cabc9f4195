/* options.h - checks of what callers set. */
#ifndef HILO_CLIENT_OPTIONS_H
#define HILO_CLIENT_OPTIONS_H

#include <stddef.h>
#include "hilo.h"

/* The caller's options, of whatever size, over the defaults; o may be NULL. 0, or
 * HILO_EARG and why in text. */
int options_read(const hilo_options *o, hilo_options *ret, char *text, size_t size);
int options_read_seq(const hilo_seq_options *o, hilo_seq_options *ret, char *text,
                     size_t size);

#endif
