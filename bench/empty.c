/* empty.c - a shared library with a function that does next to nothing: what any call
 * of a shared library costs on this machine. */
#include <stdint.h>

int empty_next(void *s, uint64_t *ret_id);

int empty_next(void *s, uint64_t *ret_id)
{
    *ret_id = (uint64_t)(uintptr_t)s;
    return 0;
}
