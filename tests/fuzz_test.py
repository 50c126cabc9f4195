"""fuzz_test.py - the fuzz targets over the kept corpus; how much of the parser that reaches."""

import glob
import os
import re
import subprocess

import harness

ROOT = harness.ROOT
OUT = os.path.dirname(os.path.abspath(harness.HILOD))


def corpus(name):
    return os.path.join(ROOT, "tests", "fuzz", "corpus", name)


class Corpus(harness.Case):
    def replay(self, name):
        done = subprocess.run([os.path.join(OUT, "tests", "fuzz-" + name), corpus(name)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        n = len(glob.glob(corpus(name) + "/*"))
        self.assertGreater(n, 10)
        self.assertEqual(done.stdout, b"%d inputs\n" % n)

    def test_requests(self):
        self.replay("request")

    def test_configurations(self):
        self.replay("config")

    def test_the_corpus_reaches_the_whole_parser(self):
        tmp = self.tmp()
        sources = [os.path.join(ROOT, p) for p in ("tests/fuzz/request.c",
                                                   "tests/fuzz/replay.c", "common/resp.c")]
        subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O0", "--coverage",
                        "-I" + os.path.join(ROOT, "common"), "-o", "fuzz", *sources],
                       cwd=tmp, check=True)
        subprocess.run(["./fuzz", corpus("request")], cwd=tmp, check=True,
                       stdout=subprocess.DEVNULL)
        said = subprocess.run(["gcov", "-n", "fuzz-resp.gcda"], cwd=tmp, check=True,
                              stdout=subprocess.PIPE).stdout.decode()
        lines = re.search(r"File '\S*common/resp\.c'\nLines executed:([\d.]+)%", said)
        self.assertTrue(lines, said)
        self.assertGreaterEqual(float(lines.group(1)), 95)


if __name__ == "__main__":
    harness.main()
