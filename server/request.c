/* request.c - requests. */
#include "request.h"

#include <stdarg.h>
#include <stdio.h>

void request_init(struct request *r, enum request_kind kind)
{
    r->kind = kind;
    r->decided = r->planned = r->set_max = r->set_each = false;
    r->want = (struct alloc_request){.count = 1, .atleast = 1, .cap = ALLOC_NO_CAP};
    r->attr = (struct counter_attr){0};
    r->id = 0;
    r->err = 0;
    r->grant = (struct alloc_grant){0};
    r->next = r->later = NULL;
    r->owner = NULL;
    r->decided_fn = NULL;
}

void request_refuse(struct request *r, int err, const char *fmt, ...)
{
    va_list ap;

    r->decided = true;
    r->err = err;
    va_start(ap, fmt);
    vsnprintf(r->text, sizeof r->text, fmt, ap);
    va_end(ap);
}
