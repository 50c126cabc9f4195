"""compare.py - the same work for hilod and for what one would pick instead, in one run.

Fifty connections ask for an id, or for a block of a thousand where the peer can give one, as fast
as they get answers. Every peer is started afresh on loopback; the rounds go through all of them in
turn. Redis, MariaDB and PostgreSQL have to be installed; memcached and etcd are left out with a
word if they are not.

    make bench-compare                    3 rounds of 3 s a case
    ROUNDS=1 SECONDS=1 make bench-compare    faster
    README=1 make bench-compare           also writes the table into README.md

The charts are bench/compare-*.svg.
"""

import os
import re
import shutil
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import plot  # noqa: E402
from peers import (Etcd, Hilo, Maria, Memcached, Postgres, RedisPeer, cpu_seconds)  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "3"))
MANDATORY = ["redis-server", "mariadbd", "sysbench"]


def start():
    missing = [p for p in MANDATORY if shutil.which(p) is None]
    if missing:
        raise SystemExit("missing: %s; make deps-compare installs them" % ", ".join(missing))
    peers = [Hilo("ahead"), Hilo("each"), RedisPeer("none"), RedisPeer("everysec"),
             RedisPeer("always"), Postgres(), Maria()]
    for optional in (Memcached, Etcd):
        try:
            peers.append(optional())
        except FileNotFoundError as e:
            print("not installed, left out: %s" % e)
    return peers


def cpu(peer):
    pids = peer.pid if isinstance(peer.pid, list) else [peer.pid]
    return sum(map(cpu_seconds, pids))


class Row:
    def __init__(self, title, ids, kept):
        self.title, self.ids, self.kept = title, ids, kept
        self.samples, self.cpu, self.syncs, self.requests = [], 0, 0, 0

    def add(self, sample, cpu_s, seconds):
        self.samples.append(sample)
        self.cpu += cpu_s
        self.requests += sample.rate * seconds

    def median(self, what):
        return statistics.median(getattr(s, what) for s in self.samples)


def number(n):
    return plot.short(n).replace(" ", "")


def table(rows):
    lines = ["| | ids/s | requests/s | p50 / p99 / p99.9 ms | CPU s a million ids | "
             "syncs a million ids | on disk when answered |",
             "|---|---|---|---|---|---|---|"]
    for r in rows:
        rate = r.median("rate")
        lines.append("| %s | %s | %s | %.2f / %.2f / %.2f | %.3g | %s | %s |" % (
            r.title, number(rate * r.ids), number(rate), r.median("p50") / 1e3,
            r.median("p99") / 1e3, r.median("p999") / 1e3,
            r.cpu / (r.requests * r.ids) * 1e6, number(r.syncs), r.kept))
    return "\n".join(lines)


def into_readme(text):
    path = os.path.join(ROOT, "README.md")
    with open(path) as f:
        old = f.read()
    new = re.sub(r"(<!-- compare -->\n).*?(<!-- /compare -->)",
                 lambda m: m.group(1) + text + "\n" + m.group(2), old, flags=re.S)
    with open(path, "w") as f:
        f.write(new)


def main():
    peers = start()
    rows = {}
    try:
        for turn in range(ROUNDS + 1):  # the first one warms up
            for peer in peers:
                for title, ids, kept, run in peer.cases:
                    row = rows.setdefault(title, Row(title, ids, kept))
                    before, begin = cpu(peer), time.monotonic()
                    sample = run()
                    seconds = time.monotonic() - begin
                    if turn > 0:
                        row.add(sample, cpu(peer) - before, seconds)
        for peer in peers:
            for title, ids, _, run in peer.cases:
                begin = time.monotonic()
                syncs, sample = peer.syncs(run)
                done = sample.rate * (time.monotonic() - begin) * ids
                rows[title].syncs = syncs / done * 1e6
    finally:
        for peer in peers:
            peer.stop()
    rows = list(rows.values())
    text = table(rows)
    print("%d rounds, %d processors, %s\n" % (ROUNDS, os.cpu_count(), time.strftime("%Y-%m-%d")))
    print(text)
    for what, name in (("rate", "ids"), ("p99", "p99")):
        values = [(r.title, r.median("rate") * r.ids if what == "rate" else r.median("p99"),
                   r.title.startswith("hilod")) for r in rows]
        values.sort(key=lambda v: v[1], reverse=what == "rate")
        plot.bars(os.path.join(ROOT, "bench", "compare-%s.svg" % name),
                  "ids a second, 50 connections" if what == "rate" else
                  "99th percentile of a request, microseconds", values)
    if os.environ.get("README"):
        into_readme(text)


if __name__ == "__main__":
    main()
