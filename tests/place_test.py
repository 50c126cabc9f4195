"""place_test.py - where a store can't or should not live: read-only, another user's, in memory or
behind a network. A start that is refused says why, leaves all as it was, and hinders no later one.

What needs root (mounts, other users) is skipped for other users."""

import os
import shutil
import subprocess
import tempfile
from unittest import mock

import harness
from harness import refused_start, rows

NOBODY = 65534
AS_NOBODY = ("setpriv", "--reuid=%d" % NOBODY, "--regid=%d" % NOBODY, "--clear-groups")
NETWORKS = {"NFS": 0x6969, "SMB": 0x517b, "CIFS": 0xff534d42, "SMB2": 0xfe534d42,
            "CephFS": 0x00c36400, "9P": 0x01021997, "Lustre": 0x0bd00bd0, "OCFS2": 0x7461636f}
TMPFS = 0x01021994
CONFIG = 78


def on(kind, path):
    """What makes a path seem to be on a file system of this kind."""
    return {"LD_PRELOAD": os.path.join(os.path.dirname(harness.HILOD), "tests", "fs.so"),
            "HILO_FS": "%s=%x" % (os.path.realpath(path), kind)}


class Place(harness.Case):
    def setUp(self):
        self.data = os.path.join(self.tmp(), "data")
        self.last = 0

    def path(self, name):
        return os.path.join(self.data, name)

    def grant(self, *args, **kw):
        """Starts there, takes an id that goes on from the last one, stops: what was said."""
        server = self.hilod(*args, data=self.data, **kw)
        with server.client() as c:
            self.assertEqual(c.call("INCR", "a"), self.last + 1)
        self.last += 1
        server.stop()
        return server.errors()

    def state(self):
        """Whose files there are, and what they know; but for the lock, which is empty and
        stays, and the number of starts, which counts those that are refused for the witness."""
        out = {}
        for where, _, names in os.walk(self.data):
            for name in names:
                st = os.lstat(os.path.join(where, name))
                out[os.path.join(where, name)] = (st.st_mode, st.st_uid)
        out.pop(self.path("hilo.db.lock"), None)
        if os.path.exists(self.path("hilo.witness")):
            with open(self.path("hilo.witness"), "rb") as f:
                out["witness"] = f.read()
        for (table,) in rows(self.data, "SELECT name FROM sqlite_schema"):
            if table in ("meta", "counter"):
                out[table] = rows(self.data, "SELECT * FROM %s" % table)
        out["meta"] = [row for row in out.get("meta", []) if row[0] != "starts"]
        return out

    def refused(self, path, *reasons, args=(), **kw):
        """A start that is refused with the path and the reasons, twice the same, and changes
        nothing."""
        before = self.state()
        for _ in range(2):
            code, said = refused_start(*args, data=self.data, **kw)
            self.assertEqual(code, CONFIG, said)
            for text in (path, *reasons):
                self.assertIn(text, said)
            self.assertEqual(self.state(), before)
        return said


