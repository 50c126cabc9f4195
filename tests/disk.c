/* disk.c - a disk that misbehaves on demand: preloaded before hilod by tests.
 *
 * HILO_DISK names a directory. While it holds a file "stall", a sync does not return;
 * while it holds "fail", a sync fails with EIO. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int fdatasync(int fd);

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

int fdatasync(int fd)
{
    const struct timespec moment = {.tv_nsec = 5000000};
    char from[4096], to[4096];

    path_of("one-more", from, sizeof from);
    path_of("stall", to, sizeof to);
    if (rename(from, to) == 0)
        return (int)syscall(SYS_fdatasync, fd);
    while (told("stall"))
        nanosleep(&moment, NULL);
    if (told("fail")) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}
