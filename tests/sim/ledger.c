/* ledger.c - what was granted and acknowledged, and all that must hold. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "name.h"
#include "number.h"
#include "reply_parse.h"
#include "sim.h"

#define WORDS_MAX  10
#define ITEMS_MAX  64
#define CHOICES    256
#define TOKENS_ALL 512
#define TTL_US     INT64_C(20000000) /* --token-ttl of node.c */

/* Positions that were granted; neighbours are one. */
struct span {
    uint64_t from, to;
};

struct spans {
    struct span *all;
    size_t n, cap;
};

/* A sequence on a node. */
struct page {
    struct spans granted;
    uint64_t top;   /* above all of them */
    uint64_t push;  /* as far as people may have pushed it */
    uint64_t base;  /* its mark at the last start */
    uint64_t drops; /* since then: what was in hand may have been dropped so often */
    bool known;     /* its creation was acknowledged */
    /* The MAX it may have: acknowledged last, or asked for since. */
    uint64_t max[CHOICES];
    size_t n_max;
};

struct known_token {
    char text[NAME_MAX_LEN + 1];
    unsigned node;
    struct run block;
    int64_t at_us;
    bool loose; /* the database was put back since */
};

const char *const sim_names[SEQS] = {"ahead", "each", "small", "other"};

static struct page pages[NODES][SEQS];
static bool put_back[NODES], lost_witness[NODES];
static struct lane lanes[NODES], next_lanes[NODES];
static uint64_t skipped[NODES]; /* in all, which new sequences leave out, too */
static struct known_token tokens[TOKENS_ALL];
static size_t n_tokens;
static struct spans taken[SEQS]; /* ids that clients use */

/* --- spans --- */

/* False when some of it was there. */
static bool add_span(struct spans *s, uint64_t from, uint64_t to)
{
    size_t low = 0, high = s->n;

    while (low < high) { /* the first that ends behind from */
        size_t middle = (low + high) / 2;

        if (s->all[middle].to <= from)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < s->n && s->all[low].from < to)
        return false;
    if (low > 0 && s->all[low - 1].to == from) {
        s->all[low - 1].to = to;
        return true;
    }
    if (s->n == s->cap) {
        s->cap = 2 * s->cap + 16;
        s->all = realloc(s->all, s->cap * sizeof *s->all);
        if (s->all == NULL)
            abort();
    }
    memmove(s->all + low + 1, s->all + low, (s->n - low) * sizeof *s->all);
    s->all[low] = (struct span){from, to};
    s->n++;
    return true;
}

void ledger_reset(void)
{
    for (size_t n = 0; n < NODES; n++) {
        put_back[n] = lost_witness[n] = false;
        skipped[n] = 0;
        for (size_t s = 0; s < SEQS; s++) {
            free(pages[n][s].granted.all);
            pages[n][s] = (struct page){.max = {HILO_ID_MAX}, .n_max = 1};
        }
    }
    for (size_t s = 0; s < SEQS; s++) {
        free(taken[s].all);
        taken[s] = (struct spans){.n = 0};
    }
    n_tokens = 0;
}

/* --- requests --- */

struct words {
    char text[512];
    const char *word[WORDS_MAX];
    size_t n;
};

static void split(struct words *w, const char *line)
{
    char *rest, *word;

    *w = (struct words){.n = 0};
    snprintf(w->text, sizeof w->text, "%s", line);
    rest = w->text;
    while ((word = strsep(&rest, " ")) != NULL && w->n < WORDS_MAX)
        w->word[w->n++] = word;
}

static const char *option(const struct words *w, const char *name)
{
    for (size_t i = 0; i + 1 < w->n; i++) {
        if (strcmp(w->word[i], name) == 0)
            return w->word[i + 1];
    }
    return NULL;
}

static bool is(const struct words *w, const char *first, const char *second)
{
    return strcmp(w->word[0], first) == 0 &&
           (second == NULL || (w->n > 1 && strcmp(w->word[1], second) == 0));
}

