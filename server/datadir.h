/* datadir.h - the directory a store lives in: made, looked at, locked. */
#ifndef HILO_DATADIR_H
#define HILO_DATADIR_H

#include <stdbool.h>
#include <stddef.h>
#include "store.h"

/* Makes the directory (mode 0700) and what is missing above it, durably, and checks the
 * file system under it: one that is reached over a network is refused unless allowed,
 * one that is memory is warned about. 0, or -1 and *ret_error. */
int datadir_prepare(const char *dir, bool allow_network_fs,
                    struct store_error *ret_error);

/* The real path of dir/name, symbolic links followed, so that every way to the same
 * file meets the same lock. Refuses what is not a regular file of one name: with a
 * second hard link, a log written under one name would be missed under the other. The
 * file itself is never opened: that would drop SQLite's locks. Free the result. NULL
 * and *ret_error. */
char *datadir_file(const char *dir, const char *name, struct store_error *ret_error);

/* Checks the same of the file's own directory, where a link has led out of dir. */
int datadir_check_path(const char *path, const char *dir, bool allow_network_fs,
                       struct store_error *ret_error);

/* Locks path + ".lock" for this process's life. The descriptor, to be closed at the
 * end; or -1 and *ret_error, which names the holder. */
int datadir_lock(const char *path, struct store_error *ret_error);

/* Whether an error of the system is about owners, modes and mounts, so that trying
 * again does not help; and what to do then, to be put behind a message, else "". */
bool datadir_wants_people(int error);
const char *datadir_advice(int error);

/* Whether the file, or the directory it has to be made in, can't be written because of
 * owners, modes or mounts; errno says why. What fails for a moment does not count. */
bool datadir_is_barred(const char *path);

/* Warns of a witness that lies in memory or behind a network, unless it is in the
 * directory dir, of which that has been said. */
void datadir_look_at_witness(const char *witness, const char *dir);

/* What is under a path: "disk", "memory", "network" or "unknown". */
const char *datadir_kind(const char *path);

/* Which file a path names; all zero for none. */
struct datadir_id {
    uint64_t device, inode;
};
struct datadir_id datadir_id(const char *path);

/* Whether the path names another file by now, or none. Not knowing is not losing. */
bool datadir_lost(const char *path, struct datadir_id id);

/* Makes the directory the file is to be in, if it is missing. 0, or -1 and errno. */
int datadir_make_parent(const char *path);

/* Makes the name of the file durable: syncs the directory it is in. 0, or -1 and errno.
 */
int datadir_sync_parent(const char *path);

/* What is free there for users other than root; 0 when nobody knows. Opens nothing. */
uint64_t datadir_free_bytes(const char *path);

/* "process 123 (hilod)", the one that holds a lock on the file, as far as the kernel
 * tells; else "another process". */
void datadir_holder(const char *path, char *buf, size_t size);

#endif
