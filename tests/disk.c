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

static int told(const char *what)
{
    char path[4096];
    const char *dir = getenv("HILO_DISK");

    if (dir == NULL)
        return 0;
    snprintf(path, sizeof path, "%s/%s", dir, what);
    return access(path, F_OK) == 0;
}

int fdatasync(int fd)
{
    const struct timespec moment = {.tv_nsec = 5000000};

    while (told("stall"))
        nanosleep(&moment, NULL);
    if (told("fail")) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}
