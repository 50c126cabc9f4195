/* power.c - files whose power fails. */
#include "power.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECTOR    512
#define FILES_MAX 64
#define PATH_SIZE 256

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

struct change {
    off_t offset;
    size_t len;
    bool truncates; /* to offset */
    char *bytes;
};

struct file {
    ino_t inode;
    char path[PATH_SIZE];
    char *durable;
    size_t durable_len;
    struct change *changes; /* since the last sync */
    size_t n;
    bool gone;
};

struct move {
    char from[PATH_SIZE], to[PATH_SIZE];
    int old; /* the file that had the name; -1: none */
};

static struct {
    char dir[64];
    bool on; /* calls are watched */
    bool dead;
    unsigned calls, dies_at, flaky;
    struct file files[FILES_MAX];
    int n_files;
    struct move moves[FILES_MAX]; /* not durable yet */
    int n_moves;
} disk;

static char *grow(char *p, size_t from, size_t to)
{
    p = realloc(p, to + 1);
    must(p != NULL, "realloc");
    if (to > from)
        memset(p + from, 0, to - from);
    return p;
}

static void apply(struct file *f, const struct change *c)
{
    size_t end = (size_t)c->offset + c->len;

    if (c->truncates) {
        f->durable = grow(f->durable, f->durable_len, (size_t)c->offset);
        f->durable_len = (size_t)c->offset;
        return;
    }
    if (end > f->durable_len) {
        f->durable = grow(f->durable, f->durable_len, end);
        f->durable_len = end;
    }
    memcpy(f->durable + c->offset, c->bytes, c->len);
}

static void forget_changes(struct file *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->changes[i].bytes);
    free(f->changes);
    f->changes = NULL;
    f->n = 0;
}

/* One that is not used; a file that is gone is kept as long as a rename may be undone.
 */
static struct file *free_slot(void)
{
    for (int i = 0; i < disk.n_files; i++) {
        bool needed = !disk.files[i].gone;

        for (int k = 0; k < disk.n_moves && !needed; k++)
            needed = disk.moves[k].old == i;
        if (needed)
            continue;
        forget_changes(&disk.files[i]);
        free(disk.files[i].durable);
        return &disk.files[i];
    }
    must(disk.n_files < FILES_MAX, "too many files");
    return &disk.files[disk.n_files++];
}

static int find_inode(ino_t inode)
{
    for (int i = 0; i < disk.n_files; i++) {
        if (!disk.files[i].gone && disk.files[i].inode == inode)
            return i;
    }
    return -1;
}

static bool is_below(const char *path, const char *dir)
{
    return strncmp(path, dir, strlen(dir)) == 0;
}

static void path_of(int fd, char path[PATH_SIZE])
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, PATH_SIZE - 1);
    path[n > 0 ? n : 0] = '\0';
}

static void forget_moves(const char *dir)
{
    int n = 0;

    for (int i = 0; i < disk.n_moves; i++) {
        if (!is_below(disk.moves[i].to, dir))
            disk.moves[n++] = disk.moves[i];
    }
    disk.n_moves = n;
}

/* The names in a directory are on the disk. */
static void keep_moves(int fd)
{
    char path[PATH_SIZE];

    path_of(fd, path);
    forget_moves(path);
}

/* The file of a descriptor, known from now on; what is in it has been there. NULL for
 * one elsewhere. */
static struct file *file_of(int fd)
{
    char path[PATH_SIZE];
    struct file *f;
    struct stat st;

    if (!disk.on || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return NULL;
    if (find_inode(st.st_ino) >= 0)
        return &disk.files[find_inode(st.st_ino)];
    path_of(fd, path);
    if (!is_below(path, disk.dir))
        return NULL;
    f = free_slot();
    *f = (struct file){.inode = st.st_ino};
    snprintf(f->path, sizeof f->path, "%s", path);
    f->durable = grow(NULL, 0, (size_t)st.st_size);
    f->durable_len = (size_t)st.st_size;
    must(syscall(SYS_pread64, fd, f->durable, f->durable_len, (off_t)0) ==
             (long)f->durable_len,
         "pread");
    return f;
}

static void settle_change(struct file *f, const struct change *c, enum fate fate)
{
    if (fate == KEPT || (fate != DROPPED && rand() % 2 == 0)) {
        apply(f, c);
        return;
    }
    if (fate != TORN || c->truncates)
        return;
    for (size_t at = 0; at < c->len;) {
        size_t left = SECTOR - ((size_t)c->offset + at) % SECTOR;
        struct change piece = {.offset = c->offset + (off_t)at, .bytes = c->bytes + at};

        piece.len = left < c->len - at ? left : c->len - at;
        if (rand() % 2 == 0)
            apply(f, &piece);
        at += piece.len;
    }
}

static void settle(struct file *f, enum fate fate)
{
    for (size_t k = 0; k < f->n; k++)
        settle_change(f, &f->changes[k], fate);
    forget_changes(f);
}

/* Whether this call comes after the end of the power. */
static bool power_fails(void)
{
    if (disk.on && ++disk.calls == disk.dies_at)
        disk.dead = true;
    errno = EIO;
    return disk.dead || (disk.flaky > 0 && (unsigned)rand() % disk.flaky == 0);
}

static void note(struct file *f, off_t offset, const void *bytes, size_t len,
                 bool truncates)
{
    struct change *c;

    f->changes = realloc(f->changes, (f->n + 1) * sizeof *c);
    must(f->changes != NULL, "realloc");
    c = &f->changes[f->n++];
    *c = (struct change){.offset = offset, .len = len, .truncates = truncates};
    if (!truncates) {
        c->bytes = malloc(len);
        must(c->bytes != NULL, "malloc");
        memcpy(c->bytes, bytes, len);
    }
}

ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t offset);
ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset);
int ftruncate64(int fd, off64_t size);
int fsync(int fd);
int fdatasync(int fd);

ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t offset)
{
    struct file *f = file_of(fd);

    if (f == NULL)
        return syscall(SYS_pwrite64, fd, buf, n, offset);
    if (power_fails())
        return -1;
    note(f, offset, buf, n, false);
    return syscall(SYS_pwrite64, fd, buf, n, offset);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    return pwrite64(fd, buf, n, offset);
}

