/* power.h - files whose power fails, in the process that writes them.
 *
 * power.c defines the calls that write (pwrite, ftruncate, fdatasync, fsync, rename,
 * unlink) and so stands between hilod's files and the system: it knows of each file in
 * its directory what had reached the disk and what was written since. Once the power is
 * out all further calls fail; when it comes back the files are what a disk may hold: of
 * the writes since the last sync of a file all, none, or some, whole or in pieces of a
 * sector; a file that was renamed has its new name or the old one.
 *
 * rand() decides: srand() makes it do the same again. One thread. */
#ifndef HILO_TESTS_POWER_H
#define HILO_TESTS_POWER_H

#include <stdbool.h>

/* What becomes of writes that were not synced. */
enum fate { KEPT, DROPPED, SOME, TORN, FATES };

/* Watches files below dir, an absolute path, from now on. NULL: none any more. */
void power_watch(const char *dir);

/* The power is out at the n-th call from now; 0: never. */
void power_out_at(unsigned n);
void power_out(void); /* at once */
bool power_is_out(void);

/* Calls since power_out_at. */
unsigned power_calls(void);

/* The power is back for what is below dir, whose files become what the disk holds. */
void power_on(const char *dir, enum fate fate);

/* The same where only the process had ended: files are as it left them, and what was
 * not synced isn't yet. */
void power_back(void);

/* One call in so many fails for no reason, though the power is there; 0: none. A sync
 * that fails has left any part of the writes on the disk. Returns what it was. */
unsigned power_flaky(unsigned one_in);

#endif
