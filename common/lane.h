/* lane.h - the grid: which ids a server owns, and in which order.
 *
 * With N lanes and stripe U the id x belongs to lane ((x-1) / U) mod N + 1. A server
 * counts positions 0, 1, 2 ... of its own lane; position t of lane i is the id
 *
 *     1 + ((t / U) * N + (i-1)) * U + t mod U
 *
 * The grid is absolute, so two servers with different lanes can't meet whatever their
 * sequences are set to. One lane: 1, 2, 3 ... Two lanes with stripe 1: odd and even
 * ids, as Flickr's ticket servers had. A stripe of 1000 gives each server runs of 1000
 * neighbours.
 *
 * Everything here is pure and checked for overflow; a lane is a small value, copied
 * freely. */
#ifndef HILO_LANE_H
#define HILO_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LANES_MAX        1024
#define STRIPE_MAX       1000000000
#define STRIPE_DEFAULT   100000
#define LANE_NO_BOUNDARY UINT64_MAX

struct lane {
    uint32_t number; /* i, from 1 */
    uint32_t lanes;  /* N, 1..LANES_MAX */
    uint64_t stripe; /* U, 1..STRIPE_MAX */
};

bool lane_valid(struct lane l);

/* The id at a position; false, and nothing written, when it would pass HILO_ID_MAX. */
bool lane_id_at(struct lane l, uint64_t position, uint64_t *ret_id);

/* Whether the id (1 or more) is in this lane. */
bool lane_owns(struct lane l, uint64_t id);

/* The position of an id of this lane; the inverse of lane_id_at. */
uint64_t lane_position(struct lane l, uint64_t id);

/* The first position whose id is above the given one (0 gives position 0). Read another
 * way: how many ids of the lane are at or below it, which makes a bound of a MAX. */
uint64_t lane_first_above(struct lane l, uint64_t id);

/* The first position of the stripe after the one that holds position, where a block has
 * to end; LANE_NO_BOUNDARY where blocks have no such end (one lane, or stripe 1). */
uint64_t lane_boundary(struct lane l, uint64_t position);

/* The distance between neighbouring ids of one block. */
uint64_t lane_step(struct lane l);

/* The lane, of so many, whose server keeps this token: its CRC-32C modulo lanes, plus
 * 1. All clients of a deployment have to agree on that. */
uint32_t lane_of_token(const char *token, size_t len, uint32_t lanes);

#endif
