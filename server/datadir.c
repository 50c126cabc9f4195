/* datadir.c - the directory a store lives in. */
#include "datadir.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "log.h"

struct fs_kind {
    unsigned long magic; /* statfs(2) */
    const char *name;
};

static const struct fs_kind network_fs[] = {
    {0x6969, "NFS"},      {0x517b, "SMB"},       {0xff534d42, "CIFS"},
    {0xfe534d42, "SMB2"}, {0x5346414f, "AFS"},   {0x00c36400, "CephFS"},
    {0x01021997, "9P"},   {0x013111a8, "IBRIX"}, {0x0bd00bd0, "Lustre"},
    {0x47504653, "GPFS"}, {0x7461636f, "OCFS2"}, {0x01161970, "GFS2"},
};

static const struct fs_kind memory_fs[] = {
    {0x01021994, "tmpfs"},
    {0x858458f6, "ramfs"},
};

bool datadir_wants_people(int error)
{
    return error == EACCES || error == EPERM || error == EROFS || error == ENOENT ||
           error == ENOTDIR;
}

const char *datadir_advice(int error)
{
    if (error == EROFS)
        return ". Have it mounted for writing, or choose another place";
    return datadir_wants_people(error)
               ? ". Check the owner and the mode of the file and of its "
                 "directory, which has to be writable, too"
               : "";
}

bool datadir_is_barred(const char *path)
{
    char copy[PATH_MAX];

    if (access(path, W_OK) != 0 && errno != ENOENT)
        return datadir_wants_people(errno);
    snprintf(copy, sizeof copy, "%s", path);
    return access(dirname(copy), W_OK | X_OK) != 0 && datadir_wants_people(errno);
}

/* errno says why. */
static void cant(const char *what, const char *path, struct store_error *ret)
{
    int why = errno;

    store_error_set(ret, datadir_wants_people(why), "can't %s %s: %s%s", what, path,
                    strerror(why), datadir_advice(why));
}

static const char *fs_name(const struct fs_kind *kinds, size_t n, unsigned long magic)
{
    for (size_t i = 0; i < n; i++) {
        if (kinds[i].magic == magic)
            return kinds[i].name;
    }
    return NULL;
}

/* What is under a path: at most one of the two names is not NULL. */
struct fs {
    const char *memory, *network;
};

/* False and errno. */
static bool look_at_fs(const char *path, struct fs *ret)
{
    struct statfs fs;
    unsigned long magic;

    if (statfs(path, &fs) != 0)
        return false;
    magic = (unsigned long)fs.f_type & 0xffffffff;
    ret->memory = fs_name(memory_fs, sizeof memory_fs / sizeof *memory_fs, magic);
    ret->network = fs_name(network_fs, sizeof network_fs / sizeof *network_fs, magic);
    return true;
}

const char *datadir_kind(const char *path)
{
    struct fs fs;

    if (!look_at_fs(path, &fs))
        return "unknown";
    return fs.memory != NULL ? "memory" : fs.network != NULL ? "network" : "disk";
}

struct datadir_id datadir_id(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return (struct datadir_id){0};
    return (struct datadir_id){.device = st.st_dev, .inode = st.st_ino};
}

bool datadir_lost(const char *path, struct datadir_id id)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR;
    return st.st_dev != id.device || st.st_ino != id.inode;
}

uint64_t datadir_free_bytes(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 ? (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize : 0;
}

static bool same_dir(const char *a, const char *b)
{
    struct datadir_id x = datadir_id(a), y = datadir_id(b);

    return x.device == y.device && x.inode == y.inode;
}

static int check_fs(const char *dir, bool allow_network_fs,
                    struct store_error *ret_error)
{
    struct fs fs;

    if (!look_at_fs(dir, &fs)) {
        cant("look at the file system of", dir, ret_error);
        return -1;
    }
    if (fs.memory != NULL)
        log_line(
            LOG_WARNING,
            "%s is on %s, which is memory: after a restart of the machine ids will "
            "REPEAT. Use a directory on a disk",
            dir, fs.memory);
    if (fs.network == NULL)
        return 0;
    if (!allow_network_fs) {
        store_error_set(
            ret_error, true,
            "%s is on %s: locks of a network file system let two servers grant "
            "the same ids. Use a directory on a local disk, or set "
            "allow_network_fs = yes if you know that its locks hold",
            dir, fs.network);
        return -1;
    }
    log_line(LOG_WARNING, "%s is on %s, allowed by allow_network_fs", dir, fs.network);
    return 0;
}

int datadir_check_path(const char *path, const char *dir, bool allow_network_fs,
                       struct store_error *ret_error)
{
    char copy[PATH_MAX];
    const char *where;

    snprintf(copy, sizeof copy, "%s", path);
    where = dirname(copy);
    return same_dir(where, dir) ? 0 : check_fs(where, allow_network_fs, ret_error);
}

void datadir_look_at_witness(const char *witness, const char *dir)
{
    char copy[PATH_MAX];
    const char *where;
    struct fs fs;

    if (realpath(witness, copy) == NULL) /* there is none yet */
        snprintf(copy, sizeof copy, "%s", witness);
    where = dirname(copy);
    if (same_dir(where, dir) || !look_at_fs(where, &fs))
        return;
    if (fs.memory != NULL)
        log_line(LOG_WARNING,
                 "the witness %s is on %s, which is memory: a restart of the machine "
                 "LOSES it, and hilod then refuses to start. Use a directory on a disk",
                 witness, fs.memory);
    if (fs.network != NULL)
        log_line(LOG_WARNING,
                 "the witness %s is on %s: while that can't be reached nothing new is "
                 "granted",
                 witness, fs.network);
}

static int sync_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc;

    if (fd < 0)
        return -1;
    rc = fsync(fd);
    close(fd);
    return rc;
}

