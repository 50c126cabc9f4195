/* disk.c - a disk that misbehaves on demand: preloaded before hilod by tests.
 *
 * HILO_DISK names a directory. While it holds a file "stall", a sync does not return;
 * while it holds "fail", a sync fails with EIO. A "fail-once" does so to one sync, but
 * for the witness's, and is gone. While it holds "witness-full" or "witness-fail", the
 * same happens to writes or syncs of the witness only. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int fdatasync(int fd);
ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset);

static void path_of(const char *what, char *path, size_t size)
{
    const char *dir = getenv("HILO_DISK");

    snprintf(path, size, "%s/%s", dir != NULL ? dir : "/dev/null", what);
}

static int told(const char *what)
{
    char path[4096];

    path_of(what, path, sizeof path);
    return access(path, F_OK) == 0;
}

/* Whether it was there; it is gone then. */
static int was_told(const char *what)
{
    char path[4096];

    path_of(what, path, sizeof path);
    return unlink(path) == 0;
}

static int is_witness(int fd)
{
    char link[64], path[4096];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return strstr(path, ".witness") != NULL;
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    if (told("witness-full") && is_witness(fd)) {
        if (n < 40) {
            errno = ENOSPC;
            return -1;
        }
        n /= 2; /* some of it still fits */
    }
    return syscall(SYS_pwrite64, fd, buf, n, offset);
}

int fdatasync(int fd)
{
    const struct timespec moment = {.tv_nsec = 5000000};
    char from[4096], to[4096];

    path_of("one-more", from, sizeof from);
    path_of("stall", to, sizeof to);
    if (!is_witness(fd) && rename(from, to) == 0)
        return (int)syscall(SYS_fdatasync, fd);
    while (told("stall"))
        nanosleep(&moment, NULL);
    if (told("fail") || (!is_witness(fd) && was_told("fail-once")) ||
        (told("witness-fail") && is_witness(fd))) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}
