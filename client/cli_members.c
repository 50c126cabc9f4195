/* cli_members.c - every server of the list: connecting, asking, collecting. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"
#include "error.h"
#include "roster.h"
#include "text.h"

unsigned members_open(struct cli *c)
{
    const char *at = c->servers;
    char error[512];
    unsigned there = 0;

    while (*at != '\0') {
        struct target t;

        if (c->n_members == HILO_SERVERS_MAX) {
            cli_fail(c, HILO_EARG, "servers: more than %d", HILO_SERVERS_MAX);
            exit(EXIT_USAGE);
        }
        if (!target_parse(&at, &t, error, sizeof error)) {
            cli_fail(c, HILO_EARG, "%s", error);
            exit(EXIT_USAGE);
        }
        link_init(&c->members[c->n_members++], &t);
    }
    for (unsigned i = 0; i < c->n_members; i++)
        there += link_open(&c->members[i], c->password, c->timeout_ms) == 0;
    return there;
}

void members_close(struct cli *c)
{
    for (unsigned i = 0; i < c->n_members; i++)
        link_close(&c->members[i]);
}

int members_missing(const struct cli *c, const char *what)
{
    char why[1024] = "";
    unsigned missing = 0;
    int err = 0;

    for (unsigned i = 0; i < c->n_members; i++) {
        const struct link *l = &c->members[i];

        if (l->err == 0)
            continue;
        missing++;
        err = err == 0 || err == HILO_EUNAVAIL ? l->err : err;
        text_add(why, sizeof why, "%s%s", why[0] != '\0' ? "; " : "", l->why);
    }
    if (missing == 0)
        return 0;
    return cli_fail(c, err, "%s on %u of %u servers: %s", what, c->n_members - missing,
                    c->n_members, why);
}

bool members_agree(const struct cli *c)
{
    struct roster met;
    unsigned other;

    roster_init(&met);
    for (unsigned i = 0; i < c->n_members; i++) {
        const struct link *l = &c->members[i];
        enum roster_verdict v;

        if (l->err != 0)
            continue;
        v = roster_meet(&met, &l->id, i, &other);
        if (v == ROSTER_WELCOME)
            continue;
        cli_fail(c, HILO_ELANE,
                 "%s and %s contradict each other about who owns which ids; see: hilo "
                 "doctor",
                 c->members[other].target.text, l->target.text);
        return false;
    }
    return true;
}

int member_call(const struct cli *c, struct link *l, size_t argc,
                const char *const *argv)
{
    return link_call(l, c->timeout_ms, argc, argv);
}

/* --- sequences --- */

static void copy(char *ret, size_t size, const struct reply_item *item)
{
    snprintf(ret, size, "%.*s", (int)item->len, item->p);
    text_clean(ret);
}

void seq_row_read(const struct reply_item *items, unsigned member, struct seq_row *ret)
{
    *ret = (struct seq_row){.member = member};
    struct {
        const char *name;
        uint64_t *to;
    } numbers[] = {{"start", &ret->start},
                   {"max", &ret->max},
                   {"last", &ret->last},
                   {"granted", &ret->granted},
                   {"reserved", &ret->reserved},
                   {"remaining", &ret->remaining},
                   {"used_percent", &ret->used_percent},
                   {"rate", &ret->rate}};

    for (int64_t i = 1; i + 1 <= items[0].n; i += 2) {
        const struct reply_item *name = &items[i], *value = &items[i + 1];

        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
            if (reply_is(name, numbers[k].name))
                reply_number(value, numbers[k].to);
        }
        if (reply_is(name, "name"))
            copy(ret->name, sizeof ret->name, value);
        else if (reply_is(name, "state"))
            copy(ret->state, sizeof ret->state, value);
        else if (reply_is(name, "durability"))
            copy(ret->durability, sizeof ret->durability, value);
    }
}

static int by_name(const void *a, const void *b)
{
    const struct seq_row *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order != 0 ? order : x->member < y->member ? -1 : x->member > y->member;
}

struct rows {
    struct seq_row *at;
    size_t n, cap;
};

static bool add_row(struct rows *r, const struct reply_item *items, unsigned member)
{
    struct seq_row *at;

    if (r->n == r->cap) {
        at = realloc(r->at, (r->cap + 256) * sizeof *at);
        if (at == NULL)
            return false;
        r->at = at;
        r->cap += 256;
    }
    seq_row_read(items, member, &r->at[r->n++]);
    return true;
}

/* All pages of one member. */
static int list_one(struct cli *c, unsigned member, const char *pattern, struct rows *r)
{
    struct link *l = &c->members[member];
    char cursor[32] = "0";
    const char *argv[] = {"SEQ", "LIST", "CURSOR", cursor, "MATCH", pattern};

    do {
        size_t at = 3;

        if (member_call(c, l, 6, argv) != 0)
            return l->err;
        if (l->n < 3 || l->items[0].n != 2 || l->items[2].type != REPLY_ARRAY)
            return HILO_EPROTO;
        copy(cursor, sizeof cursor, &l->items[1]);
        for (int64_t i = 0; i < l->items[2].n && at < l->n; i++) {
            if (l->items[at].type != REPLY_ARRAY || !add_row(r, &l->items[at], member))
                return HILO_EPROTO;
            at += reply_extent(&l->items[at]);
        }
    } while (strcmp(cursor, "0") != 0);
    return 0;
}

struct seq_row *members_sequences(struct cli *c, const char *pattern, size_t *ret_n)
{
    struct rows r = {.at = calloc(1, sizeof *r.at), .cap = 1};

    for (unsigned i = 0; i < c->n_members && r.at != NULL; i++) {
        int err = c->members[i].err == 0 ? list_one(c, i, pattern, &r) : 0;

        if (err == 0)
            continue;
        cli_fail(c, err, "%s",
                 c->members[i].err != 0 ? c->members[i].why : error_text(err));
        free(r.at);
        return NULL;
    }
    if (r.n > 1)
        qsort(r.at, r.n, sizeof *r.at, by_name);
    *ret_n = r.n;
    return r.at;
}

const char *info_value(const struct link *l, const char *name, char *buf, size_t size)
{
    size_t len = strlen(name);

    buf[0] = '\0';
    if (l->n != 1 || l->items[0].type != REPLY_BULK)
        return buf;
    for (const char *at = l->items[0].p, *end = at + l->items[0].len; at < end;) {
        const char *eol = memchr(at, '\r', (size_t)(end - at));

        if (eol == NULL)
            eol = end;
        if ((size_t)(eol - at) > len && memcmp(at, name, len) == 0 && at[len] == ':') {
            snprintf(buf, size, "%.*s", (int)((size_t)(eol - at) - len - 1),
                     at + len + 1);
            text_clean(buf);
            return buf;
        }
        at = eol + 2;
    }
    return buf;
}
