/* log.c - the log. */
#include "log.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "clock.h"

#define LINE_MAX_BYTES 2048
#define TEXT_MAX_BYTES (LINE_MAX_BYTES / 2)
#define LIMIT_MS       1000

static const struct {
    const char *word;
    int priority; /* syslog(3) */
} levels[] = {{"error", 3}, {"warning", 4}, {"info", 6}, {"debug", 7}};

static atomic_int threshold = LOG_INFO;
static atomic_bool json;
static atomic_ullong dropped; /* lines since the last that could be written */

bool log_level_parse(const char *word, enum log_level *ret)
{
    for (unsigned i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (strcmp(word, levels[i].word) == 0) {
            *ret = (enum log_level)i;
            return true;
        }
    }
    return false;
}

void log_set_level(enum log_level level)
{
    threshold = (int)level;
}

void log_set_json(bool on)
{
    json = on;
}

/* Whether standard error is the journal, which keeps the time and the level itself:
 * then this variable names its device and inode (systemd.exec(5)). */
static bool is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;

    return stream != NULL && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

static size_t put_time(char *line, size_t len)
{
    int64_t now = clock_wall_ms();
    time_t seconds = (time_t)(now / 1000);
    struct tm tm;

    gmtime_r(&seconds, &tm);
    len += strftime(line + len, LINE_MAX_BYTES - len, "%Y-%m-%dT%H:%M:%S", &tm);
    return len + (size_t)snprintf(line + len, LINE_MAX_BYTES - len, ".%03dZ",
                                  (int)(now % 1000));
}

static size_t __attribute__((format(printf, 3, 4)))
put_word(char *line, size_t len, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(line + len, LINE_MAX_BYTES - len, fmt, ap);
    va_end(ap);
    return n > 0 ? len + (size_t)n : len;
}

/* What is no printable ASCII is escaped in the way of C or of JSON. */
static size_t put_escaped(char *line, size_t len, const char *text, bool as_json)
{
    for (; *text != '\0' && len < LINE_MAX_BYTES - 16; text++) {
        unsigned char c = (unsigned char)*text;

        if (as_json && (c == '"' || c == '\\'))
            line[len++] = '\\';
        if (c < ' ' || c >= 0x7f)
            len = put_word(line, len, as_json ? "\\u%04x" : "\\x%02x", c);
        else
            line[len++] = (char)c;
    }
    return len;
}

static size_t put_event(char *line, enum log_level level, const char *text)
{
    size_t len = 0;

    if (json) {
        len = put_word(line, len, "{\"time\":\"");
        len = put_time(line, len);
        len =
            put_word(line, len, "\",\"level\":\"%s\",\"text\":\"", levels[level].word);
        len = put_escaped(line, len, text, true);
        return put_word(line, len, "\"}");
    }
    if (is_journal()) {
        len = put_word(line, len, "<%d>", levels[level].priority);
    } else {
        len = put_time(line, len);
        len = put_word(line, len, " %s ", levels[level].word);
    }
    return put_escaped(line, len, text, false);
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
    len = put_event(line, level, text);
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

    if ((int)level > threshold)
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

    if ((int)level > threshold)
        return;
    if (now_ms >= limit->until_ms) {
        limit->until_ms = now_ms + LIMIT_MS;
        limit->written = 0;
    }
    if (limit->written > 0 && limit->written >= limit->burst) {
        limit->left_out++;
        return;
    }
    limit->written++;
    va_start(ap, fmt);
    len = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (limit->left_out > 0 && len >= 0 && (size_t)len < sizeof text)
        snprintf(text + len, sizeof text - (size_t)len,
                 " (and %" PRIu64 " more like it)", limit->left_out);
    limit->left_out = 0;
    put(level, text);
}
