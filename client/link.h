/* link.h - a connection of the command line to one server: one command at a time,
 * waited for. */
#ifndef HILO_LINK_H
#define HILO_LINK_H

#include <stddef.h>
#include <stdint.h>
#include "hilo_error.h"
#include "reply_parse.h"
#include "resolve.h"
#include "roster.h"

#define LINK_WHY_MAX 512

struct link {
    struct target target;
    int fd; /* -1: not connected */
    struct identity id;
    char version[32];
    char *buf; /* the last answer; its items point into it */
    size_t len, cap;
    struct reply_item *items;
    size_t n;
    int64_t round_us;       /* of the last command */
    int err;                /* HILO_OK, or why the last thing failed, ... */
    char why[LINK_WHY_MAX]; /* ... in words, the server's name first */
};

void link_init(struct link *l, const struct target *t);
void link_close(struct link *l);

/* Connects and says HELLO, in at most limit_ms. 0 or l->err. */
int link_open(struct link *l, const char *password, int limit_ms);

/* Sends a command of argc words and waits for its answer, l->items[0..l->n), which
 * lasts until the next one. 0; or l->err: an error reply's, or HILO_EUNAVAIL,
 * HILO_ETIMEDOUT, HILO_EPROTO, after which it is closed. */
int link_call(struct link *l, int limit_ms, size_t argc, const char *const *argv);

#endif
