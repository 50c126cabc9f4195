/* roster.c - which stores a client has met. */
#include "roster.h"

#include <string.h>

void roster_init(struct roster *r)
{
    r->n = 0;
}

static struct roster_store *find(struct roster *r, const char *uuid)
{
    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(r->stores[i].id.uuid, uuid) == 0)
            return &r->stores[i];
    }
    return NULL;
}

enum roster_verdict roster_compare(const struct identity *old,
                                   const struct identity *id)
{
    if (id->epoch < old->epoch)
        return ROSTER_OLD_EPOCH;
    if (id->epoch > old->epoch)
        return ROSTER_NEW_EPOCH;
    if (id->lane.lanes != old->lane.lanes || id->lane.stripe != old->lane.stripe)
        return ROSTER_LAYOUT;
    if (id->lane.number == old->lane.number && strcmp(id->uuid, old->uuid) != 0)
        return ROSTER_LANE;
    return ROSTER_WELCOME;
}

/* A store that was met before: the same run, the next run, or a copy of it? */
static enum roster_verdict meet_again(struct roster_store *s, const struct identity *id,
                                      unsigned server)
{
    if (s->cloned)
        return ROSTER_CLONE;
    if (!id->shared && strcmp(id->boot, s->id.boot) != 0) {
        if (strcmp(id->boot, s->before) == 0) {
            s->cloned = true;
            return ROSTER_CLONE;
        }
        memcpy(s->before, s->id.boot, sizeof s->before);
    }
    s->id = *id;
    s->server = server;
    return ROSTER_WELCOME;
}

enum roster_verdict roster_meet(struct roster *r, const struct identity *id,
                                unsigned server, unsigned *ret_other)
{
    struct roster_store *known = find(r, id->uuid);
    enum roster_verdict result = ROSTER_WELCOME, again;

    for (size_t i = 0; i < r->n; i++) {
        enum roster_verdict v = roster_compare(&r->stores[i].id, id);

        if (v == ROSTER_WELCOME)
            continue;
        *ret_other = r->stores[i].server;
        if (v != ROSTER_NEW_EPOCH)
            return v;
        result = v;
    }
    if (known != NULL) {
        *ret_other = known->server;
        again = meet_again(known, id, server);
        return again != ROSTER_WELCOME ? again : result;
    }
    if (r->n == ROSTER_STORES)
        return ROSTER_FULL;
    r->stores[r->n++] = (struct roster_store){.id = *id, .server = server};
    return result;
}
