/* dispatch.c - which server a request goes to, and what its answer means. */
#include "dispatch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "clock.h"
#include "error.h"
#include "greeting.h"
#include "number.h"
#include "seq.h"
#include "text.h"

#define REFUSED_US 1000000 /* a server that has no ids for a sequence isn't asked */
/* Those that contradict each other say again who they are every two seconds or so; one
 * that has said nothing for this long is gone. */
#define CONTEST_US   5000000
#define TRY_AGAIN_US 20000  /* one that is in trouble; doubles, ... */
#define TRY_MOST_US  500000 /* ... up to this */

/* Errors that don't pass by themselves. */
static bool lasts(int err)
{
    return err != HILO_EUNAVAIL && err != HILO_ETIMEDOUT && err != HILO_ENOMEM &&
           err != HILO_ESYSTEM && err != HILO_ETRYAGAIN && err != HILO_ESTORAGE &&
           err != HILO_ECLOCK;
}

/* --- the end of a request --- */

static void end_call(struct hilo *h, struct ask *a, int err, const char *why)
{
    struct block_call *call = a->call;

    if (err != 0)
        handle_say(h, "%s", why);
    call->err = err;
    call->ask = NULL;
    pthread_cond_broadcast(&a->seq->arrived);
}

/* A request that brought nothing: the stock asks again, a caller is told. */
static void end_failed(struct hilo *h, struct ask *a, int err, const char *why)
{
    if (a->call != NULL)
        end_call(h, a, err, why);
    else if (a->seq != NULL && a->seq->asking == a)
        seq_not_filled(a->seq);
    free(a);
}

void dispatch_ask(struct hilo *h, struct ask *a)
{
    ask_push(&h->unsent, a);
}

void dispatch_forget(struct hilo *h, struct ask *a)
{
    if (a->call != NULL)
        a->call->ask = NULL;
    a->call = NULL;
    if (a->seq->asking == a)
        a->seq->asking = NULL;
    a->seq = NULL;
    if (ask_remove(&h->unsent, a))
        free(a);
}

/* --- choosing --- */

/* Why nobody can serve a request. */
struct refusals {
    bool hope; /* somebody may be able to before long */
    int err;
    int64_t until_us;
    char why[MESSAGE_MAX];
};

/* EXHAUSTED is the whole truth only if it is everybody's. */
static void note_refusal(struct refusals *r, int err, int64_t until_us, const char *why)
{
    if (!lasts(err))
        r->hope = true;
    if (r->err == 0 || r->err == HILO_EEXHAUSTED)
        r->err = err;
    if (until_us < r->until_us)
        r->until_us = until_us;
    text_add(r->why, sizeof r->why, "%s%s", r->why[0] != '\0' ? "; " : "", why);
}

/* Whether a server takes requests of this sequence now; it is connected if it may be.
 */
static bool is_usable(struct server *sv, const struct hilo_seq *s, bool connect,
                      int64_t now_us, struct refusals *r)
{
    const struct member *m = &s->members[sv->number];

    if (m->err != 0 && m->until_us > now_us) {
        note_refusal(r, m->err, m->until_us, m->why);
        return false;
    }
    if (sv->state == SERVER_READY)
        return true;
    if (sv->state == SERVER_DOWN && sv->retry_us <= now_us && connect)
        server_connect(sv, now_us);
    if (sv->state == SERVER_DOWN && sv->retry_us > now_us)
        note_refusal(r, sv->err, sv->retry_us, sv->why);
    else
        r->hope = true;
    return false;
}

/* Whether a server may be the one that keeps a token: it is, or nobody knows yet. */
static bool may_keep(const struct server *sv, const char *token)
{
    const struct identity *id = &sv->id;

    return token[0] == '\0' || !sv->met || id->shared ||
           id->lane.number == lane_of_token(token, strlen(token), id->lane.lanes);
}

static struct server *choose(struct hilo *h, const struct ask *a, int64_t now_us,
                             struct refusals *r)
{
    unsigned from = h->policy == HILO_PRIMARY ? 0 : h->turn;
    const struct hilo_seq *s = a->seq;
    bool connect = true;

    *r = (struct refusals){.until_us = INT64_MAX};
    for (unsigned i = 0; i < h->n_servers; i++) {
        struct server *sv = &h->servers[(from + i) % h->n_servers];

        if (!may_keep(sv, a->token))
            continue;
        if (is_usable(sv, s, connect, now_us, r))
            return sv;
        /* Who comes first is waited for before others are connected, but only once. */
        if (h->policy == HILO_PRIMARY && a->token[0] == '\0' &&
            sv->state != SERVER_DOWN && sv->state != SERVER_READY && sv->failures == 0)
            connect = false;
    }
    if (r->err == 0 && !r->hope) {
        r->err = HILO_EUNAVAIL;
        text_add(r->why, sizeof r->why,
                 "none of the servers has the lane that keeps this token");
    }
    return NULL;
}

