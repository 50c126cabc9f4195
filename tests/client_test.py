"""client_test.py - libhilo against stub servers and real ones, through tests/driver.c."""

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import harness
import stub

DRIVER = os.path.join(os.path.dirname(os.path.abspath(harness.HILOD)), "tests", "driver")
RUN = re.compile(r"(\d+)-(\d+)/(\d+)")


class Failed(Exception):
    """An error of the library: .word, .ms it took, its message."""

    def __init__(self, line):
        _, self.word, ms, self.message = (line + " ").split(" ", 3)
        self.ms = float(ms)
        super().__init__(line)


class Driver:
    """A program with libhilo in it."""

    def __init__(self, wrap=(), env=None):
        self.err = tempfile.TemporaryFile("a+b")
        self.proc = subprocess.Popen([*wrap, DRIVER], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=self.err,
                                     env={**os.environ, **(env or {})})
        self.lock = threading.Lock()

    def start(self, *words):
        self.proc.stdin.write((" ".join(str(w) for w in words) + "\n").encode())
        self.proc.stdin.flush()

    def finish(self):
        line = self.proc.stdout.readline().decode().rstrip("\n")
        if line.startswith("ok"):
            return line[3:]
        if line.startswith("error "):
            raise Failed(line)
        raise AssertionError("the driver ended: %r\n%s" % (line, self.errors()))

    def call(self, *words):
        self.start(*words)
        return self.finish()

    def fails(self, *words):
        try:
            said = self.call(*words)
        except Failed as e:
            return e
        raise AssertionError("%r: %s, not an error" % (words, said))

    def ids(self, *words):
        return list(expand(self.call(*words)))

    def stats(self, seq=0):
        return {k: v if not v.isdigit() else int(v) for k, v in
                (pair.split("=") for pair in self.call("stats", seq).split())}

    def burst(self, seq, threads, count):
        words = self.call("burst", seq, threads, count).split()
        out = dict(w.split("=") for w in words if "=" in w)
        out["runs"] = [tuple(map(int, RUN.match(w).groups())) for w in words if RUN.match(w)]
        return out

    def errors(self):
        self.err.seek(0)
        return self.err.read().decode(errors="replace")

    def stop(self):
        if self.err.closed:
            return
        if self.proc.returncode is None:
            self.proc.stdin.close()
            self.proc.wait(harness.DEADLINE)
            self.proc.stdout.close()
        text = self.errors()
        self.err.close()
        if harness.SANITIZER.search(text) or self.proc.returncode != 0:
            raise AssertionError("exit code %s\n%s" % (self.proc.returncode, text))


def expand(text):
    for first, last, step in RUN.findall(text):
        yield from range(int(first), int(last) + 1, int(step))


class Case(harness.Case):
    @staticmethod
    def until_it_fails(d):
        """Uses up what is in hand and on its way; the error then."""
        for _ in range(100000):
            try:
                d.call("next", 0)
            except Failed as e:
                return e
        raise AssertionError("ids without end")

    def stub(self, **kw):
        s = stub.Stub(**kw)
        self.addCleanup(s.stop)
        return s

    def proxy(self, port_of):
        p = stub.Proxy(port_of)
        self.addCleanup(p.stop)
        return p

    def driver(self, *servers, seq="orders", options="", open_options="", **kw):
        """A driver with one handle and, unless seq is None, one sequence; number 0 both."""
        d = Driver(**kw)
        self.addCleanup(d.stop)
        if servers:
            d.call("open", ",".join(s if isinstance(s, str) else s.address for s in servers),
                   open_options)
            if seq:
                d.call("seq", 0, seq, options)
        return d


def address(server):
    return "127.0.0.1:%d" % server.port


class Basics(Case):
    def test_ids_from_a_real_server(self):
        server = self.hilod()
        d = self.driver(address(server))
        self.assertEqual(d.ids("next", 0, 5), [1, 2, 3, 4, 5])
        self.assertEqual(d.ids("many", 0, 3), [6, 7, 8])
        self.assertEqual(d.ids("try", 0), [9])
        self.assertEqual(d.ids("async", 0, 2), [10, 11])
        block = d.ids("block", 0, 10)
        self.assertEqual(len(block), 10)
        self.assertGreater(block[0], 11)
        self.assertEqual(d.ids("next", 0, 1000)[0], 12)

    def test_unix_socket(self):
        path = os.path.join(self.tmp(), "s")
        self.hilod("--unix", path)
        d = self.driver("unix:" + path)
        self.assertEqual(d.ids("next", 0, 3), [1, 2, 3])

    def test_a_host_name_is_looked_up(self):
        s = self.stub()
        d = self.driver("localhost:%d" % s.port)
        try:
            socket.getaddrinfo("localhost", s.port, proto=socket.IPPROTO_TCP)
        except socket.gaierror:  # a minimal system has no localhost
            self.assertIn("name lookup", d.fails("next", 0).message)
        else:
            self.assertEqual(d.ids("next", 0, 2), [1, 2])

    def test_a_name_nobody_knows(self):
        d = self.driver("no-such-host.invalid:4456", open_options="timeout_ms=300")
        e = d.fails("next", 0)
        self.assertEqual(e.word, "UNAVAIL")
        self.assertIn("no-such-host.invalid:4456", e.message)

    def test_options_out_of_range_are_named(self):
        d = self.driver()
        s = self.stub()
        for option, field in (("timeout_ms=0", "timeout_ms"), ("request_ms=0", "request_ms"),
                              ("timeout_ms=3600001", "timeout_ms"),
                              ("name=a\x01", "client_name"), ("password=" + "x" * 600, "password")):
            e = d.fails("open", s.address, option)
            self.assertEqual(e.word, "ARG")
            self.assertIn(field, e.message)
        for servers in ("", "localhost", "localhost:0", "localhost:70000", "::1:4456", "unix:",
                        ":4456", "unix:/" + "x" * 200, "a:1,b", "[::1]", "host:port",
                        ",".join("127.0.0.1:%d" % p for p in range(1, 18))):
            if servers:
                e = d.fails("open", servers)
                self.assertEqual(e.word, "ARG", servers)
                self.assertIn("servers", e.message)
        d.call("open", s.address)
        for option, field in (("block_min=0", "block_min"), ("block_max=0", "block_max"),
                              ("block_min=10 block_max=9", "block_min"),
                              ("block_max=1073741825", "block_max"),
                              ("hold_ms=86400001", "hold_ms"), ("local_ids=1000001", "local_ids")):
            e = d.fails("seq", 0, "orders", option)
            self.assertEqual(e.word, "ARG")
            self.assertIn(field, e.message)
        for name in ("-", "a,b", "x" * 129, "caf\u00e9"):
            e = d.fails("seq", 0, name)
            self.assertEqual(e.word, "ARG")
            self.assertIn("1 to 128", e.message)
        d.call("seq", 0, "x" * 128)
        self.assertEqual(s.accepted, 0)  # nothing is connected before an id is wanted

    def test_hilo_server_is_the_default_when_no_servers_are_given(self):
        s = self.stub()
        d = self.driver("-", env={"HILO_SERVER": s.address})  # - is NULL
        self.assertEqual(d.ids("next", 0), [1])
        self.assertEqual(d.fails("open", ",").word, "ARG")

    def test_two_handles_never_share_ids(self):
        """Blocks belong to a handle, not to a name."""
        a, b = self.stub(), self.stub(next_id=1000001)
        d = self.driver()
        d.call("open", a.address)
        d.call("open", b.address)
        d.call("seq", 0, "orders", "block_max=1000")
        d.call("seq", 1, "orders", "block_max=1000")
        of_a, of_b = [], []
        for _ in range(100):
            of_a += d.ids("next", 0, 50)
            of_b += d.ids("next", 1, 50)
        self.assertEqual(of_a, list(range(1, 5001)))
        self.assertEqual(of_b, list(range(1000001, 1005001)))
        d.call("close", 0)
        d.call("open", a.address)
        d.call("seq", 2, "orders")
        self.assertGreater(d.ids("next", 2)[0], a.blocks[-2][1] if len(a.blocks) > 1 else 5000)
        self.disjoint(of_a + d.ids("next", 2, 100))

    def test_local_ids_are_disjoint_and_end_with_their_handle(self):
        s = self.stub()
        d = self.driver(s, options="local_ids=100")
        self.assertEqual(d.ids("next", 0, 250), list(range(1, 251)))
        out = d.burst(0, 8, 10000)
        self.assertEqual((out["ok"], out["twice"]), ("80000", "0"))
        d.call("shut", 0)
        d.call("seq", 0, "other", "local_ids=100")  # the same row of each thread's table
        self.assertGreater(d.ids("next", 1)[0], max(last for _, last, _ in out["runs"]))

    def test_on_demand_takes_no_more_than_is_needed(self):
        s = self.stub()
        d = self.driver(s, options="on_demand=1 block_min=1")
        self.assertEqual(d.ids("next", 0, 3), [1, 2, 3])
        self.assertEqual(d.ids("many", 0, 5000), list(range(4, 5004)))
        self.assertEqual(d.stats()["in_hand"], 0)
        self.assertEqual(s.next_id, 5004)

    def test_stats(self):
        s = self.stub()
        d = self.driver(s, options="block_min=10 hold_ms=0")
        d.call("next", 0, 7)
        st = harness.wait_until(lambda: d.stats() if d.stats()["refills"] > 1 else None, "refill")
        self.assertEqual(st["granted"], 7)
        self.assertEqual(st["in_hand"], sum(b - a + 1 for a, b, _ in s.blocks) - 7)
        self.assertEqual(st["0.state"], "ready")
        self.assertEqual((st["0.lane"], st["0.failures"]), (1, 0))
        self.assertEqual(st["0.ids"], st["granted"] + st["in_hand"])


