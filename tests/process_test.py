"""process_test.py - hilod as a process: signals, reload, service manager, log formats."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import threading

import harness
from harness import Client, refused_start, wait_until


class Reload(harness.Case):
    def conf(self, text):
        path = os.path.join(self.tmp(), "hilod.conf")
        self.write(path, text)
        return path

    @staticmethod
    def write(path, text):
        with open(path, "w") as f:
            f.write(text)

    def reload(self, s, says="reload: done"):
        before = s.errors().count("reload: done") + s.errors().count("nothing changed")
        s.proc.send_signal(signal.SIGHUP)
        wait_until(lambda: s.errors().count("reload: done") +
                   s.errors().count("nothing changed") > before, "the reload")
        self.assertIn(says, s.errors())

    def test_what_can_change_does_and_what_can_not_is_named(self):
        path = self.conf("max_block = 10\nlog_level = info\n")
        s = self.hilod("-c", path, "--auto-create", "yes")
        c = self.client(s)
        self.assertEqual(c.fails("BLOCK", "a", 11).word, "BADARG")
        self.write(path, "max_block = 20\nauto_create = no\nint_reply_max = 5\n"
                         "stripe = 7\nunix = /tmp/elsewhere\nmax_clients = 2\n")
        self.reload(s)
        self.assertEqual(len(c.call("BLOCK", "a", 20)), 3)
        self.assertIn("round", str(c.fails("INCR", "a")))
        self.assertEqual(c.call("INCR", "auto-create-is-a-flag"), 1)
        said = s.errors()
        self.assertIn("reload: max_block is now '20'", said)
        for name in ("stripe", "unix"):
            self.assertRegex(said, r"warning reload: %s = '.*' needs a restart" % name)
        self.assertNotIn("auto_create", said)
        self.assertEqual(c.call("CONFIG", "GET", "unix", "max_block"),
                         [b"unix", b"", b"max_block", b"20"])
        self.assertEqual(c.info("clients")["maxclients"], "2")
        with s.client() as second, s.client() as third:
            self.assertEqual(second.call("PING"), "PONG")
            self.assertIn("max number of clients", str(third.reply()))

    def test_with_anything_wrong_nothing_changes(self):
        path = self.conf("max_block = 10\n")
        s = self.hilod("-c", path)
        c = self.client(s)
        for text, said in (("max_block = 20\nbogus = 1\n", ":2: "),
                           ("max_block = 20\nlane = 5\n", ":2: lane is '5'"),
                           ("max_block = 20\npassword_file = /does/not/exist\n", "No such")):
            self.write(path, text)
            self.reload(s, "nothing changed: ")
            self.assertIn(said, s.errors())
            self.assertEqual(c.fails("BLOCK", "a", 11).word, "BADARG")
        os.unlink(path)
        self.reload(s, "%s: No such file" % path)
        self.assertEqual(c.fails("BLOCK", "a", 11).word, "BADARG")

    def test_a_reachable_server_keeps_its_passwords(self):
        passwords = os.path.join(self.tmp(), "p")
        self.write(passwords, "good-password\n")
        path = self.conf("password_file = %s\n" % passwords)
        s = self.hilod("-c", path, listen="0.0.0.0:0")
        self.write(path, "")
        self.reload(s, "nothing changed: password_file can't be taken away")
        self.assertEqual(self.client(s).fails("PING").word, "NOAUTH")

    def test_a_thousand_reloads_under_load(self):
        s = self.hilod()
        stop = threading.Event()
        failures = []

        def load():
            try:
                with s.client() as c:
                    last = 0
                    while not stop.is_set():
                        now = c.call("INCR", "a")
                        if now <= last:
                            failures.append(now)
                        last = now
            except Exception as e:  # whatever it was, it is a failure
                failures.append(e)

        t = threading.Thread(target=load)
        t.start()
        for _ in range(1000):
            s.proc.send_signal(signal.SIGHUP)
        wait_until(lambda: "reload: done" in s.errors(), "a reload")
        stop.set()
        t.join()
        self.assertEqual(failures, [])

    def test_a_reload_changes_the_log(self):
        path = self.conf("")
        s = self.hilod("-c", path)
        self.write(path, "log_format = json\nlog_level = error\n")
        s.proc.send_signal(signal.SIGHUP)
        c = self.client(s)

        def quiet():
            c.call("SEQ", "CREATE", "s%d" % len(os.listdir("/proc/self/fd")))
            return c.call("CONFIG", "GET", "log_level") == [b"log_level", b"error"]

        wait_until(quiet, "the reload")
        length = len(s.errors())
        c.call("SEQ", "CREATE", "late")
        s.stop()
        self.assertEqual(len(s.errors()), length)


class Configuration(harness.Case):
    def check(self, *args):
        done = subprocess.run([harness.HILOD, *args, "--check-config"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout.decode()

    def test_check_config_says_what_a_start_would(self):
        data = os.path.join(self.tmp(), "d")
        self.assertEqual(self.check("--data", data), (0, "hilod: the configuration is good\n"))
        self.assertFalse(os.path.exists(data))
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        self.assertEqual(self.check("--listen", "127.0.0.1:%d" % taken.getsockname()[1])[0], 0)
        for args, code, said in (
                (("--bogus",), 64, "--bogus"), (("--max-block", "0"), 78, "from 1 to"),
                (("--listen", "nowhere"), 78, "HOST:PORT"),
                (("--listen", "0.0.0.0:1"), 78, "password_file"),
                (("--listen", ""), 78, "no address"),
                (("--password-file", "/does/not/exist"), 78, "No such file"),
                (("-c", "/does/not/exist"), 78, "/does/not/exist")):
            got, text = self.check(*args)
            self.assertEqual(got, code, text)
            self.assertIn(said, text)

    def test_the_unix_socket_has_its_permissions(self):
        for mode in ("0600", "0666", "0660"):
            path = os.path.join(self.tmp(), "s" + mode)
            self.hilod("--unix", path, "--unix-mode", mode, preexec_fn=lambda: os.umask(0o77))
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), int(mode, 8))
            with Client(path=path) as c:
                self.assertEqual(c.call("PING"), "PONG")
        for bad in ("9", "1777", "888", "rw"):
            self.assertEqual(refused_start("--unix-mode", bad)[0], 78, bad)

    def test_no_listen_but_a_unix_socket(self):
        path = os.path.join(self.tmp(), "s")
        s = self.hilod("--unix", path, listen="")
        self.assertEqual(s.ready, "ready unix:" + path)
        with Client(path=path) as c:
            self.assertEqual(c.call("INCR", "a"), 1)


class Manager(harness.Case):
    """What a service manager sees."""

    def listen(self):
        path = os.path.join(self.tmp(), "notify")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(sock.close)
        sock.bind(path)
        sock.settimeout(harness.DEADLINE)
        return path, sock

    def test_it_hears_of_ready_reload_and_stop(self):
        path, sock = self.listen()
        s = self.hilod(env={"NOTIFY_SOCKET": path})
        self.assertEqual(sock.recv(100), b"READY=1")
        self.assertEqual(self.client(s).call("INCR", "a"), 1)
        s.proc.send_signal(signal.SIGHUP)
        self.assertRegex(sock.recv(100).decode(), r"^RELOADING=1\nMONOTONIC_USEC=\d+$")
        self.assertEqual(sock.recv(100), b"READY=1")
        s.proc.send_signal(signal.SIGTERM)
        self.assertEqual(sock.recv(100), b"STOPPING=1")
        s.stop()

    def test_a_start_that_fails_is_never_ready(self):
        path, sock = self.listen()
        self.assertEqual(refused_start("--lane", "0/1", env={"NOTIFY_SOCKET": path})[0], 78)
        sock.setblocking(False)
        self.assertRaises(BlockingIOError, sock.recv, 100)

    def test_sockets_that_were_opened_before(self):
        tcp = socket.create_server(("127.0.0.1", 0))
        unix = socket.socket(socket.AF_UNIX)
        path = os.path.join(self.tmp(), "s")
        unix.bind(path)
        unix.listen(5)
        # sh sets LISTEN_PID to what hilod will have, and moves the descriptors to 3 and 4.
        script = "LISTEN_PID=$$ exec \"$@\" 3<&%d 4<&%d" % (tcp.fileno(), unix.fileno())
        s = self.hilod("--unix", "/not/used", wrap=["sh", "-c", script, "sh"],
                       env={"LISTEN_FDS": "2"}, pass_fds=(tcp.fileno(), unix.fileno()))
        port = tcp.getsockname()[1]
        self.assertEqual(s.ready, "ready resp=127.0.0.1:%d unix:%s" % (port, path))
        tcp.close()
        unix.close()
        with Client(port) as a, Client(path=path) as b:
            self.assertEqual([a.call("INCR", "x"), b.call("INCR", "x")], [1, 2])
        s.stop()
        self.assertTrue(os.path.exists(path))  # it is the manager's

    def test_sockets_meant_for_somebody_else_are_not_taken(self):
        s = self.hilod(env={"LISTEN_FDS": "1", "LISTEN_PID": "1"})
        self.assertRegex(s.ready, r"^ready resp=127\.0\.0\.1:\d+$")

    def test_an_inherited_socket_can_be_reachable_too(self):
        tcp = socket.create_server(("0.0.0.0", 0))
        self.addCleanup(tcp.close)
        done = subprocess.run(
            ["sh", "-c", "LISTEN_PID=$$ exec \"$@\" 3<&%d" % tcp.fileno(), "sh", harness.HILOD,
             "--data", os.path.join(self.tmp(), "d")], env={**os.environ, "LISTEN_FDS": "1"},
            pass_fds=(tcp.fileno(),), stderr=subprocess.PIPE, timeout=harness.DEADLINE)
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertIn(b"password_file", done.stderr)


class Signals(harness.Case):
    def test_as_the_first_process_of_a_container(self):
        """PID 1 gets no signal it has no handler for."""
        unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork",
                   "--kill-child=KILL"]
        if os.geteuid() == 0:
            unshare = ["unshare", "--pid", "--fork", "--kill-child=KILL"]
        s = self.hilod(wrap=unshare)
        inner = self.child(s.proc.pid)
        with s.client() as c:
            self.assertEqual(c.info("server")["process_id"], "1")
            self.assertEqual(c.call("INCR", "a"), 1)
        os.kill(inner, signal.SIGHUP)
        wait_until(lambda: "reload: done" in s.errors(), "the reload")
        os.kill(inner, signal.SIGTERM)
        self.assertEqual(s.proc.wait(harness.DEADLINE), 0)
        self.assertIn("stopped", s.errors())

    @staticmethod
    def child(pid):
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return int(f.read().split()[0])

    def test_sigpipe_and_sigxfsz_are_ignored(self):
        s = self.hilod()
        for sig in (signal.SIGPIPE, signal.SIGXFSZ):
            s.proc.send_signal(sig)
        self.assertEqual(self.client(s).call("INCR", "a"), 1)

    def test_a_stop_with_a_hundred_grants_under_way(self):
        s = self.hilod()
        c = self.client(s)
        c.call("SEQ", "CREATE", "e", "DURABILITY", "each")
        c.send(Client.encode("INCR", "e") * 100)
        first = c.reply()
        s.proc.send_signal(signal.SIGTERM)
        ids = [first]
        try:
            while True:
                ids.append(c.reply())
        except harness.Closed:
            pass  # whole answers only: Client raises on half of one
        self.assertEqual(ids, list(range(1, len(ids) + 1)))
        self.assertEqual(s.proc.wait(5 + harness.DEADLINE), 0)
        again = self.client(self.hilod(data=s.data))
        self.assertGreater(again.call("INCR", "e"), ids[-1])


class LogFormats(harness.Case):
    def test_json_is_an_object_a_line(self):
        s = self.hilod("--log-format", "json")
        c = self.client(s)
        c.call("SEQ", "CREATE", "a")
        c.send(b'\x1b"\\\xff\xfe\r\n')
        c.send(b"*x\r\n")
        wait_until(c.at_end, "the end of the connection")
        s.stop()
        events = [json.loads(line) for line in s.errors().splitlines()]
        self.assertGreater(len(events), 3)
        for e in events:
            self.assertEqual(set(e), {"time", "level", "text"})
            self.assertRegex(e["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertIn("sequence a: created", [e["text"] for e in events])

    def test_paths_are_escaped(self):
        odd = os.path.join(self.tmp(), 'a"\\\x1bb\u00e9')
        for flags in ((), ("--log-format", "json")):
            with open(odd, "w") as f:
                f.write("long-enough\n")
            os.chmod(odd, 0o644)
            s = self.hilod("--password-file", odd, *flags)
            s.stop()
            self.assertNotIn("\x1b", s.errors())
            line = next(l for l in s.errors().splitlines() if "everybody" in l)
            if flags:
                self.assertIn('a"\\\x1bb', json.loads(line)["text"])

    def test_lines_for_the_journal_have_priorities(self):
        """JOURNAL_STREAM names the device and inode of standard error."""
        path = os.path.join(self.tmp(), "log")
        with open(path, "w") as log:
            st = os.fstat(log.fileno())
            s = self.hilod("--engine", "memory", stderr=log, env={
                "JOURNAL_STREAM": "%d:%d" % (st.st_dev, st.st_ino)})
            s.stop()
        with open(path) as log:
            lines = log.read().splitlines()
        self.assertTrue(all(re.match(r"<[3-7]>\w", l) for l in lines), lines)
        self.assertTrue(any(l.startswith("<4>engine memory") for l in lines), lines)
        other = self.hilod(env={"JOURNAL_STREAM": "1:1"})
        self.assertRegex(other.errors(), r"^\d{4}-")


if __name__ == "__main__":
    harness.main()
