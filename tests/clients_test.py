"""clients_test.py - clients people have, with their default settings: 1,000 exact ids each.

Every program of tests/clients takes 500 ids by INCR and 500 by NEXT ("id N"), 1000 above
2^53 ("big N"), says "restart", and when it is told to go on takes one more.
"""

import os
import re
import subprocess
import threading

import harness
from harness import wait_until

BIG = 2**53 + 1  # where a double begins to round
HERE = os.path.join(harness.ROOT, "tests", "clients")
BUILT = os.path.join(harness.ROOT, "build", "clients")


class Clients(harness.Case):
    def setUp(self):
        self.server = self.hilod()
        c = self.client(self.server)
        c.call("SEQ", "CREATE", "big", "START", BIG)


class Cli(Clients):
    def cli(self, *args, stdin=None):
        done = subprocess.run(["redis-cli", "-p", str(self.server.port), *args], input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=harness.DEADLINE)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout.decode()

    def takes_1000(self, *flags):
        lines = self.cli(*flags, "-r", "500", "INCR", "orders").split()
        self.assertEqual(lines, [str(i) for i in range(1, 501)])
        out = self.cli(*flags, stdin=b"NEXT orders\n" * 500).split()
        self.assertEqual(out, [str(i) for i in range(501, 1001)])
        out = self.cli(*flags, stdin=b"NEXT big 1000\n")
        ids = [l.split()[-1].strip('"') for l in out.splitlines() if l.strip()]
        self.assertEqual(ids, [str(i) for i in range(BIG, BIG + 1000)])
        self.assertIn("PONG", self.cli(*flags, "PING"))

    def test_one_shot(self):
        self.takes_1000()

    def test_resp3(self):
        self.takes_1000("-3")

    def interactive(self, *flags):
        """On a terminal, where it asks for COMMAND DOCS first and shows hints."""
        port = str(self.server.port)
        typed = "INCR orders\nSEQ CREATE x START 7\nINCR x\nincr x\nINFO hilo\nquit\n"
        done = subprocess.run(
            ["script", "-qec", " ".join(["redis-cli", *flags, "-p", port]), "/dev/null"],
            input=typed.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=harness.DEADLINE, env={**os.environ, "TERM": "dumb", "HOME": self.tmp()})
        said = done.stdout.decode()
        self.assertEqual(re.findall(r"\(integer\) (\d+)", said), ["1", "7", "8"], said)
        self.assertIn("store_uuid:", said)

    def test_interactive(self):
        self.interactive()

    def test_interactive_resp3(self):
        self.interactive("-3")

    def test_password(self):
        path = os.path.join(self.tmp(), "p")
        with open(path, "w") as f:
            f.write("good-password\n")
        self.server = self.hilod("--password-file", path)
        for flags in (("-a", "good-password"), ("--user", "default", "--pass", "good-password"),
                      ("-3", "-a", "good-password")):
            self.assertIn("PONG", self.cli("--no-auth-warning", *flags, "PING"))
        self.assertIn("NOAUTH", self.cli("PING"))

    def test_benchmark_runs_to_its_end(self):
        for flags in ((), ("-P", "16"), ("-3",), ("--threads", "2")):
            done = subprocess.run(
                ["redis-benchmark", "-p", str(self.server.port), "-n", "5000", "-c", "20",
                 "-q", *flags, "INCR", "orders"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=harness.DEADLINE)
            said = done.stdout.decode()
            self.assertEqual(done.returncode, 0, said)
            self.assertIn("requests per second", said)
            self.assertNotIn("rror", said)
        c = self.client(self.server)
        # With threads it sends a few more than it was asked for.
        self.assertIn(int(c.call("GET", "orders")), range(20000, 20100))
        done = subprocess.run(
            ["redis-benchmark", "-p", str(self.server.port), "-n", "2000", "-q", "-t",
             "ping,incr"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=harness.DEADLINE)
        self.assertEqual(done.returncode, 0, done.stdout)


class Program(Clients):
    """One that is started, told that the server was restarted, and takes one more."""

    def takes_1000(self, *command, restarted=True):
        client = subprocess.Popen([*command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        self.addCleanup(client.stdin.close)
        self.addCleanup(client.stdout.close)
        self.addCleanup(client.kill)
        limit = threading.Timer(harness.DEADLINE, client.kill)
        limit.start()
        self.addCleanup(limit.cancel)
        lines = []
        for line in client.stdout:
            lines.append(line.strip())
            if line == "restart\n":
                break
        self.assertEqual(lines, ["id %d" % i for i in range(1, 1001)] +
                         ["big %d" % i for i in range(BIG, BIG + 1000)] + ["restart"])
        self.server.stop()
        again = self.hilod(data=self.server.data, listen="127.0.0.1:%d" % self.server.port)
        self.assertEqual(again.port, self.server.port)
        client.stdin.write("\n")
        client.stdin.flush()
        self.assertEqual(client.stdout.read(), "id 1001\n")
        self.assertEqual(client.wait(harness.DEADLINE), 0)

    def node(self, script, *args):
        """Modules are looked for beside the script, so it runs from where they are."""
        path = os.path.join(BUILT, "node", script)
        with open(os.path.join(HERE, script)) as f, open(path, "w") as to:
            to.write(f.read())
        self.takes_1000("node", path, str(self.server.port), *args)


class Programs(Program):
    def test_python(self):
        self.takes_1000("/usr/bin/python3", os.path.join(HERE, "take.py"),
                        str(self.server.port))

    def test_ruby(self):
        self.takes_1000("/usr/bin/ruby", os.path.join(HERE, "take.rb"), str(self.server.port))

    def test_php(self):
        self.takes_1000("php", os.path.join(HERE, "take.php"), str(self.server.port))

    def test_perl(self):
        self.takes_1000("/usr/bin/perl", os.path.join(HERE, "take.pl"), str(self.server.port))

    def test_go(self):
        self.takes_1000(os.path.join(BUILT, "take-go"), str(self.server.port))

    def test_ioredis(self):
        self.node("ioredis.mjs", "ioredis")

    def test_node_redis_resp2(self):
        self.node("redis.mjs", "redis", "2")

    def test_node_redis_resp3(self):
        self.node("redis.mjs", "redis", "3")


def node_major():
    said = subprocess.run(["node", "--version"], stdout=subprocess.PIPE, check=True).stdout
    return int(re.match(rb"v(\d+)", said).group(1))


if node_major() >= 20:  # what the newest clients need; Debian's own is 18

    class NewestNode(Program):
        def test_ioredis(self):
            self.node("ioredis.mjs", "ioredis-6")

        def test_node_redis_resp2(self):
            self.node("redis.mjs", "redis-6", "2")

        def test_node_redis_resp3(self):
            self.node("redis.mjs", "redis-6", "default")


if __name__ == "__main__":
    harness.main()
