"""disk_test.py - a disk that stalls, fails or is full: nothing is granted that is not on it."""

import os
import resource
import signal
import sqlite3

import harness
from harness import Client, wait_until


class Disk(harness.FailingDisk, harness.Case):
    def setUp(self):
        self.server = self.hilod(env=self.disk_env())
        self.c = self.client(self.server)
        self.c.call("SEQ", "CREATE", "each", "DURABILITY", "each")
        self.assertEqual(self.c.call("INCR", "each"), 1)
        self.assertEqual(self.c.call("INCR", "ahead"), 1)

    def test_a_stalled_disk_holds_up_only_those_who_need_it(self):
        self.disk("stall")
        self.c.send(Client.encode("INCR", "each") * 3)
        other = self.client(self.server)
        self.assertEqual(other.call("PING"), "PONG")
        self.assertEqual([other.call("INCR", "ahead") for _ in range(30)],
                         list(range(2, 32)))
        with self.assertRaises(BlockingIOError):
            self.c.sock.setblocking(False)
            self.c.fill()
        self.c.sock.settimeout(harness.DEADLINE)
        self.well()
        self.assertEqual([self.c.reply() for _ in range(3)], [2, 3, 4])

    def test_errors_that_wait_for_their_turn_count_as_memory(self):
        self.disk("stall")
        watch, other = self.client(self.server), self.client(self.server)

        def held(at_least):
            return wait_until(lambda: (n := int(watch.info()["client_bytes"])) >= at_least and n,
                              "all to be there")

        other.send(Client.encode("INCR", "each") * 501)
        grants = held(501 * 100)
        self.c.send(Client.encode("INCR", "each") + Client.encode("NEXT", "not a name") * 500)
        both = held(grants + 501 * 100)
        self.well()
        self.assertEqual(len([other.reply() for _ in range(501)]), 501)
        self.assertIsInstance(self.c.reply(), int)
        words = sum(len(str(self.c.reply())) - len("BADARG ") for _ in range(500))
        self.assertGreaterEqual(both - grants, grants + words)

    def test_stopping_does_not_wait_for_a_stalled_disk(self):
        self.disk("stall")
        self.c.start("INCR", "each")
        self.client(self.server).call("PING")
        self.server.proc.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.proc.wait(harness.DEADLINE), 0)
        self.assertTrue(self.c.at_end())
        self.well()
        again = self.client(self.hilod(data=self.server.data))
        self.assertGreater(again.call("INCR", "each"), 1)

    def test_a_second_signal_does_not_wait_at_all(self):
        self.disk("stall")
        self.c.start("INCR", "each")
        self.client(self.server).call("PING")
        self.server.proc.send_signal(signal.SIGTERM)
        wait_until(lambda: "signal 15" in self.server.errors(), "the first signal")
        self.server.proc.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.proc.wait(harness.DEADLINE), 0)
        self.assertIn("still busy", self.server.errors())

    def test_a_disk_that_stalls_while_the_store_is_closed_is_left(self):
        self.c.close()
        self.disk("one-more")
        self.server.proc.send_signal(signal.SIGTERM)
        wait_until(lambda: "gave back" in self.server.errors(), "the tail to be given back")
        self.assertEqual(self.server.proc.wait(harness.DEADLINE), 0)
        self.well()
        again = self.client(self.hilod(data=self.server.data))
        self.assertGreater(again.call("INCR", "each"), 1)

    def test_signals_at_any_moment_of_a_stop_end_in_order(self):
        for i in range(20):
            server = self.hilod()
            self.client(server).call("INCR", "x")
            server.proc.send_signal(signal.SIGTERM)
            while server.proc.poll() is None:
                server.proc.send_signal((signal.SIGTERM, signal.SIGINT)[i % 2])
            self.assertEqual(server.proc.returncode, 0)

    def test_a_failed_sync_ends_granting_for_good(self):
        self.disk("fail")
        e = self.c.fails("INCR", "each")
        self.assertEqual(e.word, "STORAGE")
        self.assertIn("restart hilod", str(e))
        self.well()
        for command in (("INCR", "each"), ("INCR", "ahead"), ("BLOCK", "new", 5),
                        ("SEQ", "CREATE", "new"), ("SEQ", "ADVANCE", "ahead", 100)):
            self.assertEqual(self.c.fails(*command).word, "STORAGE", command)
        info = self.c.info()
        self.assertEqual(info["ready"], "0")
        self.assertNotEqual(info["last_error"], "")
        self.assertEqual(self.c.call("PING"), "PONG")
        self.server.stop()
        again = self.client(self.hilod(data=self.server.data))
        self.assertGreater(again.call("INCR", "each"), 1)
        self.assertGreater(again.call("INCR", "ahead"), 1)
        self.assertIsNone(again.call("GET", "new"))

    def test_a_failed_sync_leaves_no_token_that_was_answered(self):
        self.disk("fail")
        self.assertEqual(self.c.fails("BLOCK", "ahead", 3, "TOKEN", "t").word, "STORAGE")
        self.well()
        self.server.stop()
        c = self.client(self.hilod(data=self.server.data))
        block = c.call("BLOCK", "ahead", 3, "TOKEN", "t")
        self.assertEqual(c.call("BLOCK", "ahead", 3, "TOKEN", "t"), block)
        self.assertGreater(int(c.call("BLOCK", "ahead", 1)[0]), int(block[1]))

    def test_a_sync_that_fails_once_is_not_retried_and_believed(self):
        """The next one would succeed, since the system has dropped what it could not write."""
        for name, command in (("each", ("INCR", "each")), ("ahead", ("BLOCK", "ahead", 10**5)),
                              ("ahead", ("BLOCK", "ahead", 5, "TOKEN", "t"))):
            with self.subTest(command=command):
                server = self.hilod(env=self.disk_env())
                clients = [self.client(server) for _ in range(10)]
                clients[0].call("SEQ", "CREATE", "each", "DURABILITY", "each")
                last = [clients[0].call("INCR", name) for _ in range(3)][-1]
                self.disk("stall")
                for c in clients:  # one is on its way to the disk, the others share the next
                    c.start(*command)
                self.disk("fail-once")
                self.well("stall")
                for c in clients:
                    reply = c.reply()
                    self.assertIsInstance(reply, harness.Error)
                    self.assertEqual(reply.word, "STORAGE")
                self.assertEqual(os.listdir(self.disk_state), [])
                for again in (command, ("INCR", name), ("BLOCK", "new", 1)):
                    self.assertEqual(clients[0].fails(*again).word, "STORAGE")
                for c in clients:
                    c.close()
                server.stop()
                with self.hilod(data=server.data).client() as c:
                    self.assertGreater(int(c.call("BLOCK", name, 10)[0]), last)

    def test_a_failed_sync_fails_all_that_share_it(self):
        others = [self.client(self.server) for _ in range(20)]
        self.disk("stall")
        for c in [self.c, *others]:
            c.start("INCR", "each")
        self.disk("fail")
        self.well("stall")
        for c in [self.c, *others]:
            self.assertEqual(c.reply().word, "STORAGE")


