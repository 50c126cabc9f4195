"""pair_test.py - two servers that can't grant the same id: configs/pair-a.conf and pair-b.conf."""

import os
import shutil
import subprocess

import harness

CONFIGS = os.path.join(harness.ROOT, "configs")


class Pair(harness.Case):
    def pair(self, *args):
        """Both members, with the sample configurations but ports and data of their own."""
        return [self.hilod("-c", os.path.join(CONFIGS, name), *args)
                for name in ("pair-a.conf", "pair-b.conf")]

    def take(self, client, count, size):
        """Ids of count blocks of up to size, and the steps they had."""
        ids, steps = [], set()
        for _ in range(count):
            first, last, step = map(int, client.call("BLOCK", "orders", size))
            ids += range(first, last + 1, step)
            steps.add(step)
        return ids, steps

    def test_stripe_one_is_odd_and_even(self):
        a, b = (self.client(s) for s in self.pair("--stripe", "1"))
        for c in (a, b):
            c.call("SEQ", "CREATE", "orders")
        self.assertEqual([a.call("INCR", "orders") for _ in range(500)],
                         list(range(1, 1001, 2)))
        self.assertEqual([b.call("INCR", "orders") for _ in range(500)],
                         list(range(2, 1001, 2)))
        self.assertEqual(a.call("BLOCK", "orders", 10), [b"1001", b"1019", b"2"])
        self.assertEqual(b.call("NEXT", "orders", 3), [b"1002", b"1004", b"1006"])

    def test_integers_of_several_ids_are_refused_where_ids_are_no_neighbours(self):
        a, _ = self.pair("--stripe", "1")
        c = self.client(a)
        c.call("SEQ", "CREATE", "orders")
        e = c.fails("INCRBY", "orders", 2)
        self.assertEqual(e.word, "BADARG")
        self.assertIn("BLOCK name n", str(e))
        self.assertEqual(c.call("INCRBY", "orders", 1), 1)

    def test_stripes_give_each_side_blocks_of_neighbours(self):
        a, b = (self.client(s) for s in self.pair("--stripe", "1000"))
        for c in (a, b):
            c.call("SEQ", "CREATE", "orders")
        ids_a, steps_a = self.take(a, 20, 100)
        ids_b, steps_b = self.take(b, 20, 100)
        self.assertEqual(ids_a, [*range(1, 1001), *range(2001, 3001)])
        self.assertEqual(ids_b, [*range(1001, 2001), *range(3001, 4001)])
        self.assertEqual(steps_a | steps_b, {1})

    def test_the_rest_of_a_stripe_is_skipped_or_taken(self):
        a, _ = self.pair("--stripe", "1000")
        c = self.client(a)
        c.call("SEQ", "CREATE", "orders")
        self.assertEqual(c.call("BLOCK", "orders", 990), [b"1", b"990", b"1"])
        self.assertEqual(c.call("BLOCK", "orders", 100, "ATLEAST", 5), [b"991", b"1000", b"1"])
        self.assertEqual(c.call("BLOCK", "orders", 990), [b"2001", b"2990", b"1"])
        self.assertEqual(c.call("BLOCK", "orders", 11), [b"4001", b"4011", b"1"])
        e = c.fails("BLOCK", "orders", 1001)
        self.assertEqual(e.word, "BADARG")
        self.assertIn("stripe", str(e))
        self.assertEqual(c.fails("INCRBY", "orders", 1001).word, "BADARG")
        self.assertEqual(c.call("BLOCK", "orders", 5000, "ATLEAST", 1000),
                         [b"6001", b"7000", b"1"])
        ids = c.call("NEXT", "orders", 1000)
        self.assertEqual(ids, [b"%d" % i for i in range(8001, 9001)])
        c.call("BLOCK", "orders", 999)
        self.assertEqual(c.call("NEXT", "orders", 3), [b"11000", b"12001", b"12002"])

    def test_a_start_is_the_first_id_of_the_lane_at_or_above_it(self):
        for stripe, start, first in ((1, 1000000, (1000001, 1000000)),
                                     (1000, 1500, (2001, 1500)),
                                     (1000, 2001, (2001, 3001))):
            for server, want in zip(self.pair("--stripe", str(stripe)), first):
                c = self.client(server)
                c.call("SEQ", "CREATE", "orders", "START", start)
                self.assertEqual(c.call("INCR", "orders"), want)

    def test_sequences_are_made_on_both_members_not_by_use(self):
        a, b = (self.client(s) for s in self.pair())
        a.call("SEQ", "CREATE", "orders")
        self.assertEqual(a.call("INCR", "orders"), 1)
        e = b.fails("INCR", "orders")
        self.assertEqual(e.word, "NOSEQ")
        self.assertIn("on the server of every lane", str(e))
        b.call("SEQ", "CREATE", "orders")
        self.assertEqual(b.call("INCR", "orders"), 100001)

    def test_restarts_of_both_stay_disjoint(self):
        servers = self.pair("--stripe", "1")
        ids = []
        for _ in range(4):
            for i, s in enumerate(servers):
                c = s.client()
                c.call("SEQ", "CREATE", "orders")
                ids += self.take(c, 30, 7)[0]
                c.close()
                s.kill() if i else s.stop()
                name = ("pair-a.conf", "pair-b.conf")[i]
                servers[i] = self.hilod("-c", os.path.join(CONFIGS, name), "--stripe", "1",
                                        data=s.data)
        self.disjoint(ids)

    def test_a_lane_that_contradicts_the_data_is_refused(self):
        a, _ = self.pair("--stripe", "1")
        a.stop()
        for flags, text in ((("--lane", "2/2"), "lane 1/2"), (("--lane", "1/3"), "lane 1/2"),
                            (("--lane", "1/1"), "lane 1/2"), (("--stripe", "2"), "stripe 1")):
            code, said = harness.refused_start(*flags, data=a.data)
            self.assertEqual(code, 78)
            self.assertIn(text, said)
            self.assertIn(flags[1], said)
        info = self.client(self.hilod(data=a.data)).info()
        self.assertEqual((info["lane"], info["lanes"], info["stripe"]), ("1", "2", "1"))

    def test_the_sample_configurations_run_as_they_are(self):
        """As the comment in the file says it, ports included, in a directory of its own."""
        tmp = self.tmp()
        shutil.copytree(CONFIGS, os.path.join(tmp, "configs"))
        for name, port in (("pair-a.conf", 4456), ("pair-b.conf", 4466)):
            proc = subprocess.Popen([harness.HILOD, "-c", "configs/" + name], cwd=tmp,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                line = proc.stdout.readline().decode()
                if not line:
                    # Somebody else's server may have the port; then it has to say so.
                    self.assertIn(b"127.0.0.1:%d: Address already in use" % port,
                                  proc.stderr.read())
                else:
                    self.assertEqual(line, "ready resp=127.0.0.1:%d\n" % port)
            finally:
                proc.terminate()
                proc.communicate(timeout=harness.DEADLINE)


if __name__ == "__main__":
    harness.main()
