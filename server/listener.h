/* listener.h - sockets that accept connections: TCP over IPv4 and IPv6, and Unix. */
#ifndef HILO_LISTENER_H
#define HILO_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define LISTENERS_MAX      16
#define LISTENER_NAME_MAX  160
#define LISTENER_ERROR_MAX 512

struct event_base;
struct listener;

/* Called for each connection, which is non-blocking and closed on exec. */
typedef void listener_fn(void *arg, int fd, bool is_tcp);

struct listeners {
    struct listener *list[LISTENERS_MAX];
    size_t n;
    listener_fn *accepted_fn;
    void *arg;
};

/* All of these: 0, or -1 and what is wrong in error (LISTENER_ERROR_MAX bytes);
 * *ret_config tells whether it is a matter of configuration. An address beyond this
 * machine is refused unless open is set. */

/* Listens on every address of "HOST:PORT,[HOST6]:PORT"; port 0 picks a free one. */
int listeners_add_tcp(struct listeners *l, struct event_base *base,
                      const char *addresses, bool open, char *error, bool *ret_config);

/* Listens on a Unix socket. What a crash left behind is replaced; a socket somebody
 * listens on is never taken, and what is not a socket never touched. */
int listeners_add_unix(struct listeners *l, struct event_base *base, const char *path,
                       mode_t mode, char *error, bool *ret_config);

/* Takes a socket that a service manager has bound; its name stays when it is closed. */
int listeners_add_inherited(struct listeners *l, struct event_base *base, int fd,
                            bool open, char *error, bool *ret_config);

/* "127.0.0.1:4456", "[::1]:4456", "unix:/path"; the port is the real one. */
const char *listener_name(const struct listener *l);
bool listener_is_tcp(const struct listener *l);

/* Whether other machines can reach one of them. */
bool listeners_reachable(const struct listeners *all);

/* Closes all; sockets' files that are still ours are removed. */
void listeners_close(struct listeners *l);

#endif
