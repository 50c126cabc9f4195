"""soak_client.py - a client of tests/soak.py: takes ids from one server until it is killed.

    soak_client.py DIRECTORY tcp|unix SEED

The directory holds the server's Unix socket, "sock", and its port, in "port", anew with each start.
What was granted goes to standard output, a line of words for each answer, as soon as it is there:

    begin LIFE                                   connected; the number of the server's start
    grant SENT ANSWERED NAME FIRST LAST STEP     times in nanoseconds
    token SENT ANSWERED NAME FIRST LAST STEP TOKEN REPEATED
    refused ERROR | wrong WHAT
"""

import os
import random
import sys
import time

import harness

NAMES = ("ahead", "each")
BATCH = 500  # ids under way, at most
BLOCK = 100  # ids of a block that can't be smaller
KEPT = 20  # tokens asked for again after a crash


def say(lines):
    """One write: a kill leaves whole lines and, at most, one that is torn."""
    os.write(1, ("\n".join(lines) + "\n").encode())


class Wrong(Exception):
    pass


class SoakClient:
    def __init__(self, where, kind, seed):
        self.where, self.kind = where, kind
        self.parent = os.getppid()
        self.rng = random.Random(seed)
        self.prefix = "%d-%d" % (os.getpid(), time.monotonic_ns())
        self.tokens = 0
        self.pending = None  # a token request without an answer
        self.known = []  # (request, block) of tokens answered
        self.client = None

    def connect(self):
        """Tries until there is a server; a parent that is gone ends it."""
        while os.getppid() == self.parent:
            try:
                if self.kind == "unix":
                    self.client = harness.Client(path=os.path.join(self.where, "sock"))
                else:
                    with open(os.path.join(self.where, "port")) as f:
                        self.client = harness.Client(int(f.read()))
                hello = self.client.call("HELLO", 3)
                say(["begin " + hello[b"boot"].decode().split("-")[0]])
                return
            except (OSError, ValueError, harness.Closed):
                time.sleep(0.01)
        sys.exit(0)

    # --- requests ---

    def ask(self, commands):
        """(sent, answered, replies); they go out together."""
        data = b"".join(harness.Client.encode(*c) for c in commands)
        sent = time.monotonic_ns()
        self.client.send(data)
        replies = [self.client.reply() for _ in commands]
        return sent, time.monotonic_ns(), replies

    @staticmethod
    def runs(ids):
        """Neighbours as (first, last, 1)."""
        out = []
        for i in ids:
            if out and i == out[-1][1] + 1:
                out[-1] = (out[-1][0], i, 1)
            else:
                out.append((i, i, 1))
        return out

    def grants(self, name, commands):
        """Sends them, and reports what they were granted, in order."""
        sent, answered, replies = self.ask(commands)
        ids, blocks, lines = [], [], []
        for command, reply in zip(commands, replies):
            if isinstance(reply, harness.Error):
                lines.append("refused %s" % reply)
            elif command[0] == "BLOCK":
                blocks.append(tuple(map(int, reply)))
            elif command[0] == "NEXT":
                ids += map(int, reply)
            else:
                ids.append(reply)
        granted = self.runs(ids) + blocks
        for (_, last, _), (first, _, _) in zip(granted, granted[1:]):
            if first <= last:
                lines.append("wrong %s: %d was granted after %d on one connection" %
                             (name, first, last))
        say(lines + ["grant %d %d %s %d %d %d" % (sent, answered, name, *run) for run in granted])

    def token(self):
        """A block with a token; without an answer it is asked for again on the next
        connection."""
        repeated = self.pending is not None
        if not repeated:
            self.tokens += 1
            self.pending = ("BLOCK", self.rng.choice(NAMES), self.rng.randrange(1, BLOCK), "TOKEN",
                            "%s-%d" % (self.prefix, self.tokens))
        request = self.pending
        sent, answered, (reply,) = self.ask([request])
        self.pending = None
        if isinstance(reply, harness.Error):
            say(["refused %s" % reply])
            return
        block = tuple(map(int, reply))
        say(["token %d %d %s %d %d %d %s %d" %
             (sent, answered, request[1], *block, request[4], repeated)])
        self.known = (self.known + [(request, block)])[-KEPT:]

    def ask_again(self):
        """Tokens that were answered, once more: the same blocks."""
        for request, block in self.rng.sample(self.known, min(len(self.known), 5)):
            _, _, (reply,) = self.ask([request])
            if isinstance(reply, harness.Error) or tuple(map(int, reply)) != block:
                say(["wrong %s of token %s: it was %s, and is %s after a crash" %
                     (request[1], request[4], block, reply)])

    def once(self):
        name = self.rng.choice(NAMES)
        kind = self.rng.randrange(6)
        if kind == 0:
            self.grants(name, [("INCR", name)] * self.rng.choice((1, 50, BATCH)))
        elif kind == 1:
            self.grants(name, [("NEXT", name, self.rng.randrange(1, BLOCK))] * 5)
        elif kind == 2:
            self.grants(name, [("BLOCK", name, self.rng.randrange(1, BLOCK))] * 5)
        elif kind == 3:
            self.grants(name, [("BLOCK", name, BATCH, "ATLEAST", 1)])
        else:
            self.token()

    def run(self):
        while True:
            self.connect()
            try:
                if self.pending:
                    self.token()
                self.ask_again()
                while True:
                    self.once()
            except (OSError, harness.Closed):
                self.client.close()


if __name__ == "__main__":
    SoakClient(sys.argv[1], sys.argv[2], int(sys.argv[3])).run()
