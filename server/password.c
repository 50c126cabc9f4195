/* password.c - the passwords of the password file. */
#include "password.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "log.h"

#define FILE_MAX_BYTES 16384

static bool __attribute__((format(printf, 2, 3)))
fail(char *error, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(error, PASSWORD_ERROR_MAX, fmt, ap);
    va_end(ap);
    return false;
}

static bool add(struct passwords *p, const char *line, size_t len, const char *path,
                unsigned number, char *error)
{
    if (len == 0 || line[0] == '#')
        return true;
    if (len < PASSWORD_MIN || len > PASSWORD_MAX)
        return fail(error, "%.300s:%u: a password has %d to %d bytes, this one has %zu",
                    path, number, PASSWORD_MIN, PASSWORD_MAX, len);
    if (p->n == PASSWORDS_MAX)
        return fail(error, "%.300s:%u: more than %d passwords", path, number,
                    PASSWORDS_MAX);
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            return fail(error, "%.300s:%u: a password with control bytes", path,
                        number);
    }
    memcpy(p->text[p->n], line, len);
    p->len[p->n++] = len;
    return true;
}

static bool parse(struct passwords *p, const char *text, size_t size, const char *path,
                  char *error)
{
    unsigned number = 1;

    for (size_t at = 0; at < size; number++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t len = end != NULL ? (size_t)(end - text) - at : size - at;

        if (!add(p, text + at, len > 0 && text[at + len - 1] == '\r' ? len - 1 : len,
                 path, number, error))
            return false;
        at += len + 1;
    }
    return p->n > 0 || fail(error, "%.300s: there is no password in it", path);
}

bool passwords_read(const char *path, struct passwords *ret, char *error)
{
    struct passwords p = {0};
    char text[FILE_MAX_BYTES];
    struct stat st;
    ssize_t size = -1;
    bool good;
    int fd;

    if (path[0] == '\0') {
        *ret = p;
        return true;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &st) == 0)
        size = read(fd, text, sizeof text);
    if (size < 0)
        good =
            fail(error, "can't read password_file %.300s: %s", path, strerror(errno));
    else if (size == sizeof text)
        good = fail(error, "%.300s: larger than %d bytes", path, FILE_MAX_BYTES - 1);
    else
        good = parse(&p, text, (size_t)size, path, error);
    if (good && (st.st_mode & S_IRWXO) != 0)
        log_line(LOG_WARNING,
                 "%s can be read by everybody on this machine; chmod o-rwx %s", path,
                 path);
    if (good)
        *ret = p;
    if (fd >= 0)
        close(fd);
    explicit_bzero(text, sizeof text);
    explicit_bzero(&p, sizeof p);
    return good;
}

bool passwords_match(const struct passwords *p, const char *text, size_t len)
{
    char given[PASSWORD_MAX] = {0};
    unsigned matches = 0;

    memcpy(given, text, len < sizeof given ? len : sizeof given);
    for (size_t i = 0; i < PASSWORDS_MAX; i++) {
        size_t differ = p->len[i] ^ len;

        for (size_t j = 0; j < PASSWORD_MAX; j++)
            differ |= (unsigned char)(p->text[i][j] ^ given[j]);
        matches |= differ == 0 && len > 0;
    }
    explicit_bzero(given, sizeof given);
    return matches != 0;
}
