/* ask.c - requests for blocks. */
#include "ask.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "request_write.h"

struct ask *ask_new(struct hilo_seq *seq, const char *name, uint64_t count)
{
    struct ask *a = calloc(1, sizeof *a);

    if (a == NULL)
        return NULL;
    memcpy(a->name, name, strlen(name) + 1);
    a->seq = seq;
    a->count = count;
    return a;
}

void ask_queue_init(struct ask_queue *q)
{
    q->head = NULL;
    q->tail = &q->head;
}

void ask_push(struct ask_queue *q, struct ask *a)
{
    a->next = NULL;
    *q->tail = a;
    q->tail = &a->next;
}

struct ask *ask_pop(struct ask_queue *q)
{
    struct ask *a = q->head;

    if (a != NULL) {
        q->head = a->next;
        if (q->head == NULL)
            q->tail = &q->head;
    }
    return a;
}

bool ask_remove(struct ask_queue *q, struct ask *a)
{
    for (struct ask **at = &q->head; *at != NULL; at = &(*at)->next) {
        if (*at != a)
            continue;
        *at = a->next;
        if (*at == NULL)
            q->tail = at;
        return true;
    }
    return false;
}

size_t ask_write(const struct ask *a, char *buf, size_t size)
{
    struct request_writer w;

    bool token = a->token[0] != '\0';

    request_begin(&w, buf, size,
                  3u + (a->exact ? 0u : 2u) + (a->floor > 0 ? 2u : 0u) +
                      (token ? 2u : 0u));
    request_text(&w, "BLOCK");
    request_text(&w, a->name);
    request_number(&w, a->count);
    if (!a->exact) {
        request_text(&w, "ATLEAST");
        request_number(&w, 1);
    }
    if (a->floor > 0) {
        request_text(&w, "FLOOR");
        request_number(&w, a->floor);
    }
    if (token) {
        request_text(&w, "TOKEN");
        request_text(&w, a->token);
    }
    return request_end(&w);
}
