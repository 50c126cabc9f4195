/* text.c - texts for people. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void text_clean(char *text)
{
    for (char *p = text; *p != '\0'; p++) {
        if (*p < ' ' || *p > '~')
            *p = '?';
    }
}

void text_add(char *text, size_t size, const char *fmt, ...)
{
    size_t len = strlen(text);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text + len, size - len, fmt, ap);
    va_end(ap);
}
