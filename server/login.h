/* login.h - who may give commands: passwords, and what guessing them costs. */
#ifndef HILO_LOGIN_H
#define HILO_LOGIN_H

#include <stdbool.h>
#include "command.h"

/* Whether user and password are right. If not, that is answered in *ret_result, held
 * back for a while and counted; a connection has a few tries. */
bool login(struct call *c, struct resp_arg user, struct resp_arg password,
           enum command_result *ret_result);

/* Answers a command that needs a login. */
enum command_result login_missing(struct call *c);

#endif
