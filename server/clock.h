/* clock.h - the only place where a clock is read. */
#ifndef HILO_CLOCK_H
#define HILO_CLOCK_H

#include <stdint.h>

int64_t
clock_steady_ms(void); /* never goes back; counts from an arbitrary moment, > 0 */
int64_t clock_steady_us(void);
int64_t clock_wall_ms(void); /* Unix time; may jump */

/* A descriptor that is readable every us microseconds; reading it answers how often
 * that was. -1 when there is none. */
int clock_ticker(int64_t us);

/* Lets at least ms milliseconds pass. For start-up only, never on the loop. */
void clock_sleep_ms(int64_t ms);

#endif
