"""mutants.py - breaks one guard after the other, and expects a test to notice.

Each tests/mutants/*.patch breaks one guard of the code. Its first line says which; another one
names the test that has to fail:

    Test: release/witness_test Class.test_name    one test of tests/witness_test.py
    Test: release/alloc_test                      a unit test program, whole
    Test: sim FIRST SEEDS                         so many stories of the simulation

Two work at a time, each in a copy of the tree. First every named test has to pass there; then a
patch is applied, what its test needs is built, the test is run, and the patch is taken back. A
test notices by failing: one that takes too long, or ends without a summary, has not noticed.
ONLY=name picks the mutants with that in their names. Closes with "summary: N passed, M failed".
"""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = "/usr/bin/python3"
WORKERS = 2
LIMIT = 120  # seconds a test may take
BUILD_LIMIT = 600
LEAST = 25  # mutants there have to be

# Of the tree: neither its history, nor what other variants and tools have built.
LEFT_OUT = {"": {".git"}, "build": {"asan", "tsan", "debug", "fuzz", "clients", "go"}}

PROGRAMS = ["build/hilod", "build/hilo", "build/tests/disk.so", "build/tests/steps.so"]
LIBRARY = ["build/tests/driver", "build/tests/callbacks", "build/tests/nowipe.so"]

NOTICED = re.compile(r"^summary: \d+ passed, [1-9]\d* failed|^\[  FAILED  \] [1-9]\d* test", re.M)


class Mutant:
    """A patch and what its head says."""

    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)[:-len(".patch")]
        with open(path) as f:
            self.text = f.read()
        head = re.split(r"^diff ", self.text, maxsplit=1, flags=re.M)[0].splitlines()
        self.guard = head[0] if head else ""
        tests = [l[len("Test: "):] for l in head if l.startswith("Test: ")]
        self.test = tests[0] if len(tests) == 1 else ""


def mutants():
    return [Mutant(p) for p in sorted(glob.glob(os.path.join(ROOT, "tests", "mutants", "*.patch")))]


def command_of(test):
    """The command of a test, and what has to be built for it."""
    words = test.split()
    if not words:
        raise Failed("names no test, or several")
    if words[0] == "sim":
        return ["build/tests/sim", *words[1:]], ["build/tests/sim"]
    suite = words[0].split("/", 1)[1]
    if len(words) == 1:
        return ["build/tests/" + suite], ["build/tests/" + suite]
    return ([PYTHON, "tests/%s.py" % suite, words[1]],
            PROGRAMS + (LIBRARY if suite == "client_test" else []))


class Failed(Exception):
    pass


class Tree:
    """A copy of the tree to break things in."""

    def __init__(self, where):
        def left_out(path, names):
            return LEFT_OUT.get(os.path.relpath(path, ROOT).replace(".", "", 1), ())

        self.path = os.path.join(where, "tree")
        self.tmp = os.path.join(where, "tmp")
        os.mkdir(self.tmp)
        shutil.copytree(ROOT, self.path, symlinks=True, ignore=left_out)

    def run(self, command, limit):
        """(exit code or None when it took too long, output); whatever it has started ends with it."""
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("HILO") and k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        env.update(TMPDIR=self.tmp, HILO_SEED="1")
        with tempfile.TemporaryFile() as out:
            p = subprocess.Popen(command, cwd=self.path, env=env, stdin=subprocess.DEVNULL,
                                 stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = p.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            p.wait()
            out.seek(0)
            return code, out.read().decode(errors="replace")

    def build(self, targets):
        code, said = self.run(["make", "-s", *targets], BUILD_LIMIT)
        if code != 0:
            raise Failed("does not compile:\n" + said)

    def patch(self, mutant, *more):
        code, said = self.run(["patch", "-p1", "-f", "-s", "-F0", "-i", mutant.path, *more], LIMIT)
        if code != 0:
            raise Failed("does not apply:\n" + said)

    def passes(self, test):
        command, targets = command_of(test)
        self.build(targets)
        code, said = self.run(command, LIMIT)
        if code != 0:
            raise Failed("its test does not pass on the sound tree:\n" + said)

    def notices(self, mutant):
        command, targets = command_of(mutant.test)
        self.patch(mutant)
        try:
            self.build(targets)
            code, said = self.run(command, LIMIT)
        finally:
            self.patch(mutant, "-R")
        if code is None:
            raise Failed("its test took over %d s:\n%s" % (LIMIT, said))
        if code == 0 or not NOTICED.search(said):
            raise Failed("SURVIVED (exit code %s):\n%s" % (code, said))
        return said


class Run:
    def __init__(self, all_of_them):
        self.mutants = all_of_them
        self.lock = threading.Lock()
        self.unsound = {}  # test: why
        self.passed = self.failed = 0

    def sound(self, tree, test):
        try:
            tree.passes(test)
        except Failed as e:
            self.unsound[test] = str(e)

    def one(self, tree, mutant):
        begin, why = time.monotonic(), ""
        try:
            if mutant.test in self.unsound:
                raise Failed(self.unsound[mutant.test])
            tree.notices(mutant)
        except Failed as e:
            why = str(e)
        with self.lock:
            self.passed += not why
            self.failed += bool(why)
            if why:
                print("%s %s" % (mutant.name, why))
            print("%-4s %5.1f s  %-26s %s\n%14s %s" %
                  ("FAIL" if why else "ok", time.monotonic() - begin, mutant.name, mutant.guard,
                   "", mutant.test), flush=True)

    def each(self, trees, what, todo):
        todo = list(todo)

        def work(tree):
            while True:
                with self.lock:
                    if not todo:
                        return
                    item = todo.pop(0)
                what(tree, item)

        workers = [threading.Thread(target=work, args=(t,)) for t in trees]
        for w in workers:
            w.start()
        for w in workers:
            w.join()

    def all(self):
        with tempfile.TemporaryDirectory(prefix="hilo-mutants-") as where:
            trees = []
            for i in range(WORKERS):
                os.mkdir(os.path.join(where, str(i)))
                trees.append(Tree(os.path.join(where, str(i))))
            tests = sorted({m.test for m in self.mutants})
            print("%d mutants, %d tests" % (len(self.mutants), len(tests)), flush=True)
            self.each(trees, self.sound, tests)
            self.each(trees, self.one, self.mutants)


def main():
    only = os.environ.get("ONLY", "")
    found = mutants()
    run = Run(m for m in found if only in m.name)
    run.mutants = list(run.mutants)
    begin = time.monotonic()
    run.all()
    few = len(found) < LEAST
    if few:
        print("there are %d mutants, fewer than %d" % (len(found), LEAST))
    left = len(run.mutants) - run.passed - run.failed
    if left:
        print("%d mutants were not tried" % left)
        run.failed += left
    print("took %.0f s" % (time.monotonic() - begin))
    print("summary: %d passed, %d failed" % (run.passed, run.failed), flush=True)
    sys.exit(1 if run.failed or few or not run.passed else 0)


if __name__ == "__main__":
    main()
