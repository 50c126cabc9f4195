/* hot.c - the block in use. */
#include "hot.h"

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define NO_REFILL UINT32_MAX

/* The process's count of sequences opened so far, so that what threads keep of one is
 * never taken for another's. */
static _Atomic uint64_t serials;

struct hot *hot_new(int32_t *ret_pid)
{
    struct hot *h = mmap(NULL, sizeof *h, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (h == MAP_FAILED)
        return NULL;
    *ret_pid = madvise(h, sizeof *h, MADV_WIPEONFORK) == 0 ? 0 : (int32_t)getpid();
    h->serial = atomic_fetch_add(&serials, 1) + 1;
    return h;
}

void hot_free(struct hot *h)
{
    if (h != NULL)
        munmap(h, sizeof *h);
}

bool hot_is_ours(const struct hot *h, int32_t pid)
{
    return h->serial != 0 && (pid == 0 || pid == (int32_t)getpid());
}

static struct hot_slot *slot_of(struct hot *h, uint64_t cursor)
{
    return &h->slot[HOT_GENERATION(cursor) & 1];
}

static uint32_t slot_count(struct hot_slot *slot)
{
    return atomic_load_explicit(&slot->count, memory_order_acquire);
}

enum hot_result hot_take_run(struct hot *h, uint32_t n, struct run *ret)
{
    uint64_t seen = atomic_load_explicit(&h->cursor, memory_order_acquire);
    uint32_t count, offset, take, refill_at;
    struct hot_slot *slot;

    /* The exchange succeeds only if the cursor still shows what the slot was read for.
     */
    do {
        slot = slot_of(h, seen);
        ret->first = atomic_load_explicit(&slot->first, memory_order_acquire);
        ret->step = atomic_load_explicit(&slot->step, memory_order_acquire);
        count = slot_count(slot);
        offset = HOT_OFFSET(seen);
        if (offset >= count)
            return HOT_EMPTY;
        take = n < count - offset ? n : count - offset;
    } while (!atomic_compare_exchange_weak_explicit(
        &h->cursor, &seen, seen + take, memory_order_acq_rel, memory_order_acquire));
    ret->first += offset * ret->step;
    ret->last = ret->first + (take - 1) * ret->step;
    refill_at = atomic_load(&slot->refill_at);
    return refill_at >= offset && refill_at < offset + take ? HOT_REFILL : HOT_TAKEN;
}

uint32_t hot_taken(struct hot *h)
{
    uint64_t cursor = atomic_load(&h->cursor);
    uint32_t count = slot_count(slot_of(h, cursor));

    return HOT_OFFSET(cursor) < count ? HOT_OFFSET(cursor) : count;
}

uint32_t hot_left(struct hot *h)
{
    uint64_t cursor = atomic_load(&h->cursor);
    uint32_t count = slot_count(slot_of(h, cursor));

    return HOT_OFFSET(cursor) < count ? count - HOT_OFFSET(cursor) : 0;
}

static uint32_t as_refill(uint64_t refill_at)
{
    return refill_at < NO_REFILL ? (uint32_t)refill_at : NO_REFILL;
}

void hot_settle(struct hot *h)
{
    uint64_t cursor = atomic_load(&h->cursor);
    uint64_t end = (cursor & ~(uint64_t)UINT32_MAX) | slot_count(slot_of(h, cursor));

    /* Whoever adds meanwhile makes this fail, and the next one tries again. */
    if (cursor > end)
        atomic_compare_exchange_strong(&h->cursor, &cursor, end);
}

void hot_publish(struct hot *h, struct run r, uint64_t refill_at)
{
    uint32_t owner = HOT_GENERATION(atomic_load(&h->cursor)) + 1;
    uint64_t next = (uint64_t)owner << 32;
    struct hot_slot *slot = slot_of(h, next);

    atomic_store_explicit(&slot->owner, owner - 1, memory_order_release); /* not its */
    atomic_store_explicit(&slot->first, r.first, memory_order_release);
    atomic_store_explicit(&slot->step, r.step, memory_order_release);
    atomic_store_explicit(&slot->count, (uint32_t)run_count(r), memory_order_release);
    atomic_store_explicit(&slot->refill_at, as_refill(refill_at), memory_order_release);
    atomic_store_explicit(&slot->owner, owner, memory_order_release);
    atomic_store_explicit(&h->cursor, next, memory_order_release);
}

/* The store before the load, here; the addition before the load, in hot_take: one of
 * the two sees the other. */
bool hot_set_refill(struct hot *h, uint64_t refill_at)
{
    uint64_t cursor = atomic_load(&h->cursor);

    atomic_store(&slot_of(h, cursor)->refill_at, as_refill(refill_at));
    return HOT_OFFSET(atomic_load(&h->cursor)) > as_refill(refill_at);
}
