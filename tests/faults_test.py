"""faults_test.py - each call that can fail fails once, and from then on for good.

A run is one life of a server with tests/faults.so before it: the nth call of a kind fails
in one phase, a start, grants, a reload or a stop; then the fault is gone, the server is
asked again, ends, and another one without faults goes on with the same directory. What
has to hold in each run:

  - no server dies of a signal or hangs; one that does not start or ends by itself has an
    exit code and says why
  - a client gets an answer, an error or a closed connection, and no answer is garbled
  - a server whose fault is gone grants again, or says that granting has ended
  - the next server starts by itself; its ids are above all that were acknowledged; a
    token that was answered gives its block again; what was acknowledged of a sequence holds

A test makes the runs of one kind in one phase and prints how many there were. HILO_LONG=1:
n = 1, 2, 3 ... until a run meets no fault; else the first ones and some of the rest.
HILO_FAULT=ERRNO:n:once or ERRNO:n:ever makes one run of the tests that are named.
"""

import copy
import errno
import mmap
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import harness
from harness import Client, Closed, Error, Hilod, wait_until

SHORT = 0  # in place of an errno: half of it is read, written or sent
FAULTS = {  # kind: errno, whether it also fails for good
    "alloc": [(errno.ENOMEM, True)],
    "open": [(errno.EMFILE, True), (errno.EIO, False)],
    "stat": [(errno.EIO, True)],
    "read": [(errno.EIO, True), (SHORT, False)],
    "write": [(errno.ENOSPC, True), (errno.EIO, True), (errno.EINTR, False), (SHORT, True)],
    "sync": [(errno.EIO, True)],
    "truncate": [(errno.EIO, True)],
    "name": [(errno.EIO, True)],
    "lock": [(errno.EIO, True), (errno.ENOLCK, False)],
    "descriptor": [(errno.EMFILE, True)],
    "socket": [(errno.ENOBUFS, True)],
    "accept": [(errno.EMFILE, True), (errno.ECONNABORTED, False)],
    "recv": [(errno.ECONNRESET, True), (errno.EINTR, False), (SHORT, True)],
    "send": [(errno.EPIPE, True), (errno.ECONNRESET, False), (errno.ENOBUFS, False),
             (errno.EAGAIN, False), (SHORT, True)],
    "watch": [(errno.ENOMEM, True)],
    "wait": [(errno.EINTR, False), (errno.EBADF, True)],
    "thread": [(errno.EAGAIN, True)],
}

HUNG = 20      # seconds after which something is taken to hang
SELECTED = {"alloc": (20, 40), "stat": (30, 6)}  # so many first calls, so many of the rest
SELECTED_ELSE = (5, 6)
PATIENCE = 2   # failures in a row that are waited for where calls fail for good
SHOWN = 25     # broken runs of a test that are told
OLDER = "the database is older than its witness"
LOOP_FAILED = "the event loop failed"
REASON = re.compile(" error |^hilod: ", re.M)
# libconfuse ends the process by itself when it gets no memory, by exit or by abort.
LEXER = re.compile(r"^out of dynamic memory in yy|lexer\.l:\d+: \w+: Assertion|^Unexpected error\.",
                   re.M)
CONFIGURATION = re.compile("^hilod: | error listen: ", re.M)
PASSWORD = "correct horse battery"
AHEAD, EACH = "ahead", "each"
ONE = os.environ.get("HILO_FAULT")
DATABASE = ("hilo.db", "hilo.db-wal")
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # no power fails here


class Faults:
    """The file that tests/faults.c reads; see struct control there."""

    FIELDS = struct.Struct("=16s16sIIQQQI")
    AT_FAILED, AT_ARMED = 56, 64

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as f:
            f.truncate(mmap.PAGESIZE)
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), mmap.PAGESIZE)

    def plan(self, kind, error, nth, ever):
        self.ever = ever
        self.map[:self.FIELDS.size] = self.FIELDS.pack(kind.encode(), b"", error, ever, nth,
                                                       0, 0, 0)

    def arm(self, on=True):
        struct.pack_into("=I", self.map, self.AT_ARMED, on)

    def disarm(self):
        self.arm(False)

    def fields(self):
        return self.FIELDS.unpack_from(self.map)

    @property
    def seen(self):
        return self.fields()[5]

    @property
    def failed(self):
        return struct.unpack_from("=Q", self.map, self.AT_FAILED)[0]

    @property
    def function(self):
        return self.fields()[1].rstrip(b"\0").decode()

    def env(self):
        return {"LD_PRELOAD": os.path.join(os.path.dirname(harness.HILOD), "tests", "faults.so"),
                "HILO_FAULTS": self.path}


