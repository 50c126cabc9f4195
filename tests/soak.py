"""soak.py - hours or seconds of load on real servers that are killed, and a proof that no promise
was broken.

    SOAK_SECONDS=600 HILO_SEED=n soak.py

A pair and a single server grant ids to programs with libhilo (tests/driver.c) and to clients that
speak RESP (tests/soak_client.py). At random moments a server or a client is killed with SIGKILL;
now and then a server is stopped cleanly. The checker hears of each grant through a pipe of the
client's: what a client did not say before it was killed was not acknowledged. It proves that

  - no id is acknowledged twice, per sequence over all servers of a deployment;
  - each lies below the mark that a copy of the killed server's database has, before the next start;
  - what is asked for after an answer lies above it, on one server, over its crashes too;
  - a token that was answered gets the same block again after a crash;
  - a crash leaves no larger gap than the chunk in hand, the one reserved ahead and what was under
    way; so does a killed program with libhilo, of its own blocks;
  - a database that was not put back is never taken for one that was.

The first violation is printed and ends it, with exit code 1. Memory is bounded by the gaps, not by
the ids.
"""

import collections
import os
import random
import re
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time

import harness
from ledger import Lane, Order, Runs, pieces
from soak_client import BATCH, BLOCK, NAMES

HERE = os.path.dirname(os.path.abspath(__file__))
DRIVER = os.path.join(os.path.dirname(harness.HILOD), "tests", "driver")
RUN = re.compile(r"(\d+)-(\d+)/(\d+)")
STRIPE = 5000
LIBRARY = "library"  # the sequence that programs with libhilo draw on
LIB_BLOCK = 2000  # ids of their blocks, at most
LIB_TOKEN = 50  # ids of a block with a token, which is not cut at a stripe's end
CLIENTS = 2  # of each server, in RESP
TOKENS = 200  # asked for again by the checker, the youngest of each server
PAUSE = 0.5  # seconds between two disturbances, at most
AWAY = ("UNAVAIL", "TIMEDOUT", "TRYAGAIN", "STORAGE")  # errors of a server that is away


class Violation(Exception):
    """A promise was broken."""


class Sequence:
    """One sequence on one server."""

    def __init__(self):
        self.runs, self.order = Runs(), Order()
        self.grants = collections.defaultdict(list)  # by life
        self.mark = 0  # at the last kill


class Server:
    """A server with its data, through all its lives."""

    def __init__(self, root, name, lane):
        self.name, self.lane = name, lane
        self.where = os.path.join(root, name)
        self.data = os.path.join(self.where, "data")
        os.mkdir(self.where)
        self.hilod, self.life = None, 0
        self.seqs = {n: Sequence() for n in (*NAMES, LIBRARY)}
        self.tokens = collections.OrderedDict()  # token: (name, first, last, step)
        self.ended = []  # Ends of lives that are not checked yet
        self.clients_killed = 0  # in this life

    def start(self):
        self.hilod = harness.Hilod(
            "--lane", "%d/%d" % (self.lane.number, self.lane.lanes), "--stripe", str(STRIPE),
            "--unix", os.path.join(self.where, "sock"), "--auto-create", "no",
            "--max-tokens", "10000000", "--log-level", "warning", data=self.data)
        self.life += 1
        self.clients_killed = 0
        with self.hilod.client() as c:
            for name in self.seqs:
                c.call("SEQ", "CREATE", name, "DURABILITY", "each" if name == "each" else "ahead")
            info = c.info()
            if info["behind_at_start"] != "0":
                raise Violation("%s thinks its database was put back:\n%s" %
                                (self.name, self.hilod.errors()))
            for token, (name, *block) in list(self.tokens.items()):
                reply = c.call("BLOCK", name, block[1] - block[0] + 1, "TOKEN", token)
                if list(map(int, reply)) != block:
                    raise Violation("%s: token %s of %s was granted %s, and after a restart %s" %
                                    (self.name, token, name, block, reply))
        port = os.path.join(self.where, "port")
        with open(port + ".new", "w") as f:
            f.write(str(self.hilod.port))
        os.rename(port + ".new", port)

    def end(self, cleanly):
        if cleanly:
            self.hilod.stop()
        else:
            self.hilod.kill()
        said = self.hilod.errors()
        self.hilod.cleanup()
        if harness.SANITIZER.search(said):
            raise Violation(self.name + ":\n" + said)
        return End(self, cleanly)


