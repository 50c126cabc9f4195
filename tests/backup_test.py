"""backup_test.py - copies made while the store is in use, and what becomes of them."""

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import threading

import harness
from harness import Client, refused_start, wait_until

HILO = os.path.join(os.path.dirname(harness.HILOD), "hilo")


class Backup(harness.Case):
    def setUp(self):
        self.server = self.hilod()
        self.c = self.client(self.server)
        self.dir = os.path.join(self.server.data, "backup")

    def path(self, name):
        return os.path.join(self.dir, name)

    def files(self):
        return os.listdir(self.dir) if os.path.isdir(self.dir) else []

    def place(self, name, witness=None):
        """A data directory with the copy in it."""
        data = os.path.join(self.tmp(), "data")
        os.mkdir(data)
        shutil.copy(self.path(name), os.path.join(data, "hilo.db"))
        if witness:
            shutil.copy(witness, os.path.join(data, "hilo.witness"))
        return data

    def sound(self, name):
        db = sqlite3.connect("file:%s?mode=ro" % self.path(name), uri=True)
        self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        marks = dict(db.execute("SELECT name, mark FROM counter"))
        db.close()
        self.assertEqual([f for f in self.files() if f.startswith(name + "-")], [])
        return marks

    def test_a_copy_under_load_has_all_that_was_granted_before(self):
        stop, last = threading.Event(), {}

        def load(name, durability):
            with self.server.client() as c:
                c.call("SEQ", "CREATE", name, "DURABILITY", durability)
                while not stop.is_set():
                    c.send(Client.encode("INCR", name) * 20)
                    last[name] = [c.reply() for _ in range(20)][-1]

        threads = [threading.Thread(target=load, args=a)
                   for a in (("each", "each"), ("ahead", "ahead"))]
        for t in threads:
            t.start()
        try:
            wait_until(lambda: min(last.get("each", 0), last.get("ahead", 0)) > 100, "load")
            for i in range(20):
                before = dict(last)
                self.assertEqual(self.c.call("BACKUP", "copy%d" % i), "OK")
                marks = self.sound("copy%d" % i)
                for name, an_id in before.items():
                    self.assertGreaterEqual(marks[name], an_id)
        finally:
            stop.set()
            for t in threads:
                t.join()

    def test_put_back_with_its_witness_it_goes_on_above(self):
        self.c.call("SEQ", "CREATE", "each", "DURABILITY", "each")
        self.c.call("BACKUP", "monday")
        last = [self.c.call("INCR", "each") for _ in range(50)][-1]
        young = self.c.call("INCR", "young")
        self.server.stop()
        data = self.place("monday", os.path.join(self.server.data, "hilo.witness"))
        c = self.client(self.hilod(data=data))
        self.assertGreater(c.call("INCR", "each"), last)
        self.assertGreater(c.call("INCR", "young"), young)

    def test_put_back_at_once_it_just_goes_on(self):
        self.c.call("SEQ", "CREATE", "each", "DURABILITY", "each")
        last = self.c.call("INCR", "each")
        self.c.call("BACKUP", "monday")
        self.server.kill()
        data = self.place("monday", os.path.join(self.server.data, "hilo.witness"))
        self.assertEqual(self.client(self.hilod(data=data)).call("INCR", "each"), last + 1)

    def test_on_another_machine_it_grants_nothing_until_told_how_far_to_skip(self):
        self.c.call("SEQ", "CREATE", "a", "DURABILITY", "each")
        last = self.c.call("INCR", "a")
        self.c.call("BACKUP", "monday")
        data = self.place("monday")
        for args in ((), ("--witness", "off")):
            code, text = refused_start(*args, data=data)
            self.assertEqual(code, 78)
            self.assertIn("this database is a backup", text)
            self.assertIn("--skip IDS", text)
        server = self.hilod("--skip", "1000", data=data)
        self.assertEqual(self.client(server).call("INCR", "a"), last + 1001)
        server.stop()
        self.assertEqual(self.client(self.hilod(data=data)).call("INCR", "a"), last + 1002)

    def test_a_witness_that_is_older_than_the_copy_does_not_do(self):
        self.c.call("SEQ", "CREATE", "a", "DURABILITY", "each")
        self.c.call("INCR", "a")
        self.server.stop()
        witness = os.path.join(self.tmp(), "old")
        shutil.copy(os.path.join(self.server.data, "hilo.witness"), witness)
        c = self.client(self.hilod(data=self.server.data))
        c.call("INCR", "a")
        c.call("BACKUP", "monday")
        code, text = refused_start(data=self.place("monday", witness))
        self.assertEqual(code, 78)
        self.assertIn("newer than the witness", text)

    def test_names(self):
        for name in ("", ".", "..", "../x", "/tmp/x", ".x", "a/b", "a b", "x" * 129, "a\0b"):
            self.assertEqual(self.c.fails("BACKUP", name).word, "BADARG", name)
        self.c.call("BACKUP", "monday")
        before = os.stat(self.path("monday"))
        e = self.c.fails("BACKUP", "monday")
        self.assertIn("there is one", str(e))
        self.assertEqual(os.stat(self.path("monday")), before)

    def test_its_directory_can_be_another(self):
        there = os.path.join(self.tmp(), "a", "b")
        server = self.hilod("--backup-dir", there)
        self.client(server).call("BACKUP", "x")
        self.assertEqual(os.listdir(there), ["x"])

    def test_one_that_can_not_be_written_says_so_and_leaves_nothing(self):
        self.c.call("INCR", "a")
        limit = (8192, resource.RLIM_INFINITY)
        resource.prlimit(self.server.proc.pid, resource.RLIMIT_FSIZE, limit)
        e = self.c.fails("BACKUP", "monday")
        self.assertEqual(e.word, "STORAGE")
        self.assertIn("could not be made", str(e))
        self.assertEqual(os.listdir(self.dir), [])
        resource.prlimit(self.server.proc.pid, resource.RLIMIT_FSIZE,
                         (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.c.call("BACKUP", "monday")
        self.sound("monday")

    def many(self, n):
        for i in range(0, n, 1000):
            self.c.send(b"".join(Client.encode("INCR", "s" * 90 + str(k))
                                 for k in range(i, i + 1000)))
            for _ in range(1000):
                self.assertEqual(self.c.reply(), 1)

    def test_one_at_a_time_and_nobody_waits_for_it(self):
        self.many(20000)
        other = self.client(self.server)
        self.c.start("BACKUP", "monday")
        wait_until(self.files, "it to begin")
        self.assertEqual(other.call("PING"), "PONG")
        other.start("BACKUP", "tuesday")
        reply = other.reply()
        self.assertTrue(reply == "OK" or reply.word == "TRYAGAIN", reply)
        self.assertEqual(self.c.reply(), "OK")
        self.assertEqual(len(self.sound("monday")), 20000)

    def test_who_asked_may_leave(self):
        self.many(20000)
        with self.server.client() as c:
            c.start("BACKUP", "monday")
            wait_until(self.files, "it to begin")
        wait_until(lambda: self.files() == ["monday"], "it to be made")
        self.assertEqual(len(self.sound("monday")), 20000)

    def test_a_stop_makes_it_or_leaves_nothing(self):
        self.many(20000)
        for sig in (signal.SIGTERM, signal.SIGKILL):
            self.c.start("BACKUP", "x%d" % sig)
            wait_until(self.files, "it to begin")
            self.server.proc.send_signal(sig)
            self.server.proc.wait(harness.DEADLINE)
            for name in self.files():
                if ".part" not in name:
                    self.assertEqual(len(self.sound(name)), 20000)
            self.server = self.hilod(data=self.server.data)
            self.c = self.client(self.server)

    def test_the_engine_memory_has_nothing_to_copy(self):
        c = self.client(self.hilod("--engine", "memory"))
        self.assertEqual(c.fails("BACKUP", "x").word, "BADARG")

    def test_hilo_backup(self):
        done = subprocess.run([HILO, "-s", "127.0.0.1:%d" % self.server.port, "backup", "monday"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(b"backed up", done.stdout)
        self.sound("monday")


if __name__ == "__main__":
    harness.main()
