"""peers.py - the servers of compare.py: each is started on loopback in a directory of its own, says
how to load it, what it costs, and is gone afterwards.

A peer has cases: (title, ids a request, what is on disk when the answer comes, function that runs it
for a while and returns a Sample).
"""

import base64
import glob
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from wire import LOAD, OurHilod, Redis, free_port, redis_options, wait_until

CONNECTIONS = 50
SECONDS = int(os.environ.get("SECONDS", "3"))
BLOCK = 1000


class Sample:
    """requests a second; microseconds at three percentiles."""

    def __init__(self, rate, p50, p99, p999):
        self.rate, self.p50, self.p99, self.p999 = rate, p50, p99, p999


def cpu_seconds(pid):
    """With that of children that have ended."""
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def percentiles(times_us):
    times_us.sort()
    return [times_us[int((len(times_us) - 1) * q)] for q in (0.5, 0.99, 0.999)]


def count_syncs(pid, run):
    """Syncs a second that a process and its threads make while run() lasts, by strace."""
    out = tempfile.NamedTemporaryFile(prefix="hilo-bench-")
    tracer = subprocess.Popen(["strace", "-f", "-c", "-e", "trace=fsync,fdatasync", "-o", out.name,
                               "-p", str(pid)], stderr=subprocess.PIPE)
    tracer.stderr.readline()
    sample = run()
    tracer.send_signal(2)
    tracer.wait()
    tracer.stderr.close()
    with out:
        rows = [l.split() for l in out.read().decode().splitlines()
                if l.rstrip().endswith(("fsync", "fdatasync"))]
    return sum(int(r[3]) for r in rows), sample


class Wire:
    """What load.c can drive."""

    def load(self, *command, pipeline=1, memcached=False):
        where = ["127.0.0.1", str(self.port)]
        n = self.guess.get(command, 20000)
        done = subprocess.run([LOAD, *(["memcached"] if memcached else []), *where,
                               str(CONNECTIONS), str(pipeline), str(n), *command], check=True,
                              stdout=subprocess.PIPE).stdout.decode()
        m = re.match(r"(\d+) requests/s p50 ([\d.]+) us p99 ([\d.]+) us p99.9 ([\d.]+) us", done)
        sample = Sample(*map(float, m.groups()))
        self.guess[command] = max(20000, int(sample.rate * SECONDS))  # for the next round
        return sample


class Hilo(Wire):
    def __init__(self, durability):
        self.durability, self.guess = durability, {}
        self.server = OurHilod(durability)
        self.port, self.pid = self.server.port, self.server.proc.pid
        kept = "below a mark on disk" if durability == "ahead" else "each grant on disk"
        self.cases = [
            ("hilod INCR, " + durability, 1, kept, lambda: self.load("INCR", "counter")),
            ("hilod BLOCK 1000, " + durability, BLOCK, kept,
             lambda: self.load("BLOCK", "counter", str(BLOCK), "ATLEAST", str(BLOCK)))]

    def syncs(self, run):
        before = self.server.info()["syncs"]
        sample = run()
        return self.server.info()["syncs"] - before, sample

    def stop(self):
        self.server.stop()


class RedisPeer(Wire):
    def __init__(self, durability):
        self.guess = {}
        self.server = Redis(redis_options(durability))
        self.port, self.pid = self.server.port, self.server.proc.pid
        kept = {"none": "nothing on disk", "everysec": "lost: up to a second or two",
                "always": "each grant on disk"}[durability]
        self.cases = [("Redis INCR, %s" % ("no file" if durability == "none" else durability), 1,
                       kept, lambda: self.load("INCR", "counter"))]
        if durability == "always":
            self.cases.append(("Redis INCRBY 1000, always", BLOCK, kept,
                               lambda: self.load("INCRBY", "counter", str(BLOCK))))

    def syncs(self, run):
        return count_syncs(self.pid, run)

    def stop(self):
        self.server.stop()


class Memcached(Wire):
    def __init__(self):
        self.port, self.guess = free_port(), {}
        user = ["-u", "nobody"] if os.getuid() == 0 else []
        self.proc = subprocess.Popen(["memcached", "-l", "127.0.0.1", "-p", str(self.port), "-U",
                                      "0", "-t", "1", *user])
        self.pid = self.proc.pid
        wait_until(self._set, "memcached")
        self.cases = [("memcached incr", 1, "nothing on disk",
                       lambda: self.load("incr", "counter", "1", memcached=True))]

    def _set(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port)) as s:
                s.sendall(b"set counter 0 0 1\r\n0\r\n")
                return s.recv(100)
        except OSError:
            return None

    def syncs(self, run):
        return 0, run()

    def stop(self):
        self.proc.terminate()
        self.proc.wait()


