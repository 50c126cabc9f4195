"""cli_test.py - hilo, the command line, against real servers."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import harness

HILO = os.path.join(os.path.dirname(os.path.abspath(harness.HILOD)), "hilo")


class Case(harness.Case):
    def pair(self, **kw):
        self.servers = [self.hilod("--lane", "%d/2" % i, **kw) for i in (1, 2)]
        self.addresses = ["127.0.0.1:%d" % s.port for s in self.servers]
        return ",".join(self.addresses)

    def one(self, *args, **kw):
        self.servers = [self.hilod(*args, **kw)]
        self.addresses = ["127.0.0.1:%d" % self.servers[0].port]
        return self.addresses[0]

    def run_hilo(self, *args, env=None, stdin=None):
        done = subprocess.run([HILO, *map(str, args)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=harness.DEADLINE,
                              env={**os.environ, "HILO_SERVER": "", **(env or {})})
        err = done.stderr.decode()
        self.assertNotRegex(err, harness.SANITIZER)
        return done.returncode, done.stdout.decode(), err

    def good(self, *args, **kw):
        code, out, err = self.run_hilo(*args, **kw)
        self.assertEqual((code, err), (0, ""), out)
        return out

    def bad(self, code, *args, **kw):
        got, out, err = self.run_hilo(*args, **kw)
        self.assertEqual(got, code, out + err)
        self.assertRegex(err, r"^hilo: [^\n]+\n$")
        return err


class Taking(Case):
    def test_next(self):
        at = self.one()
        self.assertEqual(self.good("--server", at, "next", "orders"), "1\n")
        self.assertEqual(self.good("-s", at, "next", "orders", "-n", 3), "2\n3\n4\n")
        # nothing was taken that wasn't printed
        self.assertEqual(self.servers[0].client().call("GET", "orders"), b"4")
        said = json.loads(self.good("--json", "-s", at, "next", "orders", "-n", 40000))
        self.assertEqual(said["sequence"], "orders")
        self.assertEqual(said["ids"], [str(i) for i in range(5, 40005)])

    def test_next_streams_a_million(self):
        at = self.one()
        out = self.good("-s", at, "next", "orders", "-n", 1000000)
        self.assertEqual(out, "".join("%d\n" % i for i in range(1, 1000001)))

    def test_a_reader_that_leaves_ends_it(self):
        at = self.one()
        p = subprocess.Popen([HILO, "-s", at, "next", "orders", "-n", "100000000"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.stdout.read(1000)
        p.stdout.close()
        p.stderr.read()
        p.stderr.close()
        self.assertIn(p.wait(harness.DEADLINE), (-signal.SIGPIPE, 1))

    def test_progress_only_where_a_terminal_sees_it(self):
        at = self.one()
        master, slave = pty.openpty()
        p = subprocess.Popen([HILO, "-s", at, "next", "orders", "-n", "100000"],
                             stdout=subprocess.PIPE, stderr=slave)
        os.close(slave)
        self.assertEqual(p.stdout.read().count(b"\n"), 100000)
        p.stdout.close()
        self.assertEqual(p.wait(), 0)
        said = b""
        while select.select([master], [], [], 0.2)[0]:
            try:
                said += os.read(master, 65536)
            except OSError:
                break
        os.close(master)
        self.assertIn(b"100 %  100000 of 100000", said)
        self.assertEqual(self.run_hilo("-s", at, "next", "orders", "-n", 50000)[2], "")

    def test_a_list_that_breaks_off_is_still_json(self):
        at = self.one()
        self.good("-s", at, "create", "few", "--max", 20000)
        code, out, err = self.run_hilo("-s", at, "--json", "next", "few", "-n", 30000)
        self.assertEqual(code, 1)
        self.assertEqual(json.loads(err)["error"]["code"], "EXHAUSTED")
        self.assertEqual(json.loads(out)["ids"], [str(i) for i in range(1, 16385)])
        code, out, _ = self.run_hilo("-s", at, "--json", "next", "few", "-n", 30000)
        self.assertEqual((code, out), (1, ""))

    def test_a_full_disk_is_no_success(self):
        at = self.one()
        self.good("-s", at, "create", "orders")
        for args in (["ls"], ["info"], ["ping"], ["top", "-n", "1"], ["next", "orders"],
                     ["block", "orders", "3"], ["create", "x"], ["doctor"], ["--help"],
                     ["--version"], ["--json", "ls"], ["--json", "ping"],
                     ["--json", "block", "orders", "3"], ["--json", "next", "orders"]):
            with self.subTest(args), open("/dev/full", "w") as full:
                done = subprocess.run([HILO, "-s", at, *args], stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"No space left", done.stderr)

    def test_block(self):
        at = self.one()
        self.assertEqual(self.good("-s", at, "block", "orders", 100), "1 100 1\n")
        self.assertEqual(json.loads(self.good("-s", at, "--json", "block", "orders", 5)),
                         {"sequence": "orders", "first": "101", "last": "105", "step": "1",
                          "count": "5"})
        self.assertIn("max_block", self.bad(1, "-s", at, "block", "orders", 2000000))

    def test_one_member_down(self):
        at = self.pair()
        self.good("-s", at, "create", "orders")
        self.servers[0].kill()
        ids = [int(self.good("-s", at, "next", "orders")) for _ in range(5)]
        self.assertEqual(ids, list(range(100001, 100006)))

    def test_errors_have_their_exit_codes(self):
        at = self.one("--auto-create", "no")
        self.assertIn("SEQ CREATE", self.bad(1, "-s", at, "next", "nobody"))
        self.assertIn("refused", self.bad(69, "-s", "127.0.0.1:1", "next", "x", "--timeout", 200))
        self.good("-s", at, "create", "few", "--max", 2)
        self.assertIn("few", self.bad(1, "-s", at, "next", "few", "-n", 3))
        code, _, err = self.run_hilo("-s", at, "--json", "next", "nobody")
        self.assertEqual(code, 1)
        self.assertEqual(json.loads(err)["error"]["code"], "NOSEQ")
        self.servers[0].proc.send_signal(signal.SIGSTOP)
        try:
            code, _, err = self.run_hilo("-s", at, "create", "x", "--timeout", 200)
            self.assertEqual(code, 75, err)
        finally:
            self.servers[0].proc.send_signal(signal.SIGCONT)


class Usage(Case):
    def test_help_and_version(self):
        said = self.good("--help")
        for command in ("next", "block", "create", "alter", "ls", "info", "advance", "retire",
                        "top", "bench", "doctor", "ping"):
            self.assertRegex(said, r"(?m)^  %s " % command)
        self.assertRegex(self.good("--version"), r"^hilo \d")

    def test_wrong_usage(self):
        for args, said in (
                ((), "command is missing"), (("what",), "unknown command 'what'"),
                (("next",), "hilo next NAME"), (("next", "a", "b"), "hilo next NAME"),
                (("next", "a", "--start", "5"), "takes no --start"),
                (("next", "a", "-n", "0"), "-n is '0'"), (("next", "a", "-n", "1e3"), "1e3"),
                (("next", "a", "-n"), "needs a value"), (("--nonsense",), "--nonsense"),
                (("block", "a", "0"), "COUNT"), (("block", "a", "x"), "COUNT"),
                (("create", "a", "--durability", "maybe"), "ahead or each"),
                (("create", "a", "--max", "-1"), "--max"), (("create", "a b"), "1 to 128"),
                (("alter", "a"), "--max"), (("advance", "a"), "hilo advance NAME ID"),
                (("advance", "a", "9223372036854775807"), "ID"), (("info", "b\nc"), "1 to 128"),
                (("--server", "nowhere", "ping"), "HOST:PORT"), (("-s", "", "ping"), "--server is"),
                (("ping", "-n", "3"), "takes no -n"),
                (("top", "--interval", "0"), "--interval"), (("ping", "--timeout", "0"), "--timeout")):
            err = self.bad(64, *args)
            self.assertIn(said, err)

    def test_password_file(self):
        path = os.path.join(self.tmp(), "p")
        with open(path, "w") as f:
            f.write("good-password\nanother-password\n")
        os.chmod(path, 0o600)
        at = self.one("--password-file", path)
        self.assertEqual(self.good("-s", at, "--password-file", path, "next", "orders"), "1\n")
        self.assertEqual(self.good("-s", at, "next", "orders", env={"HILO_PASSWORD_FILE": path}),
                         "2\n")
        self.good("-s", at, "-s", at, "--password-file", path, "ls")
        self.assertIn("log in", self.bad(1, "-s", at, "next", "orders"))
        self.assertIn("NOAUTH", self.bad(1, "-s", at, "ls"))
        os.chmod(path, 0o644)
        self.assertIn("chmod 600", self.bad(1, "-s", at, "--password-file", path, "ls"))
        self.assertIn("No such file", self.bad(1, "--password-file", path + "x", "ls"))

    def test_the_environment_names_the_servers(self):
        at = self.one()
        self.assertEqual(self.good("next", "orders", env={"HILO_SERVER": at}), "1\n")


class Members(Case):
    def test_create_alter_advance_retire_go_to_every_member(self):
        at = self.pair()
        said = self.good("-s", at, "create", "orders", "--start", 1000, "--max", 10**9)
        for a in self.addresses:
            self.assertIn(a, said)
        self.good("-s", at, "alter", "orders", "--max", 2 * 10**9, "--durability", "each")
        self.good("-s", at, "advance", "orders", 5000000)
        for s in self.servers:
            row = self.client(s).seq("orders")
            self.assertEqual((row["start"], row["max"], row["durability"]),
                             ("1000", "2000000000", "each"))
            self.assertGreater(int(self.client(s).call("NEXT", "orders")), 5000000)
        self.assertEqual(json.loads(self.good("-s", at, "--json", "retire", "orders")),
                         {"sequence": "orders", "servers": 2})
        for s in self.servers:
            self.assertEqual(self.client(s).seq("orders")["state"], "retired")

    def test_those_not_reached_are_named(self):
        at = self.pair()
        self.servers[1].kill()
        for args in (("create", "orders"), ("advance", "orders", 50), ("alter", "orders", "--max", 99),
                     ("retire", "orders")):
            err = self.bad(69, "-s", at, *args)
            self.assertIn("on 1 of 2 servers", err)
            self.assertIn(self.addresses[1], err)
            self.assertNotIn(self.addresses[0], err)

    def test_servers_that_contradict_each_other_are_left_alone(self):
        a, b = self.hilod("--lane", "1/2"), self.hilod("--lane", "1/2")
        at = "127.0.0.1:%d,127.0.0.1:%d" % (a.port, b.port)
        self.assertIn("hilo doctor", self.bad(1, "-s", at, "create", "orders"))
        for s in (a, b):
            self.assertEqual(self.client(s).fails("SEQ", "INFO", "orders").word, "NOSEQ")

    def test_refusals_are_told(self):
        at = self.pair()
        self.good("-s", at, "create", "orders")
        err = self.bad(1, "-s", at, "create", "orders", "--start", 7)
        self.assertIn("exists with START 1", err)
        self.assertIn(self.addresses[0], err)
        self.assertIn(self.addresses[1], err)

    def test_ls_and_info(self):
        at = self.pair()
        self.assertIn("no sequences", self.good("-s", at, "ls"))
        names = ["s%03d" % i for i in range(250)]
        for name in names:
            for s in self.servers:
                if name != "s007" or s is self.servers[0]:
                    s.client().call("SEQ", "CREATE", name)
        rows = json.loads(self.good("-s", at, "--json", "ls"))
        self.assertEqual([r["name"] for r in rows], names)
        self.assertEqual([r["name"] for r in rows if r["servers"] != 2], ["s007"])
        said = self.good("-s", at, "ls", "s00*")
        self.assertEqual(len(said.splitlines()), 11)
        self.assertRegex(said, r"(?m)^s007 .*1 of 2")
        said = json.loads(self.good("-s", at, "--json", "info", "s001"))
        self.assertEqual([r["server"] for r in said], self.addresses)
        said = json.loads(self.good("-s", at, "--json", "info"))
        self.assertEqual([(r["lane"], r["ready"]) for r in said], [("1", "1"), ("2", "1")])
        self.assertIn("store_uuid", self.good("-s", at, "info"))
        self.assertIn("durability ahead", self.good("-s", at, "info", "s001"))
        self.bad(1, "-s", at, "info", "nobody")

    def test_ping(self):
        at = self.pair()
        self.assertEqual(len(self.good("-s", at, "ping").splitlines()), 2)
        self.servers[0].kill()
        code, out, err = self.run_hilo("-s", at, "ping")
        self.assertEqual(code, 69)
        self.assertIn("lane 2 of 2", out)
        self.assertIn(self.addresses[0], err)

    def test_top(self):
        at = self.pair()
        self.good("-s", at, "create", "orders")
        self.good("-s", at, "next", "orders", "-n", 10)
        said = self.good("-s", at, "top", "-n", 2, "--interval", 0.1)
        self.assertEqual(said.count("2 of 2 servers"), 2)
        self.assertRegex(said, r"(?m)^ .* orders$")
        lines = self.good("-s", at, "--json", "top", "-n", 2, "--interval", 0.1).splitlines()
        self.assertEqual([json.loads(l)[0]["name"] for l in lines], ["orders", "orders"])
        p = subprocess.Popen([HILO, "-s", at, "top", "--interval", "3600"], stdout=subprocess.PIPE)
        self.assertIn(b"servers", p.stdout.readline())
        p.send_signal(signal.SIGINT)
        p.stdout.read()
        p.stdout.close()
        self.assertEqual(p.wait(harness.DEADLINE), 0)

    def test_bench(self):
        at = self.one()
        said = json.loads(self.good("-s", at, "--json", "bench", "x", "-n", 10000, "-t", 2))
        self.assertEqual((said["ids"], said["threads"]), (10000, 2))
        self.assertIn("round trip", self.good("-s", at, "bench", "x", "-n", 1000))


class Doctor(Case):
    def findings(self, at, code):
        got, out, err = self.run_hilo("-s", at, "--json", "doctor")
        self.assertEqual(got, code, out + err)
        return json.loads(out)["findings"]

    def test_a_sound_pair(self):
        at = self.pair(data=None)
        self.good("-s", at, "create", "orders")
        found = [f for f in self.findings(at, 0)
                 if "memory" not in f["text"] and "disk" not in f["text"] and "ulimit" not in f["text"]]
        self.assertEqual(found, [])
        self.assertIn("0 problems", self.good("-s", at, "doctor"))

    def problem(self, at, code, text):
        found = [f["text"] for f in self.findings(at, code) if f["level"] == "problem"]
        self.assertTrue(any(re.search(text, f) for f in found), found)

    def test_what_is_wrong_is_found(self):
        at = self.pair()
        self.servers[0].client().call("SEQ", "CREATE", "lonely")
        self.problem(at, 1, "lonely is on 1 of 2 servers: hilo create .* -- lonely")
        self.servers[1].client().call("SEQ", "CREATE", "lonely", "MAX", 200000)
        self.problem(at, 1, r"lonely is 1 to \d+ on .* but 1 to 200000 on")
        self.problem(self.addresses[0] + ",127.0.0.1:1", 69, "is hilod running there")
        at = self.one()
        self.servers[0].client().call("SEQ", "CREATE", "full", "MAX", 20)
        self.good("-s", at, "next", "full", "-n", 20)
        self.problem(at, 1, "full has used 100 %")

    def test_two_of_one_lane(self):
        a = self.pair()
        b = self.hilod("--lane", "1/2")
        self.problem(self.addresses[0] + ",127.0.0.1:%d" % b.port, 1, "the SAME ids")
        c = self.hilod("--lane", "2/3")
        self.problem(a + ",127.0.0.1:%d" % c.port, 1, "another layout")

    def test_one_server_named_twice(self):
        at = self.one()
        found = self.findings(at + "," + at.replace("127.0.0.1", "[::ffff:127.0.0.1]"), 0)
        self.assertTrue(any("are the same server" in f["text"] for f in found), found)

    def test_a_wrong_password_is_a_problem(self):
        path = os.path.join(self.tmp(), "p")
        with open(path, "w") as f:
            f.write("good-password\n")
        os.chmod(path, 0o600)
        at = self.one("--password-file", path)
        self.problem(at, 1, "--password-file")

    def test_counters_in_memory(self):
        at = self.one("--engine", "memory")
        self.problem(at, 1, "after a restart ids REPEAT")


if __name__ == "__main__":
    harness.main()
