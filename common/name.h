/* name.h - names of sequences: 1 to 128 bytes of A-Z a-z 0-9 . _ : / and -, case
 * matters. */
#ifndef HILO_NAME_H
#define HILO_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME_MAX_LEN 128

/* What NAME_RULE refuses, for error texts. */
#define NAME_RULE "1 to 128 bytes of A-Z a-z 0-9 . _ : / -"

bool name_valid(const char *p, size_t len);

/* A keyed hash; a seed that peers don't know keeps them from making names that collide.
 */
uint64_t name_hash(const char *p, size_t len, uint64_t seed);

/* Glob: '*' any bytes, '?' one byte, anything else itself. Linear in len * pattern
 * length. */
bool name_match(const char *pattern, size_t pattern_len, const char *p, size_t len);

/* Tokens, by which a caller asks for a grant again. */
#define TOKEN_MAX_LEN 128
#define TOKEN_RULE    "1 to 128 printable bytes without spaces"

bool token_valid(const char *p, size_t len);

#endif
