/* hot.c - the block in use. */
#include "hot.h"

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define NO_REFILL UINT32_MAX

/* The process's count of sequences opened so far, so that what threads keep of one is
 * never taken for another's. */
static uint64_t serials;

struct hilo_hot_ *hot_new(int32_t *ret_pid)
{
    struct hilo_hot_ *h = mmap(NULL, sizeof *h, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (h == MAP_FAILED)
        return NULL;
    /* Some emulators say yes to everything, and do nothing: hence the second question.
     */
    *ret_pid =
        madvise(h, sizeof *h, MADV_WIPEONFORK) == 0 && madvise(h, sizeof *h, -1) != 0
            ? 0
            : (int32_t)getpid();
    h->serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
    return h;
}

void hot_free(struct hilo_hot_ *h)
{
    if (h != NULL)
        munmap(h, sizeof *h);
}

bool hot_is_ours(const struct hilo_hot_ *h, int32_t pid)
{
    return h->serial != 0 && (pid == 0 || pid == (int32_t)getpid());
}

static struct hilo_slot_ *slot_of(struct hilo_hot_ *h, uint64_t cursor)
{
    return &h->slot[HILO_GENERATION_(cursor) & 1];
}

static uint32_t slot_count(struct hilo_slot_ *slot)
{
    return __atomic_load_n(&slot->count, __ATOMIC_ACQUIRE);
}

enum hilo_take_ hot_take_run(struct hilo_hot_ *h, uint32_t n, struct run *ret)
{
    uint64_t seen = __atomic_load_n(&h->cursor, __ATOMIC_ACQUIRE);
    uint32_t count, offset, take, refill_at;
    struct hilo_slot_ *slot;

    /* The exchange succeeds only if the cursor still shows what the slot was read for.
     */
    do {
        slot = slot_of(h, seen);
        ret->first = __atomic_load_n(&slot->first, __ATOMIC_ACQUIRE);
        ret->step = __atomic_load_n(&slot->step, __ATOMIC_ACQUIRE);
        count = slot_count(slot);
        offset = HILO_OFFSET_(seen);
        if (offset >= count)
            return HILO_EMPTY_;
        take = n < count - offset ? n : count - offset;
    } while (!__atomic_compare_exchange_n(&h->cursor, &seen, seen + take, true,
                                          __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE));
    ret->first += offset * ret->step;
    ret->last = ret->first + (take - 1) * ret->step;
    refill_at = __atomic_load_n(&slot->refill_at, __ATOMIC_SEQ_CST);
    /* Who slept since the exchange may have read that of a later block. */
    if (__atomic_load_n(&slot->owner, __ATOMIC_ACQUIRE) != HILO_GENERATION_(seen))
        return HILO_TAKEN_;
    return refill_at >= offset && refill_at < offset + take ? HILO_TAKEN_REFILL_
                                                            : HILO_TAKEN_;
}

uint32_t hot_taken(struct hilo_hot_ *h)
{
    uint64_t cursor = __atomic_load_n(&h->cursor, __ATOMIC_SEQ_CST);
    uint32_t count = slot_count(slot_of(h, cursor));

    return HILO_OFFSET_(cursor) < count ? HILO_OFFSET_(cursor) : count;
}

uint32_t hot_left(struct hilo_hot_ *h)
{
    uint64_t cursor = __atomic_load_n(&h->cursor, __ATOMIC_SEQ_CST);
    uint32_t count = slot_count(slot_of(h, cursor));

    return HILO_OFFSET_(cursor) < count ? count - HILO_OFFSET_(cursor) : 0;
}

static uint32_t as_refill(uint64_t refill_at)
{
    return refill_at < NO_REFILL ? (uint32_t)refill_at : NO_REFILL;
}

void hot_settle(struct hilo_hot_ *h)
{
    uint64_t cursor = __atomic_load_n(&h->cursor, __ATOMIC_SEQ_CST);
    uint64_t end = (cursor & ~(uint64_t)UINT32_MAX) | slot_count(slot_of(h, cursor));

    /* Whoever adds meanwhile makes this fail, and the next one tries again. */
    if (cursor > end)
        __atomic_compare_exchange_n(&h->cursor, &cursor, end, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
}

void hot_publish(struct hilo_hot_ *h, struct run r, uint64_t refill_at)
{
    uint32_t owner =
        HILO_GENERATION_(__atomic_load_n(&h->cursor, __ATOMIC_SEQ_CST)) + 1;
    uint64_t next = (uint64_t)owner << 32;
    struct hilo_slot_ *slot = slot_of(h, next);

    __atomic_store_n(&slot->owner, owner - 1, __ATOMIC_RELEASE); /* not its */
    __atomic_store_n(&slot->first, r.first, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->step, r.step, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->count, (uint32_t)run_count(r), __ATOMIC_RELEASE);
    __atomic_store_n(&slot->refill_at, as_refill(refill_at), __ATOMIC_RELEASE);
    __atomic_store_n(&slot->owner, owner, __ATOMIC_RELEASE);
    __atomic_store_n(&h->cursor, next, __ATOMIC_RELEASE);
}

/* The store before the load, here; the addition before the load, in hilo_take_hot_: one
 * of the two sees the other. */
bool hot_set_refill(struct hilo_hot_ *h, uint64_t refill_at)
{
    uint64_t cursor = __atomic_load_n(&h->cursor, __ATOMIC_SEQ_CST);

    __atomic_store_n(&slot_of(h, cursor)->refill_at, as_refill(refill_at),
                     __ATOMIC_SEQ_CST);
    return HILO_OFFSET_(__atomic_load_n(&h->cursor, __ATOMIC_SEQ_CST)) >
           as_refill(refill_at);
}