static unsigned seq_of(const char *name)
{
    for (unsigned i = 0; i < SEQS; i++) {
        if (strcmp(sim_names[i], name) == 0)
            return i;
    }
    abort();
}

static uint64_t highest_max(const struct page *p)
{
    uint64_t most = 0;

    for (size_t i = 0; i < p->n_max; i++)
        most = p->max[i] > most ? p->max[i] : most;
    return most;
}

static void add_choice(struct page *p, uint64_t max)
{
    for (size_t i = 0; i < p->n_max; i++) {
        if (p->max[i] == max)
            return;
    }
    if (p->n_max == CHOICES)
        abort();
    p->max[p->n_max++] = max;
}

void ledger_asked(unsigned node, struct lane l, const char *line)
{
    struct words w;
    const char *max, *start;
    struct page *p;

    split(&w, line);
    if (!is(&w, "SEQ", NULL))
        return;
    p = &pages[node][seq_of(w.word[2])];
    max = option(&w, "MAX");
    start = is(&w, "SEQ", "ADVANCE") ? w.word[3] : option(&w, "START");
    if (max != NULL)
        add_choice(p, strtoull(max, NULL, 10));
    else if (is(&w, "SEQ", "CREATE"))
        add_choice(p, HILO_ID_MAX);
    p->drops += is(&w, "SEQ", "RETIRE") || option(&w, "DURABILITY") != NULL;
    if (start != NULL) {
        uint64_t to = lane_first_above(l, strtoull(start, NULL, 10));

        p->push = to > p->push ? to : p->push;
    }
}

/* --- replies --- */

static void grant(unsigned node, struct lane l, unsigned seq, struct run r,
                  const char *line)
{
    struct page *p = &pages[node][seq];
    uint64_t from, to;

    if (r.first < 1 || r.last < r.first || r.last > HILO_ID_MAX ||
        !lane_owns(l, r.first) || !lane_owns(l, r.last))
        sim_found("node %u: %s answers %" PRIu64 " to %" PRIu64 ", which no lane has",
                  node, line, r.first, r.last);
    from = lane_position(l, r.first);
    to = lane_position(l, r.last) + 1;
    if (r.last > highest_max(p))
        sim_found("node %u: %s answers %" PRIu64 ", above its MAX %" PRIu64, node, line,
                  r.last, highest_max(p));
    if (!add_span(&p->granted, from, to))
        sim_found("node %u: %s answers %" PRIu64 " to %" PRIu64 ", which were granted",
                  node, line, r.first, r.last);
    p->top = to > p->top ? to : p->top;
}

static void grant_token(unsigned node, struct lane l, unsigned seq, struct run r,
                        const char *token, const char *line)
{
    struct known_token *k = NULL;
    bool had = false; /* it may have had several blocks: what was put back forgot one */

    for (size_t i = 0; i < n_tokens; i++) {
        if (tokens[i].node != node || strcmp(tokens[i].text, token) != 0)
            continue;
        k = &tokens[i];
        had |= k->block.first == r.first && k->block.last == r.last;
    }
    if (k != NULL && k->block.first == r.first && k->block.last == r.last)
        return;
    if (k != NULL && !k->loose && sim_now_us - k->at_us < TTL_US)
        sim_found("node %u: %s answers %" PRIu64 " to %" PRIu64 ", but %" PRIu64
                  " to %" PRIu64 " was acknowledged %.3f ms ago",
                  node, line, r.first, r.last, k->block.first, k->block.last,
                  (double)(sim_now_us - k->at_us) / 1000);
    if (!had)
        grant(node, l, seq, r, line);
    if (n_tokens == TOKENS_ALL)
        abort();
    k = &tokens[n_tokens++];
    *k = (struct known_token){.node = node, .block = r, .at_us = sim_now_us};
    snprintf(k->text, sizeof k->text, "%s", token);
}

/* An administrator's change is known from now on. */
static void acknowledge(struct page *p, const struct words *w)
{
    const char *max = option(w, "MAX");

    p->known = true;
    if (max == NULL)
        return;
    p->max[0] = strtoull(max, NULL, 10);
    p->n_max = 1;
}

