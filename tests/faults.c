/* faults.c - calls that fail on demand: preloaded before hilod by tests/faults_test.py.
 *
 * HILO_FAULTS names a file that both have mapped. The test writes the kind of call, the
 * errno and which call of that kind fails, the nth alone or each from the nth on, and
 * counts begin when it sets armed; so a fault can be for one phase of a server's life.
 * The file tells back how many calls of the kind there were and how many have failed.
 *
 * An errno of 0 asks for a short one instead: half of what was to be read, written or
 * sent. Files are regular files; the log (descriptor 2) never fails, since it says what
 * did. Nothing here allocates: all but three calls go straight to the system. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum kind {
    ALLOC,
    OPEN,
    STAT,
    READ,
    WRITE,
    SYNC,
    TRUNCATE,
    NAME, /* of a file: made, changed, removed */
    LOCK,
    DESCRIPTOR, /* one that is no file */
    SOCKET,     /* made ready for use */
    ACCEPT,
    RECV,
    SEND,
    WATCH, /* by epoll */
    WAIT,  /* for events */
    THREAD,
    KINDS
};

static const char *const kind_names[KINDS] = {
    [ALLOC] = "alloc",       [OPEN] = "open",
    [STAT] = "stat",         [READ] = "read",
    [WRITE] = "write",       [SYNC] = "sync",
    [TRUNCATE] = "truncate", [NAME] = "name",
    [LOCK] = "lock",         [DESCRIPTOR] = "descriptor",
    [SOCKET] = "socket",     [ACCEPT] = "accept",
    [RECV] = "recv",         [SEND] = "send",
    [WATCH] = "watch",       [WAIT] = "wait",
    [THREAD] = "thread",
};

/* The file; struct.Struct in faults_test.py has the same fields. */
struct control {
    char kind[16];
    char function[16]; /* the one that failed first */
    uint32_t error;
    uint32_t ever; /* each from the nth on */
    uint64_t nth;  /* from 1 */
    _Atomic uint64_t seen, failed;
    _Atomic uint32_t armed;
};

static struct control *control;
static enum kind chosen;
static FILE *(*real_fopen)(const char *, const char *);
static int (*real_pthread_create)(pthread_t *, const pthread_attr_t *,
                                  void *(*)(void *), void *);

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static void die(const char *what)
{
    fprintf(stderr, "faults: %s: %s\n", what, strerror(errno));
    abort();
}

static void *next(const char *name)
{
    void *p = dlsym(RTLD_NEXT, name);

    if (p == NULL)
        die(name);
    return p;
}

static void __attribute__((constructor)) begin(void)
{
    const char *path = getenv("HILO_FAULTS");
    struct control *c;
    int fd;

    real_fopen = (FILE * (*)(const char *, const char *)) next("fopen");
    real_pthread_create = (int (*)(pthread_t *, const pthread_attr_t *,
                                   void *(*)(void *), void *))next("pthread_create");
    fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        die("HILO_FAULTS");
    c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (c == MAP_FAILED)
        die("mmap");
    close(fd);
    while (chosen < KINDS && strcmp(kind_names[chosen], c->kind) != 0)
        chosen++;
    if (chosen == KINDS)
        die("unknown kind");
    control = c;
}

/* Whether this call is one that fails; errno is set then. */
static bool hit(enum kind kind, const char *function)
{
    struct control *c = control;
    uint64_t n;

    if (c == NULL || kind != chosen || c->armed == 0)
        return false;
    n = atomic_fetch_add(&c->seen, 1) + 1;
    if (n < c->nth || (n > c->nth && c->ever == 0))
        return false;
    if (atomic_fetch_add(&c->failed, 1) == 0)
        strncpy(c->function, function, sizeof c->function - 1);
    errno = (int)c->error;
    return true;
}

/* The same of a call that moves *n bytes: a short one goes on, with less. */
static bool hit_bytes(enum kind kind, const char *function, size_t *n)
{
    if (!hit(kind, function))
        return false;
    if (errno != 0)
        return true;
    *n -= *n / 2;
    return false;
}

static bool is_file(int fd)
{
    struct stat st;

    return fd > STDERR_FILENO &&
           syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) == 0 &&
           S_ISREG(st.st_mode);
}

/* --- memory --- */

void *malloc(size_t n)
{
    return hit(ALLOC, "malloc") ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return hit(ALLOC, "calloc") ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return hit(ALLOC, "realloc") ? NULL : __libc_realloc(p, n);
}

/* --- files --- */

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list ap;

    if ((flags & O_CREAT) != 0) {
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
    }
    return hit(OPEN, "open") ? -1
                             : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

FILE *fopen(const char *path, const char *mode)
{
    return hit(OPEN, "fopen") ? NULL : real_fopen(path, mode);
}

int stat(const char *path, struct stat *st)
{
    return hit(STAT, "stat") ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, 0);
}

int stat64(const char *path, struct stat64 *st)
{
    return stat(path, (struct stat *)(void *)st);
}