class Cache(Case):
    def test_a_thousand_callers_on_an_empty_cache(self):
        s = self.stub()
        s.delay = 0.02
        d = self.driver(s, options="block_min=50")
        out = d.burst(0, 1000 if "tsan" not in DRIVER else 300, 1)
        self.assertEqual((out["failed"], out["twice"]), ("0", "0"))
        self.assertEqual(s.most_in_flight, 1)
        self.assertLess(len(s.asked), 20)
        for threads in (1, 10, 100):
            out = d.burst(0, threads, 20)
            self.assertEqual((out["failed"], out["twice"]), ("0", "0"))
        self.assertEqual(s.most_in_flight, 1)

    def test_blocks_grow_with_demand_up_to_the_bound(self):
        s = self.stub()
        s.delay = 0.002
        d = self.driver(s, options="block_min=10 block_max=5000 hold_ms=0")
        d.burst(0, 4, 20000)
        sizes = [count for _, count, _ in s.asked]
        self.assertEqual(sizes[0], 10)
        self.assertEqual(max(sizes), 5000)
        for a, b in zip(sizes, sizes[1:]):
            self.assertLessEqual(b, max(8 * a, 10))

    def test_a_slow_consumer_takes_small_blocks_and_restarts_cost_one_of_them(self):
        """A crash loop must not eat the id space."""
        server = self.hilod()
        for i in range(100 if harness.LONG else 20):
            d = self.driver(address(server))
            last = d.ids("next", 0)[0]
            d.stop()
            self.assertLessEqual(last, 1 + 100 * i)

    def test_ids_rise_though_an_answer_comes_late(self):
        """One request at a time: a late answer can't overtake, or come twice."""
        s = self.stub()
        calls = []

        def block(name, count, floor):
            calls.append(count)
            if len(calls) == 2:
                time.sleep(0.3)  # a slow answer, within its time
            return s.block(name, count, floor)

        s.on_block = block
        d = self.driver(s, options="block_min=20 block_max=20 hold_ms=0")
        ids = d.ids("next", 0, 200)
        self.assertEqual(ids, sorted(set(ids)))
        self.assertEqual(ids, list(range(1, 201)))
        self.assertEqual(s.most_in_flight, 1)

    def test_an_answer_after_its_time_is_never_used(self):
        s = self.stub()
        released = threading.Event()
        late = []

        def block(name, count, floor):
            reply = s.block(name, count, floor)
            if not late:
                late.append(s.blocks[-1])
                released.wait(2)
            return reply

        s.on_block = block
        d = self.driver(s, open_options="request_ms=100 timeout_ms=20000",
                        options="block_min=10 block_max=10")
        ids = d.ids("next", 0, 10)
        released.set()
        ids += d.ids("next", 0, 30)
        first, last, _ = late[0]
        self.assertFalse(set(ids) & set(range(first, last + 1)))
        self.assertEqual(ids, sorted(set(ids)))

    def test_the_client_uses_what_was_granted_not_what_it_asked_for(self):
        server = self.hilod("--max-block", "1000")
        d = self.driver(address(server), options="block_min=5000 block_max=5000")
        e = self.driver(address(server), options="block_min=5000 block_max=5000")
        ids = d.ids("next", 0, 3000) + e.ids("next", 0, 3000)
        self.disjoint(ids)
        self.assertEqual(len(ids), 6000)

    def test_no_gap_at_the_start_and_none_below_it(self):
        data = self.tmp()
        ids = {1: [], 1000000: []}
        for size in (1, 10, 10):
            server = self.hilod(data=data)
            c = self.client(server)
            for start in ids:
                name = "from%d" % start
                if not ids[start]:
                    c.call("SEQ", "CREATE", name, "START", start)
                d = self.driver(address(server), seq=name)
                ids[start].append(d.ids("block", 0, size))
                d.stop()
            c.close()
            server.stop()
        for start, (a, b, c) in ids.items():
            self.assertEqual(a + b + c, list(range(start, start + 21)))


