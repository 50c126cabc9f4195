"""witness_test.py - what remembers the marks when the database does not."""

import os
import shutil
import signal
import sqlite3

import harness
from harness import refused_start, wait_until


class Witnessed(harness.Case):
    def setUp(self):
        self.data = os.path.join(self.tmp(), "data")
        self.witness = os.path.join(self.data, "hilo.witness")

    def start(self, *args, **kw):
        self.server = self.hilod(*args, data=self.data, **kw)
        self.c = self.client(self.server)
        return self.c

    def copy(self, to="copy"):
        """The database as it is now; the server does not run."""
        path = os.path.join(os.path.dirname(self.data), to)
        shutil.copytree(self.data, path)
        return path

    def put_back(self, copy, *names):
        for name in names or ("hilo.db", "hilo.db-wal"):
            there = os.path.join(self.data, name)
            if os.path.exists(there):
                os.unlink(there)
            if os.path.exists(os.path.join(copy, name)):
                shutil.copy(os.path.join(copy, name), there)

    def refused(self, *args):
        code, text = refused_start(*args, data=self.data)
        self.assertEqual(code, 78, text)
        return text

    def last_line(self):
        """The id that the last line of the witness says was reserved."""
        with open(self.witness, "rb") as f:
            return int([l for l in f if l.startswith(b"m ")][-1].split()[2])


