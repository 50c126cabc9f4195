"""log_test.py - the log: what it costs when nobody reads it, or somebody floods it."""

import os
import re
import socket

import harness
from harness import wait_until

LEFT_OUT = re.compile(r"\(and (\d+) more like it\)")
DROPPED = re.compile(rb"warning (\d+) lines before this one could not be written\n")


def fill(fd):
    """Fills a pipe whose other end nobody reads; what is written next would wait."""
    os.set_blocking(fd, False)
    try:
        while True:
            os.write(fd, b"." * 4096)
    except BlockingIOError:
        os.set_blocking(fd, True)


class Log(harness.Case):
    def test_nobody_waits_for_a_log_that_takes_no_more(self):
        out, into = os.pipe()
        self.addCleanup(os.close, out)
        self.addCleanup(os.close, into)
        fill(into)
        s = self.hilod(stderr=into)
        c = self.client(s)
        for i in range(3):
            c.call("SEQ", "CREATE", "s%d" % i)
        self.assertEqual(c.call("INCR", "s0"), 1)
        os.set_blocking(out, False)
        wait_until(lambda: _emptied(out), "the pipe to be empty")
        c.call("SEQ", "CREATE", "late")
        c.call("SEQ", "CREATE", "later")
        text = os.read(out, 65536)
        # One line at the start, one for each of the three.
        self.assertEqual(DROPPED.findall(text), [b"4"])
        self.assertEqual(text.count(b"\n"), 3, text)
        self.assertIn(b"sequence late: created\n", text)
        s.stop()

    def flood(self, s, event, once):
        """Makes an event again and again: few lines, which count all that happened."""
        made = 0

        def counted():
            nonlocal made
            once()
            made += 1
            lines = [line for line in s.errors().splitlines() if event in line]
            left_out = sum(int(n) for line in lines for n in LEFT_OUT.findall(line))
            return left_out > 0 and len(lines) + left_out == made and len(lines)

        for _ in range(500):
            once()
            made += 1
        lines = wait_until(counted, "a line that counts those left out")
        self.assertLess(lines, made // 2)

    def test_a_flood_of_bad_frames_does_not_flood_the_log(self):
        s = self.hilod()

        def once():
            with s.client() as c:
                c.send(b"*x\r\n")
                self.assertIn(b"Protocol error", c.sock.recv(256))

        self.flood(s, "; closed", once)

    def test_a_flood_of_wrong_floors_does_not_flood_the_log(self):
        s = self.hilod()
        c = self.client(s)

        def once():
            self.assertEqual(c.fails("BLOCK", "a", 1, "FLOOR", 10**15).word, "REGRESS")

        self.flood(s, "possible regress", once)

    def test_a_flood_of_new_sequences_does_not_flood_the_log(self):
        s = self.hilod()
        c = self.client(s)
        made = iter(range(1 << 30))
        self.flood(s, ": created", lambda: c.call("INCR", "s%d" % next(made)))

    def test_what_an_administrator_does_is_logged_line_by_line(self):
        s = self.hilod()
        c = self.client(s)
        for i in range(5):
            c.call("SEQ", "CREATE", "s%d" % i)
            c.call("SEQ", "ADVANCE", "s%d" % i, 100)
        for i in range(5):
            self.assertIn("sequence s%d: created\n" % i, s.errors())
            self.assertIn("sequence s%d: advanced above 100\n" % i, s.errors())

    def test_a_peer_can_not_write_lines_of_its_own(self):
        s = self.hilod()
        with s.client() as c:
            c.send(b"\x1b[2J\nerror all is lost\r\n")
            c.sock.shutdown(socket.SHUT_WR)
            while c.sock.recv(4096):
                pass
        s.stop()
        self.assertNotIn("\x1b", s.errors())
        self.assertFalse([line for line in s.errors().splitlines()
                          if line.startswith("error")])


def _emptied(fd):
    try:
        os.read(fd, 65536)
        return False
    except BlockingIOError:
        return True


if __name__ == "__main__":
    harness.main()