class Outage(Case):
    def test_ids_go_on_for_hold_ms_then_unavailable_at_the_deadline(self):
        a, b = self.stub(lane=1, lanes=2, stripe=1), self.stub(lane=2, lanes=2, stripe=1)
        d = self.driver(a, b, open_options="timeout_ms=700",
                        options="block_min=10 block_max=1000 hold_ms=3000")
        taken, begin = 0, time.monotonic()
        while time.monotonic() - begin < 1.5:  # a demand of some ids a second
            d.call("next", 0, 10)
            taken += 10
            time.sleep(0.01)
        rate = taken / (time.monotonic() - begin)
        for s in (a, b):
            s.stop()
        in_hand = d.stats()["in_hand"]
        self.assertGreater(in_hand, rate * 3 * 0.5)  # measured roughly on a busy machine
        d.call("next", 0, in_hand)
        self.until_it_fails(d)
        before = d.stats()["wakeups"]
        e = d.fails("next", 0)
        self.assertEqual(e.word, "UNAVAIL")
        self.assertGreaterEqual(e.ms, 690)
        self.assertIn(a.address, e.message)
        self.assertIn(b.address, e.message)
        self.assertIn("refused", e.message)
        # tries every 300 to 500 ms after the first few, and sleeps in between
        self.assertLess(d.stats()["wakeups"] - before, 60)
        back = stub.Stub(port=a.port, lane=1, lanes=2, stripe=1, uuid=a.fields["uuid"], boot="2-b",
                         next_id=a.next_id)
        self.addCleanup(back.stop)
        d.call("next", 0)
        self.assertGreater(back.accepted, 0)

    def test_ids_flow_soon_after_a_server_is_back(self):
        s = self.stub()
        d = self.driver(s, open_options="timeout_ms=3000", options="block_min=1 hold_ms=0")
        d.call("next", 0)
        s.stop()
        self.until_it_fails(d)
        d.start("next", 0)
        time.sleep(2)  # as long an outage as it takes for the longest pause
        back = stub.Stub(port=s.port, uuid=s.fields["uuid"], boot="2-b", next_id=s.next_id)
        self.addCleanup(back.stop)
        begin = time.monotonic()
        d.finish()
        self.assertLess(time.monotonic() - begin, 1 if "tsan" not in DRIVER else 5)

    def test_a_server_that_says_nothing_costs_one_time_limit_and_the_other_serves(self):
        quiet, other = (self.stub(lane=1, lanes=2, stripe=1, ), self.stub(lane=2, lanes=2, stripe=1))

        def hang(*_):
            raise stub.Hang()

        quiet.on_block = hang
        d = self.driver(quiet, other, open_options="request_ms=200 timeout_ms=20000",
                        options="block_min=10 block_max=10")
        ids = d.ids("next", 0)
        harness.wait_until(lambda: d.stats()["0.failures"] or ids.extend(d.ids("next", 0)),
                           "the silent one to be asked")
        ids += d.ids("next", 0, 100)
        self.assertTrue(all(i % 2 == 0 for i in ids))
        self.disjoint(ids)

    def test_a_stopped_process_is_passed_over(self):
        a, b = self.hilod("--lane", "1/2"), self.hilod("--lane", "2/2")
        for s in (a, b):
            self.client(s).call("SEQ", "CREATE", "orders")
        d = self.driver(address(a), address(b), open_options="request_ms=300 timeout_ms=20000",
                        options="block_min=1 block_max=10 hold_ms=0")
        d.call("next", 0, 20)
        a.proc.send_signal(signal.SIGSTOP)
        ids = []
        try:
            harness.wait_until(lambda: ids.extend(d.ids("next", 0, 20)) or
                               d.stats()["0.failures"] > 0, "the one that is stopped to be asked")
            ids += d.ids("next", 0, 100)
        finally:
            a.proc.send_signal(signal.SIGCONT)
        self.disjoint(ids)

    def test_a_connection_that_went_silent(self):
        """Nobody says that the peer is gone; the partner is used."""
        servers = [self.hilod("--lane", "%d/2" % i, "--auto-create", "yes") for i in (1, 2)]
        p = self.proxy(lambda: servers[0].port)
        d = self.driver(p, address(servers[1]), open_options="request_ms=200 timeout_ms=20000",
                        options="block_min=10 block_max=10 hold_ms=0")
        ids = d.ids("next", 0, 200)
        p.silent = True
        harness.wait_until(lambda: d.stats()["0.failures"] or ids.extend(d.ids("next", 0, 10)),
                           "the silent one to be asked")
        ids += d.ids("next", 0, 200)
        p.silent = False
        ids += d.ids("next", 0, 200)
        self.disjoint(ids)

    def test_primary_first(self):
        a, b = self.stub(lane=1, lanes=2, stripe=1), self.stub(lane=2, lanes=2, stripe=1)
        d = self.driver(a, b, open_options="policy=primary", options="block_max=100")
        d.call("next", 0, 1000)
        self.assertEqual(b.accepted, 0)
        a.stop()
        d.call("next", 0, 1000)
        self.assertGreater(len(b.blocks), 0)

    def test_a_primary_that_says_nothing(self):
        """The second is asked when the first one's time is over, with no fuss until then."""
        a, b = self.stub(lane=1, lanes=2, stripe=1), self.stub(lane=2, lanes=2, stripe=1)

        def hang(*_):
            raise stub.Hang()

        a.on_greeting = hang
        d = self.driver(a, b, open_options="policy=primary request_ms=300 timeout_ms=20000")
        self.assertEqual(d.ids("next", 0), [2])
        self.assertLess(d.stats()["wakeups"], 20)

    def test_a_primary_that_refuses(self):
        """It is there, but has no ids: the second is connected and asked."""
        for refusal in (b"-EXHAUSTED no ids left\r\n", b"-STORAGE the disk is full\r\n"):
            a, b = self.stub(lane=1, lanes=2, stripe=1), self.stub(lane=2, lanes=2, stripe=1)
            a.on_block = lambda *_, r=refusal: r
            d = self.driver(a, b, open_options="policy=primary timeout_ms=20000")
            self.assertEqual(d.ids("next", 0), [2])
            d.stop()

    def test_two_silent_ones_before_the_third(self):
        quiet = [self.stub(lane=i, lanes=3, stripe=1) for i in (1, 2)]
        third = self.stub(lane=3, lanes=3, stripe=1)

        def hang(*_):
            raise stub.Hang()

        tries = []

        def greeting(words):
            tries.append(quiet[1].accepted)
            return third.greeting(words)

        for s in quiet:
            s.on_greeting = hang
        third.on_greeting = greeting
        for _ in range(6):  # pauses are random
            before = quiet[1].accepted
            d = self.driver(*quiet, third, open_options="policy=primary request_ms=200 "
                            "timeout_ms=20000")
            d.call("next", 0)
            self.assertEqual(tries.pop(), before + 1)  # as soon as each had its time
            d.stop()

    def test_round_robin(self):
        a, b = self.stub(lane=1, lanes=2, stripe=1), self.stub(lane=2, lanes=2, stripe=1)
        d = self.driver(a, b, options="block_min=100 block_max=100 hold_ms=0")
        harness.wait_until(lambda: d.call("next", 0) and a.blocks and b.blocks, "both")
        before = len(a.blocks) - len(b.blocks)
        d.call("next", 0, 2000)
        self.assertLess(abs(len(a.blocks) - len(b.blocks) - before), 3)

    def test_a_pair_under_fire(self):
        """Threads take ids while members are killed: none twice, none that wasn't granted to this
        client, nobody waits past its time while one server lives."""
        data = [self.tmp(), self.tmp()]
        servers = [self.hilod("--lane", "%d/2" % (i + 1), "--auto-create", "yes", data=data[i])
                   for i in range(2)]
        proxies = [self.proxy(lambda i=i: servers[i].port) for i in range(2)]
        d = self.driver(*proxies, open_options="timeout_ms=20000 request_ms=500",
                        options="block_min=1 block_max=5000 hold_ms=0")
        count = 60000 if "san/" in DRIVER else 1250000  # ten million in all
        rng = random.Random(harness.SEED)
        rounds = 0
        d.start("burst", 0, 8, count)
        answered = threading.Event()
        said = []

        def wait():
            said.append(d.finish())
            answered.set()

        waiter = threading.Thread(target=wait, daemon=True)
        waiter.start()
        while rounds == 0 or not answered.wait(rng.random() * 0.1):
            i = rng.randrange(2)
            servers[i].kill()
            proxies[i].cut()
            servers[i] = self.hilod("--lane", "%d/2" % (i + 1), "--auto-create", "yes",
                                    data=data[i])
            rounds += 1
        waiter.join()
        words = said[0].split()
        out = dict(w.split("=") for w in words if "=" in w)
        print("%d kills, seed %d" % (rounds, harness.SEED))
        self.assertEqual((out["failed"], out["twice"], out["ok"]), ("0", "0", str(8 * count)))
        granted = sorted(b for p in proxies for b in p.blocks)
        for (_, last, _), (first, _, _) in zip(granted, granted[1:]):
            self.assertGreater(first, last)
        at = 0
        for first, last, step in (tuple(map(int, m)) for m in RUN.findall(said[0])):
            self.assertEqual(step, 1)
            while first <= last:  # a run may go over several blocks
                while granted[at][1] < first:
                    at += 1
                self.assertGreaterEqual(first, granted[at][0])
                first = granted[at][1] + 1
        self.assertGreater(rounds, 0)


