"""token_test.py - grants that can be asked for again."""

import os
import random
import sqlite3
import threading
import time

import harness
from harness import Client, wait_until
from stub import Proxy


class Tokens(harness.Case):
    def setUp(self):
        self.start()

    def start(self, *args, data=None, **kw):
        self.server = self.hilod(*args, data=data, **kw)
        self.c = self.client(self.server)

    def block(self, name="a", count=10, token="t", *more, c=None):
        return tuple(int(x) for x in (c or self.c).call("BLOCK", name, count, "TOKEN", token, *more))

    def test_the_same_again(self):
        for durability in ("ahead", "each"):
            self.c.call("SEQ", "CREATE", durability, "DURABILITY", durability)
            first = self.block(durability, 10, "t" + durability)
            self.assertEqual(first, (1, 10, 1))
            self.c.call("BLOCK", durability, 5)
            self.assertEqual(self.block(durability, 10, "t" + durability), first)
            self.assertEqual(self.block(durability, 10, "t" + durability, c=self.client(self.server)), first)
            self.assertEqual(self.block(durability, 10, "t" + durability, "FLOOR", 10**6), first)
            self.assertEqual(self.block(durability, 10, "u" + durability), (16, 25, 1))
            self.assertEqual(int(self.c.call("BLOCK", durability, 1)[0]), 26)
        self.assertEqual(self.c.info()["tokens"], "4")
        self.assertEqual(self.c.info()["token_repeats"], "6")

    def test_after_a_crash_and_after_a_stop(self):
        for end in (harness.Hilod.kill, harness.Hilod.stop):
            blocks = {t: self.block("a", 7, t) for t in ("x" + end.__name__, "y" + end.__name__)}
            end(self.server)
            self.start(data=self.server.data)
            for t, b in blocks.items():
                self.assertEqual(self.block("a", 7, t), b)
            fresh = self.block("a", 7, "z" + end.__name__)
            self.assertGreater(fresh[0], max(b[1] for b in blocks.values()))

    def test_another_request(self):
        self.block("a", 10, "t")
        for args in (("a", 11), ("a", 11, "ATLEAST", 10), ("b", 10), ("a", 10, "ATLEAST", 5)):
            self.assertEqual(self.c.fails("BLOCK", *args, "TOKEN", "t").word, "TOKEN", args)
        self.block("a", 10, "t")

    def test_what_a_token_may_be(self):
        for good in ("x", "!~", "x" * 128, "\"'{}"):
            self.block("a", 1, good)
        for bad in ("", "x" * 129, "a b", "a\n", "\x7f", "\xe9"):
            self.assertEqual(self.c.fails("BLOCK", "a", 1, "TOKEN", bad).word, "BADARG", bad)
        self.assertEqual(self.c.fails("BLOCK", "a", 1, "TOKEN").word, "BADARG")
        self.assertEqual(self.c.fails("BLOCK", "a", 1, "TOKEN", "x", "TOKEN", "y").word, "BADARG")

    def test_a_refusal_leaves_no_token(self):
        self.c.call("SEQ", "CREATE", "small", "MAX", 5)
        self.assertEqual(self.c.fails("BLOCK", "small", 10, "TOKEN", "t").word, "EXHAUSTED")
        self.assertEqual(self.c.info()["tokens"], "0")
        self.c.call("SEQ", "ALTER", "small", "MAX", 50)
        self.assertEqual(self.block("small", 10, "t"), (1, 10, 1))
        self.c.call("SEQ", "RETIRE", "small")
        self.assertEqual(self.block("small", 10, "t"), (1, 10, 1))
        self.assertEqual(self.c.fails("BLOCK", "small", 10, "TOKEN", "new").word, "NOSEQ")

    def test_many_at_once_get_one_block(self):
        for durability in ("ahead", "each"):
            self.c.call("SEQ", "CREATE", durability, "DURABILITY", durability)
            clients = [self.client(self.server) for _ in range(20)]
            for i in range(20):
                for c in clients:
                    c.start("BLOCK", durability, 3, "TOKEN", "%s%d" % (durability, i))
                self.assertEqual(len({tuple(c.reply()) for c in clients}), 1)

    def test_a_pipeline_keeps_its_order(self):
        c = self.c
        c.send(b"".join(Client.encode("BLOCK", "a", 2, "TOKEN", "t%d" % (i % 30)) +
                        Client.encode("INCR", "a") + Client.encode("BLOCK", "b", 1, "TOKEN", "t0")
                        for i in range(60)))
        blocks, ids = {}, []
        for i in range(60):
            block = tuple(map(int, c.reply()))
            self.assertEqual(blocks.setdefault(i % 30, block), block)
            ids.append(c.reply())
            self.assertEqual(c.reply().word, "TOKEN")
        ids += [n for a, b, _ in blocks.values() for n in range(a, b + 1)]
        self.disjoint(ids)

    def test_who_leaves_may_come_back_for_it(self):
        for i in range(50):
            with self.server.client() as c:
                c.start("BLOCK", "a", 3, "TOKEN", "t%d" % i)
            block = self.block("a", 3, "t%d" % i)
            self.assertEqual(self.block("a", 3, "t%d" % i), block)

    def test_they_are_bounded_and_none_goes_early(self):
        self.start("--max-tokens", "5")
        blocks = [self.block("a", 1, "t%d" % i) for i in range(5)]
        e = self.c.fails("BLOCK", "a", 1, "TOKEN", "more")
        self.assertEqual(e.word, "TOKEN")
        self.assertIn("max_tokens", str(e))
        self.assertEqual([self.block("a", 1, "t%d" % i) for i in range(5)], blocks)
        self.start("--max-tokens", "0")
        self.assertEqual(self.c.fails("BLOCK", "a", 1, "TOKEN", "t").word, "TOKEN")

    def test_they_end_after_their_time(self):
        self.start("--token-ttl", "1")
        first = self.block("a", 1, "t")
        wait_until(lambda: self.c.info()["tokens"] == "0", "the token to go")
        self.assertGreater(self.block("a", 1, "t"), first)
        self.server.kill()
        db = sqlite3.connect(os.path.join(self.server.data, "hilo.db"))
        self.assertEqual(db.execute("SELECT count(*) FROM token").fetchone(), (1,))
        db.close()

    def test_none_ends_before_its_time(self):
        self.start("--token-ttl", "1")
        old, claimed = self.block("a", 1, "old"), []

        def old_is_gone():
            claimed.append((time.monotonic(), self.block("a", 1, "young%d" % len(claimed))))
            return self.block("a", 1, "old") != old

        wait_until(old_is_gone, "the old one to go")
        gone = time.monotonic()
        for i, (at, block) in enumerate(claimed):
            if at > gone - 0.5:
                again = self.block("a", 1, "young%d" % i)
                self.assertTrue(again == block or time.monotonic() > at + 0.9, (again, block))

    def test_many_end_in_portions(self):
        self.start("--token-ttl", "2")
        for i in range(0, 5000, 500):
            self.c.send(b"".join(Client.encode("BLOCK", "a", 1, "TOKEN", "t%d" % k)
                                 for k in range(i, i + 500)))
            [self.c.reply() for _ in range(500)]
        wait_until(lambda: self.c.info()["tokens"] == "0", "the tokens to go")

    def test_time_stands_still_while_it_does_not_run(self):
        self.start("--token-ttl", "60")
        first = self.block("a", 1, "t")
        self.server.stop()
        db = sqlite3.connect(os.path.join(self.server.data, "hilo.db"))
        self.assertLess(db.execute("SELECT at FROM token").fetchone()[0], 60000)
        db.close()
        self.start("--token-ttl", "60", data=self.server.data)
        self.assertEqual(self.block("a", 1, "t"), first)

    def test_crashes_under_load_repeat_nothing_and_forget_nothing(self):
        known, ids, lock = {}, {}, threading.Lock()
        for round_ in range(12 if harness.LONG else 4):
            stop = threading.Event()

            def load(k):
                rng = random.Random(harness.SEED + 100 * round_ + k)
                try:
                    with self.server.client() as c:
                        while not stop.is_set():
                            token = "t%d" % rng.randrange(3000)
                            b = tuple(map(int, c.call("BLOCK", "a", 1 + len(token) % 3, "TOKEN", token)))
                            with lock:
                                assert known.setdefault(token, b) == b, (token, known[token], b)
                                assert ids.setdefault(b[0], token) == token
                except (harness.Closed, OSError):
                    pass
                except AssertionError as e:
                    wrong.append(e)

            wrong, goal = [], len(known) + 150
            threads = [threading.Thread(target=load, args=(k,)) for k in range(6)]
            [t.start() for t in threads]
            wait_until(lambda: len(known) > goal or wrong, "load")
            self.server.kill()
            stop.set()
            [t.join() for t in threads]
            self.assertEqual(wrong, [])
            self.start(data=self.server.data)
        for token, b in list(known.items())[:300]:
            self.assertEqual(self.block("a", 1 + len(token) % 3, token), b)
        self.disjoint([n for a, b, _ in known.values() for n in range(a, b + 1)])


