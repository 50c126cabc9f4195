/* record.c - the lines of a witness and of a seal. */
#include "record.h"

#include <string.h>
#include "crc.h"
#include "name.h"
#include "number.h"

#define CRC_DIGITS 8

static const char sealed_word[] = "sealed";
static const char witness_head[] = "hilo-witness 1 ", seal_head[] = "hilo-seal 1 ";

/* --- writing --- */

static char *put_text(char *to, const char *text, size_t len)
{
    memcpy(to, text, len);
    to[len] = ' ';
    return to + len + 1;
}

static char *put_number(char *to, uint64_t n)
{
    to += number_format(to, n);
    *to++ = ' ';
    return to;
}

static char *put_lane(char *to, struct lane l)
{
    to = put_number(to, l.number);
    to = put_number(to, l.lanes);
    return put_number(to, l.stripe);
}

/* The end of a line from `line` to `to`, which stands behind a space. */
static size_t put_crc(char *line, char *to, uint32_t seed, uint32_t *ret_crc)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t crc = crc32c(seed, line, (size_t)(to - line) - 1);

    for (int shift = 28; shift >= 0; shift -= 4)
        *to++ = digits[crc >> shift & 15];
    *to++ = '\n';
    *ret_crc = crc;
    return (size_t)(to - line);
}

size_t record_put_header(char *to, const struct record_header *h,
                         struct record_chain *ret)
{
    const char *head = h->is_seal ? seal_head : witness_head;
    char *at = put_text(to, head, strlen(head) - 1);
    size_t len;

    at = put_text(at, h->uuid, strlen(h->uuid));
    at = put_lane(at, h->lane);
    at = put_number(at, h->epoch);
    at = put_number(at, h->skip);
    if (h->sealed)
        at = put_text(at, sealed_word, strlen(sealed_word));
    len = put_crc(to, at, 0, &ret->header);
    ret->last = ret->header;
    return len;
}

size_t record_put(char *to, const struct record *r, struct record_chain *chain)
{
    char *at = put_text(to, "m", 1);

    at = put_text(at, r->name, r->name_len);
    at = put_number(at, r->last);
    at = put_number(at, r->start);
    at = put_number(at, r->max);
    at = put_number(at, r->each);
    at = put_number(at, r->retired);
    at = put_number(at, r->rate);
    return put_crc(to, at, chain->last, &chain->last);
}

size_t record_put_sync(char *to, uint64_t offset, const struct record_chain *chain)
{
    char *at = put_number(put_text(to, "s", 1), offset);
    uint32_t unused;

    return put_crc(to, at, chain->header, &unused);
}

size_t record_put_end(char *to, uint64_t count, struct record_chain *chain)
{
    char *at = put_number(put_text(to, "e", 1), count);

    return put_crc(to, at, chain->last, &chain->last);
}

size_t record_put_opening(char *to, const struct record_opening *o,
                          struct record_chain *chain)
{
    char *at = put_lane(put_text(to, "o", 1), o->lane);

    at = put_text(at, o->uuid, strlen(o->uuid));
    return put_crc(to, at, chain->last, &chain->last);
}

/* --- reading --- */

/* A line without its end; at is how far it has been read. */
struct line {
    const char *p;
    size_t len, at;
};

static bool line_at(const char *data, size_t len, size_t at, struct line *ret)
{
    size_t most = len - at < RECORD_MAX ? len - at : RECORD_MAX;
    const char *end = memchr(data + at, '\n', most);

    if (end == NULL)
        return false;
    *ret = (struct line){.p = data + at, .len = (size_t)(end - (data + at))};
    return true;
}

static bool take_word(struct line *l, const char **ret, size_t *ret_len)
{
    const char *from = l->p + l->at, *space = memchr(from, ' ', l->len - l->at);

    if (space == NULL)
        return false;
    *ret = from;
    *ret_len = (size_t)(space - from);
    l->at += *ret_len + 1;
    return true;
}

static bool take_number(struct line *l, uint64_t most, uint64_t *ret)
{
    const char *p;
    size_t len;

    return take_word(l, &p, &len) && number_parse_u64(p, len, ret) && *ret <= most;
}

static bool take_bool(struct line *l, bool *ret)
{
    uint64_t n;

    if (!take_number(l, 1, &n))
        return false;
    *ret = n == 1;
    return true;
}