int lstat(const char *path, struct stat *st)
{
    return hit(STAT, "lstat")
               ? -1
               : (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

int lstat64(const char *path, struct stat64 *st)
{
    return lstat(path, (struct stat *)(void *)st);
}

int fstat(int fd, struct stat *st)
{
    return fd > STDERR_FILENO && hit(STAT, "fstat")
               ? -1
               : (int)syscall(SYS_newfstatat, fd, "", st, AT_EMPTY_PATH);
}

int fstat64(int fd, struct stat64 *st)
{
    return fstat(fd, (struct stat *)(void *)st);
}

int statfs(const char *path, struct statfs *fs)
{
    return hit(STAT, "statfs") ? -1 : (int)syscall(SYS_statfs, path, fs);
}

ssize_t read(int fd, void *buf, size_t n)
{
    if (is_file(fd) && hit_bytes(READ, "read", &n))
        return -1;
    return syscall(SYS_read, fd, buf, n);
}

ssize_t pread(int fd, void *buf, size_t n, off_t offset)
{
    if (is_file(fd) && hit_bytes(READ, "pread", &n))
        return -1;
    return syscall(SYS_pread64, fd, buf, n, offset);
}

ssize_t pread64(int fd, void *buf, size_t n, off64_t offset)
    __attribute__((alias("pread")));

ssize_t write(int fd, const void *buf, size_t n)
{
    if (is_file(fd) && hit_bytes(WRITE, "write", &n))
        return -1;
    return syscall(SYS_write, fd, buf, n);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    if (is_file(fd) && hit_bytes(WRITE, "pwrite", &n))
        return -1;
    return syscall(SYS_pwrite64, fd, buf, n, offset);
}

ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t offset)
    __attribute__((alias("pwrite")));

int fsync(int fd)
{
    return hit(SYNC, "fsync") ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return hit(SYNC, "fdatasync") ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int ftruncate(int fd, off_t size)
{
    return hit(TRUNCATE, "ftruncate") ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

int ftruncate64(int fd, off64_t size) __attribute__((alias("ftruncate")));

int rename(const char *from, const char *to)
{
    return hit(NAME, "rename")
               ? -1
               : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int link(const char *from, const char *to)
{
    return hit(NAME, "link")
               ? -1
               : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
    return hit(NAME, "unlink") ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int mkdir(const char *path, mode_t mode)
{
    return hit(NAME, "mkdir") ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

/* --- locks --- */

static bool is_lock(int cmd)
{
    return cmd == F_SETLK || cmd == F_SETLKW || cmd == F_GETLK;
}

int fcntl(int fd, int cmd, ...)
{
    va_list ap;
    long arg;

    va_start(ap, cmd);
    arg = va_arg(ap, long); /* a pointer, a number, or nothing that is looked at */
    va_end(ap);
    return is_lock(cmd) && hit(LOCK, "fcntl") ? -1
                                              : (int)syscall(SYS_fcntl, fd, cmd, arg);
}

int fcntl64(int fd, int cmd, ...) __attribute__((alias("fcntl")));

int flock(int fd, int operation)
{
    return hit(LOCK, "flock") ? -1 : (int)syscall(SYS_flock, fd, operation);
}

/* --- descriptors --- */

int socket(int family, int type, int protocol)
{
    return hit(DESCRIPTOR, "socket") ? -1
                                     : (int)syscall(SYS_socket, family, type, protocol);
}

int eventfd(unsigned count, int flags)
{
    return hit(DESCRIPTOR, "eventfd") ? -1 : (int)syscall(SYS_eventfd2, count, flags);
}

int timerfd_create(clockid_t clock, int flags)
{
    return hit(DESCRIPTOR, "timerfd_create")
               ? -1
               : (int)syscall(SYS_timerfd_create, clock, flags);
}

int signalfd(int fd, const sigset_t *mask, int flags)
{
    return hit(DESCRIPTOR, "signalfd")
               ? -1
               : (int)syscall(SYS_signalfd4, fd, mask, _NSIG / 8, flags);
}

int epoll_create1(int flags)
{
    return hit(DESCRIPTOR, "epoll_create1") ? -1
                                            : (int)syscall(SYS_epoll_create1, flags);
}

int epoll_create(int size)
{
    return size > 0 ? epoll_create1(0) : -1;
}

/* --- sockets --- */

int bind(int fd, const struct sockaddr *sa, socklen_t len)
{
    return hit(SOCKET, "bind") ? -1 : (int)syscall(SYS_bind, fd, sa, len);
}

int listen(int fd, int backlog)
{
    return hit(SOCKET, "listen") ? -1 : (int)syscall(SYS_listen, fd, backlog);
}

int getpeername(int fd, struct sockaddr *sa, socklen_t *len)
{
    return hit(SOCKET, "getpeername") ? -1 : (int)syscall(SYS_getpeername, fd, sa, len);
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
    return hit(SOCKET, "setsockopt")
               ? -1
               : (int)syscall(SYS_setsockopt, fd, level, option, value, len);
}

int accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
    return hit(ACCEPT, "accept4") ? -1 : (int)syscall(SYS_accept4, fd, sa, len, flags);
}

int accept(int fd, struct sockaddr *sa, socklen_t *len)
{
    return accept4(fd, sa, len, 0);
}

ssize_t recv(int fd, void *buf, size_t n, int flags)
{
    if (hit_bytes(RECV, "recv", &n))
        return -1;
    return syscall(SYS_recvfrom, fd, buf, n, flags, NULL, NULL);
}

ssize_t send(int fd, const void *buf, size_t n, int flags)
{
    if (hit_bytes(SEND, "send", &n))
        return -1;
    return syscall(SYS_sendto, fd, buf, n, flags, NULL, 0);
}

/* --- the loop --- */

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    return hit(WATCH, "epoll_ctl") ? -1
                                   : (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

int epoll_wait(int epoll, struct epoll_event *events, int n, int ms)
{
    return hit(WAIT, "epoll_wait")
               ? -1
               : (int)syscall(SYS_epoll_pwait, epoll, events, n, ms, NULL, 0);
}

/* --- threads --- */

int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                   void *(*routine)(void *), void *arg)
{
    return hit(THREAD, "pthread_create")
               ? errno
               : real_pthread_create(thread, attr, routine, arg);
}
