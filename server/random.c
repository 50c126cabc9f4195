/* random.c - random bits. */
#include "random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

uint64_t random_u64(void)
{
    uint64_t n;

    /* Eight bytes are never cut short and, once the kernel is up, never refused. */
    if (getrandom(&n, sizeof n, 0) != (ssize_t)sizeof n)
        abort();
    return n;
}

void random_uuid(char ret[37])
{
    uint64_t high = random_u64(), low = random_u64();

    high = (high & ~UINT64_C(0xf000)) | UINT64_C(0x4000);
    low = (low & ~(UINT64_C(3) << 62)) | UINT64_C(1) << 63;
    snprintf(ret, 37,
             "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64,
             high >> 32, high >> 16 & 0xffff, high & 0xffff, low >> 48,
             low & UINT64_C(0xffffffffffff));
}
