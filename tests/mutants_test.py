"""mutants_test.py - the patches of make mutants (tests/mutants.py) fit the code and the tests."""

import ast
import os
import re
import subprocess

import harness
import mutants


def test_names(module):
    """"Class.test_name" of all tests in tests/MODULE.py, those of base classes too."""
    with open(os.path.join(harness.ROOT, "tests", module + ".py")) as f:
        classes = {c.name: c for c in ast.parse(f.read()).body if isinstance(c, ast.ClassDef)}

    def methods(c):
        own = {f.name for f in c.body if isinstance(f, ast.FunctionDef)}
        return own.union(*(methods(classes[b.id]) for b in c.bases
                           if isinstance(b, ast.Name) and b.id in classes))

    return {"%s.%s" % (name, m) for name, c in classes.items() for m in methods(c)}


class Mutants(harness.Case):
    def setUp(self):
        self.all = mutants.mutants()

    def test_there_are_enough(self):
        self.assertGreaterEqual(len(self.all), mutants.LEAST)
        self.assertEqual(len({m.guard for m in self.all}), len(self.all), "a guard is named twice")

    def test_each_says_which_guard_it_breaks(self):
        for m in self.all:
            self.assertRegex(m.guard, r"^[A-Z].*\.$", m.name)

    def test_each_still_applies(self):
        for m in self.all:
            done = subprocess.run(["patch", "-p1", "-f", "-s", "-F0", "--dry-run", "-i", m.path],
                                  cwd=harness.ROOT, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, "%s: %s" % (m.name, done.stdout.decode()))

    def test_each_names_a_test_there_is(self):
        with open(os.path.join(harness.ROOT, "Makefile")) as f:
            programs = re.search(r"^UNIT_TESTS = (.*)$", f.read(), re.M).group(1).split()
        for m in self.all:
            words = m.test.split()
            if words[:1] == ["sim"]:
                self.assertRegex(m.test, r"^sim \d+ \d+$", m.name)
                continue
            self.assertRegex(m.test, r"^release/\w+_test( \w+\.\w+)?$", m.name)
            module = words[0].split("/")[1]
            if len(words) == 1:
                self.assertIn(module, programs + ["hot_test"], m.name)
            else:
                self.assertIn(words[1], test_names(module), m.name)


if __name__ == "__main__":
    harness.main()