class Tokens(Case):
    def pair(self):
        self.servers = [self.hilod("--lane", "%d/2" % i, "--auto-create", "yes") for i in (1, 2)]
        return ",".join(map(address, self.servers))

    @staticmethod
    def of_lane(lane):
        """Tokens that lane of two keeps."""
        def crc32c(data):
            crc = 0xffffffff
            for byte in data:
                crc ^= byte
                for _ in range(8):
                    crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
            return crc ^ 0xffffffff

        return [t for t in ("t%d" % i for i in range(100)) if crc32c(t.encode()) % 2 + 1 == lane]

    def test_the_same_block_from_whichever_program_and_order_of_servers(self):
        at = self.pair()
        d, e = self.driver(at), self.driver(",".join(reversed(at.split(","))))
        blocks = {t: d.call("block", 0, 10, t) for t in self.of_lane(1)[:10] + self.of_lane(2)[:10]}
        self.assertEqual(len(set(blocks.values())), 20)
        d.call("next", 0, 5000)  # what was seen since does not matter
        for token, block in blocks.items():
            self.assertEqual(e.call("block", 0, 10, token), block)
            self.assertEqual(d.call("block", 0, 10, token), block)
        self.assertEqual([self.client(s).info()["tokens"] for s in self.servers], ["10", "10"])
        self.assertEqual(d.fails("block", 0, 11, "t0").word, "TOKEN")
        self.assertEqual(d.fails("block", 0, 11, "x" * 129).word, "ARG")

    def test_while_its_lane_is_away_it_waits_and_says_so(self):
        d = self.driver(self.pair(), open_options="timeout_ms=300")
        mine, other = self.of_lane(1)[0], self.of_lane(2)[0]
        block = d.call("block", 0, 10, other)
        d.call("block", 0, 10, mine)
        self.servers[1].kill()
        e = d.fails("block", 0, 10, other)
        self.assertEqual(e.word, "UNAVAIL")
        self.assertIn(address(self.servers[1]), e.message)
        self.assertNotIn(address(self.servers[0]), e.message)
        d.call("block", 0, 10, mine)
        again = self.hilod("--lane", "2/2", data=self.servers[1].data,
                           listen=address(self.servers[1]))
        self.assertEqual(self.driver(address(again)).call("block", 0, 10, other), block)

    def test_a_lane_nobody_has(self):
        self.pair()
        d = self.driver(address(self.servers[0]))
        d.call("block", 0, 10, self.of_lane(1)[0])
        e = d.fails("block", 0, 10, self.of_lane(2)[0])
        self.assertEqual(e.word, "UNAVAIL")
        self.assertIn("none of the servers has the lane", e.message)

    def test_an_answer_that_was_lost_is_asked_for_again(self):
        server = self.hilod()
        proxy = self.proxy(lambda: server.port)
        d = self.driver(proxy, open_options="timeout_ms=20000 request_ms=300")
        d.call("block", 0, 10, "first")
        proxy.silent = True
        d.start("block", 0, 10, "lost")
        watch = self.client(server)
        harness.wait_until(lambda: watch.info()["tokens"] == "2", "the grant")
        proxy.silent = False
        block = d.finish()
        self.assertEqual(block, self.driver(address(server)).call("block", 0, 10, "lost"))
        self.assertEqual(watch.info()["tokens"], "2")


