/* reply_parse.h - replies of the Redis protocol (RESP2), parsed where they lie.
 *
 * The contract of resp.h: the caller keeps the bytes, the parser says "more", "ok" or
 * "bad", never allocates and never writes to them. A reply comes as a flat list of
 * items in the order of the wire: an array of n elements is one item that says n,
 * followed by those of its elements. There is no recursion: a reply nested a thousand
 * deep is only a long list, and the caller's list is the limit.
 *
 * Servers are not trusted here: every length is capped before anything is reserved or
 * waited for. */
#ifndef HILO_REPLY_PARSE_H
#define HILO_REPLY_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum reply_type {
    REPLY_STATUS,  /* +OK         text */
    REPLY_ERROR,   /* -WORD text  text */
    REPLY_INTEGER, /* :5          n */
    REPLY_BULK,    /* $3          text */
    REPLY_ARRAY,   /* *2          n elements follow */
    REPLY_NIL,     /* $-1, *-1 */
};

struct reply_item {
    enum reply_type type;
    const char *p; /* text, without its line end */
    size_t len;
    int64_t n;
};

enum reply_status {
    REPLY_MORE,
    REPLY_OK,
    REPLY_BAD,
};

#define REPLY_MAX_LINE 512 /* bytes of a status, an error or a header */

/* Parses one reply from buf[0..len) into items[0..cap). A text may have max_text bytes.
 * With REPLY_OK *ret_n items are written and *ret_size bytes consumed. */
enum reply_status reply_parse(const char *buf, size_t len, size_t max_text,
                              struct reply_item *items, size_t cap, size_t *ret_n,
                              size_t *ret_size);

/* The number a bulk string or an integer holds; false where it is none. */
bool reply_number(const struct reply_item *item, uint64_t *ret);

/* Whether the item is a text, and this one. */
bool reply_is(const struct reply_item *item, const char *text);

/* How many items the reply that begins at items[0] takes, elements included;
 * items[0..n) have to come from reply_parse. */
size_t reply_extent(const struct reply_item *items);

#endif
