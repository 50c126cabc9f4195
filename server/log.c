/* log.c - the log. */
#include "log.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "clock.h"

#define LINE_MAX_BYTES 2048
#define TEXT_MAX_BYTES (LINE_MAX_BYTES / 2)
#define LIMIT_MS       1000

static const char *const words[] = {"error", "warning", "info", "debug"};
static enum log_level threshold = LOG_INFO;
static atomic_ullong dropped; /* lines since the last that could be written */

bool log_level_parse(const char *word, enum log_level *ret)
{
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i]) == 0) {
            *ret = (enum log_level)i;
            return true;
        }
    }
    return false;
}

void log_set_level(enum log_level level)
{
    threshold = level;
}

static size_t put_prefix(char *line, enum log_level level)
{
    int64_t now = clock_wall_ms();
    time_t seconds = (time_t)(now / 1000);
    struct tm tm;
    size_t len;

    gmtime_r(&seconds, &tm);
    len = strftime(line, LINE_MAX_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
    len += (size_t)snprintf(line + len, LINE_MAX_BYTES - len, ".%03dZ %s ",
                            (int)(now % 1000), words[level]);
    return len;
}

static size_t put_escaped(char *line, size_t len, const char *text)
{
    for (; *text != '\0' && len < LINE_MAX_BYTES - 8; text++) {
        unsigned char c = (unsigned char)*text;

        if (c < ' ' || c == 0x7f)
            len += (size_t)snprintf(line + len, LINE_MAX_BYTES - len, "\\x%02x", c);
        else
            line[len++] = (char)c;
    }
    return len;
}

static bool takes_more(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0;
}

/* Writes a line at once, so that lines of two threads don't mix. */
static bool put_line(enum log_level level, const char *text)
{
    char line[LINE_MAX_BYTES];
    size_t len;

    if (!takes_more())
        return false;
    len = put_escaped(line, put_prefix(line, level), text);
    line[len++] = '\n';
    return write(STDERR_FILENO, line, len) == (ssize_t)len;
}

static void put(enum log_level level, const char *text)
{
    unsigned long long n = atomic_exchange(&dropped, 0);
    char note[64];

    snprintf(note, sizeof note, "%llu lines before this one could not be written", n);
    if (n > 0 && !put_line(LOG_WARNING, note))
        n++;
    else if (put_line(level, text))
        return;
    else
        n = 1;
    atomic_fetch_add(&dropped, n);
}

void log_line(enum log_level level, const char *fmt, ...)
{
    char text[TEXT_MAX_BYTES];
    va_list ap;

    if (level > threshold)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    put(level, text);
}

void log_limited(struct log_limit *limit, enum log_level level, const char *fmt, ...)
{
    char text[TEXT_MAX_BYTES];
    int64_t now_ms = clock_steady_ms();
    va_list ap;
    int len;

    if (level > threshold)
        return;
    if (now_ms < limit->until_ms) {
        limit->left_out++;
        return;
    }
    va_start(ap, fmt);
    len = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (limit->left_out > 0 && len >= 0 && (size_t)len < sizeof text)
        snprintf(text + len, sizeof text - (size_t)len,
                 " (and %" PRIu64 " more like it)", limit->left_out);
    limit->until_ms = now_ms + LIMIT_MS;
    limit->left_out = 0;
    put(level, text);
}
