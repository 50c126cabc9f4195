/* reply_parse.c - the reply parser. */
#include "reply_parse.h"

#include <string.h>
#include "number.h"

struct cursor {
    const char *at;
    const char *end;
};

/* A line up to CR LF; the cursor moves behind it. */
static enum reply_status take_line(struct cursor *c, const char **ret, size_t *ret_len)
{
    size_t have = (size_t)(c->end - c->at);
    size_t look = have < REPLY_MAX_LINE ? have : REPLY_MAX_LINE;
    const char *cr = memchr(c->at, '\r', look);

    if (memchr(c->at, '\n', cr != NULL ? (size_t)(cr - c->at) : look) != NULL)
        return REPLY_BAD;
    if (cr == NULL)
        return have < REPLY_MAX_LINE ? REPLY_MORE : REPLY_BAD;
    if (cr + 1 == c->end)
        return REPLY_MORE;
    if (cr[1] != '\n')
        return REPLY_BAD;
    *ret = c->at;
    *ret_len = (size_t)(cr - c->at);
    c->at = cr + 2;
    return REPLY_OK;
}

/* The text of a bulk string whose header was read. */
static enum reply_status take_text(struct cursor *c, size_t max_text,
                                   struct reply_item *item)
{
    size_t have = (size_t)(c->end - c->at);

    if (item->n > (int64_t)max_text)
        return REPLY_BAD;
    item->p = c->at;
    item->len = (size_t)item->n;
    if (have > item->len && c->at[item->len] != '\r')
        return REPLY_BAD;
    if (have < item->len + 2)
        return REPLY_MORE;
    if (c->at[item->len + 1] != '\n')
        return REPLY_BAD;
    c->at += item->len + 2;
    return REPLY_OK;
}

/* The length behind '$' or '*': 0 and more, or -1, which is nil. */
static enum reply_status take_sized(struct cursor *c, size_t max_text,
                                    struct reply_item *item)
{
    if (!number_parse_i64(item->p, item->len, &item->n) || item->n < -1)
        return REPLY_BAD;
    if (item->n == -1)
        item->type = REPLY_NIL;
    else if (item->type == REPLY_BULK)
        return take_text(c, max_text, item);
    return REPLY_OK;
}

static enum reply_status take_item(struct cursor *c, size_t max_text,
                                   struct reply_item *item)
{
    static const char kinds[] = {[REPLY_STATUS] = '+',
                                 [REPLY_ERROR] = '-',
                                 [REPLY_INTEGER] = ':',
                                 [REPLY_BULK] = '$',
                                 [REPLY_ARRAY] = '*'};
    const char *kind;
    enum reply_status status;

    if (c->at == c->end)
        return REPLY_MORE;
    kind = memchr(kinds, *c->at, sizeof kinds);
    if (kind == NULL)
        return REPLY_BAD;
    c->at++;
    status = take_line(c, &item->p, &item->len);
    if (status != REPLY_OK)
        return status;
    item->n = 0;
    item->type = (enum reply_type)(kind - kinds);
    if (item->type == REPLY_BULK || item->type == REPLY_ARRAY)
        return take_sized(c, max_text, item);
    if (item->type == REPLY_INTEGER && !number_parse_i64(item->p, item->len, &item->n))
        return REPLY_BAD;
    return REPLY_OK;
}

enum reply_status reply_parse(const char *buf, size_t len, size_t max_text,
                              struct reply_item *items, size_t cap, size_t *ret_n,
                              size_t *ret_size)
{
    struct cursor c = {.at = buf, .end = buf + len};
    size_t n = 0, missing = 1;

    while (missing > 0) {
        enum reply_status status;

        if (n == cap)
            return REPLY_BAD;
        status = take_item(&c, max_text, &items[n]);
        if (status != REPLY_OK)
            return status;
        missing--;
        if (items[n].type == REPLY_ARRAY) {
            if ((uint64_t)items[n].n > cap)
                return REPLY_BAD;
            missing += (size_t)items[n].n;
        }
        n++;
        if (missing > cap - n)
            return REPLY_BAD;
    }
    *ret_n = n;
    *ret_size = (size_t)(c.at - buf);
    return REPLY_OK;
}

bool reply_number(const struct reply_item *item, uint64_t *ret)
{
    return (item->type == REPLY_BULK || item->type == REPLY_INTEGER) &&
           number_parse_u64(item->p, item->len, ret);
}

bool reply_is(const struct reply_item *item, const char *text)
{
    return (item->type == REPLY_BULK || item->type == REPLY_STATUS) &&
           item->len == strlen(text) && memcmp(item->p, text, item->len) == 0;
}

size_t reply_extent(const struct reply_item *items)
{
    size_t n = 0, missing = 1;

    while (missing > 0) {
        missing += items[n].type == REPLY_ARRAY ? (size_t)items[n].n : 0;
        missing--;
        n++;
    }
    return n;
}
