"""client.py - what an id costs with libhilo, beside an atomic add, Redis INCR and PostgreSQL nextval.

Everything in one run, in turn; medians with their spread. redis-server and PostgreSQL are started
on loopback and on a Unix socket if they are installed, and left out with a word if they are not.

    make bench-client             7 rounds
    ROUNDS=3 make bench-client    fewer
"""

import glob
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests"))
sys.path.insert(0, os.path.join(ROOT, "bench"))
from harness import Hilod, wait_until  # noqa: E402
from wire import Redis, load  # noqa: E402

CLIENT = os.path.join(ROOT, "build", "bench", "client")
ROUNDS = int(os.environ.get("ROUNDS", "7"))
SIZES = [(1, 30000), (1000, 20000000), (100000, 100000000)]


def middle(values, unit=""):
    return "%.2f%s (%.2f to %.2f)" % (statistics.median(values), unit, min(values), max(values))


def client(*args):
    return subprocess.run([CLIENT, *map(str, args)], check=True,
                          stdout=subprocess.PIPE).stdout.decode()


class Postgres:
    """A cluster of its own, in a directory of its own, for one run. It refuses to run as root."""

    def __init__(self):
        self.bin = (sorted(glob.glob("/usr/lib/postgresql/*/bin")) or [None])[-1]
        if self.bin is None:
            raise FileNotFoundError("PostgreSQL is not installed")
        self.dir = tempfile.mkdtemp(prefix="hilo-bench-")
        self.user = {"user": "postgres"} if os.getuid() == 0 else {}
        if self.user:
            shutil.chown(self.dir, "postgres")
        self.run("initdb", "-D", self.dir + "/data", "-A", "trust")
        self.run("pg_ctl", "-D", self.dir + "/data", "-w", "-l", self.dir + "/log", "-o",
                 "-c listen_addresses='' -k " + self.dir, "start")
        self.psql("create sequence plain")
        self.psql("create sequence cached cache 1000")

    def run(self, program, *args, **kw):
        return subprocess.run([os.path.join(self.bin, program), *args], check=True, cwd=self.dir,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **self.user,
                              **kw).stdout.decode()

    def psql(self, text):
        user = ["-U", "postgres"] if self.user else []
        self.run("psql", "-h", self.dir, *user, "-d", "postgres", "-c", text)

    def rate(self, sequence):
        """One connection, a prepared statement, for three seconds."""
        script = os.path.join(self.dir, "nextval")
        with open(script, "w") as f:
            f.write("select nextval('%s');\n" % sequence)
        os.chmod(script, 0o644)
        user = ["-U", "postgres"] if self.user else []
        said = self.run("pgbench", "-h", self.dir, *user, "-n", "-M", "prepared", "-T", "3", "-f",
                        script, "postgres")
        return float(re.search(r"tps = ([\d.]+)", said).group(1))

    def stop(self):
        self.run("pg_ctl", "-D", self.dir + "/data", "-m", "immediate", "stop")
        shutil.rmtree(self.dir, ignore_errors=True)


def micro(server):
    rows = [list(map(float, l.split())) for l in
            client("micro", server, 3 * ROUNDS, 10000000).splitlines()]
    one, block, two, sub, plain, empty = zip(*rows)
    print("an atomic add, one thread:          ", middle(one, " ns"))
    print("an id of the shared block:          ", middle(block, " ns"))
    print("    as a multiple of the atomic add:", middle([b / a for a, b in zip(one, block)]))
    print("an atomic add on each of 2 threads: ", middle(two, " ns"))
    print("an id of sub-blocks, on each of 2:  ", middle(sub, " ns"))
    print("    as a multiple of the atomic add:", middle([b / a for a, b in zip(two, sub)]))
    print("a plain counter in memory, on each of 2:", middle(plain, " ns"))
    print("    as a multiple of the atomic add:", middle([b / a for a, b in zip(two, plain)]))
    print("an empty function of a shared library:", middle(empty, " ns"))


def rates(hilod, server):
    redis = postgres = None
    try:
        redis = Redis([])
    except FileNotFoundError:
        print("redis-server is not installed: without it")
    try:
        postgres = Postgres()
    except FileNotFoundError as e:
        print("%s: without it" % e)
    results = {}
    for _ in range(ROUNDS):
        for size, count in SIZES:
            results.setdefault("libhilo, blocks of %d" % size, []).append(
                float(client("blocks", server, size, count)))
        results.setdefault("hilod INCR", []).append(load(hilod.port, 1, 30000, "orders", 1)[0])
        if redis:
            results.setdefault("Redis INCR", []).append(load(redis.port, 1, 30000, "orders", 1)[0])
        if postgres:
            for name in ("plain", "cached"):
                results.setdefault("PostgreSQL nextval, %s" % (
                    "cache 1" if name == "plain" else "cache 1000"), []).append(postgres.rate(name))
    print("\nids a second, one thread, one connection:")
    for title, values in results.items():
        print("%-32s %s" % (title, middle([v / 1e3 for v in values], " k")))
    for s in (redis, postgres):
        if s:
            s.stop()


def main():
    hilod = Hilod("--log-level", "error", "--max-block", "1000000000")
    server = "127.0.0.1:%d" % hilod.port
    try:
        micro(server)
        rates(hilod, server)
    finally:
        hilod.stop()
        hilod.cleanup()


main()
