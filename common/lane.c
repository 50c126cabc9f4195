/* lane.c - arithmetic of the grid. */
#include "lane.h"
#include "crc.h"
#include "number.h"

bool lane_valid(struct lane l)
{
    return l.lanes >= 1 && l.lanes <= LANES_MAX && l.number >= 1 &&
           l.number <= l.lanes && l.stripe >= 1 && l.stripe <= STRIPE_MAX;
}

bool lane_id_at(struct lane l, uint64_t position, uint64_t *ret_id)
{
    uint64_t group = position / l.stripe, id;

    if (!number_mul(group, l.lanes, &id) || !number_add(id, l.number - 1, &id) ||
        !number_mul(id, l.stripe, &id) || !number_add(id, position % l.stripe, &id) ||
        id >= HILO_ID_MAX)
        return false;
    *ret_id = id + 1;
    return true;
}

bool lane_owns(struct lane l, uint64_t id)
{
    return id >= 1 && (id - 1) / l.stripe % l.lanes == l.number - 1;
}

uint64_t lane_position(struct lane l, uint64_t id)
{
    return (id - 1) / l.stripe / l.lanes * l.stripe + (id - 1) % l.stripe;
}

uint64_t lane_first_above(struct lane l, uint64_t id)
{
    uint64_t stripe, group, other, own = l.number - 1;

    if (id == 0)
        return 0;
    stripe = (id - 1) / l.stripe;
    group = stripe / l.lanes;
    other = stripe % l.lanes;
    if (other < own)
        return group * l.stripe;
    if (other > own)
        return (group + 1) * l.stripe;
    return group * l.stripe + (id - 1) % l.stripe + 1;
}

uint64_t lane_boundary(struct lane l, uint64_t position)
{
    if (l.lanes == 1 || l.stripe == 1)
        return LANE_NO_BOUNDARY;
    return (position / l.stripe + 1) * l.stripe;
}

uint64_t lane_step(struct lane l)
{
    return l.stripe == 1 ? l.lanes : 1;
}

uint32_t lane_of_token(const char *token, size_t len, uint32_t lanes)
{
    return crc32c(0, token, len) % lanes + 1;
}