class Server(Hilod):
    """One that may also end instead of becoming ready; it says so in .ready then."""

    def _read_ready(self):
        if not select.select([self.proc.stdout], [], [], HUNG)[0]:
            self.kill()
            raise AssertionError("the start hangs:\n" + self.errors())
        line = self.proc.stdout.readline().decode().strip()
        if not line.startswith("ready "):
            self.wait_end("a start that has failed")
        return line

    def wait_end(self, what):
        try:
            self.proc.wait(HUNG)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("hangs: %s:\n%s" % (what, self.errors()))

    @property
    def code(self):
        """None: it runs."""
        return self.proc.poll()

    def check_end(self, clean):
        """It has ended by itself, and not of a signal; with a reason unless that is clean."""
        code = self.code
        if LEXER.search(self.errors()):
            return
        if code < 0:
            raise AssertionError("died of %s:\n%s" % (signal.Signals(-code).name, self.errors()))
        if clean and code == 0:
            return
        if code == 0:
            raise AssertionError("ended with code 0:\n" + self.errors())
        if code == 78 and not CONFIGURATION.search(self.errors()):
            raise AssertionError("asks for an administrator, but the fault goes away by itself:\n" +
                                 self.errors())
        if not REASON.search(self.errors()):
            raise AssertionError("ended with code %d and no reason:\n%s" % (code, self.errors()))


class Ledger:
    """All that was acknowledged."""

    def __init__(self):
        self.ids = {}       # of each sequence
        self.tokens = {}    # sequence, count, block
        self.settings = {}  # of each sequence: what its MAX may be; None: there is none

    def take(self, name, first, last=None):
        ids = self.ids.setdefault(name, set())
        new = set(range(first, (last or first) + 1))
        if not new or new & ids:
            raise AssertionError("%s: %r to %r was granted before" % (name, first, last))
        ids |= new

    def token(self, token, name, count, block):
        if token not in self.tokens:
            self.tokens[token] = (name, count, block)
            self.take(name, *block)
        elif self.tokens[token] != (name, count, block):
            raise AssertionError("token %s: %r, then %r" % (token, self.tokens[token], block))

    def top(self, name):
        return max(self.ids.get(name) or [0])


