/* log.h - the log: one line per event on standard error. Thread-safe.
 *
 * A line is "time level text", where standard error is the journal "<priority>text", or
 * an object of JSON. What is not printable in the text is escaped, so that nothing a
 * peer sends can make a second line or move a terminal's cursor. The log never waits:
 * where standard error takes no more (a pipe nobody reads, a stopped terminal), lines
 * are dropped, and the next one that goes out is preceded by their number. */
#ifndef HILO_LOG_H
#define HILO_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level {
    LOG_ERROR,   /* something has ended or is refused for good */
    LOG_WARNING, /* somebody should look at it */
    LOG_INFO,    /* starts, stops, what an administrator did */
    LOG_DEBUG,   /* each connection */
};

#define LOG_LEVELS "error, warning, info, debug"

/* False where the word is none of LOG_LEVELS. */
bool log_level_parse(const char *word, enum log_level *ret);

/* Lines above this level are not written. Any time. */
void log_set_level(enum log_level level);

/* Objects of JSON, one a line, rather than text. Any time. */
void log_set_json(bool on);

void log_line(enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* For events that a peer, or a fault, can make happen again and again: so many lines a
 * second for each limit, 1 unless burst says more; the next one says how many were left
 * out. A limit begins as zeros and belongs to one thread. */
struct log_limit {
    unsigned burst;
    unsigned written; /* in the present second */
    int64_t until_ms; /* its end */
    uint64_t left_out;
};

void log_limited(struct log_limit *limit, enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
