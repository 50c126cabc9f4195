"""start_test.py - starting and stopping: flags, addresses, locks, exit codes."""

import os
import signal
import socket
import sqlite3
import subprocess

import harness
from harness import Client, refused_start, wait_until


class Flags(harness.Case):
    def test_version_and_help(self):
        out = subprocess.run([harness.HILOD, "--version"], stdout=subprocess.PIPE)
        self.assertEqual((out.returncode, out.stdout.split()[0]), (0, b"hilod"))
        out = subprocess.run([harness.HILOD, "--help"], stdout=subprocess.PIPE)
        self.assertEqual(out.returncode, 0)
        for flag in ("--data", "--listen", "--unix", "--lane", "--stripe", "--engine",
                     "--log-level", "-c FILE"):
            self.assertIn(flag, out.stdout.decode())

    def test_wrong_usage_is_64_wrong_configuration_78(self):
        self.assertEqual(refused_start("--bogus")[0], 64)
        self.assertEqual(refused_start("word")[0], 64)
        for flags, name in ((("--lane", "3/2"), "lane"), (("--stripe", "0"), "stripe"),
                            (("--engine", "tape"), "engine"),
                            (("--log-level", "loud"), "log_level"),
                            (("--max-block", "0"), "max_block")):
            code, said = refused_start(*flags)
            self.assertEqual(code, 78, said)
            self.assertIn(name + " is '" + flags[1], said)
        conf = os.path.join(self.tmp(), "c.conf")
        with open(conf, "w") as f:
            f.write("# comment\nstripe = 5\nlane = none\n")
        code, said = refused_start("-c", conf)
        self.assertEqual(code, 78)
        self.assertIn("c.conf:3: lane is 'none'", said)

    def test_port_zero_picks_a_port_and_says_so(self):
        s = self.hilod()
        self.assertRegex(s.ready, r"^ready resp=127\.0\.0\.1:[1-9]\d*$")
        self.assertEqual(self.client(s).call("PING"), "PONG")

    def test_several_addresses_ipv6_and_unix(self):
        path = os.path.join(self.tmp(), "s")
        s = self.hilod("--unix", path, listen="127.0.0.1:0,[::1]:0")
        first, second, unix = s.ready.split()[1:]
        self.assertEqual(unix, "unix:" + path)
        clients = [Client(int(first.rsplit(":", 1)[1])),
                   Client(int(second.rsplit(":", 1)[1]), host="::1"), Client(path=path)]
        self.assertEqual([c.call("INCR", "x") for c in clients], [1, 2, 3])
        for c in clients:
            c.close()
        s.stop()
        self.assertFalse(os.path.exists(path))

    def test_an_address_beyond_this_machine_needs_to_be_insisted_on(self):
        for address in ("0.0.0.0:0", "[::]:0"):
            code, said = refused_start("--listen", address)
            self.assertEqual(code, 78)
            self.assertIn("--insecure", said)
        s = self.hilod("--insecure", listen="0.0.0.0:0")
        self.assertEqual(self.client(s).call("PING"), "PONG")

    def test_an_address_that_can_not_be_had_is_named(self):
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        code, said = refused_start("--listen", address)
        self.assertEqual(code, 1)
        self.assertIn(address + ": Address already in use", said)
        for bad in ("127.0.0.1", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:x", ":1"):
            self.assertEqual(refused_start("--listen", bad)[0], 78, bad)

    def test_the_memory_engine_says_so_loudly(self):
        s = self.hilod("--engine", "memory")
        self.assertEqual(self.client(s).call("INCR", "x"), 1)
        self.assertIn("FORGETS", s.errors())

    def test_log_level(self):
        s = self.hilod("--log-level", "error")
        self.client(s).call("INCR", "x")
        s.stop()
        self.assertEqual(s.errors(), "")


class UnixSockets(harness.Case):
    def test_what_a_crash_left_is_replaced_at_once(self):
        path = os.path.join(self.tmp(), "s")
        a = self.hilod("--unix", path)
        address = "127.0.0.1:%d" % a.port
        c = Client(path=path)
        c.call("INCR", "x")
        a.kill()
        self.assertTrue(os.path.exists(path))
        self.hilod("--unix", path, data=a.data, listen=address)
        with Client(path=path) as again:
            self.assertGreater(again.call("INCR", "x"), 1)
        c.close()

    def test_a_live_socket_is_never_taken(self):
        path = os.path.join(self.tmp(), "s")
        self.hilod("--unix", path)
        code, said = refused_start("--unix", path)
        self.assertEqual(code, 1)
        self.assertIn(path, said)
        with Client(path=path) as c:
            self.assertEqual(c.call("PING"), "PONG")

    def test_what_is_no_socket_is_never_touched(self):
        path = os.path.join(self.tmp(), "s")
        with open(path, "w") as f:
            f.write("mine")
        self.assertEqual(refused_start("--unix", path)[0], 1)
        with open(path) as f:
            self.assertEqual(f.read(), "mine")


class Locks(harness.Case):
    """One process per database, whatever the way to it."""

    def setUp(self):
        self.server = self.hilod()
        self.c = self.client(self.server)
        self.c.call("INCR", "x")

    def refused(self, data):
        code, said = refused_start(data=data)
        self.assertEqual(code, 78, said)
        self.assertIn("hilo.db", said)
        self.assertIn("process %d (" % self.server.proc.pid, said)
        self.assertEqual(self.c.call("PING"), "PONG")
        before = self.c.call("INCR", "x")
        self.assertEqual(self.c.call("INCR", "x"), before + 1)

    def test_the_same_path(self):
        self.refused(self.server.data)
        self.assertIn("hilo.db.lock", refused_start(data=self.server.data)[1])

    def test_a_symbolic_link_to_the_directory(self):
        link = os.path.join(self.tmp(), "link")
        os.symlink(self.server.data, link)
        self.refused(link)

    def test_a_symbolic_link_to_the_file(self):
        other = self.tmp()
        os.symlink(os.path.join(self.server.data, "hilo.db"), os.path.join(other, "hilo.db"))
        self.refused(other)

    def test_a_hard_link_to_the_file(self):
        other = self.tmp()
        os.link(os.path.join(self.server.data, "hilo.db"), os.path.join(other, "hilo.db"))
        self.refused(other)

    def test_a_hard_link_is_refused_even_when_nobody_runs(self):
        """The log of a crash is found under one of the names only."""
        self.c.call("INCRBY", "x", 1000)
        other = self.tmp()
        os.link(os.path.join(self.server.data, "hilo.db"), os.path.join(other, "hilo.db"))
        self.server.kill()
        for data in (other, self.server.data):
            code, said = refused_start(data=data)
            self.assertEqual(code, 78)
            self.assertIn("2 names (hard links)", said)
        os.unlink(os.path.join(other, "hilo.db"))
        c = self.client(self.hilod(data=self.server.data))
        self.assertGreater(c.call("INCR", "x"), 1001)

    def test_outsiders_are_told_it_is_locked_and_change_nothing(self):
        path = os.path.join(self.server.data, "hilo.db")
        ids = []
        for _ in range(20):
            db = sqlite3.connect(path, timeout=0, isolation_level=None)
            for statement in ("BEGIN IMMEDIATE", "UPDATE counter SET mark = 0",
                              "SELECT * FROM counter"):
                with self.assertRaisesRegex(sqlite3.OperationalError, "locked"):
                    db.execute(statement)
            ids += [self.c.call("INCR", "x") for _ in range(50)]
            db.close()
        self.assertEqual(ids, list(range(2, 1002)))
        names = [os.readlink("/proc/%d/fd/%s" % (self.server.proc.pid, fd))
                 for fd in os.listdir("/proc/%d/fd" % self.server.proc.pid)]
        deleted = [n for n in names if n.startswith(self.server.data) and "(deleted)" in n]
        self.assertEqual(deleted, [])

    def test_one_who_was_there_first_only_delays_the_start(self):
        self.c.close()
        self.server.stop()
        path = os.path.join(self.server.data, "hilo.db")
        holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        holder.execute("BEGIN IMMEDIATE")
        log = open(os.path.join(self.tmp(), "log"), "w+b")
        self.addCleanup(log.close)
        proc = subprocess.Popen([harness.HILOD, "--data", self.server.data, "--listen",
                                 "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=log)

        def said():
            log.seek(0)
            return b"is locked by" in log.read()

        try:
            wait_until(said, "the report of the lock")
            holder.execute("ROLLBACK")
            holder.close()
            self.assertTrue(proc.stdout.readline().startswith(b"ready "))
        finally:
            proc.terminate()
            proc.communicate(timeout=harness.DEADLINE)
        self.assertEqual(proc.returncode, 0)

    def test_one_who_stays_makes_the_start_fail_with_a_name(self):
        self.c.close()
        self.server.stop()
        path = os.path.join(self.server.data, "hilo.db")
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        code, said = refused_start(data=self.server.data)
        holder.close()
        self.assertEqual(code, 78)
        self.assertIn("hilo.db is locked by", said)


class Stopping(harness.Case):
    def test_a_second_signal_leaves_at_once_and_loses_nothing(self):
        s = self.hilod()
        c = self.client(s)
        c.call("SEQ", "CREATE", "e", "DURABILITY", "each")
        c.send(Client.encode("INCR", "e") * 20000)
        last = c.reply()
        s.proc.send_signal(signal.SIGTERM)
        s.proc.send_signal(signal.SIGTERM)
        self.assertEqual(s.proc.wait(harness.DEADLINE), 0)
        try:
            while True:
                last = c.reply()
        except (harness.Closed, ConnectionResetError):
            pass
        again = self.client(self.hilod(data=s.data))
        self.assertGreater(again.call("INCR", "e"), last)

    def test_sigterm_never_lowers_the_mark_to_a_granted_id(self):
        data = self.tmp()
        last = 0
        for signals in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL) * 3:
            s = self.hilod(data=data)
            with s.client() as c:
                for _ in range(40):
                    block = c.call("BLOCK", "a", 10)
                    self.assertGreater(int(block[0]), last)
                    last = int(block[1])
            if signals == signal.SIGKILL:
                s.kill()
            else:
                s.stop(signals)

    def test_new_connections_are_refused_while_stopping(self):
        s = self.hilod()
        held = self.client(s)
        held.call("SEQ", "CREATE", "e", "DURABILITY", "each")
        s.proc.send_signal(signal.SIGTERM)

        def refused():
            try:
                s.client().close()
            except ConnectionRefusedError:
                return True
            except ConnectionResetError:
                pass  # it was in the backlog when the listener closed
            return False

        wait_until(refused, "the listener to close")
        self.assertTrue(held.at_end())

    def test_clients_that_vanish_do_not_kill_the_server(self):
        s = self.hilod()
        for _ in range(100):
            c = s.client()
            c.send(Client.encode("NEXT", "x", 1000) * 20)
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            c.close()
        self.assertEqual(self.client(s).call("PING"), "PONG")



class Asleep(harness.Case):
    """After a start a sequence is little more than what the store says, until it is asked for."""

    N = 230  # more than two pages of SEQ LIST

    def setUp(self):
        self.data = self.tmp()
        with self.hilod(data=self.data).client() as c:
            for i in range(self.N):
                c.start("SEQ", "CREATE", "s%d" % i, "START", i + 1, "MAX", 10**6,
                        "DURABILITY", "each" if i % 2 else "ahead")
            for i in range(self.N):
                self.assertEqual(c.reply(), "OK")
            self.incr_all(c, 1)
            c.call("SEQ", "RETIRE", "s7")
            c.call("SEQ", "CREATE", "short", "MAX", 10)
            c.call("BLOCK", "short", 9)
            self.before = self.listed(c)
        self.servers[-1].stop()

    def hilod(self, **kw):
        self.servers = getattr(self, "servers", []) + [super().hilod(**kw)]
        return self.servers[-1]

    @staticmethod
    def listed(c):
        rows, cursor = {}, 0
        while True:
            cursor, page = c.call("SEQ", "LIST", "CURSOR", cursor)
            for flat in page:
                row = {k.decode(): v.decode() for k, v in zip(flat[::2], flat[1::2])}
                for now in ("granted", "rate", "reserved"):
                    row.pop(now)
                rows[row["name"]] = row
            if cursor == b"0":
                return rows

    def incr_all(self, c, above, but=()):
        wanted = [i for i in range(self.N) if i not in but]
        for i in wanted:
            c.start("INCR", "s%d" % i)
        self.assertEqual([c.reply() for _ in wanted], [i + above for i in wanted])

    def test_they_look_as_before(self):
        with self.hilod(data=self.data).client() as c:
            self.assertEqual(self.listed(c), self.before)
            self.assertEqual(c.call("GET", "s3"), b"4")
            self.assertEqual(self.listed(c), self.before)

    def test_they_go_on(self):
        with self.hilod(data=self.data).client() as c:
            self.assertEqual(c.info()["sequences"], str(self.N + 1))
            self.assertEqual(c.info()["sequences_near_end"], "1")
            self.assertEqual(c.fails("INCR", "s7").word, "NOSEQ")
            self.incr_all(c, 2, but=(7,))
            self.assertEqual(c.call("INCR", "short"), 10)
            self.assertEqual(c.fails("INCR", "short").word, "EXHAUSTED")
            self.assertEqual(c.call("SEQ", "CREATE", "s7", "START", 8, "MAX", 10**6,
                                    "DURABILITY", "each"), "OK")
            self.assertEqual(c.call("INCR", "s7"), 9)

    def test_a_clean_stop_leaves_them_alone(self):
        with self.hilod(data=self.data).client() as c:
            self.assertEqual(c.call("INCR", "s0"), 2)
        self.servers[-1].stop()
        with self.hilod(data=self.data).client() as c:
            self.assertEqual([c.call("INCR", "s%d" % i) for i in (0, 2, 4)], [3, 4, 6])


if __name__ == "__main__":
    harness.main()
