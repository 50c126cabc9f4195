/* local.c - ids that threads keep to themselves. */
#include "local.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__thread struct local_table local_table;

static _Atomic uint64_t used[LOCAL_MAX / 64]; /* a bit for each row */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* only for its destructor */
static bool have_key;

uint32_t local_reserve(void)
{
    for (uint32_t i = 0; i < LOCAL_MAX; i++) {
        uint64_t bit = UINT64_C(1) << (i % 64);

        if ((atomic_fetch_or(&used[i / 64], bit) & bit) == 0)
            return i;
    }
    return LOCAL_NONE;
}

void local_release(uint32_t row)
{
    if (row != LOCAL_NONE)
        atomic_fetch_and(&used[row / 64], ~(UINT64_C(1) << (row % 64)));
}

static void unmap(struct local_table t)
{
    if (t.rows != NULL)
        munmap(t.rows, t.n * sizeof *t.rows);
}

/* Destructors of others may come after this one and take ids again. */
static void end_of_thread(void *rows)
{
    struct local_table old = local_table;

    (void)rows;
    local_table = (struct local_table){.rows = NULL};
    unmap(old);
}

static void make_key(void)
{
    have_key = pthread_key_create(&key, end_of_thread) == 0;
}

/* Pages of their own, which a forked child finds empty. */
static struct local_table make_table(size_t least)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (least * sizeof(struct local) + page - 1) / page * page;
    void *rows =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (rows == MAP_FAILED)
        return (struct local_table){.rows = NULL};
    if (madvise(rows, bytes, MADV_WIPEONFORK) != 0) {
        munmap(rows, bytes); /* seq.c doesn't come here where pages can't be wiped */
        return (struct local_table){.rows = NULL};
    }
    return (struct local_table){.rows = rows, .n = bytes / sizeof(struct local)};
}

struct local *local_row(uint32_t row)
{
    struct local_table t;

    if (row < local_table.n)
        return &local_table.rows[row];
    pthread_once(&once, make_key);
    t = make_table((size_t)row + 1);
    if (t.rows == NULL)
        return NULL;
    if (!have_key || pthread_setspecific(key, t.rows) != 0) {
        unmap(t);
        return NULL;
    }
    if (local_table.n > 0)
        memcpy(t.rows, local_table.rows, local_table.n * sizeof *t.rows);
    unmap(local_table);
    local_table = t;
    return &local_table.rows[row];
}
