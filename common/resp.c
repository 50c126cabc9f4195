/* resp.c - the request parser. */
#include "resp.h"

#include <stdbool.h>
#include <string.h>

struct cursor {
    const char *at;
    const char *end;
};

const char *resp_fault_text(enum resp_fault fault)
{
    switch (fault) {
    case RESP_FAULT_COUNT:
        return "Protocol error: invalid multibulk length (at most 64 arguments)";
    case RESP_FAULT_LENGTH:
        return "Protocol error: invalid bulk length (at most 4096 bytes an argument)";
    case RESP_FAULT_DOLLAR:
        return "Protocol error: expected '$', an argument has to be a bulk string";
    case RESP_FAULT_END:
        return "Protocol error: a bulk string does not end where its length says";
    case RESP_FAULT_LONGLINE:
        return "Protocol error: too big inline request (at most 1024 bytes)";
    case RESP_FAULT_WORDS:
        return "Protocol error: too many words in an inline request (at most 64)";
    case RESP_FAULT_QUOTES:
        return "Protocol error: unbalanced quotes in request (escapes are not "
               "supported)";
    case RESP_FAULT_BYTES:
        return "Protocol error: control bytes in an inline request (there is no TLS "
               "here)";
    case RESP_FAULT_HTTP:
        return "Protocol error: this is not a web server";
    }
    return "Protocol error";
}

static enum resp_status __attribute__((noinline))
parse_long_header(struct cursor *c, int64_t most, int64_t *ret)
{
    size_t have = (size_t)(c->end - c->at), at = 1, digits;
    bool negative = have > 1 && c->at[1] == '-';
    int64_t n = 0;

    at += negative;
    digits = at;
    for (; at < have; at++) {
        unsigned digit = (unsigned)(unsigned char)c->at[at] - '0';

        if (digit > 9)
            break;
        if (at > digits && n == 0)
            return RESP_BAD;
        n = n * 10 + digit;
        if (n > most)
            return RESP_BAD;
    }
    if (at < have && (c->at[at] != '\r' || at == digits))
        return RESP_BAD;
    if (at + 1 < have && c->at[at + 1] != '\n')
        return RESP_BAD;
    if (at + 2 > have)
        return RESP_MORE;
    c->at += at + 2;
    *ret = negative ? -n : n;
    return RESP_OK;
}

/* The number of a header line, at most `most`; the cursor moves behind its CR LF. As in
 * Redis there are no leading zeros, which also bounds the line. Nearly all numbers have
 * one digit. */
static inline enum resp_status parse_header(struct cursor *c, int64_t most,
                                            int64_t *ret)
{
    enum resp_status status;
    struct cursor copy;
    int64_t n;

    if (__builtin_expect(c->end - c->at >= 4 && c->at[2] == '\r' && c->at[3] == '\n',
                         1)) {
        unsigned digit = (unsigned)(unsigned char)c->at[1] - '0';

        if (digit <= 9) {
            c->at += 4;
            *ret = digit;
            return RESP_OK;
        }
    }
    copy = *c; /* so that the caller's can live in registers */
    status = parse_long_header(&copy, most, &n);
    if (status == RESP_OK) {
        *c = copy;
        *ret = n;
    }
    return status;
}

static inline enum resp_status parse_bulk(struct cursor *c, struct resp_arg *ret,
                                          enum resp_fault *ret_fault)
{
    enum resp_status status;
    int64_t len;

    if (c->at == c->end)
        return RESP_MORE;
    *ret_fault = RESP_FAULT_DOLLAR;
    if (*c->at != '$')
        return RESP_BAD;
    *ret_fault = RESP_FAULT_LENGTH;
    status = parse_header(c, RESP_MAX_ARG, &len);
    if (status != RESP_OK)
        return status;
    if (len < 0)
        return RESP_BAD;
    *ret_fault = RESP_FAULT_END;
    ret->p = c->at;
    ret->len = (size_t)len;
    if (c->end - c->at >= len + 2 && c->at[len] == '\r' && c->at[len + 1] == '\n') {
        c->at += len + 2;
        return RESP_OK;
    }
    if (c->end - c->at >= len + 2 || (c->end - c->at > len && c->at[len] != '\r'))
        return RESP_BAD;
    return RESP_MORE;
}

static inline enum resp_status parse_array(struct cursor *c, struct resp_request *ret,
                                           enum resp_fault *ret_fault)
{
    enum resp_status status;
    int64_t argc;

