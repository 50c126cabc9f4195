"""stub.py - servers that do what a test tells them, and a proxy that writes everything down."""

import itertools
import os
import socket
import struct
import threading
import time

import harness


class Hang(Exception):
    """Raised by a stub's answer: say nothing, keep the connection."""


class Cut(Exception):
    """Raised by a stub's answer: close the connection."""


def bulk(*words):
    out = b"*%d\r\n" % len(words)
    for w in words:
        w = w if isinstance(w, bytes) else str(w).encode()
        out += b"$%d\r\n%s\r\n" % (len(w), w)
    return out


class Requests:
    """Requests in a stream of bytes."""

    def __init__(self):
        self.buf = b""

    def feed(self, data):
        self.buf += data
        while True:
            request = self._one()
            if request is None:
                return
            yield request

    def _one(self):
        at = self.buf.find(b"\r\n")
        if at < 0:
            return None
        words, pos = [], at + 2
        for _ in range(int(self.buf[1:at])):
            end = self.buf.find(b"\r\n", pos)
            if end < 0:
                return None
            size = int(self.buf[pos + 1:end])
            if len(self.buf) < end + 2 + size + 2:
                return None
            words.append(self.buf[end + 2:end + 2 + size])
            pos = end + 2 + size + 2
        self.buf = self.buf[pos:]
        return words


class Listener:
    """Accepts connections; serve(sock) runs in a thread of each."""

    def __init__(self, port=0):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(128)
        self.port = self.listener.getsockname()[1]
        self.address = "127.0.0.1:%d" % self.port
        self.socks = set()
        self.accepted = 0
        self.open = True
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.accepted += 1
            self.socks.add(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        try:
            self.serve(sock)
        except (OSError, Cut):
            pass
        self.socks.discard(sock)
        sock.close()

    def cut(self):
        """Closes every connection, with a reset."""
        for sock in list(self.socks):
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def stop(self):
        self.open = False
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        self.thread.join()
        self.cut()


class Stub(Listener):
    """A hilod that grants from memory. greeting() and block() may be replaced: they return the
    bytes of the answer, or raise Hang or Cut."""

    numbers = itertools.count(1)

    def __init__(self, port=0, lane=1, lanes=1, stripe=100000, uuid=None, boot="1-a", epoch=1,
                 shared=0, next_id=1):
        self.fields = dict(server="hilo", version="0", proto=2, mode="standalone", role="master",
                           uuid=uuid or "stub-%d-%d" % (os.getpid(), next(self.numbers)),
                           boot=boot, lane=lane, lanes=lanes, stripe=stripe, epoch=epoch,
                           shared=shared)
        self.next_id = next_id
        self.lock = threading.Lock()
        self.blocks = []      # (first, last, step) granted
        self.asked = []       # (name, count, floor)
        self.greeted = 0
        self.in_flight = self.most_in_flight = 0
        self.delay = 0
        self.on_greeting, self.on_block = self.greeting, self.block
        super().__init__(port)

    def greeting(self, _words):
        flat = []
        for k, v in self.fields.items():
            flat += [k, v]
        return bulk(*flat)

    def block(self, name, count, floor):
        """Up to count of the next ids of this lane, as far as their stripe goes."""
        lanes, lane, stripe = (self.fields[k] for k in ("lanes", "lane", "stripe"))
        if lanes == 1:
            stripe = 2**63
        with self.lock:
            first = max(self.next_id, floor + 1)
            while (first - 1) // stripe % lanes != lane - 1:
                first += stripe - (first - 1) % stripe
            step = lanes if stripe == 1 else 1
            last = first + (count - 1) * step
            if stripe > 1:
                last = min(last, first + stripe - 1 - (first - 1) % stripe)
            self.next_id = last + 1
            self.blocks.append((first, last, step))
        return bulk(first, last, step)

    def answer(self, words):
        if words[0] == b"HELLO":
            self.greeted += 1
            return self.on_greeting(words)
        if words[0] != b"BLOCK":
            return b"-ERR unknown command\r\n"
        floor = int(words[words.index(b"FLOOR") + 1]) if b"FLOOR" in words else 0
        count = int(words[2])
        self.asked.append((words[1].decode(), count, floor))
        with self.lock:
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.delay:
                time.sleep(self.delay)  # the latency under test
            return self.on_block(words[1].decode(), count, floor)
        finally:
            with self.lock:
                self.in_flight -= 1

    def serve(self, sock):
        requests = Requests()
        while True:
            data = sock.recv(65536)
            if not data:
                return
            for words in requests.feed(data):
                try:
                    sock.sendall(self.answer(words))
                except Hang:
                    pass


class Proxy(Listener):
    """Passes everything on to a port, which may change, and writes down each block that was
    granted, whether or not the answer got through."""

    def __init__(self, port_of):
        self.port_of = port_of
        self.blocks = []
        self.silent = False
        super().__init__()

    def serve(self, sock):
        try:
            up = socket.create_connection(("127.0.0.1", self.port_of()), timeout=5)
        except OSError:
            return
        up.settimeout(None)
        back = threading.Thread(target=self._back, args=(up, sock), daemon=True)
        back.start()
        try:
            while True:
                data = sock.recv(65536)
                if not data:
                    return
                up.sendall(data)
        finally:
            try:
                up.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            back.join()
            up.close()

    def _back(self, up, sock):
        client = harness.Client.__new__(harness.Client)
        client.sock, client.buf = up, b""
        pending = b""
        try:
            while True:
                data = up.recv(65536)
                if not data:
                    break
                pending = self._note(pending + data)
                if not self.silent:
                    sock.sendall(data)
        except OSError:
            pass
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _note(self, data):
        """Blocks among the answers; what is left over."""
        while True:
            lines = data.split(b"\r\n")
            if not data.startswith(b"*3\r\n"):
                # a greeting or an error: skip it whole
                size = self._skip(data)
                if size is None:
                    return data
                data = data[size:]
                continue
            if len(lines) < 8:
                return data
            self.blocks.append((int(lines[2]), int(lines[4]), int(lines[6])))
            data = b"\r\n".join(lines[7:])

    @staticmethod
    def _skip(data):
        try:
            reader = harness.Client.__new__(harness.Client)
            reader.buf, reader.sock = data, None
            reader.reply()
            return len(data) - len(reader.buf)
        except (AttributeError, ValueError):
            return None
