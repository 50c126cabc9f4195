/* address.h - addresses to listen on, as an administrator writes them. */
#ifndef HILO_ADDRESS_H
#define HILO_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>
#include <sys/socket.h>

#define ADDRESS_ERROR_MAX 512

/* Called with one address and the text it comes from. 0, or -1 and why in error. */
typedef int address_fn(void *arg, const struct addrinfo *ai, const char *text,
                       char *error);

/* Calls fn (unless it is NULL) for every address of "HOST:PORT,[HOST6]:PORT". One that
 * other machines can reach is refused unless open is set. 0, or -1 and what is wrong in
 * error (ADDRESS_ERROR_MAX bytes); *ret_config tells whether that is a matter of
 * configuration rather than fn's failure. */
int address_each(const char *addresses, bool open, address_fn *fn, void *arg,
                 char *error, bool *ret_config);

/* Whether only this machine can reach it. */
bool address_is_local(const struct sockaddr *sa);

/* 0 for one that is, or where open is set; or -1 and why in error. */
int address_check_reach(const struct sockaddr *sa, const char *text, bool open,
                        char *error);

#endif
