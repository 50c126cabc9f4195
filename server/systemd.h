/* systemd.h - what a service manager is told and what it hands over: sd_notify(3) and
 * sd_listen_fds(3), spoken without its library. Nothing happens without one. */
#ifndef HILO_SYSTEMD_H
#define HILO_SYSTEMD_H

#define SYSTEMD_FIRST_FD 3

/* Sends lines such as "READY=1"; does not wait. */
void systemd_notify(const char *lines);

/* The same for the begin of a reload, which carries the time. */
void systemd_notify_reloading(void);

/* How many listening sockets were handed over, from SYSTEMD_FIRST_FD on; they are
 * closed on exec from now on. Once, before other threads: it clears the variables. */
int systemd_listen_fds(void);

#endif
