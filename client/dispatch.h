/* dispatch.h - which server a request goes to, and what its answer means. All locked.
 */
#ifndef HILO_DISPATCH_H
#define HILO_DISPATCH_H

#include "handle.h"

/* Takes over a request; it is sent by the next dispatch_run. */
void dispatch_ask(struct hilo *h, struct ask *a);

/* Sends what can be sent, connects where that is needed. When to call it again, at the
 * latest; INT64_MAX for no time. */
int64_t dispatch_run(struct hilo *h, int64_t now_us);

/* Nobody wants the answer any more. */
void dispatch_forget(struct hilo *h, struct ask *a);

/* The error of a caller whose time is up; says it (handle_say). */
int dispatch_late(struct hilo *h, const struct hilo_seq *s, const char *token);

/* What servers tell. */
extern const struct server_events dispatch_events;

#endif
