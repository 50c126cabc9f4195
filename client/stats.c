/* stats.c - numbers about a sequence. */
#include <stdio.h>
#include <string.h>
#include "seq.h"

static void fill_server(const struct server *sv, const struct member *m,
                        hilo_server_stats *ret)
{
    const char *why = m->err != 0 ? m->why : sv->err != 0 ? sv->why : "";

    *ret = (hilo_server_stats){.requests = m->requests,
                               .ids = m->ids,
                               .failures = m->failures + sv->n_failures,
                               .round_us = m->round_us};
    snprintf(ret->name, sizeof ret->name, "%s", sv->target.text);
    snprintf(ret->state, sizeof ret->state, "%s", server_state_word(sv));
    snprintf(ret->last_error, sizeof ret->last_error, "%.159s", why);
    if (sv->met) {
        ret->lane = sv->id.lane.number;
        ret->lanes = sv->id.lane.lanes;
    }
}

static void fill(struct hilo_seq *s, hilo_seq_stats *ret)
{
    ret->granted = s->finished + hot_taken(s->head.hot);
    ret->in_hand = hot_left(s->head.hot) + s->cache.queued;
    ret->block = s->cache.block;
    ret->per_second = (uint64_t)(s->cache.rate * 1000);
    ret->refills = s->refills;
    ret->failures = s->failures;
    ret->waits = s->waits;
    ret->round_us = (uint64_t)s->cache.round_us;
    ret->wakeups = s->h->wakeups;
    ret->servers = s->h->n_servers;
    for (unsigned i = 0; i < s->h->n_servers; i++)
        fill_server(&s->h->servers[i], &s->members[i], &ret->server[i]);
}

int hilo_stats(hilo_seq *s, hilo_seq_stats *ret)
{
    hilo_seq_stats all;
    size_t size;

    if (s == NULL || ret == NULL || ret->size <= sizeof(size_t) ||
        ret->size > sizeof all)
        return HILO_EARG;
    if (!hot_is_ours(s->head.hot, s->pid))
        return HILO_EFORK;
    size = ret->size;
    memset(&all, 0, sizeof all);
    pthread_mutex_lock(&s->h->lock);
    fill(s, &all);
    pthread_mutex_unlock(&s->h->lock);
    memcpy(ret, &all, size);
    ret->size = size;
    return 0;
}