/* What is said of ids: an integer, a string, an array of strings, a block. */
static bool read_run(const struct words *w, struct lane l,
                     const struct reply_item *items, size_t n, struct run *ret)
{
    ret->step = lane_step(l);
    if (is(w, "BLOCK", NULL))
        return n == 4 && reply_number(&items[1], &ret->first) &&
               reply_number(&items[2], &ret->last) &&
               reply_number(&items[3], &ret->step);
    if (n == 1) {
        ret->last = 0;
        return reply_number(&items[0], &ret->first) && (ret->last = ret->first) > 0;
    }
    return reply_number(&items[1], &ret->first) &&
           reply_number(&items[n - 1], &ret->last);
}

void ledger_answered(unsigned node, struct lane l, const char *line, const char *reply,
                     size_t len)
{
    struct reply_item items[ITEMS_MAX];
    struct words w;
    size_t n, size;
    struct run r;

    if (reply_parse(reply, len, REPLY_MAX, items, ITEMS_MAX, &n, &size) != REPLY_OK ||
        size != len)
        sim_found("node %u: %s answers what is no reply: %.*s", node, line, (int)len,
                  reply);
    sim_say("node %u: %s: %.*s", node, line, (int)(len > 100 ? 100 : len) - 2, reply);
    split(&w, line);
    if (items[0].type == REPLY_ERROR)
        return;
    if (is(&w, "SEQ", NULL)) {
        acknowledge(&pages[node][seq_of(w.word[2])], &w);
        return;
    }
    if (!is(&w, "INCR", NULL) && !is(&w, "NEXT", NULL) && !is(&w, "BLOCK", NULL))
        return;
    if (!read_run(&w, l, items, n, &r))
        sim_found("node %u: %s answers no ids: %.*s", node, line, (int)len, reply);
    if (option(&w, "TOKEN") != NULL)
        grant_token(node, l, seq_of(w.word[1]), r, option(&w, "TOKEN"), line);
    else
        grant(node, l, seq_of(w.word[1]), r, line);
}

/* --- a change of lanes --- */

static struct page next_pages[NODES][SEQS];

/* What is known of a sequence, and up to which id it was granted, on all nodes. */
static struct page page_of_next(unsigned s, struct lane l)
{
    struct page next = {.max = {HILO_ID_MAX}, .n_max = 1};

    for (unsigned n = 0; n < NODES; n++) {
        const struct page *p = &pages[n][s];
        uint64_t id;

        next.known |= p->known && !lost_witness[n];
        if (p->top == 0)
            continue;
        if (!lane_id_at(lanes[n], p->top - 1, &id))
            abort();
        id = lane_first_above(l, id);
        next.top = id > next.top ? id : next.top;
    }
    if (next.top > 0)
        add_span(&next.granted, 0, next.top);
    return next;
}

void ledger_relane(unsigned node, struct lane l)
{
    for (unsigned s = 0; s < SEQS; s++)
        next_pages[node][s] = page_of_next(s, l);
    next_lanes[node] = l;
}

void ledger_relaned(void)
{
    uint64_t all = 0; /* ids */

    for (unsigned n = 0; n < NODES; n++) {
        uint64_t id = 0;

        if (skipped[n] > 0 && !lane_id_at(lanes[n], skipped[n], &id))
            abort();
        all += id;
    }
    for (unsigned n = 0; n < NODES; n++) {
        for (unsigned s = 0; s < SEQS; s++) {
            free(pages[n][s].granted.all);
            pages[n][s] = next_pages[n][s];
            next_pages[n][s] = (struct page){.max = {HILO_ID_MAX}, .n_max = 1};
        }
        lanes[n] = next_lanes[n];
        skipped[n] = all;
        lost_witness[n] = false;
        put_back[n] = true; /* attributes are those of all, marks of the highest */
    }
    for (size_t i = 0; i < n_tokens; i++)
        tokens[i].loose = true;
}

/* --- starts --- */