int datadir_sync_parent(const char *path)
{
    char copy[PATH_MAX];

    snprintf(copy, sizeof copy, "%s", path);
    return sync_dir(dirname(copy));
}

/* mkdir -p; each new name is synced into the directory that holds it. */
static int make_dirs(const char *dir)
{
    char path[PATH_MAX], copy[PATH_MAX];
    size_t len = strlen(dir);

    if (len == 0 || len >= sizeof path) {
        errno = len == 0 ? ENOENT : ENAMETOOLONG;
        return -1;
    }
    for (size_t i = 1; i <= len; i++) {
        if (dir[i] != '/' && dir[i] != '\0')
            continue;
        memcpy(path, dir, i);
        path[i] = '\0';
        if (mkdir(path, 0700) == 0) {
            memcpy(copy, path, i + 1);
            if (sync_dir(dirname(copy)) != 0) {
                int why = errno;

                rmdir(path); /* else the next start takes its name for synced */
                errno = why;
                return -1;
            }
        } else if (errno != EEXIST) {
            return -1;
        }
    }
    return 0;
}

int datadir_make_parent(const char *path)
{
    char copy[PATH_MAX];

    snprintf(copy, sizeof copy, "%s", path);
    return make_dirs(dirname(copy));
}

int datadir_prepare(const char *dir, bool allow_network_fs,
                    struct store_error *ret_error)
{
    if (make_dirs(dir) == 0)
        return check_fs(dir, allow_network_fs, ret_error);
    cant("make the data directory", dir, ret_error);
    return -1;
}

static char *join(const char *a, const char *b)
{
    char *path = NULL;

    return asprintf(&path, "%s%s", a, b) < 0 ? NULL : path;
}

char *datadir_file(const char *dir, const char *name, struct store_error *ret_error)
{
    char *real_dir = realpath(dir, NULL), *in_dir, *path, *real;
    struct stat st;

    if (real_dir == NULL || asprintf(&in_dir, "%s/%s", real_dir, name) < 0) {
        cant("use the data directory", dir, ret_error);
        free(real_dir);
        return NULL;
    }
    free(real_dir);
    path = in_dir;
    real = realpath(in_dir, NULL);
    if (real != NULL) {
        free(in_dir);
        path = real;
    }
    if (real == NULL && errno != ENOENT) {
        cant("use", path, ret_error);
    } else if (real == NULL && lstat(path, &st) == 0) {
        store_error_set(ret_error, true, "%s is a symbolic link to nothing: remove it",
                        path);
    } else if (real != NULL && stat(path, &st) != 0) {
        cant("look at", path, ret_error);
    } else if (real != NULL && !S_ISREG(st.st_mode)) {
        store_error_set(ret_error, true, "%s is not a regular file", path);
    } else if (real != NULL && st.st_nlink > 1) {
        char holder[128];

        datadir_holder(path, holder, sizeof holder);
        store_error_set(
            ret_error, true,
            "%s has %lu names (hard links), locked by: %s. Its write-ahead log "
            "is found by one of them only, so ids could repeat: keep one name "
            "and make copies with SQLite's backup instead",
            path, (unsigned long)st.st_nlink, holder);
    } else {
        return path;
    }
    free(path);
    return NULL;
}

static void name_process(long pid, char *buf, size_t size)
{
    char path[64], comm[64] = "";
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    f = fopen(path, "re");
    if (f != NULL) {
        if (fgets(comm, sizeof comm, f) != NULL)
            comm[strcspn(comm, "\n")] = '\0';
        fclose(f);
    }
    snprintf(buf, size, "process %ld (%s)", pid, comm[0] != '\0' ? comm : "?");
}

void datadir_holder(const char *path, char *buf, size_t size)
{
    FILE *f = fopen("/proc/locks", "re");
    char line[256];
    struct stat st;

    snprintf(buf, size, "another process");
    if (f == NULL)
        return;
    while (stat(path, &st) == 0 && fgets(line, sizeof line, f) != NULL) {
        long pid;
        unsigned long inode;

        if (sscanf(line, "%*d: %*s %*s %*s %ld %*x:%*x:%lu", &pid, &inode) == 2 &&
            inode == st.st_ino && pid > 0) {
            name_process(pid, buf, size);
            break;
        }
    }
    fclose(f);
}

int datadir_lock(const char *path, struct store_error *ret_error)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char *lock_path = join(path, ".lock"), holder[128];
    int fd = -1;

    if (lock_path == NULL) {
        store_error_set(ret_error, false, "out of memory");
        return -1;
    }
    fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        cant("open the lock file", lock_path, ret_error);
    } else if (fcntl(fd, F_SETLK, &lock) != 0) {
        bool held = errno == EAGAIN || errno == EACCES;
        int why = errno;

        snprintf(holder, sizeof holder, "another process");
        if (held && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
            name_process((long)lock.l_pid, holder, sizeof holder);
        if (held)
            store_error_set(
                ret_error, true,
                "%s is in use by %s (it holds %s): a data directory serves one "
                "hilod at a time. Stop that one or choose another --data",
                path, holder, lock_path);
        else
            store_error_set(ret_error, false, "can't lock %s: %s", lock_path,
                            strerror(why));
        close(fd);
        fd = -1;
    }
    free(lock_path);
    return fd;
}
