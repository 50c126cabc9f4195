/* reply.c - fuzzes the reply parser as a stream of replies.
 *
 * The oracles of request.c. Splitting: a reply is incomplete with every part of its
 * bytes; a bad one is incomplete up to some byte and bad from there on. Round trip: a
 * reply that was understood, written anew, is understood as the same. */
#include <inttypes.h>
#include <string.h>
#include "fuzz.h"
#include "reply_parse.h"

#define ITEMS     64
#define TEXT_MAX  1024
#define SPLIT_MAX 1024 /* bytes split everywhere; of longer replies every so many */

struct parsed {
    struct reply_item items[ITEMS];
    size_t n, size;
};

/* From a buffer of exactly that size, so that a byte too far is seen. */
static enum reply_status parse(const char *text, size_t len, struct parsed *ret)
{
    char *exact = malloc(len > 0 ? len : 1);
    enum reply_status status;

    CHECK(exact != NULL);
    memcpy(exact, text, len);
    status = reply_parse(exact, len, TEXT_MAX, ret->items, ITEMS, &ret->n, &ret->size);
    CHECK(memcmp(exact, text, len) == 0);
    if (status == REPLY_OK) {
        CHECK(ret->size > 0 && ret->size <= len);
        CHECK(ret->n >= 1 && ret->n <= ITEMS);
        CHECK(reply_extent(ret->items) == ret->n);
        for (size_t i = 0; i < ret->n; i++) {
            struct reply_item *item = &ret->items[i];

            CHECK(item->len <= TEXT_MAX);
            CHECK(item->p >= exact && item->p + item->len <= exact + ret->size);
            item->p = text + (item->p - exact);
        }
    }
    free(exact);
    return status;
}

static void check_splits(const char *text, size_t len, enum reply_status whole)
{
    size_t step = len > SPLIT_MAX ? len / SPLIT_MAX + 1 : 1;
    bool was_bad = false;
    static struct parsed part;

    for (size_t cut = 0; cut < len; cut += step) {
        enum reply_status status = parse(text, cut, &part);

        CHECK(status != REPLY_OK);
        CHECK(status == REPLY_BAD || !was_bad);
        CHECK(status != REPLY_BAD || whole == REPLY_BAD);
        was_bad = status == REPLY_BAD;
    }
}

static size_t write_item(char *to, const struct reply_item *item)
{
    switch (item->type) {
    case REPLY_STATUS:
        return (size_t)sprintf(to, "+%.*s\r\n", (int)item->len, item->p);
    case REPLY_INTEGER:
        return (size_t)sprintf(to, ":%" PRId64 "\r\n", item->n);
    case REPLY_ARRAY:
        return (size_t)sprintf(to, "*%" PRId64 "\r\n", item->n);
    case REPLY_NIL:
        return (size_t)sprintf(to, "$-1\r\n");
    default:
        break;
    }
    size_t at = item->type == REPLY_BULK ? (size_t)sprintf(to, "$%zu\r\n", item->len)
                                         : (size_t)sprintf(to, "-");

    memcpy(to + at, item->p, item->len);
    memcpy(to + at + item->len, "\r\n", 2);
    return at + item->len + 2;
}

static void check_round_trip(const struct parsed *p)
{
    static char text[ITEMS * (TEXT_MAX + 32)];
    static struct parsed again;
    size_t len = 0;

    for (size_t i = 0; i < p->n; i++) {
        const struct reply_item *item = &p->items[i];

        /* sprintf ends at a zero byte, which a status may hold */
        if (item->type == REPLY_STATUS && memchr(item->p, '\0', item->len) != NULL)
            return;
        len += write_item(text + len, item);
    }
    CHECK(parse(text, len, &again) == REPLY_OK);
    CHECK(again.size == len && again.n == p->n);
    for (size_t i = 0; i < p->n; i++) {
        uint64_t a = 0, b = 0;

        CHECK(again.items[i].type == p->items[i].type);
        CHECK(again.items[i].n == p->items[i].n);
        CHECK(reply_number(&again.items[i], &a) == reply_number(&p->items[i], &b));
        CHECK(a == b);
        if (p->items[i].type == REPLY_NIL || p->items[i].type == REPLY_ARRAY)
            continue;
        CHECK(again.items[i].len == p->items[i].len);
        CHECK(memcmp(again.items[i].p, p->items[i].p, p->items[i].len) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    static struct parsed p;

    for (;;) {
        enum reply_status status = parse(text, size, &p);

        if (status != REPLY_OK) {
            check_splits(text, size, status);
            return 0;
        }
        check_splits(text, p.size, status);
        check_round_trip(&p);
        text += p.size;
        size -= p.size;
    }
}
