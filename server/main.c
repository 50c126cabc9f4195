/* main.c - hilod: options, store, loop, exit code. */
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include "guard.h"
#include "log.h"
#include "loop.h"
#include "options.h"
#include "relane.h"
#include "settings.h"
#include "store.h"
#include "version.h"

static void ignore_signals(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a full quota is an error of the write */
    signal(SIGHUP, SIG_IGN);  /* until there is something to reload into */
}

/* The path of the witness; NULL for none. */
static const char *witness_of(const struct options *o,
                              const struct store_engine *engine, char path[PATH_MAX])
{
    if (!engine->durable || strcmp(o->witness, "off") == 0)
        return NULL;
    if (o->witness[0] != '\0')
        return o->witness;
    snprintf(path, PATH_MAX, "%s/hilo.witness", o->data);
    return path;
}

static int tell_failure(const struct store_error *error)
{
    log_line(LOG_ERROR, "%s", error->text);
    return error->config ? EX_CONFIG : 1;
}

static int seal(struct guard *g, const char *file)
{
    struct store_error error;
    int rc = relane_seal(g, file, &error);

    guard_close(g);
    return rc == 0 ? 0 : tell_failure(&error);
}

static int run(struct options *o, const struct passwords *passwords)
{
    const struct store_engine *engine = store_engine_find(o->engine);
    struct store_config config = {
        .dir = o->data, .lane = o->lane, .allow_network_fs = o->allow_network_fs};
    const struct guard_acts acts = {.new_witness = o->new_witness,
                                    .from_witness = o->from_witness,
                                    .skip = o->skip,
                                    .seal = o->relane_seal != NULL};
    char path[PATH_MAX];
    const char *witness = witness_of(o, engine, path);
    struct store_error error;
    struct guard guard;
    enum loop_end end;

    if (o->relane_open.number != 0) {
        const struct relane_open wanted = {.engine = engine,
                                           .config = config,
                                           .witness = witness,
                                           .lane = o->relane_open,
                                           .files = o->files,
                                           .n_files = o->n_files};

        return relane_open(&wanted, &error) == 0 ? 0 : tell_failure(&error);
    }
    if (guard_open(&guard, engine, &config, witness, &acts, &error) != 0)
        return tell_failure(&error);
    if (acts.seal)
        return seal(&guard, o->relane_seal);
    log_line(LOG_INFO,
             "hilod " HILO_VERSION ": store %s, engine %s, lane %" PRIu32 "/%" PRIu32
             ", stripe %" PRIu64 ", start %" PRIu64,
             guard.id.uuid, engine->name, guard.id.lane.number, guard.id.lane.lanes,
             guard.id.lane.stripe, guard.id.starts);
    if (!engine->durable)
        log_line(LOG_WARNING,
                 "engine %s FORGETS everything at its end: the same ids will be "
                 "granted again "
                 "after a restart. For tests and benchmarks only",
                 engine->name);
    end = loop_run(o, passwords, &guard);
    guard_close(&guard);
    log_line(LOG_INFO, "stopped");
    return (int)end;
}

/* Runs with options that are each in order, or only says whether it could. */
static int check_and_run(struct options *o, bool only_check)
{
    char error[SETTINGS_ERROR_MAX];
    struct passwords passwords;

    settings_apply_log(o);
    if (!settings_check(o, &passwords, error)) {
        fprintf(stderr, "hilod: %s\n", error);
        return EX_CONFIG;
    }
    if (only_check) {
        printf("hilod: the configuration is good\n");
        return 0;
    }
    ignore_signals();
    return run(o, &passwords);
}

int main(int argc, char **argv)
{
    struct options o;
    char error[OPTIONS_ERROR_MAX];
    enum options_result result = options_read(argc, argv, &o, error);
    int rc = 0;

    switch (result) {
    case OPTIONS_RUN:
    case OPTIONS_CHECK:
        rc = check_and_run(&o, result == OPTIONS_CHECK);
        break;
    case OPTIONS_DONE:
        break;
    case OPTIONS_USAGE:
    case OPTIONS_CONFIG:
        fprintf(stderr, "hilod: %s\n", error);
        rc = result == OPTIONS_USAGE ? EX_USAGE : EX_CONFIG;
        break;
    }
    options_free(&o);
    return rc;
}
