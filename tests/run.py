"""run.py - runs every suite and closes with one line, "N passed, N failed", over all of them.

Suites are the unit test programs and the modules tests/*_test.py, each with the release
build and under the sanitizers. Two run at a time. What a suite prints is shown when it fails.
"""

import glob
import os
import re
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = "/usr/bin/python3"
VARIANTS = {"release": "build", "asan": "build/asan", "tsan": "build/tsan"}
LIMIT = 1800 if os.environ.get("HILO_LONG") == "1" else 300  # seconds a suite may take

# Stories of the simulation (tests/sim): so many, and those that have found something. What
# they found has a test of its own where one could be written, since the story of a seed is
# another one after each change of the simulation.
KEPT = [75, 919, 1905, 5712, 7897, 20052, 35508, 58022]
SEEDS = {"release": "100000" if os.environ.get("HILO_LONG") == "1" else "2000",
         "asan": "200", "tsan": "50"}

# What needs the release build: it traces, preloads, or runs little code of ours.
RELEASE_ONLY = {"trace_test", "docs_test", "disk_test", "witness_test", "backup_test",
                "relane_test", "clients_test", "install_test", "soak_test", "place_test",
                "faults_test", "mutants_test"}


def suites():
    """(name, command, environment) of each suite."""
    yield "lint", ["make", "-s", "lint"], {}
    yield "bench-gate", ["make", "-s", "bench-gate"], {}
    for variant, out in VARIANTS.items():
        env = {"HILOD": os.path.join(ROOT, out, "hilod"),
               "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
               "TSAN_OPTIONS": "halt_on_error=0:second_deadlock_stack=1:atexit_sleep_ms=0"}
        for path in sorted(glob.glob(os.path.join(ROOT, "tests", "*_test.py"))):
            name = os.path.basename(path)[:-3]
            if variant == "release" or name not in RELEASE_ONLY:
                yield "%s/%s" % (variant, name), [PYTHON, path], env
        yield "%s/sim" % variant, [os.path.join(ROOT, out, "tests", "sim"), "1", SEEDS[variant],
                                      *map(str, KEPT)], env
        for path in sorted(glob.glob(os.path.join(ROOT, out, "tests", "*_test"))):
            yield "%s/%s" % (variant, os.path.basename(path)), [path], env


def count(output, code, expect_counts):
    """Tests that passed and failed, as the suite says. A suite of tests that says nothing has
    failed; lint is one test, and silent when it passes."""
    passed = failed = 0
    for m in re.finditer(r"^summary: (\d+) passed, (\d+) failed", output, re.M):
        passed += int(m.group(1))
        failed += int(m.group(2))
    for m in re.finditer(r"^\[  PASSED  \] (\d+) test", output, re.M):
        passed += int(m.group(1))
    for m in re.finditer(r"^\[  FAILED  \] (\d+) test", output, re.M):
        failed += int(m.group(1))
    if code != 0 and failed == 0:
        failed += 1
    elif passed + failed == 0:
        failed += expect_counts
        passed += not expect_counts
    return passed, failed


class Run:
    def __init__(self, todo):
        self.todo = list(todo)
        self.lock = threading.Lock()
        self.passed = self.failed = 0

    def one(self, name, command, env):
        begin = time.monotonic()
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL, env={**os.environ, **env},
                                  timeout=LIMIT, cwd=ROOT)
            output, code = done.stdout.decode(errors="replace"), done.returncode
        except subprocess.TimeoutExpired as e:
            output = (e.stdout or b"").decode(errors="replace") + "\ntook over %d s" % LIMIT
            code = -1
        passed, failed = count(output, code, name != "lint")
        with self.lock:
            self.passed += passed
            self.failed += failed
            if failed:
                print(output)
            print("%-4s %-28s %4d passed %3d failed %6.1f s" %
                  ("FAIL" if failed else "ok", name, passed, failed,
                   time.monotonic() - begin), flush=True)

    def worker(self):
        while True:
            with self.lock:
                if not self.todo:
                    return
                suite = self.todo.pop(0)
            self.one(*suite)

    def all(self):
        workers = [threading.Thread(target=self.worker) for _ in range(2)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()


def main():
    wanted = sys.argv[1:]
    run = Run(s for s in suites() if not wanted or any(w in s[0] for w in wanted))
    run.all()
    print("%d passed, %d failed" % (run.passed, run.failed), flush=True)
    sys.exit(1 if run.failed or not run.passed else 0)


main()
