/* hilo_inline.h - the fast path of hilo_next() and hilo_try_next(), built into the
 * caller.
 *
 * A call of a function in a shared library costs more than what it would do here.
 * Nothing in this file is for programs to use: its layout goes with the soname, and
 * hilo.h is the interface. With HILO_NO_INLINE defined before hilo.h, or by the address
 * of the functions, the library's own are called, which do the same.
 *
 * The block in use is shared by threads without a lock. The cursor holds a generation
 * (upper half) and how many ids of that generation's block were taken. To take one is
 * to add 1: whoever gets the number n owns the id first + n*step. Blocks lie in two
 * slots, that of generation g in slot g mod 2.
 *
 * Why no id comes twice: numbers don't, and each is looked up in the slot of its own
 * generation or burnt. A slot says whose it is, and no longer says so from before it is
 * written for generation g+2 on, which happens when g is used up. A reader looks at the
 * block first and then whose it is: stores to a slot release and loads from it acquire,
 * so one who has read anything of the next block also sees that it is no longer his.
 *
 * Those who find nothing left have added too; the slow way takes that back
 * (hot_settle), so that it can't add up to another generation. Generations wrap after
 * 2^32 blocks: a thread would have to sleep through exactly that many, between two
 * instructions, to be misled.
 *
 * fork: the pages of struct hilo_hot_ and of threads' rows are wiped in a child
 * (MADV_WIPEONFORK). There every slot says "no ids" and every row is used up, so that a
 * child can't take an id of its parent's, at no cost here. Where the kernel has no such
 * thing, `way` says so and nothing is looked for here. */
#ifndef HILO_INLINE_H
#define HILO_INLINE_H

#ifndef HILO_H
#error "include hilo.h"
#endif

struct hilo_slot_ {
    uint64_t first;
    uint64_t step;
    uint32_t count;
    uint32_t refill_at; /* who takes this number tells the cache */
    uint32_t owner;     /* the generation it holds */
    uint32_t pad;
};

/* Three cache lines: one that every taker writes, one that all of them read, and one
 * for what never changes. */
struct hilo_hot_ {
    uint64_t cursor;
    uint64_t pad1[7];
    struct hilo_slot_ slot[2];
    uint64_t serial; /* of this sequence in this process; 0 in a child */
    uint64_t pad2[7];
};

/* Ids that a thread took out of the block in use and keeps to itself. A row belongs to
 * the sequence whose serial it holds. */
struct hilo_row_ {
    uint64_t serial;
    uint64_t next; /* the id to give out, unless it is end */
    uint64_t end;
    uint64_t step;
};

struct hilo_rows_ {
    struct hilo_row_ *last; /* the row used last; never NULL */
    struct hilo_row_ *rows;
    size_t n;
};

extern __thread struct hilo_rows_ hilo_rows_ __attribute__((tls_model("initial-exec")));

/* Where an id is looked for first. */
enum hilo_way_ {
    HILO_WAY_SHARED_,  /* in the block in use */
    HILO_WAY_LOCAL_,   /* in the thread's own row */
    HILO_WAY_CAREFUL_, /* nowhere: this kernel can't wipe pages in a child */
};

/* What a hilo_seq begins with. */
struct hilo_head_ {
    struct hilo_hot_ *hot;
    enum hilo_way_ way;
    uint32_t row;
    uint64_t serial; /* that of hot */
};

enum hilo_take_ {
    HILO_TAKEN_,
    HILO_TAKEN_REFILL_, /* taken, and it is time to tell the cache */
    HILO_EMPTY_,        /* nothing left, or nothing had: it may be tried again */
};

/* Tells the cache; returns 0. */
int hilo_refill_(hilo_seq *s);

#define HILO_LIKELY_(x)          __builtin_expect(!!(x), 1)
#define HILO_GENERATION_(cursor) ((uint32_t)((cursor) >> 32))
#define HILO_OFFSET_(cursor)     ((uint32_t)(cursor))

static inline enum hilo_take_ hilo_take_hot_(struct hilo_hot_ *h, uint64_t *ret_id)
{
    uint64_t ticket = __atomic_fetch_add(&h->cursor, 1, __ATOMIC_SEQ_CST);
    struct hilo_slot_ *slot = &h->slot[HILO_GENERATION_(ticket) & 1];
    uint64_t first = __atomic_load_n(&slot->first, __ATOMIC_ACQUIRE);
    uint64_t step = __atomic_load_n(&slot->step, __ATOMIC_ACQUIRE);
    uint32_t count = __atomic_load_n(&slot->count, __ATOMIC_ACQUIRE);
    uint32_t refill_at = __atomic_load_n(&slot->refill_at, __ATOMIC_SEQ_CST);
    uint32_t owner = __atomic_load_n(&slot->owner, __ATOMIC_ACQUIRE);

    if (!HILO_LIKELY_(owner == HILO_GENERATION_(ticket) &&
                      HILO_OFFSET_(ticket) < count))
        return HILO_EMPTY_;
    *ret_id = first + HILO_OFFSET_(ticket) * step;
    return HILO_LIKELY_(HILO_OFFSET_(ticket) != refill_at) ? HILO_TAKEN_
                                                           : HILO_TAKEN_REFILL_;
}

/* The row is looked at first: its check is cheap beside an addition that locks. A null
 * pointer is a sequence with no ids: said so, rather than by a branch, it costs a loop
 * nothing. */
static inline enum hilo_take_ hilo_take_(hilo_seq *s, uint64_t *ret_id)
{
    static const struct hilo_head_ none = {NULL, HILO_WAY_CAREFUL_, 0, UINT64_MAX};
    const struct hilo_head_ *head =
        s != NULL ? (const struct hilo_head_ *)(const void *)s : &none;
    struct hilo_row_ *mine = hilo_rows_.last;
    uint64_t id = mine->next;

    if (HILO_LIKELY_(mine->serial == head->serial)) {
        if (!HILO_LIKELY_(id != mine->end))
            return HILO_EMPTY_;
        mine->next = id + mine->step;
        *ret_id = id;
        return HILO_TAKEN_;
    }
    return head->way == HILO_WAY_SHARED_ ? hilo_take_hot_(head->hot, ret_id)
                                         : HILO_EMPTY_;
}

#ifndef HILO_NO_INLINE
/* slow is hilo_next or hilo_try_next itself, which look again and then do the rest. */
static inline int hilo_next_inline_(hilo_seq *s, uint64_t *ret_id,
                                    int (*slow)(hilo_seq *, uint64_t *))
{
    enum hilo_take_ got = HILO_EMPTY_;

    if (HILO_LIKELY_(ret_id != NULL))
        got = hilo_take_(s, ret_id);
    if (HILO_LIKELY_(got == HILO_TAKEN_))
        return 0;
    return got == HILO_EMPTY_ ? slow(s, ret_id) : hilo_refill_(s);
}

#define hilo_next(s, ret_id)     hilo_next_inline_(s, ret_id, hilo_next)
#define hilo_try_next(s, ret_id) hilo_next_inline_(s, ret_id, hilo_try_next)
#endif
#endif
