/* steps.c - a process that ends before its n-th step: preloaded before hilod by tests.
 *
 * A step is a call that changes what is on the disk. HILO_STEP says which one is not
 * made any more; 0 or nothing: all are. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int steps;

static void step(void)
{
    const char *last = getenv("HILO_STEP");

    if (last != NULL && atoi(last) == ++steps)
        _exit(99);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    step();
    return syscall(SYS_pwrite64, fd, buf, n, offset);
}

int fdatasync(int fd)
{
    step();
    return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    step();
    return (int)syscall(SYS_fsync, fd);
}

int ftruncate(int fd, off_t size)
{
    step();
    return (int)syscall(SYS_ftruncate, fd, size);
}

int rename(const char *from, const char *to)
{
    step();
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
    step();
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list ap;

    if ((flags & O_CREAT) != 0) {
        va_start(ap, flags);
        mode = (mode_t)va_arg(ap, int);
        va_end(ap);
        step();
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* The names a program has that was built for large files. */
ssize_t pwrite64(int fd, const void *buf, size_t n, off_t offset)
    __attribute__((alias("pwrite")));
int ftruncate64(int fd, off_t size) __attribute__((alias("ftruncate")));
int open64(const char *path, int flags, ...) __attribute__((alias("open")));
