/* resolve.h - addresses of a server: written out, or looked up without waiting.
 *
 * A name is looked up by getaddrinfo(), which blocks and can't be interrupted, on a
 * thread of its own. Whoever no longer wants the answer gives the lookup up; the thread
 * then frees it whenever it comes back. */
#ifndef HILO_RESOLVE_H
#define HILO_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ADDRESSES_MAX 8 /* of one name; further ones are left out */
#define TARGET_MAX    128

/* A server as the user names it. */
struct target {
    char text[TARGET_MAX]; /* "HOST:PORT", "[IPv6]:PORT", "unix:/path" */
    char host[TARGET_MAX]; /* or the path */
    char port[6];          /* "" for a path */
};

struct addresses {
    struct sockaddr_storage at[ADDRESSES_MAX];
    socklen_t len[ADDRESSES_MAX];
    size_t n;
};

/* Reads one server out of a list, up to a comma or its end, and moves *at behind it.
 * False, and why in error, where it is none. */
bool target_parse(const char **at, struct target *ret, char *error, size_t error_size);

/* The addresses of a target that needs no lookup; false for one that does. */
bool target_addresses(const struct target *t, struct addresses *ret);

struct lookup;

/* Begins a lookup; wake_fd, an eventfd, is written to when it is done. NULL when there
 * is no memory or no thread. */
struct lookup *lookup_start(const struct target *t, int wake_fd);

/* Whether it is done; then 0 with the addresses, or getaddrinfo's code, in *ret_rc. */
bool lookup_done(struct lookup *l, struct addresses *ret, int *ret_rc);

/* Ends it, done or not; NULL is allowed. */
void lookup_end(struct lookup *l);

#endif
