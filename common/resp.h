/* resp.h - requests of the Redis protocol (RESP), parsed where they lie.
 *
 * The contract, after picohttpparser: the caller keeps the bytes, the parser returns
 * "more" (nothing is consumed; call again with the same bytes and some after them),
 * "ok" (arguments are slices of the caller's buffer, ret->size bytes are consumed) or
 * "bad" (the stream can't be followed any more: answer once, then close). It never
 * allocates, never writes to the buffer and looks at each byte a bounded number of
 * times per call.
 *
 * Accepted are arrays of bulk strings and, for people with netcat, inline commands:
 * words separated by blanks, quotes around a word allowed, escapes not. Empty lines,
 * "*0" and "*-1" are requests of no arguments, which get no answer, as in Redis. */
#ifndef HILO_RESP_H
#define HILO_RESP_H

#include <stddef.h>
#include <stdint.h>

#define RESP_MAX_ARGS   64
#define RESP_MAX_ARG    4096 /* bytes of one argument */
#define RESP_MAX_INLINE 1024 /* bytes of an inline command, line end included */

/* The longest request there is: "*64", and 64 times "$4096" and what it says. Whoever
 * has read this many bytes has a whole request, or one that is refused. */
#define RESP_MAX_REQUEST (5 + RESP_MAX_ARGS * (7 + RESP_MAX_ARG + 2))

struct resp_arg {
    const char *p;
    size_t len;
};

struct resp_request {
    size_t argc;
    size_t size; /* bytes consumed */
    struct resp_arg argv[RESP_MAX_ARGS];
};

enum resp_status {
    RESP_MORE,
    RESP_OK,
    RESP_BAD,
};

enum resp_fault {
    RESP_FAULT_COUNT,    /* the number of arguments */
    RESP_FAULT_LENGTH,   /* the length of an argument */
    RESP_FAULT_DOLLAR,   /* an argument that is not a bulk string */
    RESP_FAULT_END,      /* a bulk string longer than it said */
    RESP_FAULT_LONGLINE, /* an inline command over its limit */
    RESP_FAULT_WORDS,    /* an inline command of too many words */
    RESP_FAULT_QUOTES,   /* an inline command with quotes that don't end, or escapes */
    RESP_FAULT_BYTES,    /* an inline command that is no text */
    RESP_FAULT_HTTP,     /* a web client at the wrong door: close without an answer */
};

/* Parses one request from buf[0..len). ret is written with RESP_OK only, *ret_fault
 * with RESP_BAD only. */
enum resp_status resp_parse(const char *buf, size_t len, struct resp_request *ret,
                            enum resp_fault *ret_fault);

/* What to tell the peer, one sentence without line ends. */
const char *resp_fault_text(enum resp_fault fault);

#endif
