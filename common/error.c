/* error.c - words and texts of the error table. */
#include "error.h"

#include <string.h>

const char *error_word(int code)
{
    switch (code) {
#define X(c, value, word, text) \
    case c:                     \
        return word;
        HILO_ERRORS(X)
#undef X
    default:
        return "ERR";
    }
}

const char *error_text(int code)
{
    switch (code) {
    case HILO_OK:
        return "no error";
#define X(c, value, word, text) \
    case c:                     \
        return text;
        HILO_ERRORS(X)
#undef X
    default:
        return "unknown error";
    }
}

int error_code(const char *p, size_t len)
{
    const char *blank = memchr(p, ' ', len);

    if (blank != NULL)
        len = (size_t)(blank - p);
#define X(code, value, word, text)                                         \
    if (len == sizeof(word) - 1 && memcmp(p, word, sizeof(word) - 1) == 0) \
        return code;
    HILO_SERVER_ERRORS(X)
#undef X
    return HILO_EERR;
}
