/* clock.h - the only place where a clock is read. */
#ifndef HILO_CLOCK_H
#define HILO_CLOCK_H

#include <stdint.h>

/* Neither goes back; they count from the same arbitrary moment, and are above 0. The
 * one in milliseconds is a tick of the system's behind at most, 10 ms at the worst, and
 * costs a fifth. */
int64_t clock_steady_us(void);
int64_t clock_steady_ms(void);
int64_t clock_wall_ms(void); /* Unix time; may jump */

/* A descriptor that is readable every us microseconds; reading it answers how often
 * that was. -1 when there is none. */
int clock_ticker(int64_t us);

/* Lets at least ms milliseconds pass. For start-up only, never on the loop. */
void clock_sleep_ms(int64_t ms);

#endif
