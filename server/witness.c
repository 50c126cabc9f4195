/* witness.c - the file of a witness. */
#include "witness.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "buffer.h"
#include "clock.h"
#include "datadir.h"
#include "file.h"
#include "log.h"
#include "name.h"
#include "random.h"

#define WRITE_SIZE  65536 /* so much at a time while a file is renewed */
#define WASTE_LEAST (1 << 20)

/* One file: what is in it and what waits to be. */
struct log {
    int fd;
    uint64_t size; /* written and sound; the next write begins here */
    bool unsynced; /* some of it */
    bool announce; /* the next write begins with a sync mark */
    struct record_chain chain;
    struct buffer wait; /* lines that are to be written */
};

struct witness {
    char *path, *new_path;
    struct log now, next; /* next while it is renewed */
    bool renewing;
    bool stale;
    uint64_t fresh_size; /* when it was renewed last */
    struct datadir_id id;
    struct witness_stats stats;
    /* What was read. */
    char *data;
    size_t len;
    uint64_t *slots; /* 1 + where a name's last line begins; 0 is free */
    uint64_t n_slots, n_lines, at;
    uint64_t seed;
};

#define TAKEN (UINT64_C(1) << 63)

static int fail(const struct witness *w, const char *what, struct store_error *ret)
{
    int why = errno;

    store_error_set(ret, datadir_wants_people(why),
                    "the witness %s can't be %s: %s%s. Nothing is granted that it does "
                    "not know",
                    w->path, what, strerror(why), datadir_advice(why));
    return -1;
}

static void log_close(struct log *l)
{
    if (l->fd >= 0)
        close(l->fd);
    buffer_free(&l->wait);
    *l = (struct log){.fd = -1};
}

/* --- reading --- */

static int read_error(const char *path, bool config, const char *what,
                      struct store_error *ret)
{
    store_error_set(ret, config,
                    "the witness %s %s. Put back the one that belongs to the database; "
                    "if there is none, go on without it, above all that may have been "
                    "granted: hilod --new-witness --skip IDS",
                    path, what);
    return -1;
}

static int cant(const char *path, const char *what, struct store_error *ret)
{
    int why = errno;

    store_error_set(ret, datadir_wants_people(why), "the witness %s can't be %s: %s%s",
                    path, what, strerror(why), datadir_advice(why));
    return -1;
}

static int in_use(const char *path, struct store_error *ret)
{
    store_error_set(ret, true,
                    "the witness %s is in use by another process: each hilod needs one "
                    "of its own; set witness to another path",
                    path);
    return -1;
}

static int open_to_read(const char *path, int flags, struct store_error *ret_error)
{
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK); /* it may be a pipe */
    struct stat st;
    int why;

    if (fd < 0)
        return -1;
    why = fstat(fd, &st) != 0 ? errno : S_ISREG(st.st_mode) ? 0 : EINVAL;
    if (why == 0)
        return fd;
    close(fd);
    if (why == EINVAL)
        read_error(path, true, "is not a regular file", ret_error);
    errno = why;
    return -1;
}

int witness_peek(const char *path, struct record_header *ret,
                 struct store_error *ret_error)
{
    int fd = open_to_read(path, O_RDONLY, ret_error);
    struct record_reader in;
    char line[RECORD_MAX];
    ssize_t n;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return errno == EINVAL ? -1 : cant(path, "opened", ret_error);
    n = pread(fd, line, sizeof line, 0);
    close(fd);
    if (n < 0)
        return cant(path, "read", ret_error);
    if (!record_begin(&in, line, (size_t)n, ret) || ret->is_seal)
        return read_error(path, true, "has no valid first line", ret_error);
    return 1;
}

/* The line of a slot once more; it is known to be valid. */
static struct record record_at(const struct witness *w, uint64_t slot)
{
    struct record r;

    record_again(w->data, w->len, (size_t)((slot & ~TAKEN) - 1), &r);
    return r;
}

