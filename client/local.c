/* local.c - ids that threads keep to themselves. */
#include "local.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

/* Destructors of others may come after this one and take ids again. */
static void end_of_thread(void *rows)
{
    local_table = (struct local_table){.rows = NULL};
    free(rows);
}

static void make_key(void)
{
    have_key = pthread_key_create(&key, end_of_thread) == 0;
}

struct local *local_row(uint32_t row)
{
    struct local *rows;
    size_t n = row + 1;

    if (n <= local_table.n)
        return &local_table.rows[row];
    pthread_once(&once, make_key);
    if (!have_key)
        return NULL;
    rows = calloc(n, sizeof *rows);
    if (rows == NULL)
        return NULL;
    if (pthread_setspecific(key, rows) != 0) {
        free(rows);
        return NULL;
    }
    if (local_table.n > 0)
        memcpy(rows, local_table.rows, local_table.n * sizeof *rows);
    free(local_table.rows);
    local_table = (struct local_table){.rows = rows, .n = n};
    return &local_table.rows[row];
}