void ledger_put_back(unsigned node, bool lost)
{
    put_back[node] = true;
    lost_witness[node] |= lost;
    for (size_t i = 0; i < n_tokens; i++)
        tokens[i].loose |= tokens[i].node == node;
}

uint64_t ledger_skip(unsigned node, const struct sim_disk *d)
{
    uint64_t most = 0;

    for (unsigned s = 0; s < SEQS; s++) {
        const struct page *p = &pages[node][s];
        uint64_t mark = 0;

        sim_disk_mark(d, sim_names[s], &mark);
        if (p->top > mark && p->top - mark > most)
            most = p->top - mark;
    }
    skipped[node] += 2 * (most + 1); /* once more where it is in doubt */
    return most;
}

static void check_attr(unsigned node, unsigned s, const struct page *p,
                       const struct counter_attr *attr)
{
    for (size_t i = 0; i < p->n_max; i++) {
        if (p->max[i] == attr->max)
            return;
    }
    sim_found("node %u: the MAX of %s is %" PRIu64
              " after a start, acknowledged was %" PRIu64,
              node, sim_names[s], attr->max, p->max[0]);
}

/* Gaps are no larger than what was in hand and on its way. */
static void check_gap(unsigned node, unsigned s, const struct page *p, uint64_t mark,
                      uint64_t most)
{
    uint64_t base = p->top;

    base = p->push > base ? p->push : base;
    base = p->base > base ? p->base : base;
    if (mark > base + most)
        sim_found("node %u: %s begins at position %" PRIu64 " after a start, %" PRIu64
                  " above all that was granted; %" PRIu64 " are in order",
                  node, sim_names[s], mark, mark - base, most);
}

void ledger_started(unsigned node, struct lane l, struct sim_disk *d)
{
    uint64_t chunks = 2 + sim_disk_burnt(d);
    /* Blocks of tokens that were on their way: 20 ids each, at most (client.c). */
    uint64_t under_way = 20 * CLIENTS * TOKENS;

    for (unsigned s = 0; s < SEQS; s++) {
        struct page *p = &pages[node][s];
        uint64_t mark = 0;
        bool there = sim_disk_mark(d, sim_names[s], &mark);

        if (p->known && !there && !lost_witness[node])
            sim_found("node %u: %s was created, and is not there after a start", node,
                      sim_names[s]);
        if (!there) {
            p->known = false; /* it may be made anew, by anybody */
            p->max[0] = HILO_ID_MAX;
            p->n_max = 1;
            continue;
        }
        if (mark < p->top)
            sim_found("node %u: %s begins at position %" PRIu64
                      " after a start, but up to %" PRIu64 " was granted",
                      node, sim_names[s], mark, p->top);
        /* An older copy whose marks are above the witness's, since a stop gave back
         * what it had reserved, keeps its own attributes. */
        if (!put_back[node])
            check_attr(node, s, p, sim_disk_attr(d, sim_names[s]));
        else {
            p->max[0] = sim_disk_attr(d, sim_names[s])->max;
            p->n_max = 1;
        }
        if (!put_back[node])
            check_gap(node, s, p, mark,
                      skipped[node] + under_way +
                          sim_disk_biggest(d) * (chunks + 2 * p->drops));
        p->base = mark;
        p->drops = 0;
    }
    lanes[node] = l;
    put_back[node] = lost_witness[node] = false;
}

/* --- clients --- */

void ledger_taken(unsigned client, unsigned seq, struct run r)
{
    /* Of several lanes ids are scattered: one by one, then. */
    if (r.step == 1) {
        if (!add_span(&taken[seq], r.first, r.last + 1))
            sim_found("client %u uses %" PRIu64 " to %" PRIu64 " of %s, which was used",
                      client, r.first, r.last, sim_names[seq]);
        return;
    }
    for (uint64_t id = r.first; id <= r.last; id += r.step) {
        if (!add_span(&taken[seq], id, id + 1))
            sim_found("client %u uses %" PRIu64 " of %s, which was used", client, id,
                      sim_names[seq]);
    }
}
