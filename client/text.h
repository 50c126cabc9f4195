/* text.h - texts for people, some of whose words come from servers. */
#ifndef HILO_TEXT_H
#define HILO_TEXT_H

#include <stddef.h>

/* Makes what is not printable ASCII '?', so that no server can send a terminal or a log
 * anything but words. */
void text_clean(char *text);

/* Appends to a text of size bytes; what doesn't fit is cut. */
void text_add(char *text, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
