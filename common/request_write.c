/* request_write.c - requests of the Redis protocol. */
#include "request_write.h"

#include <string.h>
#include "number.h"

static void put(struct request_writer *w, const char *p, size_t len)
{
    if (w->full || len > w->size - w->len) {
        w->full = true;
        return;
    }
    memcpy(w->buf + w->len, p, len);
    w->len += len;
}

static void put_header(struct request_writer *w, char kind, size_t n)
{
    char line[NUMBER_MAX + 3] = {kind};
    size_t len = 1 + number_format(line + 1, n);

    memcpy(line + len, "\r\n", 2);
    put(w, line, len + 2);
}

void request_begin(struct request_writer *w, char *buf, size_t size, size_t argc)
{
    *w = (struct request_writer){.buf = buf, .size = size};
    put_header(w, '*', argc);
}

void request_bytes(struct request_writer *w, const char *p, size_t len)
{
    put_header(w, '$', len);
    put(w, p, len);
    put(w, "\r\n", 2);
}

void request_text(struct request_writer *w, const char *text)
{
    request_bytes(w, text, strlen(text));
}

void request_number(struct request_writer *w, uint64_t n)
{
    char digits[NUMBER_MAX];
    size_t len = number_format(digits, n);

    request_bytes(w, digits, len);
}

size_t request_end(const struct request_writer *w)
{
    return w->full ? 0 : w->len;
}
