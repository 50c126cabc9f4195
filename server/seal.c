/* seal.c - the file a layout leaves behind. */
#include "seal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "buffer.h"
#include "datadir.h"
#include "file.h"

static int cant(const char *path, const char *what, struct store_error *ret)
{
    int why = errno;

    store_error_set(ret, false,
                    "%s can't be %s: %s. Nothing is lost: mend that, and do the same "
                    "once more",
                    path, what, strerror(why));
    return -1;
}

bool seal_exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* --- writing --- */

#define WRITE_SIZE 65536 /* so much at a time */

struct draft {
    const struct guard *guard;
    int fd;
    uint64_t at; /* in the file */
    struct buffer wait;
    uint64_t count;
    struct record_chain chain;
    bool failed;
};

/* For a line behind those that wait. */
static char *room(struct draft *d)
{
    size_t size; /* more than a line takes */
    char *to = buffer_room(&d->wait, &size);

    d->failed |= to == NULL;
    return to;
}

static void put_out(struct draft *d)
{
    d->failed = d->failed || !file_write_at(d->fd, d->wait.data, d->wait.len, d->at);
    d->at += d->wait.len;
    d->wait.len = 0;
}

static void put_counter(void *arg, uint64_t counter, const char *name, size_t name_len,
                        const struct counter_attr *attr, uint64_t mark)
{
    struct draft *d = arg;
    struct record r = guard_record(d->guard, name, name_len, attr, counter, mark);
    char *to = d->failed ? NULL : room(d);

    if (to == NULL)
        return;
    d->wait.len += record_put(to, &r, &d->chain);
    d->count++;
    if (d->wait.len >= WRITE_SIZE)
        put_out(d);
}

static int put_all(struct draft *d, const char *path, struct store_error *ret_error)
{
    const struct guard *g = d->guard;
    struct record_header h = {.is_seal = true,
                              .lane = g->id.lane,
                              .epoch = g->id.epoch,
                              .skip = guard_last_id(g->id.lane, g->id.skip)};
    char *to = room(d);

    memcpy(h.uuid, g->id.uuid, sizeof h.uuid);
    if (to != NULL)
        d->wait.len = record_put_header(to, &h, &d->chain);
    if (g->engine->load(g->store, put_counter, d, ret_error) != 0)
        return -1;
    to = d->failed ? NULL : room(d);
    if (to != NULL)
        d->wait.len += record_put_end(to, d->count, &d->chain);
    put_out(d);
    if (d->failed || fsync(d->fd) != 0)
        return cant(path, "written", ret_error);
    return 0;
}

int seal_write(const char *path, const struct guard *g, struct store_error *ret_error)
{
    struct draft d = {.guard = g};
    char part[PATH_MAX];
    int rc;

    if (snprintf(part, sizeof part, "%s.new", path) >= (int)sizeof part) {
        errno = ENAMETOOLONG;
        return cant(path, "written", ret_error);
    }
    unlink(part); /* of an attempt that ended half way; a link is not followed */
    d.fd = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (d.fd < 0)
        return cant(part, "made", ret_error);
    rc = put_all(&d, part, ret_error);
    buffer_free(&d.wait);
    close(d.fd);
    if (rc == 0 && (rename(part, path) != 0 || datadir_sync_parent(path) != 0))
        rc = cant(path, "written", ret_error);
    if (rc != 0)
        unlink(part);
    return rc;
}

/* --- reading --- */

/* One more of an array; false when memory is out. */
static bool grow(void *array, size_t n, size_t size)
{
    void **at = array, *all = *at;

    if ((n & (n - 1)) != 0) /* room is made at 0, 1, 2, 4, 8 ... */
        return true;
    all = realloc(all, (n == 0 ? 1 : 2 * n) * size);
    if (all == NULL)
        return false;
    *at = all;
    return true;
}

enum reading { READ_WHOLE, READ_PART, READ_DAMAGED, READ_NO_MEMORY };

/* A line that was being written when its process or machine ended lacks its end, or
 * some of it is zeros. What is neither was there once, and has changed since. */