/* Nobody can serve it, and waiting won't help. */
static void give_up(struct hilo *h, struct ask *a, const struct refusals *r)
{
    char why[MESSAGE_MAX] = "";
    struct hilo_seq *s = a->seq;

    text_add(why, sizeof why, "%s: %s", s->name, r->why);
    if (a->call != NULL) {
        end_call(h, a, r->err, why);
    } else {
        s->asking = NULL;
        s->failures++;
        cache_failed(&s->cache);
        seq_fault(s, r->err, r->until_us, why);
    }
    free(a);
}

/* False: it has to stay. */
static bool dispatch_one(struct hilo *h, struct ask *a, int64_t now_us,
                         int64_t *next_us)
{
    struct hilo_seq *s = a->seq;
    struct refusals r;
    struct server *sv = choose(h, a, now_us, &r);
    struct member *m;

    if (sv != NULL) {
        m = &s->members[sv->number];
        a->floor = seen_highest(s->seen, &sv->id, sv->number);
        if (!server_send(sv, a, now_us))
            return false; /* no room: after the next answers */
        h->turn = sv->number + 1;
        m->requests++;
        return true;
    }
    if (!r.hope) {
        give_up(h, a, &r);
        return true;
    }
    if (r.until_us < *next_us)
        *next_us = r.until_us;
    return false;
}

int64_t dispatch_run(struct hilo *h, int64_t now_us)
{
    struct ask_queue old = h->unsent;
    int64_t next_us = INT64_MAX;
    struct ask *a;

    if (old.head == NULL)
        return next_us;
    ask_queue_init(&h->unsent);
    while (old.head != NULL) {
        a = old.head;
        old.head = a->next;
        if (!dispatch_one(h, a, now_us, &next_us))
            ask_push(&h->unsent, a);
    }
    return next_us;
}

/* What stands in a caller's way at this moment. A server that is there but slow or in
 * trouble says more than one that is away. */
int dispatch_late(struct hilo *h, const struct hilo_seq *s, const char *token)
{
    char why[MESSAGE_MAX] = "";
    int err = HILO_EUNAVAIL;

    for (unsigned i = 0; i < h->n_servers; i++) {
        const struct server *sv = &h->servers[i];
        const struct member *m = &s->members[i];
        const char *sep = why[0] != '\0' ? "; " : "";

        if (!may_keep(sv, token))
            continue;
        if (m->err != 0) {
            text_add(why, sizeof why, "%s%s", sep, m->why);
            err = err == HILO_EUNAVAIL && !lasts(m->err) ? m->err : err;
        } else if (sv->state == SERVER_READY) {
            text_add(why, sizeof why, "%s%s: no answer yet", sep, sv->target.text);
            err = HILO_ETIMEDOUT;
        } else if (sv->why[0] != '\0') {
            text_add(why, sizeof why, "%s%s", sep, sv->why);
        } else {
            text_add(why, sizeof why, "%s%s: no connection yet", sep, sv->target.text);
        }
    }
    handle_say(h, "%s: no id within %d ms: %s", s->name, (int)(s->timeout_us / 1000),
               why);
    return err;
}

/* --- greetings --- */

static void drop_others(struct hilo *h, struct server *sv, uint64_t epoch)
{
    for (unsigned i = 0; i < h->n_servers; i++) {
        struct server *other = &h->servers[i];

        if (other == sv || other->state != SERVER_READY)
            continue;
        if (other->id.epoch < epoch)
            server_drop(other, HILO_ELANE, REFUSED_US,
                        "is in layout epoch %" PRIu64 ", but %s in %" PRIu64
                        ", which ended it",
                        other->id.epoch, sv->target.text, epoch);
        else if (strcmp(other->id.uuid, sv->id.uuid) == 0 && !sv->id.shared &&
                 strcmp(other->id.boot, sv->id.boot) != 0)
            server_drop(other, HILO_EUNAVAIL, 0, "has been started anew, as %s says",
                        sv->target.text);
    }
}

