/* systemd.c - the protocol of a service manager. */
#include "systemd.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "clock.h"
#include "number.h"

#define FDS_MAX 16

void systemd_notify(const char *lines)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    size_t len = path != NULL ? strlen(path) : 0;
    int fd;

    if (len < 2 || len > sizeof sa.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(sa.sun_path, path, len);
    if (path[0] == '@')
        sa.sun_path[0] = '\0'; /* an abstract name */
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (const struct sockaddr *)&sa,
           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    close(fd);
}

void systemd_notify_reloading(void)
{
    char lines[80];

    snprintf(lines, sizeof lines, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
             clock_steady_us());
    systemd_notify(lines);
}

static uint64_t number(const char *name)
{
    const char *text = getenv(name);
    uint64_t n;

    return text != NULL && number_parse_u64(text, strlen(text), &n) ? n : 0;
}

int systemd_listen_fds(void)
{
    uint64_t n = number("LISTEN_FDS");

    if (number("LISTEN_PID") != (uint64_t)getpid() || n > FDS_MAX)
        n = 0;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    for (int i = 0; i < (int)n; i++)
        fcntl(SYSTEMD_FIRST_FD + i, F_SETFD, FD_CLOEXEC);
    return (int)n;
}
