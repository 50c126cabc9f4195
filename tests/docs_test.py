"""docs_test.py - documentation that can be run is run."""

import os
import re
import shutil
import subprocess

import harness
from harness import Client


def read(name):
    with open(os.path.join(harness.ROOT, name)) as f:
        return f.read()


class Documents(harness.Case):
    def described(self, text, pattern):
        self.assertTrue(re.search(pattern, text), pattern + " is not described")


class Protocol(Documents):
    def run_transcript(self, text):
        server = self.hilod("--log-level", "error")
        c = self.client(server)
        for line in text.splitlines():
            mark, _, rest = line.partition(" ")
            if mark == ">":
                c.send(Client.encode(*rest.split()))
            else:
                self.assertEqual(mark, "<", line)
                self.assertEqual(c.line().decode(), rest, "after: " + line)
        c.send(Client.encode("ECHO", "end"))
        try:
            self.assertEqual(c.line(), b"$3", "more was answered than the transcript has")
        except harness.Closed:
            self.assertIn("> QUIT", text)

    def test_every_transcript_is_what_happens(self):
        blocks = re.findall(r"```transcript\n(.*?)```", read("PROTOCOL.md"), re.S)
        self.assertGreater(len(blocks), 10)
        for block in blocks:
            self.run_transcript(block)

    def test_every_command_and_every_word_of_info_is_described(self):
        text = read("PROTOCOL.md")
        c = self.client(self.hilod())
        for name in c.call("COMMAND", "LIST"):
            self.described(text, r"\b%s\b" % name.decode().upper())
        for field in ("clients", "store", "hilo"):
            for name in c.info(field):
                if name not in ("version", "auto_create"):
                    self.described(text, "`%s`" % name)
        c.call("INCR", "x")
        for word in c.seq("x"):
            self.described(text, "`%s`" % word)

    def test_every_error_word_is_in_the_table(self):
        table = read("common/hilo_error.h").split("HILO_CLIENT_ERRORS")[0]
        words = re.findall(r'X\(HILO_E\w+, -\d+, "(\w+)"', table)
        self.assertGreater(len(words), 10)
        used = set()
        for path in ("server", "common"):
            for name in os.listdir(os.path.join(harness.ROOT, path)):
                if name.endswith(".c") and name != "error.c":
                    used |= set(re.findall(r"HILO_E([A-Z]+)", read(path + "/" + name)))
        for word in used & set(words):
            self.described(read("PROTOCOL.md"), r"(?m)^\|[^|]*`%s`[^|]*\|" % word)


