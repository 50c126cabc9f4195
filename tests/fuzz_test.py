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

    def test_replies(self):
        self.replay("reply")

    def reaches(self, target, source, others=()):
        """How much of a parser the kept corpus goes through, in percent of its lines."""
        tmp = self.tmp()
        sources = [os.path.join(ROOT, p) for p in ("tests/fuzz/%s.c" % target,
                                                   "tests/fuzz/replay.c", source, *others)]
        subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O0", "--coverage",
                        "-I" + os.path.join(ROOT, "common"), "-o", "fuzz", *sources],
                       cwd=tmp, check=True)
        subprocess.run(["./fuzz", corpus(target)], cwd=tmp, check=True,
                       stdout=subprocess.DEVNULL)
        data = "fuzz-%s.gcda" % os.path.basename(source)[:-2]
        said = subprocess.run(["gcov", "-n", data], cwd=tmp, check=True,
                              stdout=subprocess.PIPE).stdout.decode()
        lines = re.search(r"File '\S*%s'\nLines executed:([\d.]+)%%" % source, said)
        self.assertTrue(lines, said)
        return float(lines.group(1))

    def test_the_corpus_reaches_the_whole_of_the_parsers(self):
        self.assertGreaterEqual(self.reaches("request", "common/resp.c"), 95)
        self.assertGreaterEqual(self.reaches("reply", "common/reply_parse.c",
                                             ["common/number.c"]), 95)


if __name__ == "__main__":
    harness.main()
