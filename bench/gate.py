"""gate.py - instructions of the hot paths, counted by callgrind, against bench/gate.txt.

A path may cost up to 5 % more or less than what is written there; more is a slow-down, less has
to be written down, so that it is kept. The figures hold for one compiler, named in the first line:
with another one they are shown and not judged.

    make bench-gate             judges
    make bench-gate UPDATE=1    writes the figures anew
"""

import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GATE = os.environ.get("GATE", os.path.join(ROOT, "build", "bench", "gate"))
FIGURES = os.path.join(ROOT, "bench", "gate.txt")
TIMES = 100
TOLERANCE = 0.05


def compiler():
    said = subprocess.run([os.environ.get("CC", "cc"), "--version"], check=True,
                          stdout=subprocess.PIPE).stdout.decode()
    machine = os.uname().machine
    return "%s, %s" % (said.splitlines()[0], machine)


def instructions(name):
    with tempfile.TemporaryDirectory(prefix="hilo-bench-") as tmp:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--toggle-collect=measured",
             "--callgrind-out-file=" + os.path.join(tmp, "out"), GATE, name],
            check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    m = re.search(r"Collected : (\d+)", done.stdout.decode())
    return int(m.group(1)) / TIMES


def read():
    with open(FIGURES) as f:
        reference = f.readline().strip()
        return reference, {k: float(v) for k, v in (l.split() for l in f)}


def main():
    names = subprocess.run([GATE], check=True, stdout=subprocess.PIPE).stdout.decode().split()
    now = {name: instructions(name) for name in names}
    if os.environ.get("UPDATE"):
        with open(FIGURES, "w") as f:
            f.write(compiler() + "\n")
            f.writelines("%-20s %.1f\n" % (n, now[n]) for n in names)
        return 0
    reference, was = read()
    if reference != compiler():
        print("figures are for %s, this is %s: shown, not judged" % (reference, compiler()))
        was = now
    bad = 0
    for name in sorted(set(was) | set(now)):
        before, after = was.get(name, 0), now.get(name, 0)
        wrong = abs(after - before) > TOLERANCE * before
        bad += wrong
        print("%-20s %7.1f instructions, %7.1f written down%s" %
              (name, after, before, "" if not wrong else
               ": more, find out why" if after > before else
               ": less, keep it with make bench-gate UPDATE=1"))
    print("summary: %d passed, %d failed" % (len(was) - bad, bad))
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
