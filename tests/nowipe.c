/* nowipe.c - preloaded: a kernel without MADV_WIPEONFORK. */
#include <errno.h>
#include <stddef.h>

int madvise(void *at, size_t len, int advice);

int madvise(void *at, size_t len, int advice)
{
    (void)at;
    (void)len;
    (void)advice;
    errno = EINVAL;
    return -1;
}