int ftruncate64(int fd, off64_t size)
{
    struct file *f = file_of(fd);

    if (f == NULL)
        return (int)syscall(SYS_ftruncate, fd, size);
    if (power_fails())
        return -1;
    note(f, size, NULL, 0, true);
    return (int)syscall(SYS_ftruncate, fd, size);
}

int ftruncate(int fd, off_t size)
{
    return ftruncate64(fd, size);
}

/* A directory's sync makes names durable. */
int fsync(int fd)
{
    struct file *f = file_of(fd);
    struct stat st;

    if (!disk.on)
        return 0;
    if (power_fails()) {
        if (!disk.dead && f != NULL) /* the kernel has dropped them, the disk may not */
            settle(f, (enum fate)(rand() % FATES));
        return -1;
    }
    if (f == NULL) {
        if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
            keep_moves(fd);
        return 0;
    }
    for (size_t i = 0; i < f->n; i++)
        apply(f, &f->changes[i]);
    forget_changes(f);
    return 0;
}

int fdatasync(int fd)
{
    return fsync(fd);
}

/* A file nobody wrote to is known from now on, too: it may have to come back. */
static int find_path(const char *path)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    struct file *f = fd >= 0 ? file_of(fd) : NULL;

    if (fd >= 0)
        close(fd);
    return f != NULL ? (int)(f - disk.files) : -1;
}

int rename(const char *from, const char *to)
{
    struct stat st;
    int was, is;

    if (!disk.on)
        return (int)syscall(SYS_rename, from, to);
    if (power_fails())
        return -1;
    was = find_path(to);
    is = stat(from, &st) == 0 ? find_inode(st.st_ino) : -1;
    if (is < 0 && was < 0) /* nothing is known of either */
        return (int)syscall(SYS_rename, from, to);
    must(is >= 0, "rename");
    must(disk.n_moves < FILES_MAX, "too many renames");
    snprintf(disk.moves[disk.n_moves].from, PATH_SIZE, "%s", from);
    snprintf(disk.moves[disk.n_moves].to, PATH_SIZE, "%s", to);
    disk.moves[disk.n_moves++].old = was;
    snprintf(disk.files[is].path, sizeof disk.files[is].path, "%s", to);
    if (was >= 0)
        disk.files[was].gone = true;
    return (int)syscall(SYS_rename, from, to);
}

int unlink(const char *path)
{
    struct stat st;
    int i = disk.on && stat(path, &st) == 0 ? find_inode(st.st_ino) : -1;

    if (i >= 0 && power_fails())
        return -1;
    if (i >= 0)
        disk.files[i].gone = true;
    return (int)syscall(SYS_unlink, path);
}

static void put_file(const char *path, const char *bytes, size_t len)
{
    int fd;

    syscall(SYS_unlink, path);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    must(fd >= 0, path);
    must(syscall(SYS_pwrite64, fd, bytes, len, (off_t)0) == (long)len, path);
    close(fd);
}

void power_on(const char *dir, enum fate fate)
{
    bool was_on = disk.on;

    disk.on = false;
    for (int i = 0; i < disk.n_files; i++) {
        struct file *f = &disk.files[i];

        if (!is_below(f->path, dir))
            continue;
        settle(f, fate);
        if (!f->gone)
            put_file(f->path, f->durable, f->durable_len);
    }
    for (int i = disk.n_moves - 1; i >= 0; i--) {
        const struct move *m = &disk.moves[i];

        if (!is_below(m->to, dir) || fate == KEPT ||
            (fate != DROPPED && rand() % 2 == 0))
            continue;
        syscall(SYS_rename, m->to, m->from);
        if (m->old >= 0)
            put_file(m->to, disk.files[m->old].durable, disk.files[m->old].durable_len);
    }
    forget_moves(dir);
    for (int i = 0; i < disk.n_files; i++)
        disk.files[i].gone |= is_below(disk.files[i].path, dir);
    disk.on = was_on;
    disk.dead = false;
    disk.dies_at = 0;
}

void power_watch(const char *dir)
{
    for (int i = 0; i < disk.n_files; i++) {
        forget_changes(&disk.files[i]);
        free(disk.files[i].durable);
    }
    disk.n_files = disk.n_moves = 0;
    disk.on = dir != NULL;
    if (dir != NULL)
        snprintf(disk.dir, sizeof disk.dir, "%s", dir);
    disk.dead = false;
    disk.dies_at = 0;
}

void power_out_at(unsigned n)
{
    disk.calls = 0;
    disk.dies_at = n;
}

void power_back(void)
{
    disk.dead = false;
    disk.dies_at = 0;
}

void power_out(void)
{
    disk.dead = true;
}

bool power_is_out(void)
{
    return disk.dead;
}

unsigned power_calls(void)
{
    return disk.calls;
}

unsigned power_flaky(unsigned one_in)
{
    unsigned was = disk.flaky;

    disk.flaky = one_in;
    return was;
}
