"""clients_test.py - clients people have: redis-cli and python3-redis, 1,000 exact ids each."""

import subprocess

import redis

import harness

BIG = 2**53 + 1  # where a double begins to round


class Clients(harness.Case):
    def setUp(self):
        self.server = self.hilod()
        c = self.client(self.server)
        c.call("SEQ", "CREATE", "big", "START", BIG)

    def cli(self, *args, stdin=None):
        done = subprocess.run(["redis-cli", "-p", str(self.server.port), *args], input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=harness.DEADLINE)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout.decode()

    def cli_takes_1000(self, *flags):
        lines = self.cli(*flags, "-r", "500", "INCR", "orders").split()
        self.assertEqual(lines, [str(i) for i in range(1, 501)])
        out = self.cli(*flags, stdin=b"NEXT orders\n" * 500).split()
        self.assertEqual(out, [str(i) for i in range(501, 1001)])
        out = self.cli(*flags, stdin=b"NEXT big 1000\n")
        ids = [l.split()[-1].strip('"') for l in out.splitlines() if l.strip()]
        self.assertEqual(ids, [str(i) for i in range(BIG, BIG + 1000)])
        self.assertIn("PONG", self.cli(*flags, "PING"))

    def test_redis_cli(self):
        self.cli_takes_1000()

    def test_redis_cli_resp3(self):
        self.cli_takes_1000("-3")

    def test_python(self):
        r = redis.Redis("127.0.0.1", self.server.port)
        self.assertEqual([r.incr("orders") for _ in range(500)], list(range(1, 501)))
        pipe = r.pipeline(transaction=False)
        for _ in range(500):
            pipe.execute_command("NEXT", "orders")
        self.assertEqual([int(i) for i in pipe.execute()], list(range(501, 1001)))
        ids = r.execute_command("NEXT", "big", 1000)
        self.assertEqual([int(i) for i in ids], list(range(BIG, BIG + 1000)))
        self.assertEqual(r.get("orders"), b"1000")
        self.assertTrue(r.ping())
        self.assertEqual(r.info()["loading"], 0)
        with self.assertRaisesRegex(redis.ResponseError, "SEQ RETIRE"):
            r.delete("orders")

    def test_python_survives_a_restart_of_the_server(self):
        r = redis.Redis("127.0.0.1", self.server.port)
        self.assertEqual(r.incr("orders"), 1)
        self.server.stop()
        again = self.hilod(data=self.server.data, listen="127.0.0.1:%d" % self.server.port)
        self.assertEqual(again.port, self.server.port)

        def next_id():
            try:
                return r.incr("orders")
            except redis.ConnectionError:
                return None

        self.assertEqual(harness.wait_until(next_id, "the client to reconnect"), 2)


if __name__ == "__main__":
    harness.main()
