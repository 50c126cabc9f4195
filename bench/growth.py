"""growth.py - what grows with the number of sequences, of connections, with the size of blocks and
with the age of a database: a curve each, as bench/growth-*.svg, and the figures as a table.

    make bench-growth             3 rounds of each point; about ten minutes
    ROUNDS=1 QUICK=1 make bench-growth    fewer and smaller
"""

import os
import socket
import shutil
import statistics
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests"))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import plot  # noqa: E402
from harness import Hilod  # noqa: E402
from wire import Run  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "3"))
QUICK = bool(os.environ.get("QUICK"))
BATCH = 1000


def chart(name, title, x, y, series):
    plot.curves(os.path.join(ROOT, "bench", "growth-%s.svg" % name), title, x, y, series)
    print("\n%s\n\n| %s | %s |\n|---|%s" % (title, x, " | ".join(series), "---|" * len(series)))
    for row in zip(*series.values()):
        print("| %s | %s |" % (plot.short(row[0][0]), " | ".join("%.4g" % v for _, v in row)),
              flush=True)


def resident(server):
    with open("/proc/%d/statm" % server.proc.pid) as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def make_sequences(server, n):
    """One grant of each, so that each has ids in hand."""
    c = server.client()

    def send():
        for i in range(0, n, BATCH):
            c.send(b"".join(c.encode("INCR", "s%07d" % k) for k in range(i, min(n, i + BATCH))))

    sender = threading.Thread(target=send)
    sender.start()
    for _ in range(n):
        reply = c.reply()
        if not isinstance(reply, int):
            raise SystemExit("INCR answered %r" % reply)
    sender.join()
    c.close()


def rate(server, requests, *command, pipeline=1, connections=50):
    return Run(["127.0.0.1", str(server.port)], connections, pipeline, requests,
               *command).rate


def sequences():
    sizes = [1, 100, 10000, 100000] if QUICK else [1, 10, 100, 1000, 10000, 100000, 1000000]
    start, memory, random_1, random_16 = [], [], [], []
    base = None
    for n in sizes:
        data = tempfile.mkdtemp(prefix="hilo-bench-")
        options = ("--log-level", "error", "--max-sequences", "1000000")
        server = Hilod(*options, data=data)
        one = Hilod(*options)
        make_sequences(server, n)
        make_sequences(one, 1)
        for pipeline, into in ((1, random_1), (16, random_16)):
            ratios = [rate(server, 100000 * min(pipeline, 8), "INCR", "@%d" % n, pipeline=pipeline) /
                      rate(one, 100000 * min(pipeline, 8), "INCR", "@1", pipeline=pipeline)
                      for _ in range(2 * ROUNDS + 1)]
            into.append((n, statistics.median(ratios)))
        server.stop()
        one.stop()
        one.cleanup()
        seconds = []
        for _ in range(ROUNDS):
            begin = time.monotonic()
            server = Hilod(*options, data=data)
            seconds.append(time.monotonic() - begin)
            bytes_now = resident(server)
            server.stop()
            server.cleanup()
        base = base or bytes_now
        start.append((n, statistics.median(seconds)))
        memory.append((n, (bytes_now - base) / n if n > 1 else 0))
        shutil.rmtree(data)
    chart("start", "Start with n sequences", "sequences", "seconds", {"start": start})
    chart("sequences", "INCR on a random one of n, beside INCR on one", "sequences",
          "times the rate of one sequence", {"P = 1": random_1, "P = 16": random_16})
    chart("memory", "Memory of a sequence after a start", "sequences", "bytes each",
          {"bytes each": memory})


def connections():
    """Idle ones beside the 50 that work."""
    sizes = [1, 100, 1000] if QUICK else [1, 10, 100, 1000, 5000, 9900]
    rates, memory = [], []
    server = Hilod("--log-level", "error")
    make_sequences(server, 1)
    before = resident(server)
    idle = []
    for n in sizes:
        while len(idle) < n:
            s = socket.create_connection(("127.0.0.1", server.port))
            s.sendall(b"PING\r\n")
            s.recv(64)
            idle.append(s)
        rates.append((n, statistics.median(rate(server, 200000, "INCR", "s0000000")
                                           for _ in range(ROUNDS)) / 1e3))
        memory.append((n, (resident(server) - before) / 1e6))
    for s in idle:
        s.close()
    server.stop()
    server.cleanup()
    chart("connections", "50 connections at work beside n idle ones", "idle connections",
          "thousand grants a second", {"INCR, P = 1": rates})
    chart("idle", "Memory of idle connections", "idle connections", "MB", {"all of them": memory})


def blocks():
    sizes = [1, 10, 100, 1000, 10000, 100000, 1000000]
    ahead, each = [], []
    server = Hilod("--log-level", "error")
    with server.client() as c:
        c.call("SEQ", "CREATE", "ahead")
        c.call("SEQ", "CREATE", "each", "DURABILITY", "each")
    for n in sizes:
        for name, into, requests in (("ahead", ahead, 100000), ("each", each, 40000)):
            into.append((n, statistics.median(
                rate(server, requests, "BLOCK", name, str(n)) for _ in range(ROUNDS)) / 1e3))
    server.stop()
    server.cleanup()
    chart("blocks", "BLOCK of n ids, 50 connections", "ids a block", "thousand blocks a second",
          {"ahead": ahead, "each": each})


def age():
    """The database is one row a sequence, whatever was granted."""
    sizes = [1000, 100000, 1000000] if QUICK else [1000, 100000, 1000000, 10000000, 100000000]
    database, log = [], []
    server = Hilod("--log-level", "error")
    done = 0
    with server.client() as c:
        c.call("SEQ", "CREATE", "counter")
    for n in sizes:
        rate(server, n - done, "INCR", "counter", pipeline=64)
        done = n
        database.append((n, os.path.getsize(os.path.join(server.data, "hilo.db")) / 1e3))
        log.append((n, os.path.getsize(os.path.join(server.data, "hilo.db-wal")) / 1e3))
    server.stop()
    server.cleanup()
    chart("age", "Files after n grants", "grants", "kB", {"hilo.db": database, "hilo.db-wal": log})


def main():
    print("%d rounds, %d processors, %s" % (ROUNDS, os.cpu_count(), time.strftime("%Y-%m-%d")))
    for part in (sequences, connections, blocks, age):
        if os.environ.get("PART", "") in part.__name__:
            part()


if __name__ == "__main__":
    main()
