/* file.h - a whole file read, and bytes written all or not. */
#ifndef HILO_FILE_H
#define HILO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All that is in it now; free *ret. False and errno. */
bool file_read(int fd, char **ret, size_t *ret_len);

/* All of it, from offset on. False and errno; some of it may be written then. */
bool file_write_at(int fd, const char *data, size_t len, uint64_t offset);

#endif
