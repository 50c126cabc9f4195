/* password.h - the passwords of the password file. */
#ifndef HILO_PASSWORD_H
#define HILO_PASSWORD_H

#include <stdbool.h>
#include <stddef.h>

#define PASSWORDS_MAX      16
#define PASSWORD_MIN       8
#define PASSWORD_MAX       256 /* bytes */
#define PASSWORD_ERROR_MAX 512
#define PASSWORD_USER      "default" /* the only user, as in a Redis without ACLs */

struct passwords {
    size_t n; /* 0: nobody has to log in */
    size_t len[PASSWORDS_MAX];
    char text[PASSWORDS_MAX][PASSWORD_MAX];
};

/* Reads the file; an empty path gives no passwords. False, and why (PASSWORD_ERROR_MAX
 * bytes, no password in it), when it can't be had; *ret is then unchanged. */
bool passwords_read(const char *path, struct passwords *ret, char *error);

/* Whether this is one of them. Takes the same time whatever the password and however
 * much of it is right. */
bool passwords_match(const struct passwords *p, const char *text, size_t len);

#endif
