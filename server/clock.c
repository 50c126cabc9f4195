/* clock.c - the clocks of the system. */
#include "clock.h"

#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static int64_t read_us(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t clock_steady_us(void)
{
    return read_us(CLOCK_MONOTONIC) + 1000;
}

int64_t clock_steady_ms(void)
{
    return read_us(CLOCK_MONOTONIC_COARSE) / 1000 + 1;
}

int64_t clock_wall_ms(void)
{
    return read_us(CLOCK_REALTIME) / 1000;
}

int clock_ticker(int64_t us)
{
    const struct timespec every = {.tv_sec = us / 1000000,
                                   .tv_nsec = us % 1000000 * 1000};
    const struct itimerspec t = {.it_interval = every, .it_value = every};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

    if (fd >= 0 && timerfd_settime(fd, 0, &t, NULL) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

void clock_sleep_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}
