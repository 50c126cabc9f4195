/* file.c - a whole file read, and bytes written all or not. */
#include "file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_read(int fd, char **ret, size_t *ret_len)
{
    struct stat st;
    size_t len = 0;
    char *data;

    if (fstat(fd, &st) != 0)
        return false;
    data = malloc((size_t)st.st_size + 1);
    if (data == NULL)
        return false;
    while (len < (size_t)st.st_size) {
        ssize_t n = pread(fd, data + len, (size_t)st.st_size - len, (off_t)len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            free(data);
            return false;
        }
        len += (size_t)n;
    }
    *ret = data;
    *ret_len = len;
    return true;
}

bool file_write_at(int fd, const char *data, size_t len, uint64_t offset)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = pwrite(fd, data + done, len - done, (off_t)(offset + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return false;
        }
        done += (size_t)n;
    }
    return true;
}
