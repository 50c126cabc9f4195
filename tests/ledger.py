"""ledger.py - what a checker of grants keeps, in memory that does not grow with the ids: runs of
positions, lanes, order."""

import bisect


class Lane:
    """A lane of a layout: its ids and their positions, as DESIGN has them."""

    def __init__(self, number, lanes, stripe):
        self.number, self.lanes, self.stripe = number, lanes, stripe

    def position(self, an_id):
        """The position of an id, or None for one of another lane."""
        stripe, rest = divmod(an_id - 1, self.stripe)
        group, lane = divmod(stripe, self.lanes)
        return group * self.stripe + rest if lane == self.number - 1 else None

    def above(self, an_id):
        """The first position of this lane above an id; 0 of none."""
        if an_id == 0:
            return 0
        group, lane = divmod((an_id - 1) // self.stripe, self.lanes)
        if lane < self.number - 1:
            return group * self.stripe
        if lane > self.number - 1:
            return (group + 1) * self.stripe
        return group * self.stripe + (an_id - 1) % self.stripe + 1


def pieces(lanes, first, last, step):
    """The run of ids as [(index of its lane, position, position after)]."""
    stripe, n = lanes[0].stripe, len(lanes)
    if n == 1 and step == 1:
        return [(0, first - 1, last)]
    if step == 1 and stripe > 1:
        ends = [*range(first - 1 - (first - 1) % stripe + stripe, last, stripe), last]
        starts = [first, *(e + 1 for e in ends[:-1])]
    else:
        starts = ends = range(first, last + 1, step)
    out = []
    for low, high in zip(starts, ends):
        lane = (low - 1) // stripe % n
        at = lanes[lane].position(low)
        if out and out[-1][0] == lane and out[-1][2] == at:
            out[-1] = (lane, out[-1][1], at + high - low + 1)
        else:
            out.append((lane, at, at + high - low + 1))
    return out


class Runs:
    """A set of positions. It takes room for its gaps, not for its members."""

    def __init__(self):
        self.starts, self.ends = [], []

    def add(self, start, end):
        """Adds [start, end). None; or a position that was there before, and then nothing is
        added."""
        i = bisect.bisect_right(self.starts, start)
        if i > 0 and self.ends[i - 1] > start:
            return start
        if i < len(self.starts) and self.starts[i] < end:
            return self.starts[i]
        left = i > 0 and self.ends[i - 1] == start
        right = i < len(self.starts) and self.starts[i] == end
        if left and right:
            self.ends[i - 1] = self.ends.pop(i)
            del self.starts[i]
        elif left:
            self.ends[i - 1] = end
        elif right:
            self.starts[i] = start
        else:
            self.starts.insert(i, start)
            self.ends.insert(i, end)
        return None

    def missing(self, start, end):
        """How many positions of [start, end) are no members."""
        i = max(bisect.bisect_right(self.starts, start) - 1, 0)
        members = 0
        while i < len(self.starts) and self.starts[i] < end:
            members += max(0, min(self.ends[i], end) - max(self.starts[i], start))
            i += 1
        return end - start - members

    def last(self):
        return self.ends[-1] - 1 if self.ends else -1


class Order:
    """The order of one sequence on one server: what is asked for after an answer lies above it.

    Grants come as (sent, answered, first, last, repeated), times of one steady clock, in any
    order, as long as they belong to a life of the server whose grants are all known."""

    def __init__(self):
        self.highest = -1  # position answered in the lives before

    def check(self, grants):
        """None, or the grant that lies too low and what had been answered before it was asked
        for. A repeated one is what an earlier request was granted, so it may lie anywhere."""
        events = sorted([(g[0], 0, i) for i, g in enumerate(grants)] +
                        [(g[1], 1, i) for i, g in enumerate(grants)])
        floor = {}
        for _, answered, i in events:
            _, _, first, last, repeated = grants[i]
            if not answered:
                floor[i] = self.highest
                continue
            if first <= floor[i] and not repeated:
                return grants[i], floor[i]
            self.highest = max(self.highest, last)
        return None
