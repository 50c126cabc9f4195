/* clients.h - all connections: how many, for how long, with how much memory.
 * Whoever has the loop only. */
#ifndef HILO_CLIENTS_H
#define HILO_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>
#include "server.h"

/* Settles how many connections there may be: max_clients, or fewer where the system
 * allows fewer descriptors. At the start, and when the option has changed. */
void clients_set_cap(struct server *s);

/* Takes the descriptor over, whatever happens. */
void clients_accept(struct server *s, int fd, bool is_tcp);

/* Closes connections that hold most, until all together hold what client_memory allows.
 * After each turn of the loop. */
void clients_limit(struct server *s);

/* Time-outs; called a few times a second. */
void clients_sweep(struct server *s, int64_t now_ms);

/* The server stops: no more commands are read. */
void clients_drain(struct server *s);

/* Frees all, sent or not. */
void clients_free(struct server *s);

#endif