static uint64_t *find(const struct witness *w, const char *name, size_t len)
{
    uint64_t i = name_hash(name, len, w->seed) & (w->n_slots - 1);

    for (; w->slots[i] != 0; i = (i + 1) & (w->n_slots - 1)) {
        const char *there = w->data + (w->slots[i] & ~TAKEN) - 1 + RECORD_NAME_AT;

        if (memcmp(there, name, len) == 0 && there[len] == ' ')
            break;
    }
    return &w->slots[i];
}

static bool make_slots(struct witness *w)
{
    w->n_slots = 64;
    while (w->n_slots < w->len / 24) /* a line has 28 bytes or more */
        w->n_slots *= 2;
    w->slots = calloc(w->n_slots, sizeof *w->slots);
    return w->slots != NULL;
}

static int read_lines(struct witness *w, struct store_error *ret_error)
{
    struct record_header header;
    struct record_reader in;
    enum record_kind kind;
    struct record r;
    char what[96];
    size_t at, sure = 0; /* so far it had reached the disk */

    if (!record_begin(&in, w->data, w->len, &header) || header.is_seal)
        return read_error(w->path, true, "has no valid first line", ret_error);
    while (at = in.at, (kind = record_next(&in, &r)) > RECORD_BAD) {
        if (kind == RECORD_SYNC)
            sure = at;
        if (kind != RECORD_MARK)
            continue;
        *find(w, r.name, r.name_len) = at + 1;
        w->n_lines++;
    }
    if (kind == RECORD_BAD && record_was_synced(&in)) {
        snprintf(what, sizeof what, "is damaged at byte %zu of %zu", in.at, w->len);
        return read_error(w->path, true, what, ret_error);
    }
    if (kind == RECORD_BAD) {
        log_line(LOG_INFO,
                 "the witness %s ends in %zu bytes that were never synced; left out",
                 w->path, w->len - in.at);
        if (ftruncate(w->now.fd, (off_t)in.at) != 0)
            w->stale = true;
    }
    w->now.size = in.at;
    /* What was read may be in memory only: where a sync has failed, in a process before
     * this one, the system has dropped it all the same, and another sync would say
     * nothing of it (PostgreSQL's fsyncgate, 2018). So it is written once more. */
    if (!file_write_at(w->now.fd, w->data + sure, in.at - sure, sure))
        w->stale = true;
    w->now.unsynced = true;
    w->now.chain = in.chain;
    w->fresh_size = in.at;
    return 0;
}

