/* sock.h - the bytes of a connection: two functions, so that TLS can take their place.
 */
#ifndef HILO_SOCK_H
#define HILO_SOCK_H

#include <stddef.h>
#include <sys/types.h>

struct sock;

/* Both return the bytes moved; 0 from read is the end of the stream; -1 is an error in
 * errno, where EAGAIN means "not now, wait for the descriptor". Neither blocks or
 * raises a signal. */
struct sock_ops {
    ssize_t (*read)(struct sock *s, void *buf, size_t len);
    ssize_t (*write)(struct sock *s, const void *buf, size_t len);
};

struct sock {
    const struct sock_ops *ops;
    int fd;
};

extern const struct sock_ops sock_plain;

#define SOCK_PEER_MAX 72

/* Who is at the other end, for logs: "192.0.2.1:5000", "[2001:db8::1]:5000", "unix". */
void sock_peer(const struct sock *s, char *ret);

#endif
