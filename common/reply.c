/* reply.c - writing replies. */
#include "reply.h"

#include <string.h>
#include "error.h"
#include "number.h"

/* A type byte, a number and a line end. */
#define HEADER_MAX (1 + NUMBER_MAX + 2)

static bool room(struct reply *r, size_t need)
{
    if (r->cap - r->len >= need)
        return !r->failed;
    if (!r->failed && r->grow != NULL && r->grow(r, need))
        return true;
    r->failed = true;
    return false;
}

static void put(struct reply *r, const char *p, size_t len)
{
    memcpy(r->data + r->len, p, len);
    r->len += len;
}

static void put_header(struct reply *r, char type, uint64_t n)
{
    r->data[r->len++] = type;
    r->len += number_format(r->data + r->len, n);
    put(r, "\r\n", 2);
}

static void header(struct reply *r, char type, uint64_t n)
{
    if (room(r, HEADER_MAX))
        put_header(r, type, n);
}

static void put_clean(struct reply *r, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (c == '\r' || c == '\n' || c == '\t')
            c = ' ';
        else if (c < ' ' || c > '~')
            c = '?';
        r->data[r->len++] = c;
    }
}

void reply_status(struct reply *r, const char *text)
{
    size_t len = strlen(text);

    if (!room(r, len + 3))
        return;
    put(r, "+", 1);
    put_clean(r, text, len);
    put(r, "\r\n", 2);
}

void reply_error(struct reply *r, int code, const char *text)
{
    const char *word = error_word(code);
    size_t word_len = strlen(word), len = strlen(text);

    if (!room(r, word_len + len + 4))
        return;
    put(r, "-", 1);
    put(r, word, word_len);
    put(r, " ", 1);
    put_clean(r, text, len);
    put(r, "\r\n", 2);
}

void reply_int(struct reply *r, uint64_t n)
{
    header(r, ':', n);
}

void reply_signed(struct reply *r, int64_t n)
{
    if (n >= 0) {
        reply_int(r, (uint64_t)n);
    } else if (room(r, HEADER_MAX + 1)) {
        put(r, ":-", 2);
        r->len += number_format(r->data + r->len, 0 - (uint64_t)n);
        put(r, "\r\n", 2);
    }
}

static void string(struct reply *r, char type, const char *prefix, const char *p,
                   size_t len)
{
    size_t prefix_len = strlen(prefix);

    if (!room(r, HEADER_MAX + prefix_len + len + 2))
        return;
    put_header(r, type, prefix_len + len);
    put(r, prefix, prefix_len);
    put(r, p, len);
    put(r, "\r\n", 2);
}

void reply_bulk(struct reply *r, const char *p, size_t len)
{
    string(r, '$', "", p, len);
}

void reply_text(struct reply *r, const char *text)
{
    string(r, '$', "", text, strlen(text));
}

void reply_id(struct reply *r, uint64_t id)
{
    reply_ids(r, id, 0, 1);
}

/* The reply to an id, into text; returns its size. */
static size_t compose(char text[REPLY_ID_MAX], char type, uint64_t id)
{
    char digits[NUMBER_MAX];
    size_t len = number_format(digits, id);
    struct reply r = {.data = text, .cap = REPLY_ID_MAX};

    if (type == '$')
        put_header(&r, type, len);
    else
        put(&r, &type, 1);
    put(&r, digits, len);
    put(&r, "\r\n", 2);
    return r.len;
}

/* Numbers that follow each other have all digits in common but the last, mostly. */
static void ids(struct reply *r, char type, uint64_t id, uint64_t step, size_t n)
{
    char text[REPLY_ID_MAX] = {0};
    size_t size = 0;
    uint64_t digit = 10;

    if (!room(r, n * REPLY_ID_MAX))
        return;
    for (; n > 0; n--, id += step, digit += step) {
        if (digit > 9) {
            size = compose(text, type, id);
            digit = id % 10;
        }
        memcpy(r->data + r->len, text, REPLY_ID_MAX);
        r->len += size;
        r->data[r->len - 3] = (char)('0' + digit);
    }
}

void reply_ints(struct reply *r, uint64_t id, uint64_t step, size_t n)
{
    ids(r, ':', id, step, n);
}

void reply_ids(struct reply *r, uint64_t id, uint64_t step, size_t n)
{
    ids(r, '$', id, step, n);
}

void reply_verbatim(struct reply *r, const char *p, size_t len)
{
    if (r->proto >= 3)
        string(r, '=', "txt:", p, len);
    else
        string(r, '$', "", p, len);
}

void reply_array(struct reply *r, size_t n)
{
    header(r, '*', n);
}

void reply_map(struct reply *r, size_t n)
{
    if (r->proto >= 3)
        header(r, '%', n);
    else
        header(r, '*', 2 * n);
}

void reply_set(struct reply *r, size_t n)
{
    header(r, r->proto >= 3 ? '~' : '*', n);
}

void reply_null(struct reply *r)
{
    if (!room(r, 5))
        return;
    if (r->proto >= 3)
        put(r, "_\r\n", 3);
    else
        put(r, "$-1\r\n", 5);
}
