/* ask.h - a request for a block, from the moment it is wanted to its answer. */
#ifndef HILO_ASK_H
#define HILO_ASK_H

#include <stdbool.h>
#include <stdint.h>
#include "hilo.h"
#include "name.h"

struct hilo_seq;

/* A caller of hilo_block that waits. It lies on the caller's stack; whoever leaves
 * first takes back the pointers. */
struct block_call {
    struct ask *ask; /* NULL once decided */
    int err;
    struct hilo_run run;
};

struct ask {
    struct ask *next;
    struct hilo_seq *seq;    /* NULL when the sequence was closed meanwhile */
    struct block_call *call; /* NULL for the stock, or when the caller has left */
    char name[HILO_NAME_MAX + 1];
    char token[TOKEN_MAX_LEN + 1]; /* empty: it can't be asked for again */
    bool exact;                    /* count ids, no fewer */
    uint64_t count;
    uint64_t floor;      /* all ids have to be above it; set when it is sent */
    int64_t sent_us;     /* set when it is sent */
    int64_t deadline_us; /* set when it is sent */
};

struct ask_queue {
    struct ask *head, **tail;
};

/* For the stock; NULL when there is no memory. */
struct ask *ask_new(struct hilo_seq *seq, const char *name, uint64_t count);

void ask_queue_init(struct ask_queue *q);
void ask_push(struct ask_queue *q, struct ask *a);
struct ask *ask_pop(struct ask_queue *q); /* NULL when it is empty */

/* Takes one out of the middle; false when it isn't there. */
bool ask_remove(struct ask_queue *q, struct ask *a);

/* The command for the wire, into buf; its length, or 0 when there is no room. */
size_t ask_write(const struct ask *a, char *buf, size_t size);

#endif