class Postgres:
    """It refuses to run as root. pgbench reads its clock once a turn, so that an answer which comes
    in the same turn counts as none: its lower percentiles are too good."""

    def __init__(self):
        self.bin = (sorted(glob.glob("/usr/lib/postgresql/*/bin")) or [None])[-1]
        if self.bin is None:
            raise FileNotFoundError("PostgreSQL")
        self.dir = tempfile.mkdtemp(prefix="hilo-bench-")
        self.user = {"user": "postgres"} if os.getuid() == 0 else {}
        if self.user:
            shutil.chown(self.dir, "postgres")
        self.run("initdb", "-D", self.dir + "/data", "-A", "trust")
        self.run("pg_ctl", "-D", self.dir + "/data", "-w", "-l", self.dir + "/log", "-o",
                 "-c listen_addresses='' -c max_connections=200 -k " + self.dir, "start")
        with open(self.dir + "/data/postmaster.pid") as f:
            self.pid = int(f.readline())
        self.psql("create sequence plain; create sequence cached cache 1000; "
                  "create table ids (id bigserial primary key); "
                  "create table leaf (tag text primary key, max_id bigint not null); "
                  "insert into leaf values ('x', 0)")
        self.cases = [
            ("PostgreSQL nextval, cache 1", 1, "every 32nd value on disk",
             lambda: self.bench("select nextval('plain')")),
            ("PostgreSQL nextval, cache 1000", 1, "every 32nd block on disk",
             lambda: self.bench("select nextval('cached')")),
            ("PostgreSQL INSERT", 1, "each grant on disk",
             lambda: self.bench("insert into ids default values returning id")),
            ("PostgreSQL, Leaf's UPDATE of 1000", BLOCK, "each block on disk",
             lambda: self.bench("update leaf set max_id = max_id + 1000 where tag = 'x' "
                                "returning max_id"))]

    def run(self, program, *args):
        return subprocess.run([os.path.join(self.bin, program), *args], check=True, cwd=self.dir,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              **self.user).stdout.decode()

    def psql(self, words):
        user = ["-U", "postgres"] if self.user else []
        return self.run("psql", "-h", self.dir, *user, "-d", "postgres", "-At", "-c", words)

    def bench(self, statement):
        script = os.path.join(self.dir, "script")
        with open(script, "w") as f:
            f.write(statement + ";\n")
        os.chmod(script, 0o644)
        user = ["-U", "postgres"] if self.user else []
        said = self.run("pgbench", "-h", self.dir, *user, "-n", "-M", "prepared", "-c",
                        str(CONNECTIONS), "-j", "1", "-T", str(SECONDS), "-l", "--log-prefix",
                        self.dir + "/times", "-f", script, "postgres")
        times = []
        for path in glob.glob(self.dir + "/times*"):
            with open(path) as f:
                times += [int(line.split()[2]) for line in f]
            os.unlink(path)
        return Sample(float(re.search(r"tps = ([\d.]+)", said).group(1)), *percentiles(times))

    def syncs(self, run):
        before = int(self.psql("select wal_sync from pg_stat_wal"))
        sample = run()
        return int(self.psql("select wal_sync from pg_stat_wal")) - before, sample

    def stop(self):
        self.run("pg_ctl", "-D", self.dir + "/data", "-m", "immediate", "stop")
        shutil.rmtree(self.dir, ignore_errors=True)


SYSBENCH = """
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query(%s) end
function thread_done() con:disconnect() end
"""