class Asker:
    """Some clients of a server and what they have got. A call returns the answer, an Error,
    or None where the connection was closed."""

    def __init__(self, server, ledger, faults=None, password=None):
        self.server, self.ledger, self.faults, self.password = server, ledger, faults, password
        self.clients = {}
        self.errors = []
        self.refused = 0

    def close(self):
        for i in list(self.clients):
            self.drop(i)

    def drop(self, i):
        self.clients.pop(i).close()

    def wait(self, c):
        """Until there is something to read. Where calls fail for good the server may wait for
        the fault to go away, and try again and again: then it goes away."""
        end = time.monotonic() + HUNG
        failed = self.faults.failed if self.faults else 0
        while c.buf == b"" and not select.select([c.sock], [], [], 0.02)[0]:
            if time.monotonic() > end:
                raise AssertionError("a client gets no answer:\n" + self.server.errors())
            if self.faults and self.faults.ever and self.faults.failed >= failed + PATIENCE:
                self.faults.disarm()

    def start(self, i, data):
        try:
            if i not in self.clients:
                self.clients[i] = Client(self.server.port)
                self.clients[i].sock.settimeout(HUNG)
                if self.password:
                    self.one(i, Client.encode("AUTH", self.password))
            self.clients[i].send(data)
        except (KeyError, ConnectionError):
            pass  # the next reply() tells

    def reply(self, i):
        c = self.clients.get(i)
        if c is None:
            return None
        try:
            self.wait(c)
            answer = c.reply()
        except (Closed, ConnectionError):
            self.drop(i)
            return None
        except socket.timeout:
            raise AssertionError("half an answer:\n" + self.server.errors())
        if isinstance(answer, Error):
            self.errors.append(answer)
            self.refused += "tries again by itself" in str(answer)
            if self.refused >= PATIENCE and self.faults:
                self.faults.disarm()  # each of these takes the server's time between two tries
        return answer

    def one(self, i, data):
        self.start(i, data)
        return self.reply(i)

    def ask(self, i, *args):
        return self.one(i, Client.encode(*args))

    def expect(self, answer, kind, *values):
        if answer is None or isinstance(answer, Error):
            return False
        if not isinstance(answer, kind) or (values and answer not in values):
            raise AssertionError("garbled: %r" % (answer,))
        return True

    def note_incr(self, name, answer):
        if self.expect(answer, int):
            self.ledger.take(name, answer)
        return answer

    def incr(self, i, name):
        return self.note_incr(name, self.ask(i, "INCR", name))

    def next(self, i, name, n):
        answer = self.ask(i, "NEXT", name, n)
        if self.expect(answer, list):
            for x in answer:
                self.ledger.take(name, int(x))

    def block(self, i, name, count, token=None):
        answer = self.ask(i, "BLOCK", name, count, *(("TOKEN", token) if token else ()))
        if self.expect(answer, list):
            first, last, step = (int(x) for x in answer)
            if last != first + count - 1 or step != 1:
                raise AssertionError("garbled: %r" % (answer,))
            if token:
                self.ledger.token(token, name, count, (first, last))
            else:
                self.ledger.take(name, first, last)
        return answer

    def set_max(self, i, name, most, *args):
        """SEQ CREATE or ALTER, which has happened, or has not, or may have."""
        known = self.ledger.settings.get(name, set())
        if self.expect(self.ask(i, *args, "MAX", most), str, "OK"):
            known = {most}
        self.ledger.settings[name] = known | {most}

    def alter(self, i, name, most):
        self.set_max(i, name, most, "SEQ", "ALTER", name)

    def create(self, i, name, most):
        self.ledger.settings[name] = {None, harness.ID_MAX}  # none, or made by its first use
        self.set_max(i, name, most, "SEQ", "CREATE", name, "DURABILITY", "each")

    def max_of(self, i, name):
        answer = self.ask(i, "SEQ", "INFO", name)
        if isinstance(answer, Error) and answer.word == "NOSEQ":
            return None
        if not self.expect(answer, list):
            raise AssertionError("SEQ INFO %s: %r" % (name, answer))
        return int(dict(zip(answer[::2], answer[1::2]))[b"max"])

    def advance(self, i, name, to):
        answer = self.ask(i, "SEQ", "ADVANCE", name, to)
        if self.expect(answer, bytes) and int(answer) <= to:
            raise AssertionError("advanced to %d: %r" % (to, answer))

    def pipeline(self, i, names):
        self.start(i, b"".join(Client.encode("INCR", n) for n in names))
        for name in names:
            self.note_incr(name, self.reply(i))

    def together(self, clients, name):
        for i in clients:
            self.start(i, Client.encode("INCR", name))
        for i in clients:
            self.note_incr(name, self.reply(i))


def grants(a):
    """Everything clients do; the connection 9 is there already."""
    a.incr(9, AHEAD)
    a.incr(0, EACH)
    a.next(0, AHEAD, 3)
    a.block(1, AHEAD, 5)
    a.block(0, EACH, 3, "g1")
    a.block(0, EACH, 3, "g1")
    a.block(9, AHEAD, 4, "g2")
    a.ask(1, "BLOCK", AHEAD, 6, "TOKEN", "g2")
    a.create(1, "made", 10**6)
    a.incr(0, "made")
    a.incr(1, "auto")
    a.alter(0, EACH, 2 * 10**9)
    a.advance(9, AHEAD, a.ledger.top(AHEAD) + 1000)
    a.pipeline(9, [AHEAD] * 40 + [EACH] * 3 + [AHEAD] * 60)
    a.block(9, AHEAD, 1000)
    a.together([0, 1, 2, 9], EACH)
    a.expect(a.ask(0, "INFO", "everything"), bytes)
    a.expect(a.ask(0, "COMMAND"), list)
    a.expect(a.ask(0, "HELLO", 3), dict)
    a.expect(a.ask(0, "SEQ", "INFO", EACH), (dict, list))
    whole = Client.encode("INCR", AHEAD)
    a.start(2, whole[:9])
    a.incr(9, "late")
    a.note_incr(AHEAD, a.one(2, whole[9:]) if 2 in a.clients else None)
    a.expect(a.ask(1, "BACKUP", "copy"), str, "OK")
    a.incr(1, EACH)


