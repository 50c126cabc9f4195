/* login.c - who may give commands. */
#include "login.h"

#include <string.h>
#include "error.h"
#include "password.h"

#define HOLD_MS   1000 /* an answer to a wrong password comes so much later */
#define TRIES_MAX 5    /* of one connection */

enum command_result login_missing(struct call *c)
{
    return command_fail(
        c, HILO_ENOAUTH,
        "log in first, with: AUTH password, or: HELLO 3 AUTH " PASSWORD_USER
        " password");
}

static bool is_user(struct resp_arg user)
{
    return user.len == sizeof PASSWORD_USER - 1 &&
           memcmp(user.p, PASSWORD_USER, user.len) == 0;
}

bool login(struct call *c, struct resp_arg user, struct resp_arg password,
           enum command_result *ret_result)
{
    struct server *s = c->server;
    struct session *session = c->session;

    if (s->passwords.n == 0) {
        *ret_result =
            command_fail(c, HILO_EERR,
                         "Client sent AUTH, but no password is set: hilod has no "
                         "password_file. Connect without one");
        return false;
    }
    if (passwords_match(&s->passwords, password.p, password.len) && is_user(user)) {
        session->auth_failures = 0;
        return true;
    }
    s->auth_failures++;
    session->auth_failures++;
    session->held_until_ms = c->now_ms + HOLD_MS;
    *ret_result = command_fail(c, HILO_EWRONGPASS, "invalid user name or password");
    if (session->auth_failures >= TRIES_MAX)
        *ret_result = COMMAND_CLOSE;
    return false;
}

enum command_result cmd_auth(struct call *c, struct request **ret_request)
{
    static const struct resp_arg default_user = {.p = PASSWORD_USER,
                                                 .len = sizeof PASSWORD_USER - 1};
    const struct resp_request *args = c->args;
    enum command_result result;

    (void)ret_request;
    if (!login(c, args->argc == 3 ? args->argv[1] : default_user,
               args->argv[args->argc - 1], &result))
        return result;
    c->session->logged_in = true;
    reply_status(c->out, "OK");
    return COMMAND_ANSWERED;
}
