/* number.h - decimal numbers as the wire carries them, read strictly and written fast.
 *
 * Strict means Redis's own rule: digits only, no sign but a leading '-', no leading
 * zero, no space, nothing after the last digit. "05", "+5", "-0", "1e3" and "" are not
 * numbers. */
#ifndef HILO_NUMBER_H
#define HILO_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that hold any 64-bit number, sign included; there is no terminating zero. */
#define NUMBER_MAX 20

/* The largest id: ids fit a signed 64-bit integer, as every database column does. */
#define HILO_ID_MAX ((uint64_t)INT64_MAX)

/* False, and nothing written, where p[0..len) is not a number or does not fit. */
bool number_parse_u64(const char *p, size_t len, uint64_t *ret);
bool number_parse_i64(const char *p, size_t len, int64_t *ret);

/* Writes n in decimal to dst, which has room for NUMBER_MAX bytes; returns the length.
 */
size_t number_format(char *dst, uint64_t n);

/* a + b, a * b into *ret; false, and nothing written, when that passes 2^64-1. */
static inline bool number_add(uint64_t a, uint64_t b, uint64_t *ret)
{
    uint64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *ret = sum;
    return true;
}

static inline bool number_mul(uint64_t a, uint64_t b, uint64_t *ret)
{
    uint64_t product;

    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *ret = product;
    return true;
}

#endif
