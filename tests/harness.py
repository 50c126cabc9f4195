"""harness.py - what tests of the real binary share: a hilod to start, a client to talk to it.

Each test module ends in harness.main(), which prints one line per test and a summary that
tests/run.py adds up. HILOD names the binary, HILO_LONG=1 asks for full counts, HILO_SEED
repeats a random run.
"""

import os
import random
import re
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HILOD = os.path.abspath(os.environ.get("HILOD", os.path.join(ROOT, "build", "hilod")))
LONG = os.environ.get("HILO_LONG") == "1"
SEED = int(os.environ.get("HILO_SEED") or random.SystemRandom().randrange(1 << 32))
DEADLINE = 60  # seconds; generous, since nothing is asserted about speed
SANITIZER = re.compile(r"AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error:")
ID_MAX = 2**63 - 1


def wait_until(condition, what, seconds=DEADLINE):
    """Waits for a condition, never for a time."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("waited in vain for " + what)
        time.sleep(0.005)


class Error(Exception):
    """An error reply; .word is its first word."""

    @property
    def word(self):
        return str(self).split(" ", 1)[0]


class Closed(Exception):
    """The server has closed the connection."""


class Client:
    """A connection that hides nothing: bytes out, one parsed reply at a time in."""

    def __init__(self, port=None, path=None, host="127.0.0.1"):
        if path:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(DEADLINE)
            self.sock.connect(path)
        else:
            self.sock = socket.create_connection((host, port), timeout=DEADLINE)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = b""

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    @staticmethod
    def encode(*args):
        out = [b"*%d\r\n" % len(args)]
        for a in args:
            a = a if isinstance(a, bytes) else str(a).encode()
            out.append(b"$%d\r\n%s\r\n" % (len(a), a))
        return b"".join(out)

    def start(self, *args):
        self.send(self.encode(*args))

    def call(self, *args):
        """The reply; an error reply is raised."""
        self.start(*args)
        reply = self.reply()
        if isinstance(reply, Error):
            raise reply
        return reply

    def fails(self, *args):
        """The error this command gets, which it has to get."""
        self.start(*args)
        reply = self.reply()
        if not isinstance(reply, Error):
            raise AssertionError("%r answered %r, not an error" % (args, reply))
        return reply

    def fill(self):
        data = self.sock.recv(65536)
        if not data:
            raise Closed()
        self.buf += data

    def line(self):
        while b"\r\n" not in self.buf:
            self.fill()
        line, self.buf = self.buf.split(b"\r\n", 1)
        return line

    def exactly(self, n):
        while len(self.buf) < n:
            self.fill()
        data, self.buf = self.buf[:n], self.buf[n:]
        return data

    def reply(self):
        """Integers, bytes, None, lists, dicts; statuses as str; errors as Error objects."""
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return Error(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"_":
            return None
        n = int(rest)
        if n < 0:
            return None
        if kind in b"$=":
            data = self.exactly(n + 2)[:-2]
            return data[4:] if kind == b"=" else data
        if kind in b"*~":
            return [self.reply() for _ in range(n)]
        if kind == b"%":
            return dict((self.reply(), self.reply()) for _ in range(n))
        raise AssertionError("not RESP: %r" % line)

    def at_end(self):
        """Whether the server closes with nothing more to say."""
        try:
            self.fill()
            return False
        except (Closed, ConnectionResetError):
            return True

    def info(self, section="everything"):
        text = self.call("INFO", section).decode()
        return dict(l.split(":", 1) for l in text.split("\r\n") if ":" in l)

    def seq(self, name):
        flat = self.call("SEQ", "INFO", name)
        return {k.decode(): v.decode() for k, v in zip(flat[::2], flat[1::2])}


class Hilod:
    """A server of its own; stopped, and checked for sanitizer reports, by stop()."""

    def __init__(self, *args, data=None, wrap=(), listen="127.0.0.1:0", env=None,
                 stderr=None, preexec_fn=None, pass_fds=()):
        self.exit_codes = (0, -9)
        self.own_data = data is None
        self.data = data or tempfile.mkdtemp(prefix="hilo-test-")
        self.log = tempfile.TemporaryFile("a+b")
        cmd = [*wrap, HILOD, "--data", self.data, "--listen", listen, *args]
        self.proc = subprocess.Popen(
            cmd, stdout=subprocess.PIPE, stderr=stderr or self.log,
            stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})},
            preexec_fn=preexec_fn, pass_fds=pass_fds)
        self.ready = self._read_ready()
        match = re.search(r"resp=(\S+):(\d+)", self.ready)
        self.port = int(match.group(2)) if match else None

    def _read_ready(self):
        if not select.select([self.proc.stdout], [], [], DEADLINE)[0]:
            self.kill()
            raise AssertionError("hilod did not become ready:\n" + self.errors())
        line = self.proc.stdout.readline().decode()
        if not line.startswith("ready "):
            self.proc.wait()
            raise AssertionError("hilod did not start:\n" + self.errors())
        return line.strip()

    def errors(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def client(self):
        return Client(self.port)

    def ended(self, exit_code):
        """Waits until it has ended by itself, with this code."""
        self.exit_codes = (exit_code,)
        self.proc.wait(DEADLINE)
        self.proc.stdout.close()
        return self.proc.returncode == exit_code

    def kill(self):
        """kill -9."""
        self.proc.kill()
        self.proc.wait()
        self.proc.stdout.close()

    def stop(self, sig=signal.SIGTERM):
        """A clean stop, unless it has ended already; the exit code has to be 0, or that of kill."""
        if self.proc.returncode is None:
            self.proc.send_signal(sig)
            self.proc.wait(DEADLINE)
            self.proc.stdout.close()
        text = self.errors()
        if SANITIZER.search(text) or self.proc.returncode not in self.exit_codes:
            raise AssertionError("exit code %s\n%s" % (self.proc.returncode, text))

    def cleanup(self):
        if self.proc.returncode is None:
            self.kill()
        self.log.close()
        if self.own_data:
            shutil.rmtree(self.data, ignore_errors=True)


def rows(data, query):
    """What is in a database nobody serves, read from a copy: the log that a crash has left is for
    hilod itself to bring in."""
    with tempfile.TemporaryDirectory(prefix="hilo-test-") as tmp:
        for name in ("hilo.db", "hilo.db-wal"):
            path = os.path.join(data, name)
            if os.path.exists(path):
                shutil.copy(path, tmp)
        db = sqlite3.connect(os.path.join(tmp, "hilo.db"))
        try:
            return db.execute(query).fetchall()
        finally:
            db.close()


def refused_start(*args, data=None, env=None, wrap=()):
    """Starts a hilod that must not start: (exit code, what it said)."""
    with tempfile.TemporaryDirectory(prefix="hilo-test-") as tmp:
        cmd = [*wrap, HILOD, "--data", data or os.path.join(tmp, "d"), *args]
        if "--listen" not in args:
            cmd += ["--listen", "127.0.0.1:0"]
        with tempfile.TemporaryFile("a+b") as log:
            proc = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=log,
                                    stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})
            line = b"ready in vain"
            if select.select([proc.stdout], [], [], DEADLINE)[0]:
                line = proc.stdout.readline()
            if line.startswith(b"ready "):
                proc.kill()
            text = line + proc.communicate(timeout=DEADLINE)[0]
            log.seek(0)
            text = (text + log.read()).decode(errors="replace")
    assert not SANITIZER.search(text), text
    assert "ready" not in text.split(), text
    return proc.returncode, text


class Case(unittest.TestCase):
    """A test with servers that end with it."""

    maxDiff = None

    def tmp(self):
        path = tempfile.mkdtemp(prefix="hilo-test-")
        self.addCleanup(shutil.rmtree, path, True)
        return path

    def hilod(self, *args, **kw):
        server = Hilod(*args, **kw)
        self.addCleanup(server.cleanup)
        self.addCleanup(self._check, server)
        return server

    def _check(self, server):
        server.stop()

    def client(self, server):
        c = server.client()
        self.addCleanup(c.close)
        return c

    def disjoint(self, ids):
        ids = sorted(ids)
        twice = [a for a, b in zip(ids, ids[1:]) if a == b]
        self.assertEqual(twice, [], "ids granted twice")


class FailingDisk:
    """A disk that does what tests/disk.c says: for servers with env=self.disk_env()."""

    def disk_env(self):
        self.disk_state = self.tmp()
        return {"LD_PRELOAD": os.path.join(os.path.dirname(HILOD), "tests", "disk.so"),
                "HILO_DISK": self.disk_state}

    def disk(self, state):
        open(os.path.join(self.disk_state, state), "w").close()

    def well(self, *states):
        for name in states or os.listdir(self.disk_state):
            os.unlink(os.path.join(self.disk_state, name))


class _Result(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        self.begin = time.monotonic()

    def _say(self, test, word):
        print("%-4s %5.1f s  %s" % (word, time.monotonic() - self.begin, test.id()), flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._say(test, "ok")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._say(test, "FAIL")

    def addError(self, test, err):
        super().addError(test, err)
        self._say(test, "FAIL")


def main():
    print("seed %d (HILO_SEED), %s" % (SEED, HILOD), flush=True)
    random.seed(SEED)
    runner = unittest.TextTestRunner(resultclass=_Result, verbosity=0, stream=sys.stdout)
    program = unittest.main(module="__main__", testRunner=runner, exit=False)
    result = program.result
    bad = len({t.id() for t, _ in result.failures + result.errors})
    print("summary: %d passed, %d failed" % (result.testsRun - bad, bad), flush=True)
    sys.exit(1 if bad or result.testsRun == 0 else 0)
