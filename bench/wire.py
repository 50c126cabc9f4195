"""wire.py - grants per second of hilod beside redis-server, interleaved, in one run.

For each case the two run in turn; what counts is the median of the ratios of neighbouring
runs, since machines drift. redis-server is started on loopback if it is installed; without it
hilod runs alone.

    make bench            7 pairs a case
    PAIRS=3 make bench    fewer
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from harness import Client, Hilod, wait_until  # noqa: E402

LOAD = os.path.join(ROOT, "build", "bench", "load")
PAIRS = int(os.environ.get("PAIRS", "7"))
CONNECTIONS = 50
# Name, pipeline, requests, sequence, options of the Redis beside it.
CASES = [
    ("ahead P=1", 1, 300000, "ahead", []),
    ("ahead P=16", 16, 3000000, "ahead", []),
    ("ahead P=64", 64, 6000000, "ahead", []),
    ("each  P=1", 1, 200000, "each", ["--appendonly", "yes", "--appendfsync", "always"]),
    ("each  P=16", 16, 1500000, "each", ["--appendonly", "yes", "--appendfsync", "always"]),
    ("each  P=64", 64, 3000000, "each", ["--appendonly", "yes", "--appendfsync", "always"]),
]


class Redis:
    def __init__(self, options):
        self.dir = tempfile.mkdtemp(prefix="hilo-bench-")
        path = os.path.join(self.dir, "port")
        for port in range(17000, 17100):
            self.proc = subprocess.Popen(
                ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                 "--dir", self.dir, *options], stdout=open(path, "w"))
            if wait_until(lambda: self._up(port), "redis-server") == "PONG":
                self.port = port
                return
        raise SystemExit("no port for redis-server")

    def _up(self, port):
        if self.proc.poll() is not None:
            return "no"
        try:
            with Client(port) as c:
                return c.call("PING")
        except OSError:
            return None

    def stop(self):
        self.proc.terminate()
        self.proc.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def load(port, pipeline, requests, name, connections=CONNECTIONS):
    out = subprocess.run([LOAD, "127.0.0.1", str(port), str(connections), str(pipeline),
                          str(requests), "INCR", name], check=True, stdout=subprocess.PIPE)
    return float(re.match(r"(\d+)", out.stdout.decode()).group(1)), out.stdout.decode().strip()


def middle(values):
    return "%.2f (%.2f to %.2f)" % (statistics.median(values), min(values), max(values))


def main():
    have_redis = shutil.which("redis-server") is not None
    if not have_redis:
        print("redis-server is not installed: hilod alone")
    for title, pipeline, requests, name, options in CASES:
        hilod = Hilod("--log-level", "error")
        redis = Redis(options) if have_redis else None
        with hilod.client() as c:
            c.call("SEQ", "CREATE", name, "DURABILITY", name)
            before = c.info()
        ours, theirs = [], []
        for _ in range(PAIRS):
            rate, line = load(hilod.port, pipeline, requests, name)
            ours.append(rate)
            if redis:
                theirs.append(load(redis.port, pipeline, requests, name)[0])
        with hilod.client() as c:
            after = c.info()
        syncs = int(after["syncs"]) - int(before["syncs"])
        grants = int(after["grants"]) - int(before["grants"])
        print("%s: %.0f k/s, %.4f syncs a grant; %s" %
              (title, statistics.median(ours) / 1000, syncs / grants, line.split(" ", 2)[2]))
        if redis:
            print("           %.2f of Redis, %.0f k/s" %
                  (statistics.median(a / b for a, b in zip(ours, theirs)),
                   statistics.median(theirs) / 1000))
            print("           ratios " + middle([a / b for a, b in zip(ours, theirs)]))
            redis.stop()
        hilod.stop()
        hilod.cleanup()


if __name__ == "__main__":
    main()
