/* random.h - random bits from the kernel, for identities. */
#ifndef HILO_RANDOM_H
#define HILO_RANDOM_H

#include <stdint.h>

uint64_t random_u64(void);

/* A random UUID (RFC 9562, version 4) as text, with a terminating zero. */
void random_uuid(char ret[37]);

#endif
