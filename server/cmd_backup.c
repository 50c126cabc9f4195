/* cmd_backup.c - BACKUP: a copy of the store, made while it is in use. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "command.h"
#include "datadir.h"
#include "error.h"
#include "name.h"

/* A file's name and nothing else: no way out of the directory, no hidden file. */
static bool is_file_name(struct resp_arg a)
{
    return name_valid(a.p, a.len) && a.p[0] != '.' && memchr(a.p, '/', a.len) == NULL;
}

static char *path_of(const struct options *o, struct resp_arg name)
{
    const char *own = o->backup_dir[0] == '\0' ? "/backup" : "";
    const char *dir = o->backup_dir[0] == '\0' ? o->data : o->backup_dir;
    char *path;

    return asprintf(&path, "%s%s/%.*s", dir, own, (int)name.len, name.p) < 0 ? NULL
                                                                             : path;
}

enum command_result cmd_backup(struct call *c, struct request **ret_request)
{
    struct resp_arg name = c->args->argv[1];
    struct server *s = c->server;
    enum command_result result;
    struct request r;
    char *path;

    if (s->guard->engine->backup == NULL)
        return command_fail(c, HILO_EBADARG, "engine %s has nothing to copy",
                            s->guard->engine->name);
    if (!is_file_name(name))
        return command_fail(
            c, HILO_EBADARG,
            "name has to be that of a new file in backup_dir: " NAME_RULE
            ", without / and not with . in front");
    if (!server_ready(s))
        return command_fail(c, HILO_ESTORAGE, "%s", s->batcher.env.why);
    if (s->backup != NULL)
        return command_fail(c, HILO_ETRYAGAIN,
                            "another backup is being made; wait for its end");
    path = path_of(s->options, name);
    if (path == NULL)
        return command_fail(c, HILO_ETRYAGAIN, "out of memory");
    if (datadir_make_parent(path) != 0 || access(path, F_OK) == 0 || errno != ENOENT) {
        result =
            command_fail(c, HILO_EBADARG, "can't make %s: %s", path,
                         access(path, F_OK) == 0 ? "there is one" : strerror(errno));
        free(path);
        return result;
    }
    request_init(&r, REQUEST_BACKUP);
    result = command_wait(c, &r, ret_request);
    if (result != COMMAND_WAITS) {
        free(path);
        return result;
    }
    s->backup = *ret_request;
    s->batcher.backup_path = s->backup_path = path;
    return result;
}