static int refuse(enum roster_verdict v, const struct server *sv,
                  const struct identity *id, struct server *other, char *text)
{
    const struct identity *o = &other->id;

    switch (v) {
    case ROSTER_LAYOUT:
        snprintf(text, SERVER_WHY_MAX,
                 "has %u lanes and stripe %" PRIu64 ", but %s has %u and %" PRIu64
                 "; set them alike",
                 id->lane.lanes, id->lane.stripe, other->target.text, o->lane.lanes,
                 o->lane.stripe);
        break;
    case ROSTER_LANE:
        snprintf(text, SERVER_WHY_MAX,
                 "and %s both claim lane %u of %u, with different stores; give one of "
                 "them another lane",
                 other->target.text, id->lane.number, id->lane.lanes);
        break;
    case ROSTER_CLONE:
        snprintf(text, SERVER_WHY_MAX,
                 "runs on the same store as another server (%s): one of them is a copy "
                 "and has to be stopped",
                 other->target.text);
        break;
    case ROSTER_OLD_EPOCH:
        snprintf(text, SERVER_WHY_MAX,
                 "is in layout epoch %" PRIu64 ", which %s has ended; open its new "
                 "layout",
                 id->epoch, other->target.text);
        break;
    default:
        snprintf(text, SERVER_WHY_MAX, "is one store too many, at most %d are kept",
                 ROSTER_STORES);
        break;
    }
    if (v != ROSTER_OLD_EPOCH && v != ROSTER_FULL && other != sv &&
        other->state == SERVER_READY)
        server_drop(other, HILO_ELANE, REFUSED_US, "%s (said by %s)", text,
                    sv->target.text);
    return HILO_ELANE;
}

/* A server that is there too and contradicts this one about who owns which ids. Which
 * of the two is right can't be known here, and another program may have heard the other
 * one first, so neither is used while both are there. */
static struct server *contradictor(struct hilo *h, const struct server *sv,
                                   int64_t now_us, enum roster_verdict *ret)
{
    for (unsigned i = 0; i < h->n_servers; i++) {
        struct server *other = &h->servers[i];

        if (other == sv || !other->met)
            continue;
        if (other->state != SERVER_READY && now_us - other->heard_us > CONTEST_US)
            continue;
        *ret = roster_compare(&other->id, &sv->id);
        if (*ret == ROSTER_LAYOUT || *ret == ROSTER_LANE)
            return other;
    }
    return NULL;
}

static int on_greeted(struct server *sv, const struct reply_item *items, size_t n,
                      char *text)
{
    struct hilo *h = sv->owner;
    enum roster_verdict v;
    struct identity id;
    struct server *against;
    unsigned other = sv->number;
    int err = greeting_read(items, n, &id, text, SERVER_WHY_MAX);

    if (err != 0)
        return err;
    sv->id = id;
    sv->met = true;
    sv->heard_us = steady_us();
    against = contradictor(h, sv, sv->heard_us, &v);
    if (against != NULL)
        return refuse(v, sv, &id, against, text);
    v = roster_meet(&h->roster, &id, sv->number, &other);
    if (v != ROSTER_WELCOME && v != ROSTER_NEW_EPOCH)
        return refuse(v, sv, &id, &h->servers[other], text);
    drop_others(h, sv, id.epoch);
    return 0;
}

/* --- answers --- */

/* Whether it is a block this server may grant for this request: 0, or an error. */
static int check_block(const struct server *sv, const struct ask *a,
                       const struct reply_item *items, size_t n, struct run *ret,
                       char *text)
{
    /* Answers of one server come in order, so each has to be above the one before. */
    uint64_t last = seen_last(a->seq->seen, &sv->id, sv->number);
    uint64_t floor = last > a->floor ? last : a->floor, count;
    bool again = a->token[0] != '\0'; /* it may have been granted long ago */
    struct lane l = sv->id.lane;
    struct run r;

    if (n != 4 || items[0].type != REPLY_ARRAY || items[0].n != 3 ||
        !reply_number(&items[1], &r.first) || !reply_number(&items[2], &r.last) ||
        !reply_number(&items[3], &r.step)) {
        snprintf(text, SERVER_WHY_MAX, "its answer to BLOCK is no block");
        return HILO_EPROTO;
    }
    if (r.first < 1 || r.last > HILO_ID_MAX || r.first > r.last ||
        r.step != lane_step(l) || (r.last - r.first) % r.step != 0) {
        snprintf(text, SERVER_WHY_MAX,
                 "its block %" PRIu64 " to %" PRIu64 " by %" PRIu64 " makes no sense",
                 r.first, r.last, r.step);
        return HILO_EPROTO;
    }
    count = run_count(r);
    if (count > a->count || (a->exact && count != a->count)) {
        snprintf(text, SERVER_WHY_MAX,
                 "its block has %" PRIu64 " ids, but %" PRIu64 " were asked for", count,
                 a->count);
        return HILO_EPROTO;
    }
    if (!lane_owns(l, r.first) || !lane_owns(l, r.last) ||
        lane_position(l, r.last) - lane_position(l, r.first) + 1 != count) {
        snprintf(text, SERVER_WHY_MAX,
                 "its block %" PRIu64 " to %" PRIu64 " is not in its lane, %u of %u",
                 r.first, r.last, l.number, l.lanes);
        return HILO_ELANE;
    }
    if (r.first <= floor && !again) {
        snprintf(text, SERVER_WHY_MAX,
                 "%s went back: its block begins at %" PRIu64 ", but %" PRIu64
                 " was had before; was an old copy put back? advance it above that",
                 a->name, r.first, floor);
        return HILO_EREGRESS;
    }
    *ret = r;
    return 0;
}

