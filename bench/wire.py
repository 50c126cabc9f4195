"""wire.py - hilod, redis-server and a bare loop beside each other on the wire.

They run in turn, the order turned round each time; what counts is the median of the ratios of
neighbouring runs, since machines drift. The bare loop (bench/bare.c) is the ceiling: the least a
server of this kind can do on this machine. redis-server is started on loopback and has to be
installed.

    make bench-wire                   7 rounds of each case
    ROUNDS=3 make bench-wire          fewer
    CASES=each make bench-wire        only cases whose title has this in it
"""

import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from harness import Client, Hilod, wait_until  # noqa: E402

BUILD = os.path.join(ROOT, "build", "bench")
LOAD = os.path.join(BUILD, "load")
ROUNDS = int(os.environ.get("ROUNDS", "7"))
NONE, SEC, ALWAYS = "none", "everysec", "always"
# Title, connections, pipeline, requests, durability of hilod, that of Redis, what is owed.
CASES = [
    ("ahead P=1", 50, 1, 300000, "ahead", NONE, 1.1),
    ("ahead P=16", 50, 16, 3000000, "ahead", NONE, 2.2),
    ("ahead P=64", 50, 64, 6000000, "ahead", NONE, 4.5),
    ("ahead P=16, Redis everysec", 50, 16, 3000000, "ahead", SEC, None),
    ("each P=1", 50, 1, 200000, "each", ALWAYS, 1.2),
    ("each P=16", 50, 16, 1500000, "each", ALWAYS, 3.5),
    ("each P=64", 50, 64, 3000000, "each", ALWAYS, 7.0),
    ("each P=1, 64 connections", 64, 1, 200000, "each", ALWAYS, None),
    ("each P=1, one client", 1, 1, 5000, "each", ALWAYS, None),
    ("one client, TCP", 1, 1, 40000, "ahead", NONE, None),
    ("one client, Unix socket", 1, 1, 60000, "ahead", NONE, None),
]


# Title, connections, pipeline, requests, durability: hilod with its witness and without.
WITNESS_CASES = [
    ("witness, ahead P=1", 50, 1, 300000, "ahead"),
    ("witness, each P=1", 50, 1, 200000, "each"),
    ("witness, each P=16", 50, 16, 1500000, "each"),
]


class Run:
    """What one run of the load generator saw."""

    def __init__(self, where, connections, pipeline, requests, *command, pinned=False):
        out = subprocess.run([LOAD, *where, str(connections), str(pipeline), str(requests), *command],
                             check=True, stdout=subprocess.PIPE,
                             preexec_fn=(lambda: os.sched_setaffinity(0, {0})) if pinned else None
                             ).stdout.decode()
        m = re.match(r"(\d+) requests/s p50 ([\d.]+) us p99 ([\d.]+) us p99.9 ([\d.]+) us max ([\d.]+)",
                     out)
        self.rate, self.p50, self.p99, self.p999, self.max = map(float, m.groups())


def load(port, pipeline, requests, name, connections=50):
    run = Run(["127.0.0.1", str(port)], connections, pipeline, requests, "INCR", name)
    return run.rate, "p50 %.1f us" % run.p50


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Redis:
    def __init__(self, options, program="redis-server"):
        self.dir = tempfile.mkdtemp(prefix="hilo-bench-")
        self.unix = os.path.join(self.dir, "s")
        self.port = free_port()
        with open(os.path.join(self.dir, "log"), "w") as log:
            self.proc = subprocess.Popen(
                [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                 "--unixsocket", self.unix, "--dir", self.dir, *options], stdout=log)
        if wait_until(self._up, program) != "PONG":
            raise SystemExit("redis-server does not start")

    def _up(self):
        if self.proc.poll() is not None:
            return "no"
        try:
            with Client(self.port) as c:
                return c.call("PING")
        except OSError:
            return None

    def stop(self):
        self.proc.terminate()
        self.proc.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class OurHilod:
    def __init__(self, durability, *options):
        self.dir = tempfile.mkdtemp(prefix="hilo-bench-")
        self.unix = os.path.join(self.dir, "s")
        self.hilod = Hilod("--log-level", "error", "--unix", self.unix, *options)
        self.port, self.proc = self.hilod.port, self.hilod.proc
        with self.hilod.client() as c:
            c.call("SEQ", "CREATE", "counter", "DURABILITY", durability)

    def info(self):
        with self.hilod.client() as c:
            return {k: int(v) for k, v in c.info().items() if v.isdigit()}

    def stop(self):
        self.hilod.stop()
        self.hilod.cleanup()
        shutil.rmtree(self.dir, ignore_errors=True)


class Bare:
    def __init__(self, sync):
        self.dir = tempfile.mkdtemp(prefix="hilo-bench-")
        self.unix = os.path.join(self.dir, "s")
        options = [os.path.join(self.dir, "mark")] if sync else []
        self.proc = subprocess.Popen([os.path.join(BUILD, "bare"), self.unix, *options],
                                     stdout=subprocess.PIPE)
        self.port = int(self.proc.stdout.readline())

    def stop(self):
        self.proc.kill()
        self.proc.wait()
        self.proc.stdout.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def redis_options(durability):
    return [] if durability == NONE else ["--appendonly", "yes", "--appendfsync", durability]