class Phase(harness.Case):
    """What the runs of a phase have in common. run_phase() starts a server, of which something
    fails in the phase, and returns it, be it ended or not."""

    password = PASSWORD
    behind = False  # the database is, its witness is newer

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="hilo-faults-", dir=MEMORY)
        cls.addClassCleanup(shutil.rmtree, cls.dir, True)
        cls.faults = Faults(cls.path("faults"))
        cls.ledger = Ledger()
        cls.configure(PASSWORD, 1000)
        cls.make_template()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.dir, name)

    @classmethod
    def configure(cls, password, tokens):
        with open(cls.path("passwords"), "w", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write(password + "\n")
        with open(cls.path("conf"), "w") as f:
            f.write('password_file = "%s"\nmax_tokens = %d\n' % (cls.path("passwords"), tokens))

    @classmethod
    def make_template(cls):
        cls.make_used()

    @classmethod
    def make_used(cls):
        """A directory that was used and whose server was killed."""
        def use(a):
            a.incr(0, AHEAD)
            a.create(0, EACH, 10**9)
            a.incr(0, EACH)
            a.block(0, AHEAD, 3, "t1")
            a.block(0, EACH, 3, "t2")
        cls.use_template(use)

    @classmethod
    def use_template(cls, use):
        server = Hilod("-c", cls.path("conf"), data=cls.path("template"))
        a = Asker(server, cls.ledger, password=PASSWORD)
        use(a)
        a.close()
        server.kill()
        server.cleanup()

    # --- a run ---

    def open(self, shim):
        server = Server("-c", self.path("conf"), data=self.path("data"),
                        env=self.faults.env() if shim else None)
        self.servers.append(server)
        return server

    def asker(self, server, faults=None):
        a = Asker(server, self.book, faults, self.password)
        self.askers.append(a)
        return a

    def check_gone(self, server):
        """The fault is gone and the server runs: it grants, or says why it does not."""
        a = self.asker(server)
        if all(self.grants(server, say) for say in (lambda: a.incr(0, AHEAD),
                                                    lambda: a.incr(0, EACH),
                                                    lambda: a.block(0, EACH, 2, "t3"))):
            self.check_tokens(a)
            self.change_again(a)
        a.close()

    @staticmethod
    def grants(server, say):
        """Whether it does, now or after trying again by itself."""
        def outcome():
            answer = say()
            if answer is None and server.code is not None:
                server.check_end(clean=False)
                return "ended"
            if isinstance(answer, Error):
                return "ended" if "granting has ended" in str(answer) else None
            return "grants" if answer is not None else None
        what = wait_until(outcome, "grants once the fault is gone", HUNG)
        if what == "ended" and " error " not in server.errors():
            raise AssertionError("granting has ended, and the log does not say why")
        return what == "grants"

    def check_tokens(self, a):
        for token, (name, count, _) in list(self.book.tokens.items()):
            if not isinstance(a.block(0, name, count, token), list):
                raise AssertionError("token %s: %r" % (token, a.errors[-1:]))

    def change_again(self, a):
        """A change of which nobody knows whether it has happened, asked for again, has to hold."""
        for name, known in self.book.settings.items():
            if len(known) == 1:
                continue
            if None in known and a.max_of(0, name) is None:
                a.create(0, name, 10**6)
            else:
                a.alter(0, name, 10**6)
            if self.book.settings[name] != {10**6}:
                raise AssertionError("can't change %s: %r" % (name, a.errors[-1:]))

    def end(self, server, killed):
        if killed:
            server.kill()
            return
        server.proc.send_signal(signal.SIGTERM)
        server.wait_end("a stop")
        server.check_end(clean=True)

    def check_next(self):
        """Another server goes on where this one was, without anybody's help."""
        server = self.open(shim=False)
        if server.code is not None:
            raise AssertionError("the next start fails with code %d:\n%s" %
                                 (server.code, server.errors()))
        a = self.asker(server)
        for name in list(self.book.ids):
            top = self.book.top(name)
            answer = a.incr(0, name)
            if not isinstance(answer, int) or answer <= top:
                raise AssertionError("%s: %r after %r" % (name, answer, top))
        self.check_tokens(a)
        for name, known in self.book.settings.items():
            if a.max_of(0, name) not in known:
                raise AssertionError("%s: MAX is %r, not %r" % (name, a.max_of(0, name), known))
        if OLDER in server.errors() and not self.behind:
            raise AssertionError("taken for an older copy:\n" + server.errors())
        server.kill()

    def one_run(self, kind, error, n, ever):
        self.book = copy.deepcopy(self.ledger)
        self.servers, self.askers = [], []
        shutil.rmtree(self.path("data"), True)
        if os.path.isdir(self.path("template")):
            shutil.copytree(self.path("template"), self.path("data"))
        self.faults.plan(kind, error, n, ever)
        try:
            server = self.run_phase()
            self.faults.disarm()
            met = self.faults.failed > 0
            if server.code is None:
                self.check_gone(server)
            if server.code is None:
                self.end(server, killed=n % 2 == 0)
            self.check_next()
            return met
        finally:
            self.faults.disarm()
            for a in self.askers:
                a.close()
            for s in self.servers:
                if ONE:
                    print(s.errors(), flush=True)
                s.cleanup()

    # --- runs of a kind ---

    def count_calls(self, kind):
        """Of a kind, in a phase in which none fails."""
        self.one_run(kind, FAULTS[kind][0][0], 2**62, False)
        return self.faults.seen

    def numbers(self, calls, first, rest):
        """Which calls fail: one after the other until two runs have met no fault (threads make
        a call more or less), or a selection."""
        if harness.LONG:
            n, missed = 0, 0
            while missed < 2:
                n += 1
                yield n
                missed = 0 if self.met else missed + 1
            return
        spread = {first + (calls - first) * k // rest for k in range(1, rest + 1)}
        yield from sorted(n for n in {*range(1, first + 1), *spread} if n <= calls)

    def runs(self, kind):
        calls = self.count_calls(kind)
        broken, done = [], []
        for error, for_good in FAULTS[kind]:
            for ever in (False, True)[:1 + for_good]:
                what = (errno.errorcode.get(error, "SHORT"), "ever" if ever else "once")
                met = 0
                for n in self.numbers(calls, *SELECTED.get(kind, SELECTED_ELSE)):
                    try:
                        self.met = self.one_run(kind, error, n, ever)
                    except AssertionError as e:
                        self.met = True
                        broken.append("HILO_FAULT=%s:%d:%s (%s) %s" % (what[0], n, what[1],
                                                                       self.faults.function, e))
                        print("  " + broken[-1].replace("\n", "\n    "), flush=True)
                    met += self.met
                    if len(broken) == SHOWN:
                        self.fail("%d runs are broken, and there may be more" % len(broken))
                done.append("%s %s %d" % (*what, met))
        print("  %s: %d calls; failed: %s" % (self.id(), calls, ", ".join(done)), flush=True)
        self.assertEqual(len(broken), 0, "runs are broken")

    def only(self, kind):
        word, n, how = ONE.split(":")
        error = SHORT if word == "SHORT" else getattr(errno, word)
        met = self.one_run(kind, error, int(n), how == "ever")
        print("  met: %s, of %d calls" % (self.faults.function if met else "no", self.faults.seen))


class Start(Phase):
    """Where there is nothing yet."""

    @classmethod
    def make_template(cls):
        pass

    def run_phase(self):
        self.faults.arm()
        server = self.open(shim=True)
        self.faults.disarm()
        if server.code is not None:
            server.check_end(clean=False)
        return server


class StartEmpty(Start):
    pass


class StartDirectory(Start):
    """The directory that a start makes."""

    def test_it_is_not_left_when_its_name_could_not_be_synced(self):
        self.servers = []
        self.faults.plan("sync", errno.EIO, 1, False)
        server = self.run_phase()
        self.addCleanup(server.cleanup)
        self.assertEqual((server.code, os.path.exists(self.path("data"))), (1, False))


class StartUsed(Start):
    """A start on a database whose server was killed, and its witness."""

    @classmethod
    def make_template(cls):
        cls.make_used()


class StartBehind(StartUsed):
    """The same, where an older copy of the database was put back."""

    behind = True

    @classmethod
    def make_template(cls):
        super().make_template()
        for name in DATABASE:
            shutil.copy(cls.path("template/" + name), cls.dir)

        def use(a):
            a.block(0, AHEAD, 1000)
            a.pipeline(0, [EACH] * 5)
            a.alter(0, EACH, 10**8)
            a.create(0, "young", 10**7)
            a.incr(0, "young")
        cls.use_template(use)
        for name in DATABASE:
            shutil.copy(cls.path(name), cls.path("template"))
        cls.ledger.tokens.clear()  # a witness knows nothing of them


class Grant(Phase):
    def run_phase(self):
        server = self.open(shim=True)
        a = self.asker(server, self.faults)
        a.ask(9, "PING")
        self.faults.arm()
        grants(a)
        self.faults.disarm()
        a.close()
        if server.code is not None:
            server.check_end(clean=False)
        return server


class Reload(Phase):
    """A reload of the configuration and the password file."""

    def reload(self, server):
        def ends():
            return len(re.findall("reload: (?:done|nothing changed)", server.errors()))
        before = ends()
        server.proc.send_signal(signal.SIGHUP)
        wait_until(lambda: ends() > before or server.code is not None, "the reload", HUNG)

    def check_taken(self, server, password, tokens):
        self.password = password
        a = self.asker(server)
        if a.ask(0, "CONFIG", "GET", "max_tokens") != [b"max_tokens", b"%d" % tokens]:
            raise AssertionError("half of a reload:\n" + server.errors())
        a.close()

    def run_phase(self):
        self.password = PASSWORD
        self.configure(PASSWORD, 1000)
        server = self.open(shim=True)
        self.check_taken(server, PASSWORD, 1000)
        self.configure(PASSWORD + "2", 2000)
        self.faults.arm()
        self.reload(server)
        self.faults.disarm()
        if LOOP_FAILED in server.errors():
            server.wait_end("a server whose loop has failed")
        if server.code is not None:
            server.check_end(clean=False)
            if not LEXER.search(server.errors()) and LOOP_FAILED not in server.errors():
                raise AssertionError("ended by a reload:\n" + server.errors())
            self.password = PASSWORD + "2"
            return server
        if "reload: done" not in server.errors():
            self.check_taken(server, PASSWORD, 1000)
            self.reload(server)
        self.check_taken(server, PASSWORD + "2", 2000)
        return server


class Stop(Phase):
    """A stop with chunks in hand, clients that are there and grants under way."""

    def run_phase(self):
        server = self.open(shim=True)
        a = self.asker(server, self.faults)
        a.incr(0, AHEAD)
        a.incr(1, EACH)
        a.incr(2, "new")
        self.faults.arm()
        a.start(0, Client.encode("INCR", EACH) * 2)
        a.start(1, Client.encode("INCR", AHEAD) * 2)
        server.proc.send_signal(signal.SIGTERM)
        for i, name in ((0, EACH), (0, EACH), (1, AHEAD), (1, AHEAD)):
            a.note_incr(name, a.reply(i))
        a.close()
        server.wait_end("a stop")
        self.faults.disarm()
        server.check_end(clean=True)
        return server


def add_tests():
    for phase in (StartEmpty, StartUsed, StartBehind, Grant, Reload, Stop):
        for kind in FAULTS:
            def test(self, kind=kind):
                self.only(kind) if ONE else self.runs(kind)
            setattr(phase, "test_" + kind, test)


add_tests()

if __name__ == "__main__":
    harness.main()
