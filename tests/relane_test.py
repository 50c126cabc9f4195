"""relane_test.py - lanes that are changed: one layout is sealed, the next one opened above it."""

import fcntl
import os
import shutil
import subprocess
import tempfile

import harness
from harness import HILOD, refused_start

STEPS = os.path.join(os.path.dirname(HILOD), "tests", "steps.so")
NAMES = ("ahead", "each", "other")


class Base(harness.Case):
    def setUp(self):
        self.dir = self.tmp()
        self.granted = {}  # name -> all ids

    def path(self, name):
        return os.path.join(self.dir, name)

    def run_hilod(self, data, *args, env=None):
        """(exit code, what it said) of one that ends by itself."""
        done = subprocess.run([HILOD, "--data", self.path(data), *args], timeout=harness.DEADLINE,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, **(env or {})})
        text = done.stdout.decode(errors="replace")
        self.assertIsNone(harness.SANITIZER.search(text), text)
        return done.returncode, text

    def seal(self, data, *args, file=None, code=0, **kw):
        done, text = self.run_hilod(data, "--relane-seal", self.path(file or data + ".seal"), *args,
                                    **kw)
        self.assertEqual(done, code, text)
        return text

    def open(self, data, lane, *files, stripe=None, code=0, args=(), **kw):
        stripe = () if stripe is None else ("--stripe", str(stripe))
        done, text = self.run_hilod(data, "--relane-open", lane, *stripe, *args,
                                    *(self.path(f) for f in files), **kw)
        self.assertEqual(done, code, text)
        return text

    def take(self, server, names=NAMES, n=50):
        """Ids of each sequence: none may have been granted before."""
        with server.client() as c:
            for name in names:
                old = self.granted.setdefault(name, [])
                new = [int(i) for _ in range(n) for i in c.call("NEXT", name, 3)]
                self.assertEqual(new, sorted(new))
                old += new
                self.disjoint(old)

    def refused(self, data, *args):
        code, text = refused_start(*args, data=self.path(data))
        self.assertEqual(code, 78, text)
        return text

    def serve(self, data, *args, names=NAMES, kill=False):
        """A server takes its turn: grants, and ends."""
        server = self.hilod(*args, data=self.path(data))
        for name in names:
            with server.client() as c:
                c.call("SEQ", "CREATE", name, "DURABILITY", "each" if name == "each" else "ahead")
        self.take(server, names)
        server.kill() if kill else server.stop()

    def highest(self, name):
        return max(self.granted[name])

    def lowest_next(self, data, name):
        """The first id a server grants; it is noted."""
        server = self.hilod(data=self.path(data))
        with server.client() as c:
            id = c.call("INCR", name)
        server.stop()
        self.granted[name].append(id)
        self.disjoint(self.granted[name])
        return id


