/* name.c - names of sequences. */
#include "name.h"

#include <string.h>

static bool allowed(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '-' && c <= ':') ||
           c == '_';
}

bool name_valid(const char *p, size_t len)
{
    if (len == 0 || len > NAME_MAX_LEN)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!allowed(p[i]))
            return false;
    }
    return true;
}

/* Multiply and fold, eight bytes at a time (the mixing step of wyhash and its
 * relatives). */
static uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Less than eight bytes as one number; reads none twice that tells names apart, and
 * none beyond. */
static uint64_t tail(const char *p, size_t len)
{
    uint32_t low, high;

    if (len >= sizeof low) {
        memcpy(&low, p, sizeof low);
        memcpy(&high, p + len - sizeof high, sizeof high);
        return (uint64_t)high << 32 | low;
    }
    if (len == 0)
        return 0;
    return (uint64_t)(unsigned char)p[0] << 16 |
           (uint64_t)(unsigned char)p[len / 2] << 8 | (unsigned char)p[len - 1];
}

uint64_t name_hash(const char *p, size_t len, uint64_t seed)
{
    uint64_t h = seed ^ len, word;

    for (; len >= sizeof word; p += sizeof word, len -= sizeof word) {
        memcpy(&word, p, sizeof word);
        h = mix(h ^ word, UINT64_C(0x9e3779b97f4a7c15));
    }
    word = tail(p, len);
    return mix(h ^ word, seed | 1);
}

bool name_match(const char *pattern, size_t pattern_len, const char *p, size_t len)
{
    size_t at = 0, i = 0, star = SIZE_MAX, resume = 0;

    while (i < len) {
        if (at < pattern_len && pattern[at] == '*') {
            star = at++;
            resume = i;
        } else if (at < pattern_len && (pattern[at] == '?' || pattern[at] == p[i])) {
            at++;
            i++;
        } else if (star != SIZE_MAX) {
            at = star + 1;
            i = ++resume;
        } else {
            return false;
        }
    }
    while (at < pattern_len && pattern[at] == '*')
        at++;
    return at == pattern_len;
}

bool token_valid(const char *p, size_t len)
{
    if (len < 1 || len > TOKEN_MAX_LEN)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (p[i] <= ' ' || p[i] > '~')
            return false;
    }
    return true;
}
