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

/* log10(2) is 1233/4096, nearly: that tells the digits but for one. */
static size_t count_digits(uint64_t n)
{
    static const uint64_t powers[] = {
#define P(zeros) UINT64_C(1##zeros)
        0,
        P(0),
        P(00),
        P(000),
        P(0000),
        P(00000),
        P(000000),
        P(0000000),
        P(00000000),
        P(000000000),
        P(0000000000),
        P(00000000000),
        P(000000000000),
        P(0000000000000),
        P(00000000000000),
        P(000000000000000),
        P(0000000000000000),
        P(00000000000000000),
        P(000000000000000000),
        P(0000000000000000000),
#undef P
    };
    size_t about = (size_t)(64 - __builtin_clzll(n | 1)) * 1233 >> 12;

    return about + (n >= powers[about]);
}

size_t number_format(char *dst, uint64_t n)
{
    static const char pairs[] = "00010203040506070809"
                                "10111213141516171819"
                                "20212223242526272829"
                                "30313233343536373839"
                                "40414243444546474849"
                                "50515253545556575859"
                                "60616263646566676869"
                                "70717273747576777879"
                                "80818283848586878889"
                                "90919293949596979899";
    size_t len = count_digits(n), at = len;

    while (at >= 2) {
        at -= 2;
        memcpy(dst + at, pairs + 2 * (n % 100), 2);
        n /= 100;
    }
    if (at == 1)
        dst[0] = (char)('0' + n);
    return len;
}