class Older(Witnessed):
    """The database was put back from an older copy; the witness stayed."""

    def test_it_goes_on_above_what_was_granted(self):
        for stop in (harness.Hilod.stop, harness.Hilod.kill):
            with self.subTest(stop=stop.__name__):
                shutil.rmtree(self.data, True)
                c = self.start()
                c.call("SEQ", "CREATE", "each", "DURABILITY", "each", "MAX", 10**6)
                c.call("INCR", "each"), c.call("BLOCK", "ahead", 10)
                self.server.stop()
                copy = self.copy("copy-" + stop.__name__)
                c = self.start()
                each = [c.call("INCR", "each") for _ in range(300)][-1]
                ahead = int(c.call("BLOCK", "ahead", 100000)[1])
                c.call("SEQ", "ALTER", "each", "MAX", 10**7)
                c.call("SEQ", "CREATE", "young", "START", 5000, "DURABILITY", "each")
                young = c.call("INCR", "young")
                stop(self.server)
                self.put_back(copy)
                c = self.start()
                self.assertGreater(c.call("INCR", "each"), each)
                self.assertGreater(c.call("INCR", "ahead"), ahead)
                self.assertGreater(c.call("INCR", "young"), young)
                self.assertEqual(c.seq("each")["max"], str(10**7))
                self.assertEqual(c.seq("young")["start"], "5000")
                self.assertEqual(c.info()["behind_at_start"], "3")
                self.assertIn("An older copy was put in its place", self.server.errors())
                self.server.stop()
                c = self.start()
                self.assertEqual(c.info()["behind_at_start"], "0")
                self.assertNotIn("older copy", self.server.errors())
                self.server.stop()

    def up_to(self, an_id, c):
        while (last := int(c.call("BLOCK", "orders", 1000)[1])) < an_id:
            pass
        return last

    def test_what_was_granted_since_the_copy_never_comes_again(self):
        """Saved at 10,000 and put back at 50,000; or copied while it ran, as nobody should."""
        for i, (running, end, names) in enumerate((
                (False, harness.Hilod.stop, ()), (False, harness.Hilod.kill, ()),
                (True, harness.Hilod.stop, ()), (True, harness.Hilod.kill, ()),
                (True, harness.Hilod.stop, ("hilo.db",)),
                (True, harness.Hilod.kill, ("hilo.db",)))):
            with self.subTest(running=running, end=end.__name__, names=names):
                shutil.rmtree(self.data, True)
                c = self.start()
                self.assertEqual(self.up_to(10000, c), 10000)
                if not running:
                    c.close()
                    self.server.stop()
                copy = self.copy("copy%d" % i)
                if running:  # of the main file only: its log is not part of a plain copy
                    os.unlink(os.path.join(copy, "hilo.db-wal"))
                else:
                    c = self.start()
                last = self.up_to(50000, c)
                c.close()
                end(self.server)
                # With only the main file put back, the log that is there is a younger one's.
                self.put_back(copy, *names)
                c = self.start()
                self.assertGreater(int(c.call("BLOCK", "orders", 10)[0]), last)
                c.close()
                self.server.stop()

    def test_a_margin_of_ten_seconds_at_the_highest_rate(self):
        c = self.start()
        c.call("INCR", "a")
        self.server.stop()
        copy = self.copy()
        c = self.start()
        last = int(c.call("BLOCK", "a", 50000)[1])
        self.server.stop()
        self.put_back(copy)
        self.assertGreaterEqual(self.start().call("INCR", "a"), last + 10 * 50000)

    def test_a_margin_never_passes_the_end(self):
        c = self.start()
        c.call("SEQ", "CREATE", "a", "MAX", 1000)
        self.server.stop()
        copy = self.copy()
        last = int(self.start().call("BLOCK", "a", 500)[1])
        self.server.stop()
        self.put_back(copy)
        self.assertEqual(self.start().fails("INCR", "a").word, "EXHAUSTED")
        self.assertEqual(self.c.call("SEQ", "ALTER", "a", "MAX", 2000), "OK")
        self.assertGreater(self.c.call("INCR", "a"), last)

    def test_lanes_and_stripes(self):
        args = ("--lane", "2/3", "--stripe", "10")
        c = self.start(*args)
        c.call("SEQ", "CREATE", "a", "DURABILITY", "each")
        c.call("NEXT", "a")
        self.server.stop()
        copy = self.copy()
        c = self.start(*args)
        ids = {int(c.call("NEXT", "a")) for _ in range(25)}
        self.server.kill()
        self.put_back(copy)
        c = self.start(*args)
        more = {int(c.call("NEXT", "a")) for _ in range(25)}
        self.assertFalse(ids & more)
        self.assertGreater(min(more), max(ids))

    def test_a_tail_that_was_given_back_is_granted(self):
        c = self.start()
        self.assertEqual(c.call("INCR", "a"), 1)
        self.server.stop()
        self.assertEqual(self.start().call("INCR", "a"), 2)
        self.assertEqual(self.c.info()["behind_at_start"], "0")

    def test_a_change_without_a_grant(self):
        c = self.start()
        for name in ("retired", "bounded", "altered"):
            c.call("INCR", name)
        self.server.stop()
        copy = self.copy()
        c = self.start()
        c.call("SEQ", "RETIRE", "retired")
        c.call("SEQ", "ALTER", "bounded", "MAX", 1000)
        c.call("SEQ", "ALTER", "altered", "DURABILITY", "each")
        self.server.kill()
        self.put_back(copy)
        c = self.start()
        self.assertEqual(c.fails("INCR", "retired").word, "NOSEQ")
        self.assertEqual(c.seq("bounded")["max"], "1000")
        self.assertEqual(c.seq("altered")["durability"], "each")

    def test_a_witness_that_was_off_hears_what_it_missed(self):
        c = self.start()
        c.call("INCR", "a")
        self.server.stop()
        c = self.start("--witness", "off")
        c.call("BLOCK", "a", 1000)
        c.call("SEQ", "ALTER", "a", "MAX", 10**6)
        self.server.stop()
        copy = self.copy()
        c = self.start("--witness", "off")
        last = int(c.call("BLOCK", "a", 100000)[1])
        c.call("SEQ", "ALTER", "a", "MAX", 10**7)
        self.server.stop()
        self.start()
        self.assertEqual(self.c.seq("a")["max"], str(10**7))
        self.server.stop()
        self.put_back(copy)
        self.assertGreater(self.start().call("INCR", "a"), last)
        self.assertEqual(self.c.seq("a")["max"], str(10**7))

    def test_what_the_margin_would_not_make_up_for_is_synced(self):
        c = self.start()
        c.call("SEQ", "CREATE", "each", "DURABILITY", "each")
        c.call("INCR", "each")

        def syncs(*command):
            before = int(c.info()["witness_syncs"])
            c.call(*command)
            return int(c.info()["witness_syncs"]) - before

        for command in (("BLOCK", "each", 10**6), ("SEQ", "ADVANCE", "each", 10**8),
                        ("BLOCK", "each", 1, "FLOOR", 5 * 10**8)):
            self.assertGreaterEqual(syncs(*command), 1, command)

    def test_both_put_back_together_is_the_limit(self):
        c = self.start()
        first = c.call("INCR", "a")
        self.server.stop()
        copy = self.copy()
        last = int(self.start().call("BLOCK", "a", 10)[1])
        self.server.stop()
        self.put_back(copy, "hilo.db", "hilo.db-wal", "hilo.witness")
        self.assertEqual(self.start().call("INCR", "a"), first + 1)
        self.assertGreater(int(self.c.call("BLOCK", "a", 1, "FLOOR", last)[0]), last)


