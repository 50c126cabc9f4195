/* buffer.h - bytes that have to be kept: of a connection input that is not a whole
 * request yet and answers that could not be sent, of a witness lines that are to be
 * written. Nothing kept takes no memory. */
#ifndef HILO_BUFFER_H
#define HILO_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/* Begins as zeros. */
struct buffer {
    char *data;
    size_t len, cap;
};

/* Keeps n bytes instead of what was there; they may lie in what was. False when memory
 * is out; the old ones are then still there. */
bool buffer_keep(struct buffer *b, const char *from, size_t n);

/* Room for 4 KiB or more behind the bytes that are there; NULL when memory is out. */
char *buffer_room(struct buffer *b, size_t *ret_size);

void buffer_free(struct buffer *b);

#endif