class End:
    """What a life left on the disk."""

    def __init__(self, server, cleanly):
        self.life, self.cleanly = server.life, cleanly
        self.under_way = (CLIENTS + server.clients_killed) * 2 * BATCH
        self.marks = dict(harness.rows(server.data, "SELECT name, mark FROM counter"))
        self.chunks = self._chunks(server)

    def _chunks(self, server):
        """The size of the last two chunks of each sequence, together, which its witness tells;
        that of all there was when the witness is too young to know."""
        marks = {name: [0] for name in self.marks}
        with open(os.path.join(server.data, "hilo.witness"), "rb") as f:
            for line in f:
                words = line.decode().split()
                if words[0] == "m" and line.endswith(b"\n"):
                    mark, known = server.lane.above(int(words[2])), marks[words[1]]
                    while known and known[-1] >= mark:  # a tail was given back
                        known.pop()
                    known.append(mark)
        for name, mark in self.marks.items():
            if mark > marks[name][-1]:  # committed; the kill came before its line
                marks[name].append(mark)
        return {name: m[-1] - m[max(0, len(m) - 3)] for name, m in marks.items()}


class RespClient:
    """A process of soak_client.py."""

    def __init__(self, server, kind, seed):
        self.server = server
        self.proc = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "soak_client.py"), server.where, kind, str(seed)],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.fd = self.proc.stdout.fileno()
        self.life, self.buf = 0, b""

    def kill(self):
        self.proc.kill()
        self.server.clients_killed += 1