class Lost(Witnessed):
    def begun(self):
        self.start().call("SEQ", "CREATE", "a", "DURABILITY", "each")
        last = [self.c.call("INCR", "a") for _ in range(20)][-1]
        self.server.stop()
        return last

    def test_a_missing_one_stops_the_start(self):
        last = self.begun()
        os.unlink(self.witness)
        text = self.refused()
        self.assertIn(self.witness + " is missing", text)
        self.assertIn("--new-witness --skip", text)
        c = self.start("--new-witness", "--skip", "1000")
        self.assertEqual(c.call("INCR", "a"), last + 1001)
        self.server.stop()
        self.assertEqual(self.start().call("INCR", "a"), last + 1002)

    def test_one_that_is_damaged_stops_the_start(self):
        last = self.begun()
        with open(self.witness, "r+b") as f:
            text = f.read()
            at = text.index(b"m a 5 ")
            f.seek(at + 4)
            f.write(b"6")
        self.assertIn("is damaged at byte %d" % at, self.refused())
        c = self.start("--new-witness", "--skip", "1000")
        self.assertEqual(c.call("INCR", "a"), last + 1001)
        self.assertEqual(len([n for n in os.listdir(self.data) if ".aside-" in n]), 1)

    def test_an_end_that_was_torn_is_left_out(self):
        last = self.begun()
        for tail in (b"m", b"m a 99 1 9 1 0 1 01234567\n" * 3, b"\0" * 4096, b"\xff" * 300 + b"\n"):
            with open(self.witness, "ab") as f:
                f.write(tail)
            self.assertEqual(self.start().call("INCR", "a"), last + 1)
            self.assertIn("never synced", self.server.errors())
            last += 1
            self.server.stop()
        self.start()
        self.assertNotIn("never synced", self.server.errors())

    def test_what_was_written_after_the_last_sync_may_be_torn(self):
        c = self.start()
        c.call("SEQ", "CREATE", "a", "DURABILITY", "each")
        wait_until(lambda: int(c.info()["witness_syncs"]) > 0, "a sync")
        last = [c.call("INCR", "a") for _ in range(20)][-1]
        self.server.kill()
        size = os.path.getsize(self.witness)
        os.truncate(self.witness, size - 100)
        self.assertEqual(self.start().call("INCR", "a"), last + 1)

    def test_the_last_line_of_a_name_counts_not_the_highest(self):
        c = self.start()
        c.call("INCR", "a")  # reserves a chunk
        self.assertGreater(self.last_line(), 1)
        self.server.stop()  # and gives it back
        self.assertEqual(self.last_line(), 1)
        self.assertEqual(self.start().call("INCR", "a"), 2)

    def test_that_of_another_store(self):
        self.begun()
        mine = self.copy()
        shutil.rmtree(self.data)
        self.begun()
        self.put_back(mine, "hilo.witness")
        self.assertIn("belongs to another store", self.refused())

    def test_an_empty_database_beside_it(self):
        last = self.begun()
        for name in ("hilo.db", "hilo.db-wal"):
            os.unlink(os.path.join(self.data, name))
        text = self.refused()
        self.assertIn("ids would repeat", text)
        self.assertIn("--from-witness", text)
        c = self.start("--from-witness")
        self.assertGreater(c.call("INCR", "a"), last)
        self.assertIn("made a new database", self.server.errors())
        self.server.stop()
        self.assertIn("is not empty", self.refused("--from-witness"))

    def test_there_is_nothing_to_make_a_database_from(self):
        self.assertIn("nothing can be made", self.refused("--from-witness"))

    def test_something_else_at_its_path(self):
        self.begun()
        os.unlink(self.witness)
        os.mkdir(self.witness)
        self.refused()
        os.rmdir(self.witness)
        with open(self.witness, "w") as f:
            f.write("shopping list\n")
        self.assertIn("no valid first line", self.refused())

    def test_one_serves_one(self):
        self.start("--witness", self.witness)
        code, text = refused_start("--witness", self.witness)
        self.assertEqual(code, 78, text)

    def test_off(self):
        self.begun()
        self.start("--witness", "off")
        self.assertIn("will not be noticed", self.server.errors())
        self.assertEqual(self.c.info()["witness"], "off")
        self.server.stop()
        os.unlink(self.witness)
        self.start()
        self.assertEqual(self.c.info()["witness"], self.witness)

    def test_an_empty_database_can_not_skip(self):
        self.begun()
        for name in ("hilo.db", "hilo.db-wal"):
            os.unlink(os.path.join(self.data, name))
        for args in (("--new-witness", "--skip", "9"), ("--skip", "9")):
            self.assertIn("--from-witness", self.refused(*args))
        self.assertTrue(os.path.exists(self.witness))

    def test_a_skip_holds_for_what_was_younger_than_the_copy(self):
        self.begun()
        copy = self.copy()
        last = int(self.start().call("BLOCK", "young", 500)[1])
        self.server.stop()
        self.put_back(copy)
        os.unlink(self.witness)
        c = self.start("--new-witness", "--skip", "1000")
        self.server.stop()
        c = self.start()
        self.assertGreater(c.call("INCR", "young"), last)
        self.assertEqual(c.call("SEQ", "CREATE", "later", "START", 5000), "OK")
        self.assertEqual(c.call("INCR", "later"), 6000)

    def test_a_skip_is_kept_where_there_is_no_witness(self):
        self.start("--witness", "off").call("INCR", "a")
        self.server.stop()
        self.start("--witness", "off", "--skip", "1000")
        self.server.stop()
        c = self.start("--witness", "off")
        self.assertEqual(c.call("SEQ", "CREATE", "later", "START", 5000), "OK")
        self.assertEqual(c.call("INCR", "later"), 6000)

    def test_a_skip_goes_beyond_a_max_that_was_raised_since(self):
        c = self.start()
        c.call("SEQ", "CREATE", "a", "MAX", 100)
        c.call("BLOCK", "a", 90)
        self.server.stop()
        copy = self.copy()
        c = self.start()
        c.call("SEQ", "ALTER", "a", "MAX", 1000)
        last = int(c.call("BLOCK", "a", 500)[1])
        self.server.stop()
        self.put_back(copy)
        os.unlink(self.witness)
        c = self.start("--new-witness", "--skip", "600")
        self.assertEqual(c.fails("INCR", "a").word, "EXHAUSTED")
        c.call("SEQ", "ALTER", "a", "MAX", 1000)
        self.assertGreater(c.call("INCR", "a"), last)

    def test_a_skip_is_not_forgotten_with_a_still_older_copy(self):
        """Neither for what the copy lacks, nor for what only the copy has."""
        self.begun()
        oldest = self.copy()
        self.start().call("SEQ", "CREATE", "young")
        self.server.stop()
        younger = self.copy("younger")
        c = self.start()
        last = int(c.call("BLOCK", "young", 500)[1])
        self.assertEqual(int(c.call("BLOCK", "late", 500)[1]), last)
        self.server.stop()
        self.put_back(oldest)
        os.unlink(self.witness)
        self.start("--new-witness", "--skip", "1000")
        self.server.stop()
        for copy, name in ((younger, "young"), (oldest, "late")):
            self.put_back(copy)
            self.assertGreater(self.start().call("INCR", name), last)
            self.server.stop()

    def test_a_skip_of_another_store_is_not_taken_over(self):
        self.begun()
        own = self.witness
        other = self.hilod("--log-level", "error")
        data = other.data
        other.stop()
        self.hilod("--skip", "1000", data=data).stop()
        text = refused_start("--witness", os.path.join(data, "hilo.witness"), data=self.data)[1]
        self.assertIn("belongs to another store", text)
        self.assertTrue(os.path.exists(own))
        self.assertEqual(self.start().call("INCR", "new"), 1)

    def test_one_that_is_in_use_is_not_put_aside(self):
        self.start()
        other = os.path.join(self.tmp(), "data")
        self.hilod(data=other).stop()
        code, text = refused_start("--witness", self.witness, "--new-witness", "--skip", "9",
                                   data=other)
        self.assertEqual(code, 78)
        self.assertIn("in use", text)
        self.assertTrue(os.path.exists(self.witness))

    def test_a_link_stays_one(self):
        there = os.path.join(self.tmp(), "w")
        self.start("--witness", there)
        self.server.stop()
        os.symlink(there, self.witness)
        self.start()
        os.unlink(there)
        wait_until(lambda: os.path.exists(there), "a new one")
        self.assertTrue(os.path.islink(self.witness))

    def test_a_place_it_can_not_have(self):
        code, text = refused_start("--witness", "/nonexistent/w")
        self.assertEqual(code, 78)
        self.assertIn("No such file or directory. Check the owner", text)
        self.assertNotIn("tries again", text)
        self.begun()
        os.unlink(self.witness)
        os.mkfifo(self.witness)
        self.assertIn("is not a regular file", self.refused())

    def test_arguments(self):
        for args, text in ((("--new-witness",), "needs --skip"), (("--skip", "0"), "--skip has to be"),
                           (("--skip", "x"), "--skip has to be"),
                           (("--from-witness", "--witness", "off"), "which is off")):
            code, said = refused_start(*args)
            self.assertEqual(code, 64)
            self.assertIn(text, said)

    def test_a_skip_alone(self):
        last = self.begun()
        self.assertEqual(self.start("--skip", "500").call("INCR", "a"), last + 501)


