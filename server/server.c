/* server.c - the state of a running hilod, and the way from a name to its sequence. */
#include "server.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "clock.h"
#include "error.h"
#include "log.h"
#include "name.h"
#include "number.h"
#include "random.h"

int64_t server_now_ms(struct server *s)
{
    if (s->now_ms == 0)
        s->now_ms = clock_steady_ms();
    return s->now_ms;
}

bool server_ready(const struct server *s)
{
    return !s->batcher.env.ended && !s->stopping;
}

/* --- sequences --- */

static void __attribute__((format(printf, 3, 4)))
refuse(struct server_refusal *ret, int err, const char *fmt, ...)
{
    va_list ap;

    ret->err = err;
    va_start(ap, fmt);
    vsnprintf(ret->text, sizeof ret->text, fmt, ap);
    va_end(ap);
}

static struct seq *make(struct server *s, const char *name, size_t len,
                        const struct counter_attr *attr, struct server_refusal *ret_why)
{
    struct seq *seq;

    if (catalog_knows(&s->catalog, name, len)) { /* it can't be woken */
        refuse(ret_why, HILO_ETRYAGAIN, "out of memory");
        return NULL;
    }
    if (s->catalog.n_named >= s->options->max_sequences) {
        refuse(ret_why, HILO_EBADARG,
               "there are %" PRIu64
               " sequences, as many as max_sequences allows; raise it, or "
               "use one that exists",
               s->catalog.n_named);
        return NULL;
    }
    if (!server_ready(s)) {
        refuse(ret_why, HILO_ESTORAGE, "%s", s->batcher.env.why);
        return NULL;
    }
    seq = catalog_add(&s->catalog, name, len, attr);
    if (seq != NULL)
        return seq;
    refuse(ret_why, HILO_ETRYAGAIN, "out of memory");
    return NULL;
}

struct seq *server_seq_create(struct server *s, const char *name, size_t len,
                              const struct counter_attr *attr,
                              struct server_refusal *ret_why)
{
    struct seq *seq = catalog_find(&s->catalog, name, len);

    if (seq != NULL)
        return seq;
    if (!name_valid(name, len)) {
        refuse(ret_why, HILO_EBADARG, "name has to be " NAME_RULE);
        return NULL;
    }
    return make(s, name, len, attr, ret_why);
}

struct seq *server_seq_existing(struct server *s, const char *name, size_t len,
                                struct server_refusal *ret_why)
{
    struct seq *seq = catalog_find(&s->catalog, name, len);

    if (seq != NULL)
        return seq;
    if (!name_valid(name, len))
        refuse(ret_why, HILO_EBADARG, "name has to be " NAME_RULE);
    else if (catalog_knows(&s->catalog, name, len)) /* it can't be woken */
        refuse(ret_why, HILO_ETRYAGAIN, "out of memory");
    else
        refuse(ret_why, HILO_ENOSEQ,
               "there is no sequence '%.*s'; make it%s with: SEQ CREATE %.*s", (int)len,
               name, s->identity.lane.lanes > 1 ? " on the server of every lane" : "",
               (int)len, name);
    return NULL;
}

struct seq *server_seq(struct server *s, const char *name, size_t len,
                       struct server_refusal *ret_why)
{
    const struct counter_attr defaults = {.start = 1, .max = HILO_ID_MAX};
    struct seq *seq = catalog_find(&s->catalog, name, len);

    if (__builtin_expect(seq != NULL, 1))
        return seq;
    if (s->auto_create)
        return server_seq_create(s, name, len, &defaults, ret_why);
    return server_seq_existing(s, name, len, ret_why);
}

static void on_created(void *arg, struct seq *seq)
{
    struct server *s = arg;

    catalog_list(&s->catalog, seq);
    log_limited(&s->batcher.env.admin_log, LOG_INFO, "sequence %s: created", seq->name);
}

static void on_forget(void *arg, struct seq *seq)
{
    struct server *s = arg;

    catalog_forget(&s->catalog, seq);
}

static void on_backup(void *arg, const char *error)
{
    struct server *s = arg;
    struct request *r = s->backup;

    if (error[0] != '\0')
        request_refuse(r, HILO_ESTORAGE, "%s", error);
    r->decided = true;
    log_line(error[0] != '\0' ? LOG_WARNING : LOG_INFO, "backup %s: %s", s->backup_path,
             error[0] != '\0' ? error : "made");
    free(s->backup_path);
    s->backup_path = NULL;
    s->backup = NULL;
    if (r->owner == NULL)
        request_free(&s->batcher.env.pool, r);
    else
        r->decided_fn(r);
}

/* --- loading --- */

struct loading {
    struct server *server;
    bool failed;
};

static void load_counter(void *arg, uint64_t counter, const char *name, size_t name_len,
                         const struct counter_attr *attr, uint64_t mark)
{
    struct loading *l = arg;
    struct server *s = l->server;

    if (!l->failed)
        l->failed = !name_valid(name, name_len) ||
                    !catalog_load(&s->catalog, counter, name, name_len, attr, mark);
}

static void load_token(void *arg, const struct store_token *token)
{
    struct loading *l = arg;

    if (!l->failed)
        l->failed = !tokens_load(&l->server->batcher.tokens, token);
}

static int load(struct server *s, struct store_error *ret_error)
{
    struct loading l = {.server = s};

    if (s->guard->engine->load(s->guard->store, load_counter, &l, ret_error) != 0)
        return -1;
    if (s->guard->engine->load_tokens != NULL &&
        s->guard->engine->load_tokens(s->guard->store, load_token, &l, ret_error) != 0)
        return -1;
    if (!l.failed)
        return 0;
    store_error_set(ret_error, false,
                    "out of memory, or the store holds a sequence whose name can't be");
    return -1;
}

int server_init(struct server *s, struct options *o, const struct guard *g,
                struct event_base *base, struct store_error *ret_error)
{
    *s = (struct server){.options = o,
                         .guard = g,
                         .base = base,
                         .identity = g->id,
                         .next_conn_id = 1,
                         .out_cap = SERVER_OUT_SIZE};
    s->started_ms = clock_steady_ms();
    snprintf(s->boot_id, sizeof s->boot_id, "%" PRIu64 "-%016" PRIx64, g->id.starts,
             random_u64());
    s->in = malloc(SERVER_READ_MAX);
    s->out = malloc(s->out_cap);
    if (s->in == NULL || s->out == NULL ||
        !catalog_init(&s->catalog, &s->batcher.env, random_u64())) {
        store_error_set(ret_error, false, "out of memory");
        return -1;
    }
    batcher_init(&s->batcher, g->id.lane);
    if (!tokens_init(&s->batcher.tokens, &s->batcher.env.pool, g->id.uptime_ms,
                     s->started_ms, random_u64())) {
        store_error_set(ret_error, false, "out of memory");
        return -1;
    }
    s->batcher.arg = s;
    s->batcher.created_fn = on_created;
    s->batcher.forget_fn = on_forget;
    s->batcher.backup_fn = on_backup;
    return load(s, ret_error);
}

void server_free(struct server *s)
{
    if (s->catalog.buckets != NULL)
        catalog_free(&s->catalog);
    if (s->backup != NULL) /* its connection is gone */
        request_free(&s->batcher.env.pool, s->backup);
    free(s->backup_path);
    batcher_free(&s->batcher);
    free(s->in);
    free(s->out);
}