class LibClient(threading.Thread):
    """A process of driver.c and the thread that tells it what to take."""

    def __init__(self, soak, servers, seed):
        super().__init__(daemon=True)
        self.soak, self.servers, self.rng = soak, servers, random.Random(seed)
        self.proc = subprocess.Popen([DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.highest = [-1] * len(servers)
        self.prefix = "lib-%016x" % self.rng.getrandbits(64)  # numbers of processes come again
        self.tokens, self.known = 0, []
        self.start()

    def kill(self):
        self.proc.kill()

    def call(self, *words):
        """What it says, or None where it has ended; half a line is nothing."""
        try:
            self.proc.stdin.write((" ".join(map(str, words)) + "\n").encode())
            self.proc.stdin.flush()
        except OSError:
            return None
        line = self.proc.stdout.readline().decode()
        return line if line.endswith("\n") else None

    def take(self, count, *words):
        """The runs it took; None where it was refused, for now."""
        said = self.call(*words)
        if said is None:
            raise EOFError
        if said.startswith("ok"):
            return [tuple(map(int, m)) for m in RUN.findall(said)]
        if said.split()[1] not in AWAY:
            raise Violation("libhilo: %s: %s" % (" ".join(map(str, words)), said.strip()))
        self.soak.refused += 1
        self.soak.given_up += count
        return None

    def check_order(self, runs):
        for run in runs:
            for lane, start, end in pieces([s.lane for s in self.servers], *run):
                if start <= self.highest[lane]:
                    raise Violation("libhilo handed out %s, no higher than before" % (run,))
                self.highest[lane] = end - 1

    def once(self):
        kind, count = self.rng.randrange(4), self.rng.randrange(1, LIB_BLOCK)
        if kind == 0:
            runs = self.take(count, "next", 0, count)
        elif kind == 1:
            runs = self.take(count, "many", 0, count)
        elif kind == 2:
            runs = self.take(0, "burst", 0, 4, count)  # says what it took all the same
        else:
            self.token()
            return
        if runs:
            self.check_order(runs)
            self.soak.lib_granted(self.servers, runs)

    def token(self):
        if self.known and self.rng.randrange(4) == 0:
            token, block = self.rng.choice(self.known)
            again = self.take(0, "block", 0, LIB_TOKEN, token)
            if again is not None and again != block:
                raise Violation("libhilo: token %s was granted %s and then %s" %
                                (token, block, again))
            return
        self.tokens += 1
        token = "%s-%d" % (self.prefix, self.tokens)
        block = self.take(LIB_TOKEN, "block", 0, LIB_TOKEN, token)
        if block:
            self.known = (self.known + [(token, block)])[-20:]
            self.soak.lib_granted(self.servers, block)

    def run(self):
        try:
            addresses = ",".join("unix:%s/sock" % s.where for s in self.servers)
            self.take(0, "open", addresses, "timeout_ms=2000", "request_ms=500")
            self.take(0, "seq", 0, LIBRARY, "block_max=%d" % LIB_BLOCK, "hold_ms=0")
            while True:
                self.once()
        except EOFError:
            if self.proc.wait() != -signal.SIGKILL:
                self.soak.fail("a program with libhilo ended: %d" % self.proc.returncode)
        except Violation as v:
            self.soak.fail(str(v))


class Soak:
    def __init__(self, root, seed):
        self.rng = random.Random(seed)
        lanes = [Lane(i, 2, STRIPE) for i in (1, 2)]
        self.pair = [Server(root, "lane%d" % l.number, l) for l in lanes]
        self.single = Server(root, "single", Lane(1, 1, STRIPE))
        self.servers = [*self.pair, self.single]
        self.lock = threading.RLock()
        self.over = threading.Event()
        self.violation = None
        self.selector = selectors.DefaultSelector()
        self.resp, self.lib = [], []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.answers = self.refused = self.given_up = self.ids = self.tokens = 0
        self.kills = self.stops = self.resp_kills = self.lib_kills = 0
        self.lost = collections.Counter()  # by sequence
        self.most_lost = (0, 0)  # of one crash, and what it may be
        self.lib_bound = 0  # ids that programs with libhilo may have lost to crashes

    def fail(self, what):
        with self.lock:
            if self.violation is None and not self.over.is_set():
                self.violation = what
        self.over.set()

    # --- what clients say ---

    def granted(self, server, name, first, last, step):
        """A run of one server; its first and last position."""
        start, end = server.lane.position(first), server.lane.position(last)
        if start is None or end is None or end - start != last - first or step != 1:
            raise Violation("%s granted %d to %d, step %d, of %s: not all of them are of its lane" %
                            (server.name, first, last, step, name))
        self.add(server, name, start, end + 1)
        return start, end

    def add(self, server, name, start, end):
        twice = server.seqs[name].runs.add(start, end)
        if twice is not None:
            raise Violation("%s: position %d of %s was granted twice, now in %d to %d; the "
                            "highest was %d" % (server.name, twice, name, start, end - 1,
                                                server.seqs[name].runs.last()))
        self.ids += end - start

    def lib_granted(self, servers, runs):
        with self.lock:
            self.answers += 1
            for run in runs:
                for lane, start, end in pieces([s.lane for s in servers], *run):
                    self.add(servers[lane], LIBRARY, start, end)

    def heard(self, client, line):
        words = line.decode().split(" ")
        server = client.server
        if words[0] == "begin":
            client.life = int(words[1])
            self.check_lives(server)
        elif words[0] == "refused":
            if words[1] not in AWAY:
                raise Violation("%s: %s" % (server.name, line.decode()))
            self.refused += 1
        elif words[0] in ("grant", "token"):
            sent, answered, name = int(words[1]), int(words[2]), words[3]
            run = tuple(map(int, words[4:7]))
            first, last = self.granted(server, name, *run)
            self.answers += 1
            repeated = words[0] == "token" and words[8] == "1"
            server.seqs[name].grants[client.life].append((sent, answered, first, last, repeated))
            if words[0] == "token":
                self.tokens += 1
                server.tokens[words[7]] = (name, *run)
                if len(server.tokens) > TOKENS:
                    server.tokens.popitem(last=False)
        else:
            raise Violation("%s: %s" % (server.name, line.decode()))

    def read(self):
        """A thread: everything that comes through the pipes."""
        try:
            while self.resp or not self.over.is_set():
                for key, _ in self.selector.select(0.1):
                    self.read_one(key.data)
        except Violation as v:
            self.fail(str(v))

    def read_one(self, client):
        data = os.read(client.fd, 1 << 16)
        with self.lock:
            lines = (client.buf + data).split(b"\n")
            client.buf = lines.pop()
            for line in lines:
                self.heard(client, line)
            if not data:  # it was killed; a torn line was never said
                self.selector.unregister(client.fd)
                client.proc.stdout.close()
                self.resp.remove(client)
                if client.proc.wait() != -signal.SIGKILL:
                    raise Violation("a RESP client ended by itself, see above")
                self.check_lives(client.server)

    # --- lives that are over ---

    def check_lives(self, server):
        """Those of which everything has been heard: whoever may still speak has begun a later
        one."""
        now = min((c.life for c in self.resp if c.server is server), default=server.life + 1)
        while server.ended and server.ended[0].life < now:
            self.check_life(server, server.ended.pop(0))

    def check_life(self, server, end):
        for name in NAMES:
            seq, mark = server.seqs[name], end.marks[name]
            low = seq.order.check(seq.grants.pop(end.life, []))
            if low is not None:
                raise Violation("%s: life %d granted %s from position %d on, though %d was "
                                "answered before it was asked for" %
                                (server.name, end.life, name, low[0][2], low[1]))
            if seq.order.highest >= mark or seq.mark > mark:
                raise Violation("%s: life %d ended with position %d of %s granted, and began with "
                                "the mark %d; its mark on disk is %d" %
                                (server.name, end.life, seq.order.highest, name, seq.mark, mark))
            lost = seq.runs.missing(seq.mark, mark)
            bound = (0 if end.cleanly else end.chunks[name]) + end.under_way
            if server.lane.lanes > 1:  # a block that does not fit a stripe leaves its rest
                bound += ((mark - seq.mark) // STRIPE + 1) * BLOCK
            if lost > bound:
                raise Violation("%s: life %d and its end lost %d ids of %s; more than %d, the last "
                                "two chunks and what was under way" %
                                (server.name, end.life, lost, name, bound))
            self.lost[name] += lost
            self.most_lost = max(self.most_lost, (lost, bound))
            seq.mark = mark

    def server_ended(self, server, cleanly):
        """The server's end and what it means for the programs with libhilo, of whose ids nobody
        knows when they were granted."""
        end = server.end(cleanly)
        with self.lock:
            seq = server.seqs[LIBRARY]
            last, mark = seq.runs.last(), end.marks[LIBRARY]
            if last >= mark:
                raise Violation("%s: position %d of %s was handed out, its mark on disk is %d" %
                                (server.name, last, LIBRARY, mark))
            seq.mark = mark
            self.lib_bound += (0 if end.cleanly else end.chunks[LIBRARY]) + 6 * LIB_BLOCK
            server.ended.append(end)

    # --- the run ---

    def add_resp(self, server):
        client = RespClient(server, self.rng.choice(("tcp", "unix")), self.rng.randrange(1 << 32))
        with self.lock:
            self.resp.append(client)
            self.selector.register(client.fd, selectors.EVENT_READ, client)

    def add_lib(self, servers):
        self.lib.append(LibClient(self, servers, self.rng.randrange(1 << 32)))

    def disturb(self):
        kind = self.rng.randrange(10)
        if kind < 5:
            server = self.rng.choice(self.servers)
            cleanly = kind == 0
            self.server_ended(server, cleanly)
            self.stops += cleanly
            self.kills += not cleanly
            server.start()
        elif kind < 8:
            with self.lock:
                client = self.rng.choice([c for c in self.resp if c.proc.poll() is None])
                client.kill()
            client.proc.wait()
            self.resp_kills += 1
            self.add_resp(client.server)
        else:
            client = self.rng.choice(self.lib)
            client.kill()
            client.join()
            self.lib.remove(client)
            self.lib_kills += 1
            self.lib_bound += 4 * LIB_BLOCK
            self.add_lib(client.servers)

    def run(self, seconds):
        try:
            for server in self.servers:
                server.start()
            for server in self.servers:
                for _ in range(CLIENTS):
                    self.add_resp(server)
            for servers in (self.pair, self.pair, [self.single]):
                self.add_lib(servers)
            self.reader.start()
            begin = told = time.monotonic()
            while time.monotonic() < begin + seconds:
                if self.over.wait(self.rng.random() ** 2 * PAUSE):  # the moment of the next kill
                    break
                self.disturb()
                if time.monotonic() > told + 30:
                    told = time.monotonic()
                    print("%4d s: %s" % (told - begin, self.figures(told - begin)), flush=True)
            self.seconds = time.monotonic() - begin
            self.finish()
        except Violation as v:
            self.fail(str(v))
        except AssertionError as e:  # of the harness: a server did not start or stop
            self.fail(str(e))
        finally:
            self.clean_up()
        return self.violation

    def finish(self):
        """Everybody is killed, everything is heard; then a start, and an end in order."""
        for client in [*self.lib, *self.resp]:
            client.kill()
        for client in self.lib:
            client.join()
        harness.wait_until(lambda: not self.resp or self.violation, "the pipes to end")
        self.lib_bound += 4 * LIB_BLOCK * len(self.lib)
        if self.violation:
            return
        for server in self.servers:
            for name, seq in server.seqs.items():
                if seq.runs.last() < 0:
                    raise Violation("%s granted nothing of %s" % (server.name, name))
            for cleanly in (False, True):
                self.server_ended(server, cleanly)
                with self.lock:
                    self.check_lives(server)
                if not cleanly:
                    server.start()
        self.check_library()

    def check_library(self):
        """What programs with libhilo and the servers lost together, stripes' ends included."""
        lost = skipped = 0
        for server in self.servers:
            seq = server.seqs[LIBRARY]
            lost += seq.runs.missing(0, seq.mark)
            skipped += (seq.mark // STRIPE + 1) * LIB_TOKEN
        bound = self.lib_bound + self.given_up + skipped
        if lost > bound:
            raise Violation("%d ids of %s were lost, more than %d" % (lost, LIBRARY, bound))
        self.lost[LIBRARY] = lost

    def clean_up(self):
        self.over.set()
        for client in [*self.lib, *self.resp]:
            client.proc.kill()
            client.proc.wait()
        for server in self.servers:
            if server.hilod is not None:
                server.hilod.cleanup()

    def figures(self, seconds):
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        return ("%d ids in %d answers (%d/s), %d tokens, %d refusals; kills: %d of servers, %d of "
                "RESP clients, %d of libhilo; %d clean stops; checker %d MiB" %
                (self.ids, self.answers, self.ids / max(seconds, 0.001), self.tokens, self.refused,
                 self.kills, self.resp_kills, self.lib_kills, self.stops, memory))


def soak(seconds, seed):
    """The first violation, or None; and the figures."""
    with tempfile.TemporaryDirectory(prefix="hilo-soak-") as root:
        s = Soak(root, seed)
        violation = s.run(seconds)
    gaps = sum(len(q.runs.starts) - 1 for v in s.servers for q in v.seqs.values() if q.runs.starts)
    return violation, "%s\n%d gaps, %s; most in one crash %d, where %d may be" % (
        s.figures(seconds), gaps,
        ", ".join("%d ids of %s" % (n, name) for name, n in sorted(s.lost.items())),
        *s.most_lost)


if __name__ == "__main__":
    wanted = float(os.environ.get("SOAK_SECONDS", "600"))
    print("seed %d (HILO_SEED), %g s, %s" % (harness.SEED, wanted, harness.HILOD), flush=True)
    broken, said = soak(wanted, harness.SEED)
    print(said)
    if broken is not None:
        sys.exit("VIOLATION (seed %d): %s" % (harness.SEED, broken))
    print("no promise was broken")
