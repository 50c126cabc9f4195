/* settings.c - options put to work. */
#include "settings.h"

#include <stdio.h>
#include <string.h>
#include "address.h"
#include "clients.h"
#include "listener.h"
#include "log.h"

bool settings_check(const struct options *o, struct passwords *ret, char *error)
{
    bool config;

    if (!passwords_read(o->password_file, ret, error))
        return false;
    if (o->listen[0] == '\0' && o->unix_path[0] == '\0') {
        snprintf(error, SETTINGS_ERROR_MAX,
                 "there is no address to listen on: give listen or unix");
        return false;
    }
    return address_each(o->listen, o->insecure || ret->n > 0, NULL, NULL, error,
                        &config) == 0;
}

void settings_apply_log(const struct options *o)
{
    enum log_level level;

    if (log_level_parse(o->log_level, &level))
        log_set_level(level);
    log_set_json(strcmp(o->log_format, "json") == 0);
}

static bool auto_create(const struct server *s)
{
    if (strcmp(s->options->auto_create, "auto") == 0)
        return s->identity.lane.lanes == 1;
    return strcmp(s->options->auto_create, "yes") == 0;
}

void settings_apply(struct server *s)
{
    s->auto_create = auto_create(s);
    s->int_cap = lane_first_above(s->identity.lane, s->options->int_reply_max);
    tokens_set(&s->batcher.tokens, s->options->max_tokens, s->options->token_ttl_s);
    clients_set_cap(s);
}

static void log_change(void *arg, const char *name, const char *value, bool taken)
{
    (void)arg;
    if (taken)
        log_line(LOG_INFO, "reload: %s is now '%s'", name, value);
    else
        log_line(LOG_WARNING, "reload: %s = '%s' needs a restart; it stays as it was",
                 name, value);
}

/* With these the new options have to get along: they don't change. */
static bool check_reload(const struct server *s, struct options *next,
                         struct passwords *ret, char *error)
{
    if (!passwords_read(next->password_file, ret, error))
        return false;
    if (ret->n == 0 && !s->options->insecure && s->reachable) {
        snprintf(error, SETTINGS_ERROR_MAX,
                 "password_file can't be taken away while other machines can reach the "
                 "port and insecure is not set");
        return false;
    }
    return true;
}

void settings_reload(struct server *s)
{
    struct options next;
    struct passwords passwords;
    char error[SETTINGS_ERROR_MAX];
    enum options_result result =
        options_read(s->options->argc, s->options->argv, &next, error);

    if (result == OPTIONS_RUN && check_reload(s, &next, &passwords, error)) {
        options_take_over(s->options, &next, log_change, NULL);
        s->passwords = passwords;
        settings_apply_log(s->options);
        settings_apply(s);
        log_line(LOG_INFO, "reload: done");
    } else {
        log_line(LOG_ERROR, "reload: nothing changed: %s", error);
    }
    options_free(&next);
}
