/* options.c - options of handles and sequences: defaults and ranges.
 *
 * Structs begin with their size, so that programs built against an older, shorter one
 * keep working: what they don't know keeps its default. */
#include "options.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME_MAX_MS     3600000u
#define HOLD_MAX_MS     86400000u
#define LOCAL_MAX_IDS   1000000u
#define PASSWORD_MAX    512
#define CLIENT_NAME_MAX 64

void hilo_options_init(hilo_options *o)
{
    *o = (hilo_options){.size = sizeof *o,
                        .policy = HILO_ROUND_ROBIN,
                        .timeout_ms = 2000,
                        .request_ms = 500};
}

void hilo_seq_options_init(hilo_seq_options *o)
{
    *o = (hilo_seq_options){
        .size = sizeof *o, .block_min = 100, .block_max = 1000000, .hold_ms = 60000};
}

struct range {
    const char *name;
    uint64_t value, least, most;
};

static int check_ranges(const struct range *r, size_t n, char *text, size_t size)
{
    for (size_t i = 0; i < n; i++) {
        if (r[i].value >= r[i].least && r[i].value <= r[i].most)
            continue;
        snprintf(text, size, "%s is %" PRIu64 ", but has to be %" PRIu64 " to %" PRIu64,
                 r[i].name, r[i].value, r[i].least, r[i].most);
        return HILO_EARG;
    }
    return 0;
}

/* Copies a struct over its defaults; false when its size makes no sense. */
static bool copy_sized(void *ret, size_t ours, const void *theirs, size_t size,
                       char *text, size_t text_size)
{
    if (size <= sizeof(size_t) || size > ours) {
        snprintf(text, text_size,
                 "the size of the options is %zu, but has to be %zu or less; call the "
                 "init function first, and use a library no older than hilo.h",
                 size, ours);
        return false;
    }
    memcpy(ret, theirs, size);
    return true;
}

static int check_word(const char *name, const char *word, size_t most, char first,
                      char *text, size_t size)
{
    size_t len = word != NULL ? strlen(word) : 1;

    if (word == NULL)
        return 0;
    for (size_t i = 0; i < len; i++) {
        if (word[i] < first || word[i] == 0x7f)
            len = 0;
    }
    if (len > 0 && len <= most)
        return 0;
    snprintf(text, size, "%s has to have 1 to %zu bytes%s", name, most,
             first == '!' ? " without blanks or control bytes"
                          : ", none of them a control byte");
    return HILO_EARG;
}

int options_read(const hilo_options *o, hilo_options *ret, char *text, size_t size)
{
    int rc;

    hilo_options_init(ret);
    if (o != NULL && !copy_sized(ret, sizeof *ret, o, o->size, text, size))
        return HILO_EARG;
    ret->size = sizeof *ret;
    if (ret->servers == NULL)
        ret->servers = secure_getenv("HILO_SERVER");
    if (ret->servers == NULL || ret->servers[0] == '\0')
        ret->servers = "127.0.0.1:4456";
    const struct range ranges[] = {
        {"timeout_ms", ret->timeout_ms, 1, TIME_MAX_MS},
        {"request_ms", ret->request_ms, 1, TIME_MAX_MS},
        {"policy", (uint64_t)ret->policy, HILO_ROUND_ROBIN, HILO_PRIMARY},
    };
    rc = check_ranges(ranges, sizeof ranges / sizeof ranges[0], text, size);
    if (rc == 0)
        rc = check_word("password", ret->password, PASSWORD_MAX, ' ', text, size);
    if (rc == 0)
        rc = check_word("client_name", ret->client_name, CLIENT_NAME_MAX, '!', text,
                        size);
    return rc;
}

int options_read_seq(const hilo_seq_options *o, hilo_seq_options *ret, char *text,
                     size_t size)
{
    hilo_seq_options_init(ret);
    if (o != NULL && !copy_sized(ret, sizeof *ret, o, o->size, text, size))
        return HILO_EARG;
    const struct range ranges[] = {
        {"block_max", ret->block_max, 1, HILO_BLOCK_MAX},
        {"block_min", ret->block_min, 1, ret->block_max},
        {"hold_ms", ret->hold_ms, 0, HOLD_MAX_MS},
        {"local_ids", ret->local_ids, 0, LOCAL_MAX_IDS},
        {"on_demand", ret->on_demand, 0, 1},
        {"timeout_ms", ret->timeout_ms, 0, TIME_MAX_MS},
    };
    return check_ranges(ranges, sizeof ranges / sizeof ranges[0], text, size);
}