class Costs(Case):
    """Release build only: what the system and valgrind see."""

    def setUp(self):
        if "san/" in DRIVER:
            self.skipTest("another build")

    def test_no_system_call_while_a_block_lasts(self):
        path = os.path.join(self.tmp(), "trace")
        s = self.stub()
        d = self.driver(s, options="block_min=1000000 hold_ms=0",
                        wrap=("strace", "-D", "-f", "-o", path))

        def lines():
            """The trace, once the driver is seen waiting for its next line."""
            def settled():
                with open(path) as f:
                    all_lines = f.read().splitlines()
                return all_lines if any("read(0," in l for l in all_lines[-2:]) else None
            return harness.wait_until(settled, "strace to write it all")

        d.call("next", 0)
        harness.wait_until(lambda: d.stats()["refills"] == 1, "the block")
        for local in (False, True):
            if local:
                d.call("seq", 0, "other", "block_min=1000000 hold_ms=0 local_ids=1000")
                d.call("next", 1, 2000)
            before = len(lines())
            d.call("next", int(local), 100000)
            now = lines()[before:]
            # those of the driver: a line read, one written, memory for 100,000 ids
            self.assertLess(len(now), 20, now)
            self.assertEqual([l for l in now if re.search(r"futex|sendto|recv|write\((?!1,)", l)],
                             [])

    def test_a_refill_costs_few_system_calls(self):
        path = os.path.join(self.tmp(), "trace")
        s = self.stub()
        d = self.driver(s, options="block_min=1000 block_max=1000 hold_ms=0",
                        wrap=("strace", "-D", "-f", "-o", path))
        d.call("next", 0, 1000)
        harness.wait_until(lambda: d.stats()["in_hand"] >= 1000, "two blocks")
        with open(path) as f:
            before = len(f.readlines())
        refills = d.stats()["refills"]
        for _ in range(100):
            d.call("next", 0, 1000)
        with open(path) as f:
            now = f.readlines()[before:]
        refills = d.stats()["refills"] - refills
        loop = {l.split()[0] for l in now if "sendto(" in l}
        self.assertEqual(len(loop), 1)
        # woken, read why, sent, waited, received, waited
        calls = [l for l in now if l.split()[0] in loop and "resumed" not in l and "futex" not in l]
        self.assertGreater(refills, 90)
        self.assertLess(len(calls) / refills, 6.5)

    def test_valgrind_finds_nothing(self):
        server = self.hilod()
        d = self.driver(address(server), wrap=(
            "valgrind", "-q", "--leak-check=full", "--show-leak-kinds=all",
            "--errors-for-leak-kinds=definite,indirect,possible", "--error-exitcode=9"),
            open_options="timeout_ms=20000 request_ms=10000", options="block_max=500")
        self.assertEqual(d.ids("next", 0, 2000), list(range(1, 2001)))
        d.call("async", 0, 50)
        d.call("block", 0, 10)
        d.call("seq", 0, "local", "local_ids=10")
        self.assertEqual(d.burst(1, 4, 500)["twice"], "0")
        d.call("shut", 1)
        d.call("open", "127.0.0.1:1", "timeout_ms=300")
        d.call("seq", 1, "orders")
        self.assertEqual(d.fails("next", 2).word, "UNAVAIL")
        d.call("close", 1)
        d.call("close", 0)


class Fork(Case):
    def setUp(self):
        if "/tsan/" in DRIVER:  # it can't follow a fork of a program with threads
            self.skipTest("not under the thread sanitizer")

    def test_children_open_their_own(self):
        server = self.hilod()
        d = self.driver(address(server), open_options="timeout_ms=2000")
        d.call("next", 0)
        self.assertEqual(d.call("forks", 0, address(server), 4, 1000), "ids=5000 twice=0 bad=0")

    def test_a_request_is_on_its_way_while_forking(self):
        s = self.stub()
        d = self.driver(s, options="block_min=100 hold_ms=0", open_options="timeout_ms=20000 request_ms=10000")
        d.call("next", 0, 40)
        s.delay = 0.2
        d.call("next", 0, 20)  # past the refill point
        harness.wait_until(lambda: s.in_flight, "a request")
        socks = set(s.socks)
        self.assertEqual(d.call("forks", 0, s.address, 4, 200), "ids=1000 twice=0 bad=0")
        self.assertEqual(len(socks), 1)
        self.assertEqual(s.accepted, 5)  # each child has a connection of its own


class ForkWithoutWiping(Fork):
    """A kernel that can't wipe pages in a child: each call looks who it is."""

    def driver(self, *args, **kw):
        if "san/" in DRIVER:
            self.skipTest("another build")
        return super().driver(*args, env={"LD_PRELOAD": os.path.join(os.path.dirname(DRIVER),
                                                                     "nowipe.so")}, **kw)