class MariaServer:
    def __init__(self, offset, increment):
        self.dir = tempfile.mkdtemp(prefix="hilo-bench-")
        self.sock = self.dir + "/s"
        user = ["--user=mysql"] if os.getuid() == 0 else []
        if user:
            shutil.chown(self.dir, "mysql")
        subprocess.run(["mariadb-install-db", "--no-defaults", "--datadir=" + self.dir + "/data",
                        "--auth-root-authentication-method=normal", "--skip-test-db", *user],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.log = open(self.dir + "/log", "w")
        self.proc = subprocess.Popen(
            ["mariadbd", "--no-defaults", "--datadir=" + self.dir + "/data", "--socket=" + self.sock,
             "--skip-networking", "--max-connections=200", "--innodb-flush-log-at-trx-commit=1",
             "--auto-increment-offset=%d" % offset, "--auto-increment-increment=%d" % increment,
             *user], stdout=self.log, stderr=self.log)
        wait_until(lambda: self.sql("select 1"), "MariaDB")
        self.sql("create database bench; create table bench.ids (id bigint unsigned auto_increment "
                 "primary key) engine=innodb; create table bench.Tickets64 (id bigint unsigned "
                 "auto_increment primary key, stub char(1) not null default '', unique key (stub)) "
                 "engine=innodb")

    def sql(self, words):
        done = subprocess.run(["mariadb", "--no-defaults", "-u", "root", "--socket=" + self.sock,
                               "-N", "-e", words], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
        return done.stdout.decode() if done.returncode == 0 else None

    def fsyncs(self):
        rows = dict(l.split("\t") for l in self.sql("show global status like 'Innodb_%fsyncs'")
                    .splitlines())
        return int(rows.get("Innodb_data_fsyncs", 0))

    def bench(self, statement, connections):
        script = os.path.join(self.dir, "script.lua")
        with open(script, "w") as f:
            f.write(SYSBENCH % json.dumps(statement))
        return subprocess.Popen(
            ["sysbench", script, "--mysql-socket=" + self.sock, "--mysql-user=root",
             "--mysql-db=bench", "--threads=%d" % connections, "--time=%d" % SECONDS,
             "--histogram=on", "run"], stdout=subprocess.PIPE)

    def stop(self):
        self.proc.terminate()
        self.proc.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def sysbench_sample(texts):
    """Of one or more runs side by side."""
    rate, counts = 0.0, []
    for said in texts:
        rate += float(re.search(r"transactions:\s+\d+\s+\(([\d.]+) per sec", said).group(1))
        counts += [(float(ms) * 1000, int(n)) for ms, n in
                   re.findall(r"^\s*([\d.]+) \|\**\s*(\d+)$", said, re.M)]
    counts.sort()
    total, out = sum(n for _, n in counts), []
    for q in (0.5, 0.99, 0.999):
        seen = 0
        for us, n in counts:
            seen += n
            if seen >= q * total:
                out.append(us)
                break
    return Sample(rate, *out)


class Maria:
    """One server for INSERT; for Flickr's tickets one with odd and one with even ids."""

    def __init__(self):
        if shutil.which("mariadbd") is None or shutil.which("sysbench") is None:
            raise FileNotFoundError("MariaDB (mariadb-server, sysbench)")
        self.servers = [MariaServer(i, 2) for i in (1, 2)]
        self.cases = [
            ("MariaDB INSERT", 1, "each grant on disk",
             lambda: self.bench("insert into ids values (null)", self.servers[:1])),
            ("Flickr's REPLACE, two MariaDB", 1, "each grant on disk",
             lambda: self.bench("replace into Tickets64 (stub) values ('a')", self.servers))]

    @property
    def pid(self):
        return [s.proc.pid for s in self.servers]

    def bench(self, statement, servers):
        runs = [s.bench(statement, CONNECTIONS // len(servers)) for s in servers]
        return sysbench_sample([r.communicate()[0].decode() for r in runs])

    def syncs(self, run):
        before = sum(s.fsyncs() for s in self.servers)
        sample = run()
        return sum(s.fsyncs() for s in self.servers) - before, sample

    def stop(self):
        for s in self.servers:
            s.stop()


class Etcd:
    """A counter moved by compare-and-swap over the JSON gateway, a thousand ids at a time, by four
    writers on a counter each: on one counter they would mostly lose to each other."""

    WRITERS = 4

    def __init__(self):
        if shutil.which("etcd") is None:
            raise FileNotFoundError("etcd (etcd-server)")
        self.dir = tempfile.mkdtemp(prefix="hilo-bench-")
        self.port, peer = free_port(), free_port()
        url, peers = ["http://127.0.0.1:%d" % p for p in (self.port, peer)]
        with open(self.dir + "/log", "w") as log:
            self.proc = subprocess.Popen(
                ["etcd", "--data-dir", self.dir + "/data", "--listen-client-urls", url,
                 "--advertise-client-urls", url, "--listen-peer-urls", peers,
                 "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers],
                stdout=log, stderr=log)
        self.pid = self.proc.pid
        wait_until(self._up, "etcd")
        self.cases = [("etcd compare-and-swap of 1000", BLOCK, "each block on disk", self.bench)]

    def _post(self, connection, path, body):
        connection.request("POST", "/v3/kv/" + path, json.dumps(body))
        return json.loads(connection.getresponse().read())

    def _up(self):
        try:
            self._post(http.client.HTTPConnection("127.0.0.1", self.port), "put",
                       {"key": "dXA=", "value": "MQ=="})
            return True
        except (OSError, ValueError, http.client.HTTPException):
            return False

    def _write(self, key, until, times):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        key = base64.b64encode(key.encode()).decode()
        n = 0
        self._post(connection, "put", {"key": key, "value": "MA=="})
        while time.monotonic() < until:
            begin = time.monotonic()
            old, n = n, n + BLOCK
            values = [base64.b64encode(str(v).encode()).decode() for v in (old, n)]
            said = self._post(connection, "txn", {
                "compare": [{"key": key, "target": "VALUE", "result": "EQUAL", "value": values[0]}],
                "success": [{"requestPut": {"key": key, "value": values[1]}}]})
            if not said.get("succeeded"):
                raise SystemExit("etcd: a lone writer lost")
            times.append((time.monotonic() - begin) * 1e6)

    def bench(self):
        until, times = time.monotonic() + SECONDS, []
        threads = [threading.Thread(target=self._write, args=("counter%d" % i, until, times))
                   for i in range(self.WRITERS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return Sample(len(times) / SECONDS, *percentiles(times))

    def syncs(self, run):
        return count_syncs(self.pid, run)

    def stop(self):
        self.proc.terminate()
        self.proc.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