    *ret_fault = RESP_FAULT_COUNT;
    status = parse_header(c, RESP_MAX_ARGS, &argc);
    if (status != RESP_OK)
        return status;
    ret->argc = argc < 0 ? 0 : (size_t)argc;
    for (size_t i = 0; i < ret->argc; i++) {
        status = parse_bulk(c, &ret->argv[i], ret_fault);
        if (status != RESP_OK)
            return status;
    }
    return RESP_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool has_prefix(const char *line, size_t len, const char *prefix)
{
    size_t n = strlen(prefix);

    return len >= n && memcmp(line, prefix, n) == 0;
}

static bool is_control(char c)
{
    return ((unsigned char)c < ' ' && c != '\t') || c == 0x7f;
}

static bool has_control(const char *line, const char *end)
{
    for (; line < end; line++) {
        if (is_control(*line))
            return true;
    }
    return false;
}

/* "GET / HTTP/1.1", and what else a browser can be made to send first. The version
 * stands at the end of the line whatever the method is; a header can come first on a
 * stream that was cut. */
static bool is_http(const char *line, size_t len)
{
    if (len >= 9 && is_blank(line[len - 9]) && has_prefix(line + len - 8, 8, "HTTP/"))
        return true;
    return has_prefix(line, len, "POST ") || has_prefix(line, len, "Host:");
}

/* One word of the line, without its quotes; the cursor moves behind it. */
static bool parse_word(struct cursor *c, struct resp_arg *ret)
{
    char quote = *c->at;

    if (quote != '"' && quote != '\'') {
        ret->p = c->at;
        while (c->at < c->end && !is_blank(*c->at))
            c->at++;
        ret->len = (size_t)(c->at - ret->p);
        return true;
    }
    ret->p = ++c->at;
    while (c->at < c->end && *c->at != quote && *c->at != '\\')
        c->at++;
    if (c->at == c->end || *c->at == '\\')
        return false;
    ret->len = (size_t)(c->at++ - ret->p);
    return c->at == c->end || is_blank(*c->at);
}

static enum resp_status parse_inline(struct cursor *c, struct resp_request *ret,
                                     enum resp_fault *ret_fault)
{
    size_t have = (size_t)(c->end - c->at);
    size_t window = have < RESP_MAX_INLINE ? have : RESP_MAX_INLINE;
    const char *newline = memchr(c->at, '\n', window);
    struct cursor line = {.at = c->at, .end = newline};

    *ret_fault = RESP_FAULT_BYTES;
    if (is_control(*c->at) && *c->at != '\r' && *c->at != '\n')
        return RESP_BAD; /* a record of TLS may have no line end for long */
    if (newline == NULL) {
        *ret_fault = RESP_FAULT_LONGLINE;
        return have < RESP_MAX_INLINE ? RESP_MORE : RESP_BAD;
    }
    if (line.end > line.at && line.end[-1] == '\r')
        line.end--;
    if (is_http(line.at, (size_t)(line.end - line.at))) {
        *ret_fault = RESP_FAULT_HTTP;
        return RESP_BAD;
    }
    if (has_control(line.at, line.end))
        return RESP_BAD;
    ret->argc = 0;
    for (;;) {
        while (line.at < line.end && is_blank(*line.at))
            line.at++;
        if (line.at == line.end)
            break;
        *ret_fault = RESP_FAULT_WORDS;
        if (ret->argc == RESP_MAX_ARGS)
            return RESP_BAD;
        *ret_fault = RESP_FAULT_QUOTES;
        if (!parse_word(&line, &ret->argv[ret->argc]))
            return RESP_BAD;
        ret->argc++;
    }
    c->at = newline + 1;
    return RESP_OK;
}

enum resp_status resp_parse(const char *buf, size_t len, struct resp_request *ret,
                            enum resp_fault *ret_fault)
{
    struct cursor c = {.at = buf, .end = buf + len};
    enum resp_status status;
    enum resp_fault fault = RESP_FAULT_COUNT;

    if (len == 0)
        return RESP_MORE;
    if (__builtin_expect(*buf == '*', 1))
        status = parse_array(&c, ret, &fault);
    else
        status = parse_inline(&c, ret, &fault);
    if (status == RESP_OK)
        ret->size = (size_t)(c.at - buf);
    else if (status == RESP_BAD)
        *ret_fault = fault;
    return status;
}
