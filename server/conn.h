/* conn.h - one connection: bytes in, commands in order, answers in order, bytes out.
 *
 *   OPEN ──(end of input, QUIT, protocol error, server stops)──▶ DRAINING
 *   DRAINING: reads no commands; answers what waits, sends what is written ──▶
 * LINGERING LINGERING: has said that no more comes, throws away what the peer still
 * sends (closing with unread input would destroy answers on their way) ──(its end, or
 * time)──▶ freed any state ──(the peer is gone, memory is out)──▶ freed
 *
 * Memory is bounded: as long as answers wait to be sent, or many requests wait for the
 * store, nothing more is read. Whoever has the loop only. */
#ifndef HILO_CONN_H
#define HILO_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include "server.h"

/* A new connection in the server's list; takes the descriptor over, whatever happens.
 * NULL when memory is out. */
struct conn *conn_new(struct server *s, int fd);

/* Sent or not. */
void conn_free(struct conn *c);

/* The same for one that is at fault: it is counted and logged. */
void conn_drop(struct conn *c, const char *why);

/* The next in the server's list. */
struct conn *conn_next(const struct conn *c);

/* Bytes of requests and answers under way. */
size_t conn_memory(const struct conn *c);

/* Looks at all connections for which something was decided since. */
void conn_flush_touched(struct server *s);

/* No more commands are read. May free the connection, no other. */
void conn_drain(struct conn *c);

/* Sees to what is due at this time. May free the connection, no other. */
void conn_check(struct conn *c, int64_t now_ms);

#endif
