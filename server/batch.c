/* batch.c - operations on their way to the store, and its answers. */
#include "batch.h"

#include <stdlib.h>

struct store_op *store_batch_add(struct store_batch *b)
{
    if (b->n == b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 16;
        struct store_op *ops = realloc(b->ops, cap * sizeof *ops);

        if (ops == NULL)
            return NULL;
        b->ops = ops;
        b->cap = cap;
    }
    b->ops[b->n] = (struct store_op){0};
    return &b->ops[b->n++];
}

void store_batch_clear(struct store_batch *b)
{
    b->n = 0;
}

void store_batch_free(struct store_batch *b)
{
    free(b->ops);
    *b = (struct store_batch){0};
}
