/* run.c - runs of ids. */
#include "run.h"
#include "number.h"

bool run_at(struct lane l, uint64_t first, uint64_t count, struct run *ret)
{
    struct run r = {.step = lane_step(l)};
    uint64_t last;

    if (count == 0 || !number_add(first, count - 1, &last) ||
        last >= lane_boundary(l, first) || !lane_id_at(l, first, &r.first) ||
        !lane_id_at(l, last, &r.last))
        return false;
    *ret = r;
    return true;
}

uint64_t run_count(struct run r)
{
    return (r.last - r.first) / r.step + 1;
}

bool run_has(struct run r, uint64_t id)
{
    return id >= r.first && id <= r.last && (id - r.first) % r.step == 0;
}