class Relane(Base):
    # --- the way it is meant ---

    def test_one_server_becomes_a_pair_becomes_three_becomes_one(self):
        a = self.hilod(data=self.path("a"))
        with a.client() as c:
            c.call("SEQ", "CREATE", "each", "DURABILITY", "each")
            c.call("SEQ", "CREATE", "bounded", "START", 100, "MAX", 123456)
            c.call("SEQ", "CREATE", "gone")
            c.call("INCR", "gone")
            c.call("SEQ", "RETIRE", "gone")
        self.take(a, ("ahead", "each", "other", "bounded"))
        a.kill()  # even so
        layouts = [(["a"], 1, 100000), (["a", "b"], 2, 1), (["a", "b", "c"], 3, 1000),
                   (["c"], 1, 1000), (["a", "b"], 2, 1)]
        for (old, _, _), (new, lanes, stripe) in zip(layouts, layouts[1:]):
            for d in old:
                if os.path.exists(self.path(d + ".seal")):
                    os.unlink(self.path(d + ".seal"))
                self.seal(d)
            high = {n: max(ids) for n, ids in self.granted.items()}
            files = [d + ".seal" for d in old]
            for i, d in enumerate(new, 1):
                self.open(d, "%d/%d" % (i, lanes), *files, stripe=stripe)
            servers = [self.hilod(data=self.path(d)) for d in new]
            for i, s in enumerate(servers, 1):
                with s.client() as c:
                    info = c.info("hilo")
                    self.assertEqual((info["lane"], info["lanes"], info["stripe"]),
                                     (str(i), str(lanes), str(stripe)))
                    self.assertEqual(c.seq("gone")["state"], "retired")
                    self.assertEqual(c.seq("bounded")["max"], "123456")
                    self.assertEqual(c.seq("bounded")["start"], "100")
                    self.assertEqual(c.seq("each")["durability"], "each")
                    self.assertGreater(c.call("INCR", "bounded"), high["bounded"])
                self.take(s, ("ahead", "each", "other"))
            for name in ("ahead", "each", "other"):
                self.assertGreater(min(self.granted[name][-150 * lanes:]), high[name])
            for s in servers:
                s.kill()

    def test_a_clean_stop_leaves_a_small_gap(self):
        self.serve("a")
        self.seal("a")
        self.open("a", "1/2", "a.seal", stripe=1)
        self.assertLessEqual(self.lowest_next("a", "ahead"), 152)

    def test_tokens_belong_to_a_layout(self):
        a = self.hilod(data=self.path("a"))
        with a.client() as c:
            first = c.call("BLOCK", "ahead", 10, "TOKEN", "t")
            self.assertEqual(c.call("BLOCK", "ahead", 10, "TOKEN", "t"), first)
        a.stop()
        self.seal("a")
        self.open("a", "1/1", "a.seal")
        a = self.hilod(data=self.path("a"))
        with a.client() as c:
            again = c.call("BLOCK", "ahead", 10, "TOKEN", "t")
            self.assertGreater(int(again[0]), int(first[1]))
            self.assertEqual(c.call("BLOCK", "ahead", 10, "TOKEN", "t"), again)

    def test_lanes_that_were_set_up_differently_go_on_within_both(self):
        for i, d in enumerate(("a", "b"), 1):
            s = self.hilod("--lane", "%d/2" % i, "--stripe", "1", data=self.path(d))
            with s.client() as c:
                c.call("SEQ", "CREATE", "x", "START", 10 * i, "MAX", 1000 * i,
                       "DURABILITY", ("ahead", "each")[i - 1])
                c.call("SEQ", "CREATE", "y", "START", 1, "MAX", 1000)
                if i == 2:
                    c.call("SEQ", "CREATE", "only")
                    c.call("SEQ", "RETIRE", "y")
            s.stop()
            self.seal(d)
        said = self.open("a", "1/1", "a.seal", "b.seal")
        self.assertIn("sequence x was set up differently", said)
        s = self.hilod(data=self.path("a"))
        with s.client() as c:
            x = c.seq("x")
            self.assertEqual((x["start"], x["max"], x["durability"]), ("20", "1000", "each"))
            self.assertEqual(c.call("INCR", "x"), 20)
            self.assertEqual(c.seq("y")["state"], "live")
            self.assertEqual(c.seq("only")["state"], "live")

    def test_what_later_sequences_leave_out_is_left_out_in_the_new_layout(self):
        self.serve("a", names=("ahead",))
        self.serve("a", "--skip", "5000", names=("ahead",))
        self.seal("a")
        self.open("a", "1/2", "a.seal", stripe=1)
        self.open("b", "2/2", "a.seal", stripe=1)
        for d in ("a", "b"):
            self.serve(d, names=("younger",))
        self.assertGreater(min(self.granted["younger"]), 5000)
        self.assertLess(min(self.granted["younger"]), 5003)

    # --- what ends stays ended ---

    def test_a_sealed_layout_grants_no_more(self):
        self.serve("a")
        self.seal("a")
        self.assertIn("--relane-open", self.refused("a"))
        self.assertIn("is sealed", self.refused("a", "--witness", "off"))
        self.assertIn("is sealed", self.refused("a", "--new-witness", "--skip", "1000"))
        self.seal("a")  # says so once more
        self.open("a", "1/1", "a.seal")
        self.serve("a")

    def test_a_copy_from_before_the_seal_grants_no_more(self):
        self.serve("a", kill=True)
        for name in ("hilo.db", "hilo.db-wal"):
            shutil.copy(os.path.join(self.path("a"), name), self.path(name))
        self.serve("a")
        self.seal("a")
        for name in ("hilo.db", "hilo.db-wal"):
            shutil.copy(self.path(name), os.path.join(self.path("a"), name))
        self.assertIn("is sealed", self.refused("a"))
        self.assertIn("is sealed", self.refused("a", "--new-witness", "--skip", "1000"))
        self.open("a", "1/2", "a.seal", stripe=1)  # its witness has what it lacks
        self.serve("a")

    def test_a_copy_of_an_earlier_layout_is_refused_and_made_anew_from_the_witness(self):
        self.serve("a", kill=True)
        for name in ("hilo.db", "hilo.db-wal"):
            shutil.copy(os.path.join(self.path("a"), name), self.path(name))
        self.seal("a")
        self.open("a", "1/2", "a.seal", stripe=1)
        self.serve("a")
        for name in ("hilo.db", "hilo.db-wal"):
            shutil.copy(self.path(name), os.path.join(self.path("a"), name))
        for args in ((), ("--new-witness", "--skip", "1000"), ("--relane-seal", self.path("x"))):
            self.assertIn("--from-witness", self.refused("a", *args))
        for name in ("hilo.db", "hilo.db-wal"):
            os.unlink(os.path.join(self.path("a"), name))
        self.serve("a", "--from-witness")

    def test_a_witness_of_the_last_layout_will_not_do(self):
        self.serve("a", kill=True)
        self.seal("a")
        old = self.path("old")
        shutil.copy(os.path.join(self.path("a"), "hilo.witness"), old)
        self.open("a", "1/2", "a.seal", stripe=1)
        self.serve("a", kill=True)
        shutil.copy(old, os.path.join(self.path("a"), "hilo.witness"))
        self.assertIn("belongs to another store or layout", self.refused("a"))

    def test_a_database_that_is_lost_can_be_sealed_from_its_witness(self):
        self.serve("a", kill=True)
        for name in ("hilo.db", "hilo.db-wal"):
            os.unlink(os.path.join(self.path("a"), name))
        self.seal("a", "--from-witness")
        self.open("a", "1/2", "a.seal", stripe=1)
        self.serve("a")

    def test_a_running_server_is_left_alone(self):
        a = self.hilod(data=self.path("a"))
        self.take(a)
        self.assertIn("process %d" % a.proc.pid, self.seal("a", code=78))
        self.assertFalse(os.path.exists(self.path("a.seal")))
        self.take(a)

    # --- never twice from the same files ---

    def test_a_lane_is_opened_once(self):
        self.serve("a")
        self.seal("a")
        shutil.copytree(self.path("a"), self.path("sealed"))
        self.open("a", "1/2", "a.seal", stripe=1)
        self.open("a", "1/2", "a.seal", stripe=1, code=78)
        self.open("a", "2/2", "a.seal", stripe=1, code=78)
        for wrong in (dict(lane="2/3", stripe=1), dict(lane="2/2", stripe=2), dict(lane="1/1"),
                      dict(lane="2/2")):
            said = self.open("b", wrong["lane"], "a.seal", stripe=wrong.get("stripe"), code=78)
            self.assertIn("ids would repeat", said)
        self.assertFalse(os.path.exists(self.path("b")))
        self.assertIn("opened once", self.open("b", "1/2", "a.seal", stripe=1, code=78))
        self.open("b", "2/2", "a.seal", stripe=1)
        self.open("sealed", "2/2", "a.seal", stripe=1, code=78)
        for d in ("a", "b"):
            self.serve(d)

    def test_what_was_opened_can_not_be_unsaid_by_damage(self):
        self.serve("a")
        self.seal("a")
        self.open("a", "1/2", "a.seal", stripe=1)
        self.open("b", "2/2", "a.seal", stripe=1)
        with open(self.path("a.seal"), "rb") as f:
            whole = f.read()
        for at in (whole.index(b"\no 1 ") + 3, whole.index(b"\no 2 ") + 3, len(whole) - 2):
            with open(self.path("a.seal"), "wb") as f:
                f.write(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
            self.assertIn("is damaged", self.open("c", "1/2", "a.seal", stripe=1, code=78))
        self.assertFalse(os.path.exists(self.path("c")))

    def test_a_note_that_was_torn_is_none(self):
        self.serve("a")
        self.seal("a")
        for torn in (b"o 1 2 1 0123", b"o 1 2 1 0" + bytes(30) + b"\n", b"o"):
            with open(self.path("a.seal"), "ab") as f:
                f.write(torn)
            if torn == b"o":
                self.open("a", "1/2", "a.seal", stripe=1)
            else:
                self.seal("a")  # writes it anew
        self.assertIn("opened once", self.open("c", "1/2", "a.seal", stripe=1, code=78))
        self.serve("a")

    def test_two_that_are_opened_at_once_see_each_other(self):
        self.serve("a")
        self.seal("a")
        with open(self.path("a.seal"), "r+b") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            self.assertIn("in use", self.open("a", "1/2", "a.seal", stripe=1, code=78))
        both = [subprocess.Popen([HILOD, "--data", self.path(d), "--stripe", "1", "--relane-open",
                                  lane, self.path("a.seal")], stderr=subprocess.DEVNULL)
                for d, lane in (("a", "1/2"), ("b", "2/2"))]
        for p in both:
            self.assertIn(p.wait(harness.DEADLINE), (0, 78))
        for d, lane in (("a", "1/2"), ("b", "2/2")):
            self.run_hilod(d, "--stripe", "1", "--relane-open", lane, self.path("a.seal"))
        for lane in ("1/2", "2/2"):
            self.assertIn("opened once", self.open("c", lane, "a.seal", stripe=1, code=78))
        for d in ("a", "b"):
            self.serve(d)

    def test_one_file_of_each_lane_and_no_other(self):
        for i, d in enumerate(("a", "b"), 1):
            self.serve(d, "--lane", "%d/2" % i, "--stripe", "1")
            self.seal(d)
        self.serve("c", "--lane", "2/2", "--stripe", "2", names=("odd",))
        self.seal("c")
        self.serve("d", names=("even",))
        self.seal("d")
        with open(self.path("a.seal"), "rb") as f:
            whole = f.read()
        for name, data in (("copy", whole), ("cut", whole[:-1]), ("short", whole.split(b"\ne ")[0] + b"\n"),
                           ("flipped", whole.replace(b" each ", b" eech ")), ("empty", b""),
                           ("witness", open(os.path.join(self.path("a"), "hilo.witness"), "rb").read())):
            with open(self.path(name), "wb") as f:
                f.write(data)
        for files in (["a.seal"], ["a.seal", "a.seal"], ["a.seal", "copy"], ["a.seal", "c.seal"], ["a.seal", "d.seal"],
                      ["a.seal", "b.seal", "d.seal"], ["cut", "b.seal"], ["short", "b.seal"],
                      ["flipped", "b.seal"], ["empty", "b.seal"], ["witness", "b.seal"]):
            for data in ("a", "fresh"):
                said = self.open(data, "1/1", *files, code=78)
                self.assertTrue(any(f in said for f in files) or "2 lanes" in said, said)
        self.open("a", "1/1", "a.seal", "missing", code=1)
        self.open("d", "1/1", "a.seal", "b.seal", code=78)  # a directory of another layout
        self.assertFalse(os.path.exists(self.path("fresh")))
        with open(self.path("a.seal"), "rb") as f:
            self.assertEqual(f.read(), whole)
        self.open("a", "1/1", "b.seal", "a.seal")
        self.serve("a")

    def test_a_file_that_is_no_seal_is_not_written_over(self):
        self.serve("a")
        with open(self.path("precious"), "w") as f:
            f.write("text\n")
        self.seal("a", file="precious", code=78)
        with open(self.path("precious")) as f:
            self.assertEqual(f.read(), "text\n")
        self.serve("a")  # nothing was sealed
        self.seal("a", file="nowhere/a.seal", code=1)
        self.seal("a")

    def test_a_command_line_that_makes_no_sense_says_so(self):
        for args in (["--relane-seal", ""], ["--relane-open", "1/2"], ["--relane-open", "3/2", "x"],
                     ["--relane-open", "1", "x"], ["--relane-open", "1/2", "--skip", "1", "x"],
                     ["--relane-open", "1/2", "--relane-seal", "x", "y"]):
            code, text = self.run_hilod("a", *args)
            self.assertEqual(code, 64, text)
            self.assertIn("--relane", text)
        code, text = self.run_hilod("a", "--engine", "memory", "--relane-seal", self.path("x"))
        self.assertEqual(code, 78, text)
        code, text = self.run_hilod("a", "--engine", "memory", "--relane-open", "1/1", self.path("x"))
        self.assertEqual(code, 78, text)


class Crash(Base):
    """The process ends at each step of a change, and at each the same command finishes it."""

    FAST = os.environ.get("HILO_LONG") != "1"

    def tmp(self):
        """In memory, where there is such a place: a process ends, no machine does."""
        where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        path = tempfile.mkdtemp(prefix="hilo-test-", dir=where)
        self.addCleanup(shutil.rmtree, path, True)
        return path

    def servers(self, lanes, check=None):
        """All of a layout take their turn, one after the other, and are killed."""
        for i in range(lanes):
            server = harness.Hilod(data=self.path("abc"[i]))
            try:
                with server.client() as c:
                    info = c.info("hilo")
                    if check:
                        self.assertEqual((info["lane"], info["lanes"], info["epoch"]),
                                         (str(i + 1), str(lanes), check))
                self.take(server, ("ahead", "each"), 2)
                server.kill()
            finally:
                server.cleanup()

    def is_served(self, data):
        """After a crash: whether it grants, in the layout that is in force; else it says why not."""
        try:
            server = harness.Hilod(data=self.path(data))
        except AssertionError as e:
            self.assertIn("is sealed", str(e))
            return False
        try:
            self.take(server, ("ahead", "each"), 2)
            server.kill()
        finally:
            server.cleanup()
        return True

    def is_empty(self, data):
        """Whether nothing was made in it yet; a start would make a store of its own."""
        return harness.rows(self.path(data), "SELECT * FROM sqlite_schema") == []

    def at_each_step(self, every, run):
        """Runs one command again and again, from the same beginning, until it meets no crash."""
        origin, granted = self.dir, {name: list(ids) for name, ids in self.granted.items()}
        n, code = 0, 99
        while code == 99:
            n += 1
            if n % every and self.FAST:
                continue
            self.dir = os.path.join(self.tmp(), "now")
            shutil.copytree(origin, self.dir)
            self.granted = {name: list(ids) for name, ids in granted.items()}
            code = run({"LD_PRELOAD": STEPS, "HILO_STEP": str(n)})
            self.assertIn(code, (0, 99))
            shutil.rmtree(self.dir)
        self.assertGreater(n, 15)
        self.dir, self.granted = origin, granted

    def open_all(self, lanes, files):
        for i in range(lanes):
            self.run_hilod("abc"[i], "--relane-open", "%d/%d" % (i + 1, lanes), "--stripe", "1",
                           *(self.path(f) for f in files))
        self.servers(lanes, "2")

    def change(self, old, new, every):
        for i in range(old):
            server = self.hilod("--lane", "%d/%d" % (i + 1, old), "--stripe", "1",
                                data=self.path("abc"[i]))
            with server.client() as c:
                c.call("SEQ", "CREATE", "ahead")
                c.call("SEQ", "CREATE", "each", "DURABILITY", "each")
            self.take(server, ("ahead", "each"), 5)
            server.kill()
        files = ["abc"[i] + ".seal" for i in range(old)]
        for i in range(1, old):
            self.seal("abc"[i])

        def sealing(env):
            code, text = self.run_hilod("a", "--relane-seal", self.path("a.seal"), env=env)
            self.assertIn(code, (0, 99), text)
            self.assertFalse(self.is_served("a") and code == 0, "a sealed layout goes on")
            self.seal("a")
            self.open_all(new, files)
            return code

        self.at_each_step(every, sealing)
        self.seal("a")
        for i in sorted({0, new - 1}):
            lane = "%d/%d" % (i + 1, new)

            def opening(env):
                code, text = self.run_hilod("abc"[i], "--relane-open", lane, "--stripe", "1",
                                            *(self.path(f) for f in files), env=env)
                self.assertIn(code, (0, 99), text)
                if self.is_empty("abc"[i]) or not self.is_served("abc"[i]):
                    self.open("abc"[i], lane, *files, stripe=1)
                self.open_all(new, files)
                return code

            self.at_each_step(every, opening)

    def test_there_is_no_moment_without_a_witness(self):
        """The process ends right after the transaction; a copy of that, without a witness, is refused."""
        self.serve("origin")
        self.seal("origin")
        for data, lane in (("origin", "1/2"), ("b", "2/2")):
            shutil.copytree(self.path("origin"), self.path("kept"))
            n, code, seen = 0, 99, 0
            while code == 99:
                n += 1
                for d in ("a", "b"):
                    shutil.rmtree(self.path(d), ignore_errors=True)
                shutil.copytree(self.path("kept"), self.path("a"))
                shutil.copy(self.path("origin.seal"), self.path("a.seal"))
                d = "a" if data == "origin" else data
                code, _ = self.run_hilod(d, "--relane-open", lane, "--stripe", "1",
                                         self.path("a.seal"),
                                         env={"LD_PRELOAD": STEPS, "HILO_STEP": str(n)})
                witness = os.path.join(self.path(d), "hilo.witness")
                if os.path.exists(witness):
                    os.unlink(witness)
                    seen += "is missing" in self.refused(d)
            self.assertGreater(seen, 5)
            shutil.rmtree(self.path("kept"))

    def test_one_becomes_two(self):
        self.change(1, 2, 1)

    def test_two_become_three(self):
        self.change(2, 3, 3)

    def test_three_become_one(self):
        self.change(3, 1, 3)


if __name__ == "__main__":
    harness.main()