/* The checksum, which ends the line. */
static bool take_crc(const struct line *l, uint32_t seed, uint32_t *ret)
{
    uint32_t crc = 0;

    if (l->at == 0 || l->len - l->at != CRC_DIGITS)
        return false;
    for (size_t i = l->at; i < l->len; i++) {
        char c = l->p[i];

        if (c >= '0' && c <= '9')
            crc = crc << 4 | (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            crc = crc << 4 | (uint32_t)(c - 'a' + 10);
        else
            return false;
    }
    if (crc != crc32c(seed, l->p, l->at - 1))
        return false;
    *ret = crc;
    return true;
}

static bool take_head(struct line *l, const char *head)
{
    size_t len = strlen(head);

    if (l->len < len || memcmp(l->p, head, len) != 0)
        return false;
    l->at = len;
    return true;
}

static bool take_uuid(struct line *l, char ret[RECORD_UUID_LEN + 1])
{
    const char *p;
    size_t len;

    if (!take_word(l, &p, &len) || len != RECORD_UUID_LEN)
        return false;
    memcpy(ret, p, len);
    ret[len] = '\0';
    return true;
}

static bool take_lane(struct line *l, struct lane *ret)
{
    uint64_t number, lanes, stripe;

    if (!take_number(l, LANES_MAX, &number) || !take_number(l, LANES_MAX, &lanes) ||
        !take_number(l, STRIPE_MAX, &stripe))
        return false;
    *ret = (struct lane){
        .number = (uint32_t)number, .lanes = (uint32_t)lanes, .stripe = stripe};
    return lane_valid(*ret);
}

/* Whether it stands there, which it need not. */
static bool take_sealed(struct line *l)
{
    struct line ahead = *l;
    const char *p;
    size_t len;

    if (!take_word(&ahead, &p, &len) || len != strlen(sealed_word) ||
        memcmp(p, sealed_word, len) != 0)
        return false;
    *l = ahead;
    return true;
}

bool record_begin(struct record_reader *in, const char *data, size_t len,
                  struct record_header *ret)
{
    struct record_header h = {0};
    struct line l;

    *in = (struct record_reader){.data = data, .len = len};
    if (!line_at(data, len, 0, &l))
        return false;
    h.is_seal = take_head(&l, seal_head);
    if ((!h.is_seal && !take_head(&l, witness_head)) || !take_uuid(&l, h.uuid) ||
        !take_lane(&l, &h.lane) || !take_number(&l, UINT64_MAX, &h.epoch) ||
        !take_number(&l, HILO_ID_MAX, &h.skip))
        return false;
    h.sealed = !h.is_seal && take_sealed(&l);
    if (!take_crc(&l, 0, &in->chain.header))
        return false;
    *ret = h;
    in->chain.last = in->chain.header;
    in->at = l.len + 1;
    in->is_seal = h.is_seal;
    return true;
}

static bool read_fields(struct line *l, struct record *ret)
{
    return take_word(l, &ret->name, &ret->name_len) &&
           name_valid(ret->name, ret->name_len) &&
           take_number(l, HILO_ID_MAX, &ret->last) &&
           take_number(l, HILO_ID_MAX, &ret->start) && ret->start >= 1 &&
           take_number(l, HILO_ID_MAX, &ret->max) && take_bool(l, &ret->each) &&
           take_bool(l, &ret->retired) && take_number(l, HILO_ID_MAX, &ret->rate);
}

static bool read_mark(struct line *l, uint32_t *chain, struct record *ret)
{
    return read_fields(l, ret) && take_crc(l, *chain, chain);
}

static bool read_sync(struct line *l, size_t offset, uint32_t header)
{
    uint64_t there;
    uint32_t crc;

    return take_number(l, UINT64_MAX, &there) && there == offset &&
           take_crc(l, header, &crc);
}

static bool read_end(struct line *l, uint64_t marks, uint32_t *chain)
{
    uint64_t count;

    return take_number(l, UINT64_MAX, &count) && count == marks &&
           take_crc(l, *chain, chain);
}

static bool read_opening(struct line *l, uint32_t *chain, struct record_opening *ret)
{
    return take_lane(l, &ret->lane) && take_uuid(l, ret->uuid) &&
           take_crc(l, *chain, chain);
}

static enum record_kind read_line(struct record_reader *in, struct line *l, char word,
                                  struct record *ret)
{
    uint32_t *chain = &in->chain.last;

    if (word == 'm' && read_mark(l, chain, ret))
        return RECORD_MARK;
    if (word == 's' && !in->is_seal && read_sync(l, in->at, in->chain.header))
        return RECORD_SYNC;
    if (word == 'e' && in->is_seal && read_end(l, in->marks, chain))
        return RECORD_WHOLE;
    if (word == 'o' && in->is_seal && read_opening(l, chain, &in->opening))
        return RECORD_OPENING;
    return RECORD_BAD;
}

enum record_kind record_next(struct record_reader *in, struct record *ret)
{
    enum record_kind kind;
    const char *word;
    struct line l;
    size_t n;

    if (in->at == in->len)
        return RECORD_END;
    if (!line_at(in->data, in->len, in->at, &l) || !take_word(&l, &word, &n) || n != 1)
        return RECORD_BAD;
    kind = read_line(in, &l, *word, ret);
    in->marks += kind == RECORD_MARK;
    if (kind != RECORD_BAD)
        in->at += l.len + 1;
    return kind;
}

void record_again(const char *data, size_t len, size_t at, struct record *ret)
{
    struct line l = {0};

    *ret = (struct record){0};
    if (!line_at(data, len, at, &l))
        return;
    l.at = RECORD_NAME_AT;
    read_fields(&l, ret);
}

/* Looked for at every byte: what is bad may be the end of the line before it. */
bool record_was_synced(const struct record_reader *in)
{
    for (size_t at = in->at; at + 2 < in->len; at++) {
        struct line l;

        if (in->data[at] != 's' || in->data[at + 1] != ' ' ||
            !line_at(in->data, in->len, at, &l))
            continue;
        l.at = 2;
        if (read_sync(&l, at, in->chain.header))
            return true;
    }
    return false;
}
