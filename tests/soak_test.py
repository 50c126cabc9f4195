"""soak_test.py - some seconds of tests/soak.py, and what its proof rests on."""

import random

import harness
from ledger import Lane, Order, Runs, pieces
from soak import soak

SECONDS = 60 if harness.LONG else 5


class Soak(harness.Case):
    def test_killed_servers_and_clients_break_no_promise(self):
        violation, figures = soak(SECONDS, harness.SEED)
        print(figures)
        self.assertIsNone(violation)


class Ledger(harness.Case):
    def setUp(self):
        self.rng = random.Random(harness.SEED)

    def test_runs_are_what_a_set_is(self):
        for _ in range(200):
            runs, members = Runs(), set()
            for _ in range(100):
                start = self.rng.randrange(300)
                new = set(range(start, start + self.rng.randrange(1, 6)))
                twice = runs.add(min(new), max(new) + 1)
                if new & members:
                    self.assertIn(twice, members)
                else:
                    self.assertIsNone(twice)
                    members |= new
                low, high = sorted((self.rng.randrange(310), self.rng.randrange(310)))
                self.assertEqual(runs.missing(low, high),
                                 len(set(range(low, high)) - members))
                self.assertEqual(runs.last(), max(members))
            joined = zip(runs.ends, runs.starts[1:])
            self.assertTrue(all(end < start for end, start in joined))

    def test_positions_are_those_of_the_lanes(self):
        for n, stripe in ((1, 7), (2, 1), (2, 5), (3, 4)):
            lanes = [Lane(i + 1, n, stripe) for i in range(n)]
            want = [(i, lane.position(an_id)) for an_id in range(1, 100)
                    for i, lane in enumerate(lanes) if lane.position(an_id) is not None]
            self.assertEqual(len(want), 99)
            for _ in range(200):
                first, step = self.rng.randrange(1, 40), self.rng.randrange(1, 4)
                ids = range(first, first + step * self.rng.randrange(1, 15), step)
                got = [(lane, at) for lane, start, end in pieces(lanes, ids[0], ids[-1], step)
                       for at in range(start, end)]
                self.assertEqual(got, [want[an_id - 1] for an_id in ids])
            for lane in lanes:
                mine = [i for i in range(1, 100) if lane.position(i) is not None]
                for an_id in range(80):
                    above = next(i for i in mine if i > an_id)
                    self.assertEqual(lane.above(an_id), lane.position(above))

    def test_order(self):
        good = [(0, 10, 5, 9, False), (5, 20, 1, 4, False), (11, 12, 10, 10, False),
                (13, 30, 1, 2, True)]
        order = Order()
        self.assertIsNone(order.check(good))
        self.assertEqual(order.highest, 10)
        self.assertEqual(order.check([(40, 50, 10, 12, False)]), ((40, 50, 10, 12, False), 10))
        self.assertIsNotNone(Order().check([(0, 10, 5, 9, False), (11, 20, 1, 4, False)]))


if __name__ == "__main__":
    harness.main()
