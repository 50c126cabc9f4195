/* session.h - what a connection has said about itself. */
#ifndef HILO_SESSION_H
#define HILO_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#define SESSION_NAME_MAX 64

struct session {
    uint64_t id;
    int proto; /* 2 or 3 */
    bool logged_in;
    unsigned auth_failures;
    int64_t held_until_ms; /* after a wrong password; steady; 0: not */
    char name[SESSION_NAME_MAX + 1];
    char lib_name[SESSION_NAME_MAX + 1];
    char lib_version[SESSION_NAME_MAX + 1];
};

#endif