class ReadOnly(Place):
    """Mounted read-only, which holds for root, too."""

    def setUp(self):
        super().setUp()
        try:
            done = subprocess.run(self.mounted(self.tmp()) + ("true",), stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            self.skipTest("needs unshare(1)")
        if done.returncode != 0:
            self.skipTest("needs the right to mount")

    @staticmethod
    def mounted(path):
        """A command to put before another, for which the path is read-only."""
        return ("unshare", "-m", "sh", "-ec",
                "p=$1; shift; mount --bind $p $p; mount -o remount,ro,bind $p; exec \"$@\"",
                "sh", path)

    def test_the_directory(self):
        self.grant()
        self.refused(self.path("hilo.db.lock"), "Read-only file system. Have it mounted",
                     wrap=self.mounted(self.data))
        self.grant()

    def test_the_directory_before_the_first_start(self):
        self.refused("the data directory " + self.data, "Read-only file system. Have it mounted",
                     wrap=self.mounted(os.path.dirname(self.data)))
        self.grant()

    def test_the_database(self):
        self.grant()
        said = self.refused("can't write " + self.path("hilo.db"),
                            "Read-only file system. Have it mounted",
                            wrap=self.mounted(self.path("hilo.db")))
        self.assertNotIn("disk I/O error", said)
        self.grant()

    def test_the_log(self):
        self.grant()
        server = self.hilod(data=self.data)
        with server.client() as c:
            self.assertEqual(c.call("INCR", "a"), 2)
        server.kill()
        self.refused(self.path("hilo.db"), "Check the owner and the mode",
                     wrap=self.mounted(self.path("hilo.db-wal")))
        with self.hilod(data=self.data).client() as c:
            self.assertGreater(c.call("INCR", "a"), 2)

    def test_the_witness(self):
        self.grant()
        self.refused(self.path("hilo.witness"), "Read-only file system. Have it mounted",
                     wrap=self.mounted(self.path("hilo.witness")))
        self.grant()

    def test_the_directory_of_the_witness(self):
        where = self.tmp()
        args = ("--witness", os.path.join(where, "w"))
        code, said = refused_start(*args, data=self.data, wrap=self.mounted(where))
        self.assertEqual(code, CONFIG, said)
        self.assertIn(args[1], said)
        self.assertIn("Read-only file system. Have it mounted", said)
        self.grant(*args)
        self.refused(args[1], "Read-only file system. Have it mounted", args=args,
                     wrap=self.mounted(where))
        self.grant(*args)


class Another(Place):
    """Another user's."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("only root can be somebody else")
        home = tempfile.mkdtemp(prefix="hilo-test-")  # anybody may go there
        self.addCleanup(shutil.rmtree, home, True)
        os.chmod(home, 0o755)
        os.chmod(os.path.dirname(self.data), 0o755)
        binary = shutil.copy(harness.HILOD, os.path.join(home, "hilod"))
        patch = mock.patch.object(harness, "HILOD", binary)
        patch.start()
        self.addCleanup(patch.stop)
        done = subprocess.run([*AS_NOBODY, binary, "--version"], stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            self.skipTest("nobody can't run it")

    def open_to_all(self, *names):
        os.chmod(self.data, 0o777)
        for name in names:
            os.chmod(self.path(name), 0o666)

    def test_a_directory_nobody_else_may_enter(self):
        self.grant()
        self.refused(self.data, "Permission denied. Check the owner", wrap=AS_NOBODY)
        self.grant()

    def test_a_place_where_no_directory_can_be_made(self):
        self.refused("the data directory " + self.data, "Permission denied. Check the owner",
                     wrap=AS_NOBODY)
        self.grant()

    def test_a_lock_file(self):
        self.grant()
        self.open_to_all("hilo.db", "hilo.db-wal", "hilo.witness")
        self.refused(self.path("hilo.db.lock"), "Permission denied. Check the owner",
                     wrap=AS_NOBODY)
        self.grant()

    def test_a_database(self):
        self.grant()
        self.open_to_all("hilo.db.lock", "hilo.db-wal", "hilo.witness")
        self.refused("can't write " + self.path("hilo.db"), "Permission denied. Check the owner",
                     wrap=AS_NOBODY)
        os.chmod(self.path("hilo.db"), 0o600)  # not even to be read
        self.refused(self.path("hilo.db"), "Check the owner", wrap=AS_NOBODY)
        self.grant()

    def test_a_log(self):
        self.grant()
        server = self.hilod(data=self.data)
        with server.client() as c:
            self.assertEqual(c.call("INCR", "a"), 2)
        server.kill()
        self.open_to_all("hilo.db.lock", "hilo.db", "hilo.witness")
        self.refused(self.path("hilo.db"), "Check the owner", wrap=AS_NOBODY)
        with self.hilod(data=self.data).client() as c:
            self.assertGreater(c.call("INCR", "a"), 2)

    def test_a_witness(self):
        self.grant()
        self.open_to_all("hilo.db.lock", "hilo.db", "hilo.db-wal")
        self.refused(self.path("hilo.witness"), "Permission denied. Check the owner",
                     wrap=AS_NOBODY)
        self.grant()


class Network(Place):
    def test_each_kind_is_refused_before_anything_is_made(self):
        for name, kind in NETWORKS.items():
            self.refused(self.data + " is on %s:" % name, "Use a directory on a local disk",
                         "allow_network_fs = yes", env=on(kind, self.data))
        self.assertEqual(os.listdir(self.data), [])
        self.grant()

    def test_a_store_that_came_there_is_refused_as_it_is(self):
        self.grant()
        self.refused(self.data + " is on NFS:", env=on(NETWORKS["NFS"], self.data))
        self.grant()

    def test_allowed_it_grants_with_a_warning(self):
        env = on(NETWORKS["NFS"], self.data)
        self.assertIn("warning %s is on NFS, allowed by allow_network_fs" % self.data,
                      self.grant("--allow-network-fs", env=env))
        server = self.hilod("--allow-network-fs", data=self.data, env=env)
        with server.client() as c:
            self.assertEqual(c.info()["filesystem"], "network")
        server.stop()
        self.refused(self.data + " is on NFS:", env=env)

    def test_a_link_to_a_file_there(self):
        there = os.path.join(os.path.dirname(self.data), "there")
        for name in (there, self.data):
            os.mkdir(name)
        with open(os.path.join(there, "hilo.db"), "wb"):
            pass
        os.symlink(os.path.join(there, "hilo.db"), self.path("hilo.db"))
        self.refused(there + " is on NFS:", env=on(NETWORKS["NFS"], there))
        self.assertIn("%s is on tmpfs" % there, self.grant(env=on(TMPFS, there)))

    def test_its_witness_is_warned_about(self):
        where = self.tmp()
        args = ("--witness", os.path.join(where, "w"))
        said = self.grant(*args, env=on(NETWORKS["NFS"], where))
        self.assertIn("warning the witness %s is on NFS" % args[1], said)
        self.assertNotIn("is on", self.grant(*args))


class Memory(Place):
    def shm(self):
        if not os.path.isdir("/dev/shm"):
            self.skipTest("needs /dev/shm")
        path = tempfile.mkdtemp(prefix="hilo-test-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, path, True)
        return path

    def test_a_store_there_is_warned_about_at_each_start(self):
        self.data = os.path.join(self.shm(), "data")
        for _ in range(2):
            said = self.grant()
            self.assertIn("warning %s is on tmpfs, which is memory" % self.data, said)
            self.assertIn("REPEAT", said)
            self.assertNotIn("the witness", said)  # of the same directory

    def test_a_witness_there_is_warned_about_and_missed_after_a_restart_of_the_machine(self):
        witness = os.path.join(self.shm(), "w")
        for _ in range(2):  # when it is made, and when it is there
            self.assertIn("warning the witness %s is on tmpfs, which is memory" % witness,
                          self.grant("--witness", witness))
        link = os.path.join(self.tmp(), "link")
        os.symlink(witness, link)
        self.assertIn("warning the witness %s is on tmpfs" % link, self.grant("--witness", link))
        os.unlink(witness)
        self.refused(witness + " is missing", "--new-witness --skip", args=("--witness", witness))
        self.last += 1000
        self.grant("--witness", witness, "--new-witness", "--skip", "1000")

    def test_a_store_that_is_gone_after_a_restart_of_the_machine(self):
        """Its witness lay on a disk, so nothing begins at 1 again."""
        self.data = os.path.join(self.shm(), "data")
        args = ("--witness", os.path.join(self.tmp(), "w"))
        self.grant(*args)
        for name in os.listdir(self.data):
            os.unlink(self.path(name))
        code, said = refused_start(*args, data=self.data)
        self.assertEqual(code, CONFIG, said)
        for text in (args[1], "ids would repeat", "--from-witness"):
            self.assertIn(text, said)
        with self.hilod(*args, "--from-witness", data=self.data).client() as c:
            self.assertGreater(c.call("INCR", "a"), self.last)


if __name__ == "__main__":
    harness.main()
