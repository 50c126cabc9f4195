/* buffer.c - bytes that have to be kept. */
#include "buffer.h"

#include <stdlib.h>
#include <string.h>

#define ROOM 4096 /* at least */

bool buffer_keep(struct buffer *b, const char *from, size_t n)
{
    bool inside = b->data != NULL && from >= b->data && from <= b->data + b->cap;
    char *data;

    if (n == 0) {
        buffer_free(b);
        return true;
    }
    if (inside) {
        if (from != b->data)
            memmove(b->data, from, n);
        b->len = n;
        return true;
    }
    data = malloc(n);
    if (data == NULL)
        return false;
    memcpy(data, from, n);
    free(b->data);
    *b = (struct buffer){.data = data, .len = n, .cap = n};
    return true;
}

char *buffer_room(struct buffer *b, size_t *ret_size)
{
    if (b->cap - b->len < ROOM) {
        size_t cap = 2 * b->cap + ROOM;
        char *data = realloc(b->data, cap);

        if (data == NULL)
            return NULL;
        b->data = data;
        b->cap = cap;
    }
    *ret_size = b->cap - b->len;
    return b->data + b->len;
}

void buffer_free(struct buffer *b)
{
    free(b->data);
    *b = (struct buffer){0};
}