class Disk(harness.FailingDisk, Witnessed):
    def setUp(self):
        super().setUp()
        self.start(env=self.disk_env())
        self.c.call("SEQ", "CREATE", "each", "DURABILITY", "each")
        self.assertEqual(self.c.call("INCR", "each"), 1)
        self.assertEqual(self.c.call("INCR", "ahead"), 1)

    def test_a_full_one_grants_nothing_it_does_not_know_and_recovers_by_itself(self):
        self.disk("witness-full")
        e = self.c.fails("INCR", "each")
        self.assertEqual(e.word, "STORAGE")
        self.assertIn("the witness " + self.witness, str(e))
        self.assertEqual(self.c.call("INCR", "ahead"), 2)  # in hand
        self.assertEqual(self.c.fails("INCR", "new").word, "STORAGE")
        self.assertEqual(self.c.info()["ready"], "0")
        self.well()
        wait_until(lambda: self.c.info()["ready"] == "1", "the witness")
        self.assertEqual(self.c.call("INCR", "each"), 3)
        self.assertEqual(self.c.call("INCR", "new"), 1)
        self.server.kill()
        self.assertEqual(self.start().call("INCR", "each"), 4)
        self.assertEqual(self.c.info()["behind_at_start"], "0")

    def test_administration_is_told_too_or_answered_later(self):
        c = self.c
        for name in ("a", "b"):
            c.call("SEQ", "CREATE", name, "MAX", 10**6, "DURABILITY", "each")
        self.disk("witness-full")
        held, other = self.client(self.server), self.client(self.server)
        held.start("SEQ", "ALTER", "a", "MAX", 10**7)
        wait_until(lambda: c.info()["ready"] == "0", "the batch to be held")
        for command in (("SEQ", "ALTER", "b", "MAX", 10**7), ("SEQ", "RETIRE", "b"),
                        ("SEQ", "CREATE", "c"), ("BLOCK", "a", 10**5), ("BLOCK", "each", 1, "TOKEN", "t")):
            self.assertEqual(other.fails(*command).word, "STORAGE", command)
        self.well()
        self.assertEqual(held.reply(), "OK")
        self.assertEqual(other.call("SEQ", "ALTER", "b", "MAX", 10**7), "OK")
        self.assertEqual(other.call("BLOCK", "a", 10)[2], b"1")
        self.assertEqual(self.client(self.server).info()["tokens"], "0")

    def test_waiting_for_it_costs_no_time(self):
        self.disk("witness-full")
        self.c.start("SEQ", "ALTER", "each", "MAX", 10**7)
        wait_until(lambda: self.client(self.server).info()["ready"] == "0", "the batch to be held")
        others = [self.client(self.server) for _ in range(4)]
        for o in others:
            o.start("BLOCK", "ahead", 10**6)

        def cpu():
            with open("/proc/%d/stat" % self.server.proc.pid) as f:
                return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))

        before = cpu()
        for _ in range(8):
            for o in others:
                self.assertEqual(o.reply().word, "STORAGE")
                o.start("BLOCK", "ahead", 10**6)
        self.assertLess(cpu() - before, 50)  # of some 200 hundredths of a second
        self.well()
        self.assertEqual(self.c.reply(), "OK")

    def test_a_database_that_is_replaced_meanwhile(self):
        self.disk("witness-full")
        self.c.start("SEQ", "ALTER", "each", "MAX", 10**7)
        wait_until(lambda: self.client(self.server).info()["ready"] == "0", "the batch to be held")
        os.unlink(os.path.join(self.data, "hilo.db"))
        self.assertTrue(self.server.ended(78))

    def test_one_that_was_cut_is_made_anew(self):
        os.truncate(self.witness, 100)
        wait_until(lambda: "made anew" in self.server.errors(), "it to be noticed")
        wait_until(lambda: os.path.getsize(self.witness) > 100, "a new one")
        self.server.kill()
        self.assertEqual(self.start().call("INCR", "each"), 2)

    def test_one_that_was_deleted_just_before_a_stop(self):
        os.unlink(self.witness)
        self.server.stop()
        self.assertEqual(self.start().call("INCR", "each"), 2)

    def test_a_range_stays_in_hand(self):
        self.disk("witness-full")
        self.assertEqual(self.c.fails("BLOCK", "a", 1000).word, "STORAGE")
        self.well()
        wait_until(lambda: self.c.info()["ready"] == "1", "the witness")
        self.assertEqual(self.c.call("BLOCK", "a", 1000), [b"1", b"1000", b"1"])

    def test_one_that_can_not_be_synced_is_made_anew(self):
        self.disk("witness-fail")
        self.assertEqual(self.c.fails("BLOCK", "ahead", 1000).word, "STORAGE")
        self.well()
        wait_until(lambda: self.c.info()["ready"] == "1", "the witness")
        self.assertGreaterEqual(int(self.c.info()["witness_renewals"]), 2)
        last = int(self.c.call("BLOCK", "ahead", 1000)[1])
        self.server.kill()
        self.assertGreater(self.start().call("INCR", "ahead"), last)

    def test_one_that_was_deleted_is_made_anew(self):
        os.unlink(self.witness)
        wait_until(lambda: os.path.exists(self.witness), "a new one")
        self.server.kill()
        self.assertEqual(self.start().call("INCR", "each"), 2)

    def test_stopping_while_it_can_not_be_written(self):
        self.disk("witness-full")
        self.assertEqual(self.c.fails("INCR", "each").word, "STORAGE")
        self.server.proc.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.proc.wait(harness.DEADLINE), 0)
        self.well()
        self.assertGreater(self.start().call("INCR", "each"), 1)

    def test_it_does_not_grow_for_ever(self):
        c = self.c
        names = [b"".join(c.encode("BLOCK", "s" * 100 + str(i), 5000) for i in range(1000))]
        for _ in range(20):
            c.send(names[0])
            [c.reply() for _ in range(1000)]
        self.assertLess(os.path.getsize(self.witness), 3 * 10**6)
        self.assertGreater(int(c.info()["witness_renewals"]), 1)


if __name__ == "__main__":
    harness.main()
