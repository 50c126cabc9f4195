"""trace_test.py - what strace sees: nothing is acknowledged before it is on disk."""

import os
import re

import harness

SYNC = re.compile(r"(fdatasync|fsync)\(")


class Trace(harness.Case):
    def traced(self, also=""):
        path = os.path.join(self.tmp(), "trace")
        server = self.hilod(wrap=("strace", "-D", "-f", "-y", "-o", path, "-s", "64", "-e",
                                  "trace=fdatasync,fsync,sync_file_range,recvfrom,sendto" + also))
        return server, path

    def lines(self, server, path, last):
        """The trace, once it holds the send of the last answer."""

        def all_lines():
            with open(path) as f:
                lines = f.read().splitlines()
            return lines if any(last in l for l in lines) else None

        return harness.wait_until(all_lines, "the trace")

    @staticmethod
    def find(lines, text, at=0):
        for i in range(at, len(lines)):
            if text in lines[i]:
                return i
        raise AssertionError("%r is not in:\n%s" % (text, "\n".join(lines[at:])))

    def test_each_answers_after_the_sync_that_covers_it(self):
        server, path = self.traced()
        c = self.client(server)
        c.call("SEQ", "CREATE", "s", "START", 7001, "DURABILITY", "each")
        c.call("INCR", "s")
        self.assertEqual(c.call("INCR", "s"), 7002)
        lines = self.lines(server, path, r'":7002\r\n"')
        asked = self.find(lines, "INCR", self.find(lines, r'":7001\r\n"'))
        answered = self.find(lines, r'":7002\r\n"', asked)
        between = lines[asked:answered]
        begun = [l for l in between if SYNC.search(l)]
        ended = [l for l in between if re.search(r"(fdatasync|fsync).*= 0$", l)]
        self.assertEqual(len(begun), 1, between)
        self.assertEqual(len(ended), 1, "the answer went out before the sync had ended")

    @staticmethod
    def synced(lines, name):
        """How many syncs of the file have begun and ended within the lines."""
        done = 0
        for i, line in enumerate(lines):
            if SYNC.search(line) and name in line:
                mine = [l for l in lines[i:] if l.split()[0] == line.split()[0]]
                done += mine[0].endswith("= 0") or (
                    len(mine) > 1 and "resumed" in mine[1] and mine[1].endswith("= 0"))
        return done

    def test_what_is_not_in_hand_is_answered_after_database_and_witness_are_synced(self):
        """The first id of a chunk; and a block with a token, which comes out of the chunk in hand
        but has to be known after a crash."""
        server, path = self.traced()
        c = self.client(server)
        self.assertEqual(c.call("INCR", "s"), 1)  # first the sequence, then a chunk
        self.assertEqual(c.call("BLOCK", "s", 10, "TOKEN", "tok"), [b"2", b"11", b"1"])
        lines = self.lines(server, path, r'"*3\r\n$1\r\n2')
        for request, answer, syncs in (
                ("INCR", r'":1\r\n"', {"/hilo.db-wal": 2, "/hilo.witness": 2}),
                ("TOKEN", r'"*3\r\n$1\r\n2', {"/hilo.db-wal": 1})):
            asked = self.find(lines, request)
            between = lines[asked:self.find(lines, answer, asked)]
            for name, count in syncs.items():
                self.assertEqual(self.synced(between, name), count, (name, between))

    def test_ahead_never_waits_for_a_sync(self):
        """Whoever has the loop answers what is in hand; chunks are fetched by the other thread."""
        server, path = self.traced()
        c = self.client(server)
        first = c.call("INCR", "s")
        self.assertEqual(c.call("INCR", "s"), first + 1)
        for _ in range(2000):
            last = c.call("INCR", "s")
        lines = self.lines(server, path, r'":%d\r\n"' % last)
        lines = lines[self.find(lines, r'":1\r\n"'):]
        self.assertGreater(len([l for l in lines if SYNC.search(l)]), 1)
        asked = None
        for l in lines:
            thread = l.split()[0]
            if "recvfrom" in l and "INCR" in l:
                asked = thread
            elif "sendto(" in l and asked is not None:
                self.assertEqual(thread, asked, "who asked was answered by the other thread")
                asked = None
            elif SYNC.search(l):
                self.assertNotEqual(thread, asked, "a sync before the answer")
        # An id that lies in the chunk in hand is answered with no sync by anyone.
        asked = self.find(lines, "INCR")
        answered = self.find(lines, r'":2\r\n"', asked)
        self.assertEqual([l for l in lines[asked:answered] if SYNC.search(l)], [])

    def test_nothing_waits_for_a_timer(self):
        """What is decided is answered in the same turn of the loop or the next, not when the
        loop happens to wake because its ticker ticks, four times a second."""
        server, path = self.traced(also=",read")
        c = self.client(server)
        for i in range(20):
            c.start("SEQ", "CREATE", "s%d" % i)
            c.start("SEQ", "CREATE", "e%d" % i, "DURABILITY", "each")
            c.start("INCR", "e%d" % i)
        c.start("ECHO", "the last")
        while c.reply() != b"the last":
            pass
        lines = self.lines(server, path, "the last")
        at = self.find(lines, "SEQ")
        ticks = [l for l in lines[at:self.find(lines, "the last", at)] if "timerfd" in l]
        self.assertLess(len(ticks), 10, ticks)  # commits take a while, too

    def test_info_counts_the_syncs_there_are(self):
        server, path = self.traced()
        c = self.client(server)
        c.call("SEQ", "CREATE", "s", "DURABILITY", "each")
        for _ in range(100):
            last = c.call("INCR", "s")
        counted = int(c.info()["syncs"])
        lines = self.lines(server, path, r'":%d\r\n"' % last)
        on_database = [l for l in lines if SYNC.search(l) and "/hilo.db" in l]
        self.assertEqual(len(on_database), counted)
        self.assertGreater(counted, 100)

    def test_many_clients_share_syncs(self):
        server = self.hilod()
        setup = self.client(server)
        setup.call("SEQ", "CREATE", "s", "DURABILITY", "each")
        clients = [self.client(server) for _ in range(64)]
        before = setup.info()
        ids = []
        for _ in range(50):
            for c in clients:
                c.start("INCR", "s")
            ids += [c.reply() for c in clients]
        after = setup.info()
        self.assertEqual(sorted(ids), list(range(1, 3201)))
        syncs = int(after["syncs"]) - int(before["syncs"])
        self.assertGreater(syncs, 0)
        self.assertLessEqual(syncs, 0.2 * len(ids))
        self.assertEqual(int(after["grants"]) - int(before["grants"]), len(ids))


if __name__ == "__main__":
    harness.main()