class Examples(harness.Case):
    """client/examples against a server."""

    def run_example(self, *command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=harness.DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode().split()

    def command(self, path, tmp, port):
        """How an example is run: compiled with what is built here, or interpreted."""
        name, kind = os.path.splitext(os.path.basename(path))
        built, program = os.path.join(harness.ROOT, "build"), os.path.join(tmp, name)
        if kind == ".c":
            subprocess.run(["cc", "-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror",
                            path, "-I" + os.path.join(harness.ROOT, "client"),
                            "-I" + os.path.join(harness.ROOT, "common"), "-L" + built, "-lhilo",
                            "-Wl,-rpath," + built, "-levent_core", "-pthread", "-o", program],
                           check=True)
            return [program, "127.0.0.1:%d" % port]
        if kind == ".go":
            subprocess.run(["go", "build", "-o", program, path], check=True, env={
                **os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off",
                "GOPATH": "/usr/share/gocode", "GOCACHE": os.path.join(built, "go")})
            return [program, str(port)]
        if kind == ".mjs":  # modules are looked for beside it
            program = shutil.copy(path, os.path.join(built, "clients", "node"))
            return ["node", program, str(port)]
        return [{".sh": "/bin/sh", ".py": "/usr/bin/python3", ".php": "php"}[kind], path, str(port)]

    def test_each_example_takes_ids_nobody_else_gets(self):
        server = self.hilod()
        path, tmp = os.path.join(harness.ROOT, "client", "examples"), self.tmp()
        names = sorted(os.listdir(path))
        self.assertEqual({os.path.splitext(n)[1] for n in names},
                         {".c", ".py", ".mjs", ".go", ".php", ".sh"})
        ids = []
        for name in names:
            with self.subTest(name):
                self.assertLess(read("client/examples/" + name).count("\n"), 40)
                command = self.command(os.path.join(path, name), tmp, server.port)
                for _ in range(2):
                    got = self.run_example(*command, "orders", "25")
                    self.assertEqual(len(got), 25, name)
                    ids += map(int, got)
        self.assertEqual(len(ids), 50 * len(names))
        self.disjoint(ids)


class Options(Documents):
    """One table makes all of these; none may lack an option, or be old."""

    def said(self, *args):
        return subprocess.run([harness.HILOD, *args], stdout=subprocess.PIPE,
                              check=True).stdout.decode()

    def names(self):
        flags = re.findall(r"^  --([a-z-]+)", self.said("--help"), re.M)
        apart = {"new-witness", "from-witness", "skip", "relane-seal", "relane-open", "check-config",
                 "print-config", "version", "help"}
        self.assertTrue(apart <= set(flags))
        return [f.replace("-", "_") for f in flags if f not in apart]

    def test_the_sample_configuration_is_what_the_table_says(self):
        sample = read("configs/hilod.conf")
        self.assertEqual(sample, self.said(
            "--data", "/var/lib/hilo", "--unix", "/run/hilo/hilod.sock", "--auto-create",
            "no", "--print-config"), "run: make docs")
        self.assertEqual(re.findall(r"^#?(\w+) = ", sample, re.M), self.names())
        path = os.path.join(harness.ROOT, "configs", "hilod.conf")
        self.assertIn("good", self.said("-c", path, "--check-config"))
        whole = os.path.join(self.tmp(), "all.conf")
        with open(whole, "w") as f:
            f.write(re.sub(r"(?m)^#(\w+ = )", r"\1", sample))
        self.assertEqual(self.said("-c", whole, "--print-config"), sample)

    def test_the_manual_page_is_what_the_table_says(self):
        made = subprocess.run(["build/manual"], cwd=harness.ROOT, stdout=subprocess.PIPE,
                              check=True).stdout.decode()
        page = read("server/hilod.8")
        self.assertIn('.\\" begin options\n' + made + '.\\" end options\n', page,
                      "run: make docs")
        for name in self.names():
            self.assertIn(".It Fl -" + name.replace("_", "-"), page)
        lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning",
                               os.path.join(harness.ROOT, "server", "hilod.8")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual((lint.returncode, lint.stdout), (0, b""))

    def test_config_get_knows_every_option(self):
        flat = self.client(self.hilod()).call("CONFIG", "GET", "*")
        self.assertEqual([n.decode() for n in flat[::2]][2:], self.names())

    def test_every_option_of_the_readme_exists(self):
        names = [*self.names(), "new_witness", "from_witness", "skip", "relane_seal", "relane_open"]
        of_hilo = subprocess.run(["build/hilo", "--help"], cwd=harness.ROOT, check=True,
                                 stdout=subprocess.PIPE).stdout.decode()
        for flag in re.findall(r"`--([a-z-]+)", read("README.md")):
            if flag not in ("check-config", "print-config") and "--" + flag not in of_hilo:
                self.assertIn(flag.replace("-", "_"), names)

    def test_the_unit_is_tight(self):
        unit = os.path.join(harness.ROOT, "configs", "hilod.service")
        done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager",
                               unit], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = done.stdout.decode()
        level = re.search(r"exposure level for \S+: ([\d.]+)", said)
        self.assertTrue(level, said)
        self.assertLess(float(level.group(1)), 2)


class Readme(Documents):
    def test_files_named_in_the_documents_exist(self):
        for doc in ("README.md", "ARCHITECTURE.md", "PROTOCOL.md"):
            for name in re.findall(r"`((?:common|server|tests|configs|bench|client)/[\w./*-]+)`",
                                   read(doc)):
                if "*" not in name:
                    self.assertTrue(os.path.exists(os.path.join(harness.ROOT, name)),
                                    "%s names %s" % (doc, name))


if __name__ == "__main__":
    harness.main()