class LostAnswers(harness.Case):
    """The server is killed at about the moment of the grant, and the answer does not get through:
    nobody knows what came of it, so it is asked for again."""

    ROUNDS = 40 if "san/" in harness.HILOD else 200

    def setUp(self):
        self.rng = random.Random(harness.SEED)
        self.data = self.tmp()
        self.start()
        for name in ("ahead", "each"):
            self.c.call("SEQ", "CREATE", name, "DURABILITY", name)
        self.proxy = Proxy(lambda: self.server.port)
        self.addCleanup(self.proxy.stop)

    def start(self):
        self.server = self.hilod("--log-level", "error", data=self.data)
        self.c = self.client(self.server)

    def lose(self, request, surely):
        """Asks, and kills the server: the block it granted, if the proxy saw one. Surely: not
        before it has."""
        seen = len(self.proxy.blocks)
        self.proxy.silent = True
        with Client(self.proxy.port) as asking:
            asking.start(*request)
            if surely:
                wait_until(lambda: len(self.proxy.blocks) > seen, "the grant")
            else:
                threading.Event().wait(self.rng.random() * 0.003)  # the moment, no condition
            self.server.kill()
            self.c.close()
            self.assertTrue(asking.at_end())
        self.proxy.silent = False
        self.start()
        return self.proxy.blocks[seen] if len(self.proxy.blocks) > seen else None

    def test_asked_for_again_they_repeat_with_a_token_only(self):
        acknowledged = {"ahead": [(0, 0)], "each": [(0, 0)]}
        for i in range(self.ROUNDS):
            name, token = ("ahead", "each")[i // 2 % 2], ("TOKEN", "t%d" % i) if i % 2 else ()
            request = ("BLOCK", name, 10, *token)
            granted = self.lose(request, surely=i % 3 == 0)
            highest = acknowledged[name][-1][1]
            counter = int(self.c.call("GET", name) or 0)
            self.assertGreaterEqual(counter, max(highest, granted[1] if granted else 0))
            with Client(self.proxy.port) as again:
                block = tuple(map(int, again.call(*request)))
            self.assertEqual(block[1] - block[0], 9)
            self.assertGreater(block[0], highest)
            if granted and token:
                self.assertEqual(block, granted)
            elif granted:
                self.assertGreater(block[0], granted[1])
            if name == "each":  # without a token it has moved for each time that it was asked
                once = 10 if granted and token else 20
                self.assertLessEqual(int(self.c.call("GET", name)), highest + once)
            acknowledged[name].append(block[:2])
        for blocks in acknowledged.values():
            self.disjoint([n for a, b in blocks[1:] for n in range(a, b + 1)])


if __name__ == "__main__":
    harness.main()
