/* request.c - requests. */
#include "request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request *request_keep(struct request_pool *p, struct request *r)
{
    struct request *kept = p->spare;

    if (kept != NULL) {
        p->spare = kept->next;
        p->n--;
    } else {
        kept = malloc(sizeof *kept);
    }
    if (kept == NULL)
        return NULL;
    *kept = *r;
    r->text = NULL;
    return kept;
}

void request_free(struct request_pool *p, struct request *r)
{
    request_clear(r);
    if (p->n == REQUEST_SPARE_MAX) {
        free(r);
        return;
    }
    r->next = p->spare;
    p->spare = r;
    p->n++;
}

void request_pool_free(struct request_pool *p)
{
    while (p->spare != NULL) {
        struct request *r = p->spare;

        p->spare = r->next;
        free(r);
    }
}

void request_clear(struct request *r)
{
    free(r->text);
    r->text = NULL;
}

void request_init(struct request *r, enum request_kind kind)
{
    r->kind = kind;
    r->decided = r->planned = r->set_max = r->set_each = false;
    r->want = (struct alloc_request){.count = 1, .atleast = 1, .cap = ALLOC_NO_CAP};
    r->attr = (struct counter_attr){0};
    r->id = 0;
    r->err = 0;
    r->text = NULL;
    r->grant = (struct alloc_grant){0};
    r->next = r->later = NULL;
    r->owner = NULL;
    r->token = NULL;
    r->decided_fn = NULL;
}

void request_refuse(struct request *r, int err, const char *fmt, ...)
{
    va_list ap;

    r->decided = true;
    r->err = err;
    free(r->text);
    va_start(ap, fmt);
    if (vasprintf(&r->text, fmt, ap) < 0)
        r->text = NULL;
    va_end(ap);
}

size_t request_text_size(const struct request *r)
{
    return r->text != NULL ? strlen(r->text) + 1 : 0;
}

const char *request_why(const struct request *r)
{
    return r->text != NULL ? r->text : "out of memory for the words of this error";
}
