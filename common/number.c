/* number.c - decimal numbers. */
#include "number.h"

#include <string.h>

bool number_parse_u64(const char *p, size_t len, uint64_t *ret)
{
    uint64_t n = 0;

    if (len == 0 || len > NUMBER_MAX || (p[0] == '0' && len > 1))
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)(unsigned char)p[i] - '0';

        if (digit > 9 || !number_mul(n, 10, &n) || !number_add(n, digit, &n))
            return false;
    }
    *ret = n;
    return true;
}

bool number_parse_i64(const char *p, size_t len, int64_t *ret)
{
    bool negative = len > 0 && p[0] == '-';
    uint64_t n;

    if (!number_parse_u64(p + negative, len - negative, &n))
        return false;
    if (n > (uint64_t)INT64_MAX + negative || (negative && n == 0))
        return false;
    *ret = (int64_t)(negative ? 0 - n : n);
    return true;
}

size_t number_format(char *dst, uint64_t n)
{
    char tmp[NUMBER_MAX];
    size_t at = NUMBER_MAX;

    do {
        tmp[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    memcpy(dst, tmp + at, NUMBER_MAX - at);
    return NUMBER_MAX - at;
}