static void filled(struct server *sv, struct ask *a, struct run r, int64_t now_us)
{
    struct member *m = &a->seq->members[sv->number];

    if (r.last > seen_last(a->seq->seen, &sv->id, sv->number))
        seen_note(a->seq->seen, &sv->id, sv->number, r.last);
    m->ids += run_count(r);
    m->round_us = (uint64_t)(now_us - a->sent_us);
    m->err = 0;
    m->refusals = 0;
    if (a->call != NULL) {
        a->call->run = (hilo_run){.first = r.first, .last = r.last, .step = r.step};
        end_call(sv->owner, a, 0, "");
    } else {
        seq_filled(a->seq, r, now_us);
    }
}

static int64_t pause_after(struct member *m, int err)
{
    int64_t us = TRY_AGAIN_US;

    if (lasts(err))
        return REFUSED_US;
    for (unsigned i = 0; i < m->refusals && us < TRY_MOST_US; i++)
        us *= 2;
    m->refusals++;
    return us < TRY_MOST_US ? us : TRY_MOST_US;
}

/* An error reply. */
static void refused(struct server *sv, struct ask *a, const struct reply_item *item,
                    int64_t now_us)
{
    int err = error_code(item->p, item->len);
    struct member *m = &a->seq->members[sv->number];
    char why[SERVER_WHY_MAX];

    snprintf(why, sizeof why, "%s: %.*s", sv->target.text, (int)item->len, item->p);
    text_clean(why);
    m->failures++;
    if (a->call == NULL) {
        m->err = err;
        m->until_us = now_us + pause_after(m, err);
        memcpy(m->why, why, sizeof why);
    }
    end_failed(sv->owner, a, err, why);
}

static int on_answered(struct server *sv, struct ask *a, const struct reply_item *items,
                       size_t n, char *text)
{
    int64_t now_us = steady_us();
    struct run r = {.first = 0};
    int err = 0;

    if (a->seq == NULL) { /* nobody wants it: these ids are a gap */
        free(a);
        return 0;
    }
    if (items[0].type == REPLY_ERROR) {
        if (error_code(items[0].p, items[0].len) == HILO_ENOAUTH) {
            snprintf(text, SERVER_WHY_MAX, "%.*s", (int)items[0].len, items[0].p);
            err = HILO_EAUTH;
        } else {
            refused(sv, a, &items[0], now_us);
            return 0;
        }
    } else {
        err = check_block(sv, a, items, n, &r, text);
    }
    if (err == 0) {
        filled(sv, a, r, now_us);
        free(a);
    } else {
        a->seq->members[sv->number].failures++;
        end_failed(sv->owner, a, err, text);
    }
    return err;
}

static void on_lost(struct server *sv, struct ask *a)
{
    if (a->seq != NULL)
        a->seq->members[sv->number].failures++;
    if (a->seq != NULL && a->call != NULL && a->token[0] != '\0')
        dispatch_ask(sv->owner, a); /* with a token it is safe to ask again */
    else
        end_failed(sv->owner, a, sv->err, sv->why);
}

static bool on_enter(struct server *sv)
{
    struct hilo *h = sv->owner;

    if (!handle_is_ours(h))
        return false;
    pthread_mutex_lock(&h->lock);
    return true;
}

static void on_turn(struct server *sv)
{
    handle_turn(sv->owner);
}

const struct server_events dispatch_events = {.greeted = on_greeted,
                                              .answered = on_answered,
                                              .lost = on_lost,
                                              .enter = on_enter,
                                              .turn = on_turn};