class Full(harness.Case):
    def limit(self, server, size):
        resource.prlimit(server.proc.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def test_a_file_that_can_not_grow_loses_nothing_and_recovers_by_itself(self):
        server = self.hilod()
        c = self.client(server)
        c.call("SEQ", "CREATE", "each", "DURABILITY", "each")
        c.call("INCR", "ahead")
        last = c.call("INCR", "each")
        self.limit(server, 8192)
        failed = 0
        for _ in range(50):
            c.start("INCR", "each")
            reply = c.reply()
            if isinstance(reply, harness.Error):
                self.assertEqual(reply.word, "STORAGE")
                failed += 1
            else:
                self.assertGreater(reply, last)
                last = reply
        self.assertGreater(failed, 0)
        self.assertEqual(c.call("INCR", "ahead"), 2)
        self.limit(server, resource.RLIM_INFINITY)
        for _ in range(50):
            an_id = c.call("INCR", "each")
            self.assertGreater(an_id, last)
            last = an_id
        server.kill()
        again = self.client(self.hilod(data=server.data))
        self.assertGreater(again.call("INCR", "each"), last)

    def test_failing_again_and_again_does_not_eat_the_ids(self):
        server = self.hilod()
        c = self.client(server)
        c.call("SEQ", "CREATE", "small", "MAX", 10**5)
        granted = failed = 0
        self.limit(server, 8192)
        for _ in range(500):
            c.start("BLOCK", "small", 100)
            if isinstance(c.reply(), harness.Error):
                failed += 1
            else:
                granted += 100
        self.assertGreater(failed, 400)
        self.limit(server, resource.RLIM_INFINITY)
        self.assertEqual(int(c.seq("small")["remaining"]), 10**5 - granted)
        self.assertEqual(c.call("BLOCK", "small", 10**5 - granted)[1], b"100000")
        self.assertEqual(c.fails("INCR", "small").word, "EXHAUSTED")
        server.stop()
        db = sqlite3.connect(os.path.join(server.data, "hilo.db"))
        self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        db.close()

    def test_failing_does_not_use_up_what_floors_may_skip(self):
        server = self.hilod()
        c = self.client(server)
        c.call("INCR", "a")
        self.limit(server, 0)
        for _ in range(5):
            self.assertEqual(c.fails("BLOCK", "a", 1, "FLOOR", 9 * 10**8).word, "STORAGE")
        self.limit(server, resource.RLIM_INFINITY)
        self.assertEqual(c.call("BLOCK", "a", 1, "FLOOR", 9 * 10**8)[0], b"900000001")
        self.assertEqual(c.fails("BLOCK", "a", 1, "FLOOR", 18 * 10**8).word, "REGRESS")


class Gone(harness.Case):
    """The file under a running server is no longer the one its path names."""

    def setUp(self):
        self.server = self.hilod()
        self.c = self.client(self.server)
        self.c.call("SEQ", "CREATE", "each", "DURABILITY", "each")
        self.assertEqual(self.c.call("INCR", "each"), 1)

    def path(self, name):
        return os.path.join(self.server.data, name)

    def ends(self, name):
        """By itself, within a second or two, and says which file."""
        self.assertTrue(self.server.ended(78))
        self.assertIn(self.path(name) + " is no longer the file that hilod has open",
                      self.server.errors())

    def test_a_database_that_is_deleted(self):
        os.unlink(self.path("hilo.db"))
        self.ends("hilo.db")

    def test_a_log_that_is_deleted(self):
        os.unlink(self.path("hilo.db-wal"))
        self.ends("hilo.db-wal")

    def test_a_directory_that_is_moved(self):
        os.rename(self.server.data, self.server.data + ".away")
        os.mkdir(self.server.data)
        self.ends("hilo.db")
        self.assertEqual(os.listdir(self.server.data), [])
        os.rmdir(self.server.data)
        os.rename(self.server.data + ".away", self.server.data)
        again = self.client(self.hilod(data=self.server.data))
        self.assertEqual(again.call("INCR", "each"), 2)

    def test_a_grant_that_meets_it_is_refused(self):
        os.unlink(self.path("hilo.db"))
        with self.assertRaisesRegex(harness.Error, "STORAGE .* is no longer the file"):
            self.c.call("INCR", "each")
        self.ends("hilo.db")

    def put_a_copy_in_its_place(self, *names):
        """The older files of another server, or only some of them."""
        other = self.hilod()
        c = self.client(other)
        for _ in range(3):
            c.call("INCR", "each")
        other.kill()  # leaves a log behind
        for name in names or ("hilo.db-wal", "hilo.db"):
            os.rename(os.path.join(other.data, name), self.path(name))

    def files(self):
        return [(s.st_ino, s.st_size, s.st_mtime_ns)
                for s in (os.stat(self.path(name)) for name in ("hilo.db", "hilo.db-wal"))]

    def test_a_copy_put_in_its_place_stays_as_it_is(self):
        self.put_a_copy_in_its_place()
        before = self.files()
        self.ends("hilo.db")
        self.assertEqual(self.files(), before)

    def test_a_log_put_in_its_place_stays_as_it_is(self):
        self.put_a_copy_in_its_place("hilo.db-wal")
        before = self.files()[1]
        self.ends("hilo.db-wal")
        self.assertEqual(self.files()[1], before)

    def test_a_stop_that_meets_it_leaves_the_copy_and_says_so(self):
        for codes, first in (((78,), ()), ((0, 78), (signal.SIGINT,))):
            self.put_a_copy_in_its_place()
            before = self.files()
            for s in first:
                self.server.proc.send_signal(s)
            self.server.exit_codes = codes
            self.server.stop()
            self.assertEqual(self.files(), before)
            self.server = self.hilod()

    def test_a_log_that_was_deleted_is_not_lost(self):
        for _ in range(5):
            last = self.c.call("INCR", "each")
        os.unlink(self.path("hilo.db-wal"))
        self.ends("hilo.db-wal")
        again = self.client(self.hilod(data=self.server.data))
        self.assertEqual(again.call("INCR", "each"), last + 1)


class Moved(harness.Case):
    def test_a_row_that_is_above_what_hilod_left_in_it_ends_granting(self):
        server = self.hilod()
        c = self.client(server)
        c.call("SEQ", "CREATE", "each", "DURABILITY", "each")
        self.assertEqual(c.call("INCR", "each"), 1)
        server.stop()
        db = sqlite3.connect(os.path.join(server.data, "hilo.db"))
        db.execute("CREATE TRIGGER moves AFTER UPDATE ON counter WHEN old.mark = 1"
                   " BEGIN UPDATE counter SET mark = 1000 WHERE id = new.id; END")
        db.commit()
        db.close()
        c = self.client(self.hilod(data=server.data))
        self.assertEqual(c.call("INCR", "each"), 2)
        e = c.fails("INCR", "each")
        self.assertEqual(e.word, "STORAGE")
        self.assertIn("was changed by somebody else", str(e))
        self.assertEqual(c.info()["ready"], "0")


if __name__ == "__main__":
    harness.main()