class Callbacks(Case):
    def test_callbacks_that_close_what_they_came_from(self):
        """tests/callbacks.c, with a server that is slow, unknowing, or well."""
        s = self.stub()

        def block(name, count, floor):
            if name == "slow":
                raise stub.Hang()
            if name == "gone":
                return b"-NOSEQ no such sequence\r\n"
            return s.block(name, count, floor)

        s.on_block = block
        done = subprocess.run([os.path.join(os.path.dirname(DRIVER), "callbacks")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=harness.DEADLINE, env={**os.environ, "HILO_STUB": s.address})
        said = done.stdout.decode(errors="replace")
        self.assertEqual(done.returncode, 0, said)
        self.assertNotRegex(said, harness.SANITIZER)


class Hostile(Case):
    """No answer whatever yields a wrong id, a crash or much memory."""

    ANSWERS = {
        "not the protocol": b"hello\r\n",
        "an integer": b":5\r\n",
        "a status": b"+OK\r\n",
        "nil": b"$-1\r\n",
        "no array": b"*-1\r\n",
        "empty": b"*0\r\n",
        "two of three": stub.bulk(1, 100),
        "four": stub.bulk(1, 100, 1, 1),
        "nested": b"*3\r\n*1\r\n$1\r\n1\r\n$1\r\n9\r\n$1\r\n1\r\n",
        "words": stub.bulk("a", "b", "c"),
        "signs": stub.bulk("+1", "100", "1"),
        "leading zeros": stub.bulk("01", "100", "1"),
        "negative": stub.bulk("-5", "100", "1"),
        "zero": stub.bulk(0, 99, 1),
        "backwards": stub.bulk(100, 1, 1),
        "step 0": stub.bulk(1, 100, 0),
        "another step": stub.bulk(1, 199, 2),
        "off its step": stub.bulk(1, 100, 7),
        "more than asked for": stub.bulk(1, 10000000, 1),
        "past the end": stub.bulk(2**63 - 10, 2**63 + 5, 1),
        "over 64 bits": stub.bulk(1, 2**64 + 99, 1),
        "a long text": b"*3\r\n$1\r\n1\r\n$2000\r\n" + b"1" * 2000 + b"\r\n$1\r\n1\r\n",
        "a huge array": b"*2147483647\r\n",
        "a huge bulk": b"*3\r\n$9223372036854775807\r\n",
        "no end of line": b"*3" + b"\r" * 3 + b"\n",
        "endless": b"+" + b"x" * 100000,
        "a length too short": b"*3\r\n$1\r\n10\r\n$1\r\n1\r\n$1\r\n1\r\n",
        "deep": b"*1\r\n" * 10000,
    }

    def test_answers_that_make_no_sense(self):
        s = self.stub()
        for what, answer in self.ANSWERS.items():
            with self.subTest(what):
                s.on_block = lambda *_, a=answer: a
                d = self.driver(s, open_options="timeout_ms=400 request_ms=200")
                e = d.fails("next", 0)
                self.assertIn(e.word, ("PROTO", "TIMEDOUT", "UNAVAIL"), e)
                self.assertEqual(d.stats()["granted"], 0)
                d.stop()

    def test_greetings_that_make_no_sense(self):
        s = self.stub()
        for change in (dict(server="redis"), dict(lane=0), dict(lane=3), dict(lanes=0),
                       dict(lanes=5000), dict(stripe=0), dict(uuid=""), dict(uuid="x" * 100),
                       dict(boot="a b"), dict(epoch="x"), dict(shared=2), dict(stripe=2**64)):
            with self.subTest(str(change)):
                other = self.stub(lanes=2)
                other.fields.update(change)
                d = self.driver(other, open_options="timeout_ms=400")
                e = d.fails("next", 0)
                self.assertEqual(e.word, "PROTO", e)
                self.assertEqual(other.asked, [])
                d.stop()
        for missing in ("server", "uuid", "boot", "lane", "lanes", "stripe", "epoch", "shared"):
            other = self.stub()
            del other.fields[missing]
            d = self.driver(other, open_options="timeout_ms=400")
            self.assertEqual(d.fails("next", 0).word, "PROTO", missing)
            d.stop()
        for answer in self.ANSWERS.values():
            s.on_greeting = lambda *_, a=answer: a
            d = self.driver(s, open_options="timeout_ms=300 request_ms=200")
            self.assertIn(d.fails("next", 0).word, ("PROTO", "UNAVAIL"))
            d.stop()

    def test_a_lane_that_is_not_its_own(self):
        s = self.stub(lane=1, lanes=2, stripe=1)
        for first in (2, 4):
            s.on_block = lambda name, n, floor, f=first: stub.bulk(f, f + 2 * (n - 1), 2)
            d = self.driver(s, open_options="timeout_ms=400")
            e = d.fails("next", 0)
            self.assertEqual(e.word, "LANE", e)
            self.assertIn("1 of 2", e.message)
            d.stop()

    def test_a_block_over_the_end_of_its_stripe(self):
        s = self.stub(lane=1, lanes=2, stripe=100)
        s.on_block = lambda name, n, floor: stub.bulk(90, 209, 1)
        d = self.driver(s, options="block_min=200", open_options="timeout_ms=400")
        self.assertEqual(d.fails("next", 0).word, "LANE")

    def test_a_server_that_went_back(self):
        s = self.stub()
        d = self.driver(s, options="block_min=100 block_max=100 hold_ms=0",
                        open_options="timeout_ms=500")
        seen = d.ids("next", 0, 50)
        s.on_block = lambda name, n, floor: stub.bulk(10, 10 + n - 1, 1)
        e = self.until_it_fails(d)
        self.assertEqual(e.word, "REGRESS", e)
        self.assertIn("begins at 10", e.message)
        self.disjoint(seen)

    def test_one_block_for_two_requests_on_their_way(self):
        """Both carried the same floor; the second answer repeats the first."""
        s = self.stub()
        held = []

        def serve(sock):
            requests = stub.Requests()
            while True:
                for words in requests.feed(sock.recv(65536) or b"*0\r\n"):
                    if not words:
                        return
                    if words[0] == b"HELLO":
                        sock.sendall(s.greeting(words))
                        continue
                    held.append(words)
                    if len(held) == 2:  # the callers' two blocks
                        sock.sendall(stub.bulk(11, 20, 1) * 2)

        s.serve = serve
        d = self.driver(s, open_options="timeout_ms=1000 request_ms=800")
        words = d.call("blocks", 0, 2, 10).split()
        self.assertEqual(words.count("11-20/1"), 1, words)

    def test_floors_go_with_every_request(self):
        s = self.stub()
        d = self.driver(s, options="block_min=10 block_max=10 hold_ms=0")
        d.call("next", 0, 100)
        floors = [floor for _, _, floor in s.asked]
        self.assertEqual(floors[0], 0)
        self.assertEqual(floors[1:], [last for _, last, _ in s.blocks][:len(floors) - 1])

    def test_an_old_copy_is_put_back(self):
        """What this client has seen lifts the server above it; a new store in its place is
        refused."""
        data = self.tmp()
        server = self.hilod(data=data)
        port = server.port
        d = self.driver(address(server), options="block_min=1000 block_max=1000 hold_ms=0",
                        open_options="timeout_ms=5000")
        seen = d.ids("next", 0, 10000)
        server.stop()
        old = os.path.join(self.tmp(), "old")
        shutil.copytree(data, old)
        server = self.hilod(data=data, listen="127.0.0.1:%d" % port)
        seen += d.ids("next", 0, 40000)
        server.stop()
        server = self.hilod(data=old, listen="127.0.0.1:%d" % port)
        seen += d.ids("next", 0, d.stats()["in_hand"])
        more = d.ids("next", 0, 5000)
        self.assertGreater(more[0], max(seen))
        self.disjoint(seen + more)
        server.stop()
        self.hilod(listen="127.0.0.1:%d" % port)
        e = self.until_it_fails(d)
        self.assertEqual(e.word, "LANE")
        self.assertIn("different stores", e.message)

    def test_an_old_copy_without_its_witness_that_floors_may_not_lift(self):
        """Nothing of what was seen comes again: the server is further behind than a floor may skip,
        so it is refused, in words that say what to do."""
        server = self.hilod()
        c = self.client(server)
        c.call("SEQ", "CREATE", "orders", "MAX", 10**6)
        d = self.driver(address(server), options="block_min=1000 block_max=1000 hold_ms=0",
                        open_options="timeout_ms=1000")
        seen = d.ids("next", 0, 10000)
        c.call("BACKUP", "copy")
        seen += d.ids("next", 0, 40000)
        c.close()
        server.kill()
        old = os.path.join(self.tmp(), "old")
        os.mkdir(old)
        shutil.copy(os.path.join(server.data, "backup", "copy"), os.path.join(old, "hilo.db"))
        server = self.hilod("--skip", "1", data=old, listen=address(server))
        seen += d.ids("next", 0, d.stats()["in_hand"])
        e = d.fails("next", 0)
        self.assertEqual(e.word, "REGRESS", e)
        self.assertIn("FLOOR is %d" % max(seen), e.message)
        self.assertIn("SEQ ADVANCE orders %d" % max(seen), e.message)
        self.client(server).call("SEQ", "ADVANCE", "orders", max(seen))

        def asked_again():  # a server that has refused is left alone for a moment
            try:
                return d.ids("next", 0, 3000)
            except Failed as e:
                self.assertEqual(e.word, "REGRESS", e)
                return None

        more = harness.wait_until(asked_again, "the server to be asked again")
        self.assertEqual(more[0], max(seen) + 1)
        self.disjoint(seen + more)

    def test_what_was_had_outlives_its_sequence(self):
        """Closed and opened again, or open twice: the same floor."""
        s = self.stub()
        d = self.driver(s, options="block_min=100 block_max=100 hold_ms=0 on_demand=1",
                        open_options="timeout_ms=500")
        d.call("next", 0, 100)
        d.call("seq", 0, "orders", "block_min=10 on_demand=1")
        d.call("next", 1)
        d.call("shut", 0)
        d.call("shut", 1)
        d.call("seq", 0, "orders", "block_min=10 on_demand=1")
        d.call("next", 2)
        self.assertEqual([floor for _, _, floor in s.asked], [0, 100, 110])
        s.on_block = lambda name, n, floor: stub.bulk(1, n, 1)
        d.call("seq", 0, "orders")
        self.assertEqual(d.fails("next", 3).word, "REGRESS")

    def test_half_an_answer_then_nothing_and_then_the_end(self):
        for behave in ("hang", "cut"):
            s = self.stub()

            def serve(sock, s=s, behave=behave):
                requests = stub.Requests()
                while True:
                    data = sock.recv(65536)
                    if not data:
                        return
                    for words in requests.feed(data):
                        reply = s.answer(words)
                        if words[0] == b"BLOCK":
                            sock.sendall(reply[:len(reply) // 2])
                            if behave == "cut":
                                raise stub.Cut()
                        else:
                            sock.sendall(reply)

            s.serve = serve
            d = self.driver(s, open_options="timeout_ms=500 request_ms=100")
            self.assertIn(d.fails("next", 0).word, ("UNAVAIL", "TIMEDOUT"))
            d.stop()

    def test_answers_one_byte_at_a_time_and_two_at_once(self):
        s = self.stub()

        def serve(sock):
            requests = stub.Requests()
            while True:
                data = sock.recv(65536)
                if not data:
                    return
                for words in requests.feed(data):
                    for byte in s.answer(words):
                        sock.sendall(bytes([byte]))

        s.serve = serve
        d = self.driver(s, options="block_min=10 block_max=10")
        self.assertEqual(d.ids("next", 0, 100), list(range(1, 101)))
        t = self.stub()
        t.on_block = lambda *a: t.block(*a) + t.block(*a)
        d = self.driver(t, open_options="timeout_ms=500")
        ids = d.ids("next", 0, 10)  # the first answer is good, the second answers nothing
        self.assertEqual(ids, list(range(ids[0], ids[0] + 10)))

    def test_memory_stays_small(self):
        s = self.stub()
        s.on_block = lambda *_: b"*3\r\n$1000\r\n" + b"1" * 1000 + b"\r\n" * 100000
        d = self.driver(s, open_options="timeout_ms=100 request_ms=100")
        d.fails("next", 0)
        if "san" in DRIVER:
            return

        def resident():
            with open("/proc/%d/statm" % d.proc.pid) as f:
                return int(f.read().split()[1]) * 4096

        before = resident()
        for _ in range(20):
            d.fails("next", 0)
        self.assertLess(resident() - before, 1 << 20)


class Identity(Case):
    def test_two_stores_in_one_lane(self):
        a, b = self.stub(lane=1, lanes=2, stripe=1), self.stub(lane=1, lanes=2, stripe=1)
        d = self.driver(a, b, options="block_min=100 block_max=100 hold_ms=0")
        e = self.until_it_fails(d)
        self.assertEqual(e.word, "LANE")
        self.assertIn(a.address, e.message)
        self.assertIn(b.address, e.message)
        self.assertIn("claim lane 1 of 2", e.message)
        self.assertEqual([d.stats()["%d.state" % i] for i in range(2)], ["refused"] * 2)
        used = [s for s in (a, b) if s.blocks]
        self.assertLessEqual(len(used), 1)

    def test_the_lane_goes_on_when_the_other_store_is_gone(self):
        a, b = self.stub(lane=1, lanes=2, stripe=1), self.stub()
        port = b.port
        b.stop()
        d = self.driver(a, "127.0.0.1:%d" % port,
                        options="block_min=100 block_max=100 hold_ms=0")
        ids = d.ids("next", 0, 1000)
        b = self.stub(lane=1, lanes=2, stripe=1, port=port)
        self.assertEqual(self.until_it_fails(d).word, "LANE")
        b.stop()

        def goes_on():
            try:
                return d.ids("next", 0, 1)
            except Failed as e:
                self.assertIn(e.word, ("LANE", "UNAVAIL", "TIMEDOUT"))
                return []

        more = harness.wait_until(goes_on, "the lane's own store")
        self.disjoint(ids + more + d.ids("next", 0, 1000))
        self.assertEqual(b.blocks, [])

    def test_real_servers_of_one_parity(self):
        """Both started as odd by mistake."""
        a, b = (self.hilod("--lane", "1/2", "--stripe", "1", "--auto-create", "yes")
                for _ in range(2))
        d = self.driver(address(a), address(b), options="block_max=500 hold_ms=0")
        e = self.until_it_fails(d)
        self.assertEqual(e.word, "LANE")
        self.assertIn("claim lane 1 of 2", e.message)
        st = d.stats()
        self.assertIn(0, (st["0.ids"], st["1.ids"]))

    def test_other_layouts(self):
        for change in (dict(lanes=3), dict(stripe=2)):
            a = self.stub(lane=1, lanes=2, stripe=1)
            b = self.stub(lane=2, **{**dict(lanes=2, stripe=1), **change})
            d = self.driver(a, b, options="block_min=100 block_max=100 hold_ms=0")
            self.assertEqual(self.until_it_fails(d).word, "LANE")
            self.assertLessEqual(len([s for s in (a, b) if s.blocks]), 1)
            d.stop()

    def test_a_higher_epoch_ends_the_lower(self):
        old, new = self.stub(epoch=1), self.stub(epoch=2, lane=1, lanes=2, stripe=1, next_id=100001)
        d = self.driver(old, new, options="block_min=10 block_max=10 hold_ms=0")
        ids = d.ids("next", 0, 500)
        self.disjoint(ids)
        harness.wait_until(lambda: d.stats()["0.state"] == "refused", "the old layout to go", 20)
        blocks = len(old.blocks)
        ids += d.ids("next", 0, 500)
        tried = old.accepted
        harness.wait_until(lambda: ids.extend(d.ids("next", 0, 10)) or old.accepted > tried,
                           "the old layout to be tried again")
        ids += d.ids("next", 0, 500)
        self.disjoint(ids)
        self.assertEqual(len(old.blocks), blocks)

    def test_a_restart_is_welcome_a_copy_is_not(self):
        s = self.stub(uuid="u", boot="1-a")
        d = self.driver(s, options="block_min=10 block_max=10 hold_ms=0",
                        open_options="timeout_ms=5000")
        d.call("next", 0, 30)
        s.fields["boot"] = "2-b"
        s.cut()
        d.call("next", 0, 30)  # started anew
        s.fields["boot"] = "1-a"
        s.cut()
        e = self.until_it_fails(d)
        self.assertEqual(e.word, "LANE", e)
        self.assertIn("copy", e.message)

    def test_two_copies_at_two_addresses(self):
        a, b = self.stub(uuid="u", boot="1-a"), self.stub(uuid="u", boot="2-b")
        d = self.driver(a, b, options="block_min=10 block_max=10 hold_ms=0",
                        open_options="timeout_ms=3000")
        ids = []
        with self.assertRaises(Failed) as failed:
            for _ in range(10000):
                ids += d.ids("next", 0)
        self.disjoint(ids)
        self.assertEqual(failed.exception.word, "LANE")

    def test_two_addresses_of_one_server(self):
        path = os.path.join(self.tmp(), "s")
        server = self.hilod("--unix", path)
        d = self.driver(address(server), "unix:" + path, options="block_max=100 hold_ms=0")
        self.assertEqual(d.ids("next", 0, 5000), list(range(1, 5001)))

    def test_servers_that_share_an_engine(self):
        a = self.stub(uuid="u", boot="1-a", shared=1)
        b = self.stub(uuid="u", boot="1-b", shared=1, next_id=1000001)
        d = self.driver(a, b, options="block_min=100 block_max=100 hold_ms=0")
        ids = []
        harness.wait_until(lambda: ids.extend(d.ids("next", 0, 1000)) or a.blocks and b.blocks,
                           "both to be asked")
        ids += d.ids("next", 0, 5000)
        self.disjoint(ids)
        for s in (a, b):  # each has a floor of its own
            self.assertTrue(all(floor < s.blocks[-1][1] for _, _, floor in s.asked))


class Refusals(Case):
    def test_exhausted(self):
        server = self.hilod()
        self.client(server).call("SEQ", "CREATE", "few", "MAX", 10)
        d = self.driver(address(server), seq="few")
        self.assertEqual(d.ids("next", 0, 10), list(range(1, 11)))
        e = d.fails("next", 0)
        self.assertEqual(e.word, "EXHAUSTED")
        self.assertLess(e.ms, 1500)
        self.client(server).call("SEQ", "ALTER", "few", "MAX", 20)
        harness.wait_until(lambda: self.tried(d), "ids after the bound was raised")

    @staticmethod
    def tried(d):
        try:
            return d.ids("try", 0)
        except Failed:
            return None

    def test_no_such_sequence(self):
        server = self.hilod("--auto-create", "no")
        d = self.driver(address(server))
        e = d.fails("next", 0)
        self.assertEqual(e.word, "NOSEQ")
        self.assertIn("SEQ CREATE", e.message)
        e = d.fails("async", 0, 3)
        self.assertEqual(e.word, "NOSEQ")
        e = d.fails("block", 0, 3)
        self.assertEqual(e.word, "NOSEQ")

    def test_one_of_two_has_ids(self):
        a, b = self.stub(lane=1, lanes=2, stripe=1), self.stub(lane=2, lanes=2, stripe=1)
        a.on_block = lambda *_: b"-EXHAUSTED no ids left\r\n"
        d = self.driver(a, b, options="block_min=10 block_max=10")
        self.assertTrue(all(i % 2 == 0 for i in d.ids("next", 0, 500)))
        b.on_block = lambda *_: b"-EXHAUSTED none here\r\n"
        e = self.until_it_fails(d)
        self.assertEqual(e.word, "EXHAUSTED")
        self.assertIn("none here", e.message)
        self.assertIn("no ids left", e.message)

    def test_a_server_in_trouble_is_asked_again(self):
        s = self.stub()
        tries = []

        def block(*args):
            tries.append(1)
            if len(tries) < 4:
                return b"-STORAGE the disk is full\r\n"
            return s.block(*args)

        s.on_block = block
        d = self.driver(s, open_options="timeout_ms=20000")
        self.assertEqual(d.ids("next", 0), [1])
        s.on_block = lambda *_: b"-STORAGE the disk is full\r\n"
        d = self.driver(s, open_options="timeout_ms=300")
        e = d.fails("next", 0)
        self.assertEqual(e.word, "STORAGE")
        self.assertIn("disk is full", e.message)
        self.assertGreaterEqual(e.ms, 290)

    def test_login(self):
        path = os.path.join(self.tmp(), "pw")
        with open(path, "w") as f:
            f.write("correct-horse-battery\n")
        os.chmod(path, 0o600)
        server = self.hilod("--password-file", path)
        d = self.driver(address(server), open_options="password=correct-horse-battery")
        self.assertEqual(d.ids("next", 0), [1])
        for options in ("password=wrong-horse-battery", ""):
            d = self.driver(address(server), open_options=options + " timeout_ms=5000")
            e = d.fails("next", 0)
            self.assertEqual(e.word, "AUTH", e)
        open_server = self.hilod()
        d = self.driver(address(open_server), open_options="password=whatever-it-is")
        self.assertEqual(d.fails("next", 0).word, "AUTH")

    def test_not_a_hilod(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            d = self.driver("127.0.0.1:%d" % other.getsockname()[1],
                            open_options="timeout_ms=300 request_ms=100")
            e = d.fails("next", 0)
            self.assertEqual(e.word, "UNAVAIL")
            self.assertIn("greeting", e.message)

    def test_control_bytes_of_a_server_reach_nobody(self):
        s = self.stub()
        s.on_block = lambda *_: b"-NOSEQ \x1b[31mred\x07\x00\r\n"
        d = self.driver(s)
        e = d.fails("next", 0)
        self.assertEqual(e.word, "NOSEQ")
        self.assertTrue(e.message.isprintable(), repr(e.message))

    def test_block_is_not_asked_for_twice(self):
        s = self.stub()

        def cut(*_):
            raise stub.Cut()

        s.on_block = cut
        d = self.driver(s, open_options="timeout_ms=1000")
        self.assertEqual(d.fails("block", 0, 10).word, "UNAVAIL")
        self.assertEqual(len([a for a in s.asked if a[1] == 10]), 1)


if __name__ == "__main__":
    harness.main()
