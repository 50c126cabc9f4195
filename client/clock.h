/* clock.h - the steady clock; nothing in the library asks for the time of day. */
#ifndef HILO_CLIENT_CLOCK_H
#define HILO_CLIENT_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Microseconds since some moment, never 0. */
int64_t steady_us(void);

/* The same moment for pthread_cond_timedwait on CLOCK_MONOTONIC. */
struct timespec steady_timespec(int64_t us);

#endif
