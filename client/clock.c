/* clock.c - the steady clock. */
#include "clock.h"

int64_t steady_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 + 1;
}

struct timespec steady_timespec(int64_t us)
{
    return (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
}
