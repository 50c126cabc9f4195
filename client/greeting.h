/* greeting.h - who a server says it is, in its answer to HELLO. */
#ifndef HILO_GREETING_H
#define HILO_GREETING_H

#include "reply_parse.h"
#include "roster.h"

/* Reads the answer. 0, or an error and why in text (size bytes). */
int greeting_read(const struct reply_item *items, size_t n, struct identity *ret,
                  char *text, size_t size);

#endif
