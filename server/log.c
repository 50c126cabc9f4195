/* log.c - the log. */
#include "log.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "clock.h"

#define LINE_MAX_BYTES 2048

static const char *const words[] = {"error", "warning", "info", "debug"};
static enum log_level threshold = LOG_INFO;

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

void log_line(enum log_level level, const char *fmt, ...)
{
    char text[LINE_MAX_BYTES / 2], line[LINE_MAX_BYTES];
    size_t len;
    va_list ap;

    if (level > threshold)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    len = put_escaped(line, put_prefix(line, level), text);
    line[len++] = '\n';
    /* One write, so that lines of two threads don't mix; nobody could be told of a
     * failure. */
    if (write(STDERR_FILENO, line, len) < 0)
        return;
}