static bool is_torn(const char *line, size_t len)
{
    return memchr(line, '\n', len) == NULL || memchr(line, '\0', len) != NULL;
}

static bool take_line(struct seal *s, const struct record_reader *in,
                      enum record_kind kind, const struct record *r)
{
    if (kind == RECORD_MARK) {
        if (!grow(&s->records, s->n, sizeof *r))
            return false;
        s->records[s->n++] = *r;
    } else if (kind == RECORD_OPENING) {
        if (!grow(&s->openings, s->n_openings, sizeof in->opening))
            return false;
        s->openings[s->n_openings++] = in->opening;
    }
    return true;
}

static enum reading read_lines(struct seal *s)
{
    struct record_reader in;
    enum record_kind kind;
    struct record r;

    if (!record_begin(&in, s->data, s->len, &s->header) || !s->header.is_seal)
        return READ_PART;
    while ((kind = record_next(&in, &r)) > RECORD_BAD) {
        if ((kind == RECORD_OPENING) != (s->end > 0))
            return READ_DAMAGED; /* in no order that is written */
        if (!take_line(s, &in, kind, &r))
            return READ_NO_MEMORY;
        if (kind == RECORD_WHOLE || s->end > 0)
            s->end = in.at;
    }
    s->chain = in.chain;
    if (s->end == 0)
        return READ_PART;
    return kind == RECORD_BAD && !is_torn(s->data + in.at, s->len - in.at)
               ? READ_DAMAGED
               : READ_WHOLE;
}

/* Whether another file was put in its place before it was locked. */
static bool was_replaced(const char *path, int fd)
{
    struct stat there, here;

    return stat(path, &there) != 0 || fstat(fd, &here) != 0 ||
           there.st_ino != here.st_ino || there.st_dev != here.st_dev;
}

static int not_good(const char *path, enum reading found, struct store_error *ret)
{
    if (found == READ_NO_MEMORY)
        store_error_set(ret, false, "out of memory");
    else if (found == READ_PART)
        store_error_set(ret, true,
                        "%s is no file of --relane-seal, or not whole: make it anew "
                        "with hilod --relane-seal, on the data directory it is of",
                        path);
    else
        store_error_set(ret, true,
                        "%s is damaged where it says which lanes were opened from it. "
                        "Only if that was none: make another one with hilod "
                        "--relane-seal, on the data directory it is of",
                        path);
    return -1;
}

/* 0, or -1 and *ret_error. */
static int lock_file(const char *path, int fd, struct store_error *ret_error)
{
    bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;

    if (!locked && errno != EWOULDBLOCK)
        return cant(path, "locked", ret_error);
    if (locked && !was_replaced(path, fd))
        return 0;
    store_error_set(ret_error, true,
                    "%s is in use: it was named twice, or another lane is opened from "
                    "it at this moment. Do the same once more when that has ended",
                    path);
    return -1;
}

int seal_read(const char *path, struct seal *ret, struct store_error *ret_error)
{
    enum reading found;

    *ret = (struct seal){.path = path};
    ret->fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (ret->fd < 0)
        return cant(path, "opened for reading and writing", ret_error);
    if (lock_file(path, ret->fd, ret_error) != 0)
        return -1;
    if (!file_read(ret->fd, &ret->data, &ret->len))
        return cant(path, "read", ret_error);
    found = read_lines(ret);
    return found == READ_WHOLE ? 0 : not_good(path, found, ret_error);
}

void seal_free(struct seal *s)
{
    free(s->data);
    free(s->records);
    free(s->openings);
    if (s->fd >= 0)
        close(s->fd);
    *s = (struct seal){.fd = -1};
}

int seal_note_opening(struct seal *s, const struct record_opening *o,
                      struct store_error *ret_error)
{
    char line[RECORD_MAX];
    size_t len = record_put_opening(line, o, &s->chain);

    if (ftruncate(s->fd, (off_t)s->end) == 0 &&
        file_write_at(s->fd, line, len, s->end) && fsync(s->fd) == 0)
        return 0;
    return cant(s->path, "written, to note what was opened from it", ret_error);
}
