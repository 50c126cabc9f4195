"""latency.py - how long an unpipelined grant takes while something else goes on.

One connection asks, one request at a time, for a few seconds; beside it another connection
pipelines at full speed, checkpoints run, the disk stalls for half a second (tests/disk.c holds its
syncs), the configuration is read again and again, or a client sends without ever reading.
The longest request is shown, too: a stall that hits one request in thousands hides in a percentile.

    make bench-latency
"""

import os
import socket
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests"))
sys.path.insert(0, os.path.join(ROOT, "bench"))
from harness import Hilod  # noqa: E402
from wire import LOAD, Run  # noqa: E402

SHIM = os.path.join(ROOT, "build", "tests", "disk.so")
REQUESTS = 60000
STALL = 0.5


class Server:
    def __init__(self):
        self.switches = os.path.join(ROOT, "build", "bench", "disk-%d" % os.getpid())
        os.makedirs(self.switches, exist_ok=True)
        self.hilod = Hilod("--log-level", "error",
                           env={"LD_PRELOAD": SHIM, "HILO_DISK": self.switches})
        self.where = ["127.0.0.1", str(self.hilod.port)]
        with self.hilod.client() as c:
            c.call("SEQ", "CREATE", "ahead")
            c.call("SEQ", "CREATE", "other")
            c.call("SEQ", "CREATE", "each", "DURABILITY", "each")

    def stop(self):
        self.hilod.stop()
        self.hilod.cleanup()
        os.rmdir(self.switches)


class Beside:
    """Something that goes on in a thread until the end."""

    def __init__(self, step):
        self.step, self.over = step, threading.Event()
        self.thread = threading.Thread(target=self._go)

    def _go(self):
        while not self.over.is_set():
            self.step(self.over)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def pipelines(server, name):
    def step(_over):
        subprocess.run([LOAD, *server.where, "1", "64", "200000", "INCR", name], check=True,
                       stdout=subprocess.DEVNULL)
    return step


def commits(server):
    """Durable grants on 20 connections: a checkpoint of the log every few thousand pages."""
    def step(_over):
        subprocess.run([LOAD, *server.where, "20", "1", "20000", "INCR", "each"], check=True,
                       stdout=subprocess.DEVNULL)
    return step


def stalls(server):
    path = os.path.join(server.switches, "stall")

    def step(over):
        over.wait(0.5)
        with open(path, "w"):
            pass
        time.sleep(STALL)
        os.unlink(path)
    return step


def reloads(server):
    def step(over):
        server.hilod.proc.send_signal(1)
        over.wait(0.02)
    return step


def never_reads(server):
    """Sends until the server stops reading, then lets go and begins again."""
    def step(over):
        with socket.create_connection(("127.0.0.1", server.hilod.port)) as s:
            s.settimeout(0.2)
            try:
                while not over.is_set():
                    s.sendall(b"*2\r\n$4\r\nINCR\r\n$5\r\nother\r\n" * 100)
            except OSError:
                over.wait(0.5)
    return step


def main():
    server = Server()
    cases = [
        ("nothing", None),
        ("a connection that pipelines, P=64", pipelines(server, "other")),
        ("durable grants and checkpoints", commits(server)),
        ("stalls of 500 ms, a second apart", stalls(server)),
        ("the configuration read 50 times a second", reloads(server)),
        ("a client that never reads", never_reads(server)),
    ]
    print("| beside | command | p50 us | p99 us | p99.9 us | longest us |")
    print("|---|---|---|---|---|---|")
    Run(server.where, 1, 1, REQUESTS, "INCR", "ahead")  # its chunk grows to a second's worth
    for title, step in cases:
        for command in (("INCR", "ahead"), ("PING",)):
            if step is None:
                run = Run(server.where, 1, 1, REQUESTS, *command)
            else:
                with Beside(step):
                    run = Run(server.where, 1, 1, REQUESTS, *command)
            print("| %s | %s | %.0f | %.0f | %.0f | %.0f |" %
                  (title, " ".join(command), run.p50, run.p99, run.p999, run.max), flush=True)
    with Beside(stalls(server)), Beside(commits(server)):
        run = Run(server.where, 1, 1, REQUESTS, "PING")
    print("| durable grants that stall | PING | %.0f | %.0f | %.0f | %.0f |" %
          (run.p50, run.p99, run.p999, run.max))
    server.stop()


if __name__ == "__main__":
    main()
