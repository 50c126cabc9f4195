/* settings.h - options put to work: at the start, and again at a reload. */
#ifndef HILO_SETTINGS_H
#define HILO_SETTINGS_H

#include "options.h"
#include "password.h"
#include "server.h"

#define SETTINGS_ERROR_MAX 1024

/* Whether options that are each in order go together and can be carried out: addresses
 * and who may reach them, the password file, which is read into *ret. Of inherited
 * sockets the addresses are not known yet. False, and why in error. */
bool settings_check(const struct options *o, struct passwords *ret, char *error);

/* Log level and format. */
void settings_apply_log(const struct options *o);

/* What the server derives from its options. */
void settings_apply(struct server *s);

/* Reads command line, file and password file again and takes over what can be changed.
 * With anything wrong in them nothing changes. The log tells. */
void settings_reload(struct server *s);

#endif
