/* request_write.h - requests of the Redis protocol, written into a buffer of fixed
 * size. */
#ifndef HILO_REQUEST_WRITE_H
#define HILO_REQUEST_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request_writer {
    char *buf;
    size_t size, len;
    bool full;
};

/* A request of argc arguments; they follow one by one. */
void request_begin(struct request_writer *w, char *buf, size_t size, size_t argc);
void request_bytes(struct request_writer *w, const char *p, size_t len);
void request_text(struct request_writer *w, const char *text);
void request_number(struct request_writer *w, uint64_t n);

/* The bytes written; 0 when there was no room. */
size_t request_end(const struct request_writer *w);

#endif
