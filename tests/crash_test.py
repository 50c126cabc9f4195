"""crash_test.py - kill -9 under load: no id twice, none out of bounds, none above the disk.

Each round floods servers over several connections, kills them at a random moment and looks at
every reply that came back, at the marks on disk as the crash left them, and at what the next
round's ids begin with.
"""

import bisect
import itertools
import random
import threading

import harness
from harness import Client

ROUNDS = 100 if harness.LONG else 10
CONNECTIONS = 4
START, MAX = 1000, 10**15
SMALL_MAX = 60000  # used up on the way


class Flood:
    """A connection that sends the commands over and over, without waiting, until the server is
    gone, and keeps what comes back."""

    def __init__(self, server, picks):
        self.client = server.client()
        encoded = [Client.encode(*command) for _, command in picks]
        self.picks, self.stream = picks, b"".join(encoded)
        self.ends = list(itertools.accumulate(len(e) for e in encoded))
        self.sent = 0  # bytes the kernel took
        self.received = []
        self.sender = threading.Thread(target=self._send)
        self.receiver = threading.Thread(target=self._receive)

    def start(self):
        self.sender.start()
        self.receiver.start()

    def _send(self):
        try:
            while True:
                self.sent += self.client.sock.send(
                    memoryview(self.stream)[self.sent % len(self.stream):])
        except OSError:
            pass

    def _receive(self):
        try:
            while True:
                data = self.client.sock.recv(1 << 18)
                if not data:
                    return
                self.received.append(data)
        except OSError:
            pass

    def commands_sent(self):
        """How many commands went out whole."""
        rounds, rest = divmod(self.sent, len(self.stream))
        return rounds * len(self.picks) + bisect.bisect_right(self.ends, rest)

    def replies(self):
        """(command, integers) of every reply that came whole before the kill; an error reply
        has none. Lines are all there is to these replies, which makes parsing them cheap."""
        self.sender.join()
        self.receiver.join()
        self.client.close()
        lines = b"".join(self.received).split(b"\r\n")
        out, at, end = [], 0, len(lines) - 1
        for command in itertools.cycle(self.picks):
            if at >= end:
                break
            kind = lines[at][:1]
            if kind == b"*":
                n = int(lines[at][1:])
                if at + 2 * n >= end:
                    break
                out.append((command, [int(i) for i in lines[at + 2:at + 2 * n + 1:2]]))
                at += 2 * n + 1
            elif kind == b":":
                out.append((command, [int(lines[at][1:])]))
                at += 1
            else:
                if lines[at].split(b" ")[0] not in (b"-EXHAUSTED", b"-STORAGE"):
                    raise AssertionError(lines[at])
                out.append((command, []))
                at += 1
        return out


class Member:
    """One server of the pair (or the only one) with its data and what is known of it."""

    def __init__(self, case, lane, lanes, stripe):
        self.case, self.lane, self.lanes, self.stripe = case, lane, lanes, stripe
        self.data = case.tmp()
        self.highest = {}  # name: last id acknowledged in earlier rounds
        self.server = None

    def start(self):
        self.server = self.case.hilod("--lane", "%d/%d" % (self.lane, self.lanes),
                                      "--stripe", str(self.stripe), "--log-level", "error",
                                      data=self.data)

    def position(self, an_id):
        """Where DESIGN puts the id; the id has to be this lane's."""
        stripe, rest = divmod(an_id - 1, self.stripe)
        group, lane = divmod(stripe, self.lanes)
        self.case.assertEqual(lane, self.lane - 1, "id %d of another lane" % an_id)
        return group * self.stripe + rest


class Crash(harness.Case):
    def commands(self, rng):
        """Grants on both sequences: (sequence, command)."""
        kinds = [("big", ("INCR", "big")), ("big", ("NEXT", "big", 3)),
                 ("big", ("BLOCK", "big", rng.randrange(1, 50))),
                 ("big", ("BLOCK", "big", 100, "ATLEAST", 1)),
                 ("small", ("INCR", "small")), ("small", ("BLOCK", "small", 2))]
        return [rng.choice(kinds) for _ in range(2000)]

    def granted(self, flood, unanswered):
        """Runs (first, last, step) by name of all that a connection was told."""
        replies = flood.replies()
        unanswered.append(flood.commands_sent() - len(replies))
        out = {"big": [], "small": []}
        for (name, command), ids in replies:
            if command[0] == "BLOCK" and ids:
                out[name].append(tuple(ids))
            else:
                out[name] += [(i, i, 1) for i in ids]
        return out

    def check(self, member, granted):
        """Order, bounds, no id twice; all below the mark."""
        marks = dict(harness.rows(member.data, "SELECT name, mark FROM counter"))
        for name, runs in granted.items():
            runs.sort()
            last = member.highest.get(name, 0)
            for first, end, step in runs:
                self.assertGreater(first, last, "%s: granted before" % name)
                self.assertLessEqual(first, end)
                last = end
            if not runs:
                continue
            self.assertGreaterEqual(runs[0][0], START)
            self.assertLessEqual(last, SMALL_MAX if name == "small" else MAX)
            for first, end, _ in runs:
                member.position(first)
            self.assertLess(member.position(last), marks[name], "above the mark on disk")
            member.highest[name] = last

    def round(self, members, durability, rng):
        floods, unanswered = [], []
        for m in members:
            m.start()
            with m.server.client() as c:
                for name, top in (("big", MAX), ("small", SMALL_MAX)):
                    c.call("SEQ", "CREATE", name, "START", START, "MAX", top,
                           "DURABILITY", durability)
            picks = self.commands(rng)
            floods += [(m, Flood(m.server, picks)) for _ in range(CONNECTIONS)]
        for _, f in floods:
            f.start()
        harness.wait_until(lambda: all(f.received for _, f in floods), "replies")
        threading.Event().wait(rng.random() * 0.01)  # the moment of the kill, not a condition
        for m in members:
            m.server.kill()
        for m in members:
            all_of_it = {"big": [], "small": []}
            for owner, f in floods:
                if owner is m:
                    for name, runs in self.granted(f, unanswered).items():
                        all_of_it[name] += runs
            self.check(m, all_of_it)
        return any(n > 0 for n in unanswered)

    def rounds(self, lanes, stripe, durability):
        rng = random.Random(harness.SEED)
        members = [Member(self, i + 1, lanes, stripe) for i in range(lanes)]
        cut = sum(self.round(members, durability, rng) for _ in range(ROUNDS))
        self.assertGreaterEqual(cut, ROUNDS * 8 // 10, "rounds with a request unanswered")
        self.assertTrue(all(m.highest["big"] for m in members))

    def test_one_server_ahead(self):
        self.rounds(1, 100000, "ahead")

    def test_one_server_each(self):
        self.rounds(1, 100000, "each")

    def test_pair_ahead(self):
        self.rounds(2, 1, "ahead")

    def test_pair_each(self):
        self.rounds(2, 1000, "each")


if __name__ == "__main__":
    harness.main()
