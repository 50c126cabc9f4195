/* conn.h - one connection: bytes in, commands in order, answers in order, bytes out.
 *
 *   OPEN ──(end of input, QUIT, protocol error, server stops)──▶ DRAINING
 *   DRAINING: reads no commands; answers what waits, sends what is written ──▶
 * LINGERING LINGERING: has said that no more comes, throws away what the peer still
 * sends (closing with unread input would destroy answers on their way) ──(its end, or
 * time)──▶ freed any state ──(the peer is gone, memory is out)──▶ freed
 *
 * Memory is bounded: as long as answers wait to be sent, or many requests wait for the
 * store, nothing more is read. Loop thread only. */
#ifndef HILO_CONN_H
#define HILO_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include "server.h"

/* Takes the descriptor over, whatever happens. */
void conn_accept(struct server *s, int fd, bool is_tcp);

/* Looks at all connections for which something was decided since. */
void conn_flush_touched(struct server *s);

/* The server stops: no more commands are read. */
void conn_drain_all(struct server *s);

/* Frees connections that have lingered long enough; called about once a second. */
void conn_sweep(struct server *s, int64_t now_ms);

/* Frees all, sent or not. */
void conn_free_all(struct server *s);

#endif
