/* record.h - marks outside a store, in a file that is only ever appended to: a witness,
 * or a seal, which is what a layout that has ended leaves to the next one.
 *
 *     hilo-witness 1 UUID LANE LANES STRIPE EPOCH SKIP [sealed] CRC
 *     m NAME LAST START MAX EACH RETIRED RATE CRC
 *     s OFFSET CRC
 *
 *     hilo-seal 1 UUID LANE LANES STRIPE EPOCH SKIP CRC
 *     m ...
 *     e COUNT CRC
 *     o LANE LANES STRIPE UUID CRC
 *
 * The first line says whose it is, and what counters that are made from now on leave
 * out: of a witness so many positions, of a seal the ids up to this one. A witness is
 * sealed where nothing more may be granted in its layout. An m is a counter's state:
 * LAST is the id of the last position reserved, 0 for none; of several lines of a name
 * the last one counts. An s stands at OFFSET bytes from the beginning and says that all
 * before it had reached the disk. An e says how many m stood before it, and ends what
 * the store has written; an o behind it names a lane of the next layout that was opened
 * from it, and its store.
 *
 * CRC is CRC-32C in 8 hexadecimal digits, of the line up to the space before it. In an
 * m, e or o it goes on from the CRC of the one (or the header) before, so that a line
 * which is torn, lost or left over from an attempt before makes all that follow it
 * invalid. In an s it goes on from the header's CRC only: so what was on the disk can
 * be told from what never got there, whatever happened to it.
 *
 * Pure. Writing never fails; reading believes nothing. */
#ifndef HILO_RECORD_H
#define HILO_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lane.h"

#define RECORD_MAX      320 /* bytes of a line, at most */
#define RECORD_UUID_LEN 36
#define RECORD_NAME_AT  2 /* where the name stands in an m */

struct record_header {
    bool is_seal; /* else it is a witness */
    char uuid[RECORD_UUID_LEN + 1];
    struct lane lane;
    uint64_t epoch; /* of the layout */
    uint64_t skip;  /* what new counters leave out: positions, of a seal an id */
    bool sealed;    /* of a witness: its layout has ended */
};

struct record {
    const char *name; /* of a record that was read: in the data */
    size_t name_len;
    uint64_t last; /* id */
    uint64_t start, max;
    bool each, retired;
    uint64_t rate; /* the most ids seen in a second */
};

/* A lane that was opened. */
struct record_opening {
    struct lane lane;
    char uuid[RECORD_UUID_LEN + 1];
};

/* Where checksums stand. */
struct record_chain {
    uint32_t header, last;
};

/* Each writes a line to `to`, which has room for RECORD_MAX bytes, and returns its
 * length. */
size_t record_put_header(char *to, const struct record_header *h,
                         struct record_chain *ret);
size_t record_put(char *to, const struct record *r, struct record_chain *chain);
size_t record_put_sync(char *to, uint64_t offset, const struct record_chain *chain);
size_t record_put_end(char *to, uint64_t count, struct record_chain *chain);
size_t record_put_opening(char *to, const struct record_opening *o,
                          struct record_chain *chain);

/* Reading. */
struct record_reader {
    const char *data;
    size_t len, at;
    struct record_chain chain;
    bool is_seal;
    uint64_t marks;                /* so far */
    struct record_opening opening; /* what RECORD_OPENING has read */
};

enum record_kind {
    RECORD_END, /* nothing follows */
    RECORD_BAD, /* what follows is no line of ours */
    RECORD_MARK,
    RECORD_SYNC,    /* of a witness */
    RECORD_WHOLE,   /* of a seal: all of what the store had is there */
    RECORD_OPENING, /* of a seal, behind that */
};

/* False when there is no valid header. */
bool record_begin(struct record_reader *in, const char *data, size_t len,
                  struct record_header *ret);
/* After RECORD_BAD it stays where it is. *ret is written with RECORD_MARK only. */
enum record_kind record_next(struct record_reader *in, struct record *ret);

/* A mark whose line begins at `at` and has been read before: what it says. */
void record_again(const char *data, size_t len, size_t at, struct record *ret);

/* After RECORD_BAD: whether what is bad had reached the disk: it is damaged then. Else
 * it is the end of a write that never came about. */
bool record_was_synced(const struct record_reader *in);

#endif
