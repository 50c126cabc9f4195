"""login_test.py - passwords: who needs one, what a wrong one costs, how they change."""

import os
import signal
import time

import harness
from harness import Client, refused_start, wait_until

OPEN = {"AUTH", "HELLO", "QUIT", "RESET"}


class Login(harness.Case):
    def passwords(self, *lines, mode=0o600):
        path = os.path.join(self.tmp(), "passwords")
        self.write(path, *lines)
        os.chmod(path, mode)
        return path

    @staticmethod
    def write(path, *lines):
        with open(path, "w") as f:
            f.write("\n".join(lines) + "\n")

    def setUp(self):
        self.path = self.passwords("# two of them", "first-password", "", "second-password")
        self.server = self.hilod("--password-file", self.path)

    def test_everything_else_needs_a_login(self):
        c = self.client(self.server)
        names = [n.decode().upper() for n in self.command_names()]
        self.assertGreater(len(names), 15)
        for name in names + ["SET", "DEL", "KEYS", "MULTI"]:
            if name not in OPEN:
                self.assertEqual(c.fails(name, "x", "y").word, "NOAUTH", name)
        for args in (("NONSENSE",), ("SEQ", "CREATE", "a"), ("HELLO",), ("HELLO", "3"),
                     ("HELLO", "3", "SETNAME", "me")):
            self.assertEqual(c.fails(*args).word, "NOAUTH", args)
        self.assertEqual(c.call("RESET"), "RESET")
        self.assertEqual(c.fails("PING").word, "NOAUTH")
        c.call("AUTH", "first-password")
        self.assertEqual(c.call("INCR", "a"), 1)
        self.assertEqual(c.call("RESET"), "RESET")
        self.assertEqual(c.fails("INCR", "a").word, "NOAUTH")
        self.assertEqual(c.call("QUIT"), "OK")

    def command_names(self):
        with self.server.client() as c:
            c.call("AUTH", "first-password")
            return c.call("COMMAND", "LIST")

    def test_the_ways_in(self):
        for args in (("AUTH", "first-password"), ("AUTH", "second-password"),
                     ("auth", "default", "second-password"),
                     ("HELLO", "2", "AUTH", "default", "first-password"),
                     ("HELLO", "2", "SETNAME", "me", "AUTH", "default", "first-password")):
            with self.server.client() as c:
                c.call(*args)
                self.assertEqual(c.call("PING"), "PONG")

    def test_limits_hold_before_login(self):
        for bad in (b"*65\r\n", b"*1\r\n$4097\r\n", b"x" * 1025, b"*x\r\n"):
            with self.server.client() as c:
                c.send(bad)
                self.assertIn("Protocol error", str(c.reply()))
                self.assertTrue(c.at_end())

    def test_what_is_wrong_is_refused_late_counted_and_logged(self):
        c = self.client(self.server)
        other = self.client(self.server)
        other.call("AUTH", "first-password")
        wrong = (("AUTH", "first-passwor"), ("AUTH", "root", "first-password"),
                 ("HELLO", "3", "AUTH", "default", "first-password2"), ("AUTH", "x" * 4096))
        for i, args in enumerate(wrong):
            began = time.monotonic()
            c.start(*args)
            while time.monotonic() < began + 0.8:  # others don't feel it
                self.assertEqual(other.call("PING"), "PONG")
            self.assertEqual(str(c.reply()), "WRONGPASS invalid user name or password")
            self.assertGreater(time.monotonic(), began + 0.9)
            self.assertEqual(other.info("clients")["auth_failures"], str(i + 1))
        self.assertEqual(c.fails("PING").word, "NOAUTH")
        c.send(Client.encode("AUTH", "fifth\r\n\x1b[31m") + Client.encode("PING"))
        self.assertEqual(c.reply().word, "WRONGPASS")
        self.assertTrue(c.at_end())
        self.assertIn("wrong user or password", self.server.errors())
        for secret in ("first-passwor", "second", "fifth", "\x1b"):
            self.assertNotIn(secret, self.server.errors())

    def test_what_follows_a_wrong_password_waits_with_it(self):
        c = self.client(self.server)
        c.send(Client.encode("AUTH", "wrong") + Client.encode("AUTH", "first-password") +
               Client.encode("INCR", "a"))
        self.assertEqual(c.reply().word, "WRONGPASS")
        self.assertEqual([c.reply(), c.reply()], ["OK", 1])

    def test_a_reload_brings_passwords_and_takes_them(self):
        c = self.client(self.server)
        c.call("AUTH", "first-password")
        self.write(self.path, "third-password")
        self.server.proc.send_signal(signal.SIGHUP)
        wait_until(lambda: "reload: done" in self.server.errors(), "the reload")
        self.assertEqual(c.call("PING"), "PONG")  # who is in stays in
        with self.server.client() as late:
            self.assertEqual(late.fails("AUTH", "first-password").word, "WRONGPASS")
            self.assertEqual(late.call("AUTH", "third-password"), "OK")
        self.write(self.path, "short")
        self.server.proc.send_signal(signal.SIGHUP)
        wait_until(lambda: "nothing changed" in self.server.errors(), "the reload")
        with self.server.client() as late:
            self.assertEqual(late.call("AUTH", "third-password"), "OK")

    def test_a_password_opens_the_way_beyond_this_machine(self):
        s = self.hilod("--password-file", self.path, listen="0.0.0.0:0")
        self.assertEqual(self.client(s).fails("PING").word, "NOAUTH")
        s.proc.send_signal(signal.SIGHUP)
        wait_until(lambda: "reload: done" in s.errors(), "the reload")

    def test_files_that_will_not_do_are_named(self):
        for lines, said in (((), "there is no password in it"), (("# none",), "no password"),
                            (("short",), ":1: a password has 8 to 256 bytes"),
                            (("# a", "x" * 257), ":2: a password has"),
                            (("\x01" * 9,), "control bytes"),
                            (["password-%d" % i for i in range(17)], ":17: more than 16")):
            path = self.passwords(*lines)
            code, text = refused_start("--password-file", path)
            self.assertEqual(code, 78)
            self.assertIn(path, text)
            self.assertIn(said, text)
            if lines:
                self.assertNotIn(lines[-1], text)
        code, text = refused_start("--password-file", "/does/not/exist")
        self.assertEqual((code, "/does/not/exist: No such file" in text), (78, True))
        code, text = refused_start("--password-file", "/tmp")
        self.assertEqual((code, "/tmp: Is a directory" in text), (78, True))

    def test_a_file_everybody_can_read_is_warned_about(self):
        s = self.hilod("--password-file", self.passwords("long-enough", mode=0o644))
        self.assertIn("can be read by everybody", s.errors())
        self.assertNotIn("can be read by everybody", self.server.errors())

    def test_the_longest_password_and_line_ends_of_windows(self):
        s = self.hilod("--password-file", self.passwords("p" * 256 + "\r", "a b c d e f\r"))
        self.assertEqual(self.client(s).call("AUTH", "p" * 256), "OK")
        self.assertEqual(self.client(s).call("AUTH", "a b c d e f"), "OK")


if __name__ == "__main__":
    harness.main()
