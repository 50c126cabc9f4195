/* seal.h - what a layout that has ended leaves to the next one: a file with every
 * sequence of a store, of record.h. It is whole or it is not there; lanes that are
 * opened from it are written behind.
 *
 * Memory: what was read lives as long as the seal. */
#ifndef HILO_SEAL_H
#define HILO_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include "guard.h"
#include "record.h"
#include "store.h"

struct seal {
    const char *path; /* the caller's */
    int fd;           /* locked, so that two who open lanes see each other's notes */
    char *data;
    size_t len;
    struct record_header header;
    struct record *records;
    size_t n;
    struct record_opening *openings;
    size_t n_openings;
    /* Where the next line goes. */
    size_t end;
    struct record_chain chain;
};

/* Whether there is a file of that name. */
bool seal_exists(const char *path);

/* Writes the file of a store whose layout has ended. What stands there is replaced. 0,
 * or -1 and *ret_error. */
int seal_write(const char *path, const struct guard *g, struct store_error *ret_error);

/* Reads one, and locks it until it is freed; a torn line behind what is whole is left
 * out, a damaged one is an error. 0, or -1 and *ret_error. Free it in any case. */
int seal_read(const char *path, struct seal *ret, struct store_error *ret_error);
void seal_free(struct seal *s);

/* Writes durably that this lane is opened from it. 0, or -1 and *ret_error. */
int seal_note_opening(struct seal *s, const struct record_opening *o,
                      struct store_error *ret_error);

#endif
