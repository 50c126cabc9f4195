/* local.c - ids that threads keep to themselves. */
#include "local.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Nobody's row: its serial is no sequence's, so it is never written. */
static struct hilo_row_ nobody;

__thread struct hilo_rows_ hilo_rows_ = {.last = &nobody};

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

static void unmap(struct hilo_row_ *rows, size_t n)
{
    if (rows != NULL)
        munmap(rows, n * sizeof *rows);
}

/* Destructors of others may come after this one and take ids again. */
static void end_of_thread(void *rows)
{
    size_t n = hilo_rows_.n;

    hilo_rows_ = (struct hilo_rows_){.last = &nobody};
    unmap(rows, n);
}

static void make_key(void)
{
    have_key = pthread_key_create(&key, end_of_thread) == 0;
}

/* Pages of their own, which a forked child finds empty; room for *ret_n rows. */
static struct hilo_row_ *make_rows(size_t least, size_t *ret_n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (least * sizeof(struct hilo_row_) + page - 1) / page * page;
    void *rows =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (rows == MAP_FAILED)
        return NULL;
    if (madvise(rows, bytes, MADV_WIPEONFORK) != 0) {
        munmap(rows, bytes); /* seq.c doesn't come here where pages can't be wiped */
        return NULL;
    }
    *ret_n = bytes / sizeof(struct hilo_row_);
    return rows;
}

struct hilo_row_ *local_row(uint32_t row)
{
    struct hilo_row_ *rows;
    size_t n;

    if (row < hilo_rows_.n) {
        hilo_rows_.last = &hilo_rows_.rows[row];
        return hilo_rows_.last;
    }
    pthread_once(&once, make_key);
    rows = make_rows((size_t)row + 1, &n);
    if (rows == NULL)
        return NULL;
    if (!have_key || pthread_setspecific(key, rows) != 0) {
        unmap(rows, n);
        return NULL;
    }
    if (hilo_rows_.n > 0)
        memcpy(rows, hilo_rows_.rows, hilo_rows_.n * sizeof *rows);
    unmap(hilo_rows_.rows, hilo_rows_.n);
    hilo_rows_.rows = rows;
    hilo_rows_.n = n;
    hilo_rows_.last = &rows[row];
    return hilo_rows_.last;
}