static int open_existing(struct witness *w, bool outlived,
                         struct store_error *ret_error)
{
    w->now.fd = open_to_read(w->path, O_RDWR, ret_error);
    if (w->now.fd < 0 && errno == ENOENT) {
        w->stale = true;
        return 0;
    }
    if (w->now.fd < 0)
        return errno == EINVAL ? -1 : cant(w->path, "opened", ret_error);
    w->id = datadir_id(w->path);
    if (flock(w->now.fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? in_use(w->path, ret_error)
                                    : cant(w->path, "locked", ret_error);
    w->stale = outlived;
    if (outlived)
        return 0;
    if (!file_read(w->now.fd, &w->data, &w->len) || !make_slots(w))
        return cant(w->path, "read", ret_error);
    if (datadir_sync_parent(w->path) != 0) /* its name may not be on the disk */
        w->stale = true;
    return read_lines(w, ret_error);
}

struct witness *witness_open(const char *path, bool outlived,
                             struct store_error *ret_error)
{
    struct witness *w = calloc(1, sizeof *w);

    if (w != NULL) {
        w->now.fd = w->next.fd = -1;
        w->seed = random_u64();
        w->path = realpath(path, NULL); /* a new file goes where a link leads */
        if (w->path == NULL)
            w->path = strdup(path);
        if (w->path == NULL || asprintf(&w->new_path, "%s.new", w->path) < 0)
            w->new_path = NULL;
    }
    if (w == NULL || w->path == NULL || w->new_path == NULL) {
        store_error_set(ret_error, false, "out of memory");
        witness_close(w);
        return NULL;
    }
    if (open_existing(w, outlived, ret_error) == 0)
        return w;
    witness_close(w);
    return NULL;
}

void witness_close(struct witness *w)
{
    struct store_error why;

    if (w == NULL)
        return;
    if (w->now.fd >= 0) {
        if (w->stale) {
            log_line(LOG_WARNING,
                     "the witness %s could not be synced and may lack the last grants",
                     w->path);
        } else if (witness_sync(w, &why) == 0) {
            witness_look(w);
            fdatasync(w->now.fd);
        } else {
            log_line(LOG_WARNING, "%s", why.text);
        }
    }
    witness_forget(w);
    log_close(&w->now);
    log_close(&w->next);
    free(w->path);
    free(w->new_path);
    free(w);
}

int witness_put_aside(const char *path, struct store_error *ret_error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char aside[PATH_MAX];
    bool held;

    if (fd < 0 && errno == ENOENT)
        return 0;
    held = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0;
    if (fd >= 0)
        close(fd);
    if (held)
        return in_use(path, ret_error);
    snprintf(aside, sizeof aside, "%s.aside-%" PRId64, path, clock_wall_ms());
    if (rename(path, aside) != 0)
        return cant(path, "renamed", ret_error);
    log_line(LOG_WARNING, "the witness %s is left out; it is now %s", path, aside);
    return 0;
}

bool witness_left(const struct witness *w)
{
    for (uint64_t i = 0; i < w->n_slots; i++) {
        if (w->slots[i] != 0 && (w->slots[i] & TAKEN) == 0)
            return true;
    }
    return false;
}

bool witness_take(struct witness *w, const char *name, size_t name_len,
                  struct record *ret)
{
    uint64_t *slot = w->slots != NULL ? find(w, name, name_len) : NULL;

    if (slot == NULL || *slot == 0)
        return false;
    *ret = record_at(w, *slot);
    *slot |= TAKEN;
    return true;
}

bool witness_take_next(struct witness *w, struct record *ret)
{
    for (; w->at < w->n_slots; w->at++) {
        uint64_t *slot = &w->slots[w->at];

        if (*slot == 0 || (*slot & TAKEN) != 0)
            continue;
        *ret = record_at(w, *slot);
        *slot |= TAKEN;
        return true;
    }
    return false;
}

uint64_t witness_forget(struct witness *w)
{
    uint64_t n = w->n_lines;

    free(w->data);
    free(w->slots);
    w->data = NULL;
    w->slots = NULL;
    w->len = 0;
    w->n_slots = w->n_lines = w->at = 0;
    return n;
}

/* --- writing --- */

/* For a line behind those that wait; NULL when memory is out. */
static char *room(struct log *l)
{
    size_t size; /* more than a line takes */

    return buffer_room(&l->wait, &size);
}

/* Writes what waits, behind what is sound: so an attempt that failed half way is
 * written over. */
static int put_out(struct log *l)
{
    if (!file_write_at(l->fd, l->wait.data, l->wait.len, l->size))
        return -1;
    l->unsynced |= l->wait.len > 0;
    l->size += l->wait.len;
    l->wait.len = 0;
    return 0;
}

/* All that is written so far is on the disk, which the next write will say. */
static int sync_log(struct witness *w, struct log *l)
{
    w->stats.syncs++;
    if (fdatasync(l->fd) != 0)
        return -1;
    l->unsynced = false;
    l->announce = true;
    return 0;
}

/* Says that what is written so far was synced, unless that has been said. */
static bool announce(struct log *l)
{
    char *to;

    if (!l->announce || l->wait.len > 0)
        return true;
    to = room(l);
    if (to == NULL)
        return false;
    l->wait.len = record_put_sync(to, l->size, &l->chain);
    l->announce = false;
    return true;
}

static bool add_line(struct log *l, const struct record *r)
{
    char *to = announce(l) ? room(l) : NULL;

    if (to == NULL)
        return false;
    l->wait.len += record_put(to, r, &l->chain);
    return true;
}

bool witness_add(struct witness *w, const struct record *r)
{
    if (!w->renewing)
        return add_line(&w->now, r);
    return add_line(&w->next, r) &&
           (w->next.wait.len < WRITE_SIZE || put_out(&w->next) == 0);
}

int witness_write(struct witness *w, bool sync, struct store_error *ret_error)
{
    if (put_out(&w->now) != 0) {
        w->stats.failures++;
        return fail(w, "written", ret_error);
    }
    return sync ? witness_sync(w, ret_error) : 0;
}

int witness_sync(struct witness *w, struct store_error *ret_error)
{
    if (!w->now.unsynced)
        return 0;
    if (sync_log(w, &w->now) == 0)
        return 0;
    w->stats.failures++;
    w->stale = true; /* what the file holds can't be known any more */
    return fail(w, "synced", ret_error);
}

bool witness_stale(const struct witness *w)
{
    return w->stale;
}

bool witness_wasteful(const struct witness *w)
{
    return w->now.size > 2 * w->fresh_size + WASTE_LEAST;
}

int witness_renew_begin(struct witness *w, const struct record_header *h,
                        struct store_error *ret_error)
{
    struct record_header other;
    struct store_error unused;
    char *to;

    log_close(&w->next);
    if (witness_peek(w->path, &other, &unused) > 0 &&
        strcmp(other.uuid, h->uuid) != 0) {
        w->stats.failures++;
        store_error_set(ret_error, true,
                        "the witness %s is that of another store (%s) by now: set "
                        "witness to another path",
                        w->path, other.uuid);
        return -1;
    }
    w->renewing = true;
    w->next.fd =
        open(w->new_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    to = room(&w->next);
    if (w->next.fd >= 0 && to != NULL && flock(w->next.fd, LOCK_EX | LOCK_NB) == 0) {
        w->next.wait.len = record_put_header(to, h, &w->next.chain);
        return 0;
    }
    w->renewing = false;
    w->stats.failures++;
    return fail(w, "made anew", ret_error);
}

/* The old file stays until the new one is whole and its name is on the disk. */
int witness_renew_end(struct witness *w, bool failed, struct store_error *ret_error)
{
    w->renewing = false;
    if (failed || put_out(&w->next) != 0 || sync_log(w, &w->next) != 0 ||
        rename(w->new_path, w->path) != 0) {
        w->stats.failures++;
        w->fresh_size = w->now.size; /* if only to save room: not at once again */
        if (!failed)
            fail(w, "made anew", ret_error);
        log_close(&w->next);
        unlink(w->new_path);
        return -1;
    }
    if (datadir_sync_parent(w->path) != 0) {
        w->stats.failures++;
        w->stale = true; /* the path is the new file's, on the disk or not */
        return fail(w, "made anew", ret_error);
    }
    log_close(&w->now);
    w->now = w->next;
    w->next = (struct log){.fd = -1};
    w->stale = false;
    w->fresh_size = w->now.size;
    w->id = datadir_id(w->path);
    w->stats.renewals++;
    return 0;
}

void witness_spoil(struct witness *w)
{
    w->stale = true;
}

void witness_look(struct witness *w)
{
    struct log *l = &w->now;
    bool unsynced = l->unsynced;
    struct stat st;

    if (!w->stale && (datadir_lost(w->path, w->id) ||
                      (fstat(l->fd, &st) == 0 && (uint64_t)st.st_size < l->size))) {
        log_line(LOG_WARNING,
                 "the witness %s was deleted, replaced or cut; it is made anew",
                 w->path);
        w->stale = true;
    }
    if (w->stale || l->wait.len > 0 || !announce(l))
        return; /* the next write says it */
    if (put_out(l) != 0) {
        l->wait.len = 0;
        l->announce = true;
    }
    l->unsynced = unsynced; /* a sync mark alone is not worth a sync */
}

const char *witness_path(const struct witness *w)
{
    return w->path;
}

void witness_stats(const struct witness *w, struct witness_stats *ret)
{
    *ret = w->stats;
    ret->bytes = w->now.size;
}