def middle(values):
    return "%.2f (%.2f to %.2f)" % (statistics.median(values), min(values), max(values))


def system_calls(server, where, case):
    """System calls of the server for each request, counted by strace in a run of its own."""
    _, connections, pipeline, requests, *_ = case
    if shutil.which("strace") is None:
        return None
    n = min(requests, 20000 * pipeline)
    out = os.path.join(server.dir, "strace")
    tracer = subprocess.Popen(["strace", "-f", "-c", "-o", out, "-p", str(server.proc.pid)],
                              stderr=subprocess.PIPE)
    tracer.stderr.readline()  # "attached"
    Run(where(server), connections, pipeline, n, "INCR", "counter")
    tracer.send_signal(2)
    tracer.wait()
    tracer.stderr.close()
    with open(out) as f:
        total = [l.split() for l in f if l.rstrip().endswith(" total")]
    return int(total[0][3]) / n


def run_case(case):
    title, connections, pipeline, requests, durability, theirs, owed = case
    unix = "Unix" in title
    servers = [OurHilod(durability), Redis(redis_options(theirs)), Bare(durability == "each")]
    names = ["hilod", "Redis", "bare loop"]

    def where(s):
        return ["unix", s.unix] if unix else ["127.0.0.1", str(s.port)]

    # One client and its server take turns: on one processor that is a switch, on two a wake-up
    # from idle, which on virtual machines costs more than all the rest.
    pinned = connections == 1
    if pinned:
        for s in servers:
            for thread in os.listdir("/proc/%d/task" % s.proc.pid):
                os.sched_setaffinity(int(thread), {0})
    runs, cpu = [[], [], []], [0, 0, 0]
    before = servers[0].info()
    for i in range(ROUNDS):
        for k in ((0, 1, 2), (2, 1, 0))[i % 2]:
            begin = cpu_seconds(servers[k].proc.pid)
            runs[k].append(Run(where(servers[k]), connections, pipeline, requests,
                               "INCR", "counter", pinned=pinned))
            cpu[k] += cpu_seconds(servers[k].proc.pid) - begin
    after = servers[0].info()
    calls = system_calls(servers[0], where, case)
    print("%s (%d connection%s, Redis: %s)" %
          (title, connections, "s" if connections > 1 else ", both pinned to one processor", theirs))
    for k, name in enumerate(names):
        med = [statistics.median(getattr(r, f) for r in runs[k])
               for f in ("rate", "p50", "p99", "p999")]
        print("    %-10s %8.1f k/s  p50 %7.1f  p99 %7.1f  p99.9 %7.1f us  CPU %6.3f us each" %
              (name, med[0] / 1e3, *med[1:], cpu[k] / ROUNDS / requests * 1e6))
    if unix:
        ratio = [[a.p50 / b.p50 for a, b in zip(x, runs[1])] for x in (runs[0], runs[2])]
        print("    p50 of Redis's: hilod %s, at most 0.8 owed; bare loop %s" %
              tuple(map(middle, ratio)))
    else:
        ratio = [[a.rate / b.rate for a, b in zip(x, runs[1])] for x in (runs[0], runs[2])]
        print("    times Redis: hilod %s%s; bare loop %s" %
              (middle(ratio[0]), ", %.1f owed" % owed if owed else "", middle(ratio[1])))
    grants = after["grants"] - before["grants"]
    print("    hilod: %.4f syncs a grant%s" %
          ((after["syncs"] - before["syncs"]) / grants,
           ", %.2f system calls" % calls if calls else ""), flush=True)
    for s in servers:
        s.stop()


def run_witness_case(case):
    title, connections, pipeline, requests, durability = case
    servers = [OurHilod(durability), OurHilod(durability, "--witness", "off")]
    rates = [[], []]
    for i in range(ROUNDS):
        for k in ((0, 1), (1, 0))[i % 2]:
            where = ["127.0.0.1", str(servers[k].port)]
            rates[k].append(Run(where, connections, pipeline, requests, "INCR", "counter").rate)
    print("%s (%d connections)" % (title, connections))
    print("    with %.1f k/s, without %.1f k/s; with it in parts of without it %s" %
          (statistics.median(rates[0]) / 1e3, statistics.median(rates[1]) / 1e3,
           middle([a / b for a, b in zip(*rates)])), flush=True)
    for s in servers:
        s.stop()


def main():
    if shutil.which("redis-server") is None:
        raise SystemExit("redis-server has to be installed: apt-get install redis-server")
    print("%d rounds, %d processors, %s" % (ROUNDS, os.cpu_count(), time.strftime("%Y-%m-%d")))
    for case in CASES:
        if os.environ.get("CASES", "") in case[0]:
            run_case(case)
    for case in WITNESS_CASES:
        if os.environ.get("CASES", "") in case[0]:
            run_witness_case(case)


if __name__ == "__main__":
    main()
