"""install_test.py - what make install puts where, and that a stranger's program builds with it."""

import os
import re
import subprocess

import harness

PROGRAM = re.compile(r"```c\n(.*?)```", re.S)


def read(name):
    with open(os.path.join(harness.ROOT, name)) as f:
        return f.read()


class Install(harness.Case):
    def setUp(self):
        self.dest = self.tmp()
        self.make("install")

    def make(self, target):
        subprocess.run(["make", "-s", "-C", harness.ROOT, target, "DESTDIR=" + self.dest,
                        "PREFIX=/usr"], check=True, stdout=subprocess.DEVNULL)

    def run_in(self, *args, **kw):
        env = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": self.dest,
               "PKG_CONFIG_PATH": self.dest + "/usr/lib/pkgconfig",
               "LD_LIBRARY_PATH": self.dest + "/usr/lib", **kw.pop("env", {})}
        done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.tmp(),
                              env=env, **kw)
        said = done.stdout.decode()
        self.assertEqual(done.returncode, 0, said)
        return said

    def build_and_run(self, compiler, source, flags, server):
        path = os.path.join(self.tmp(), "app")
        name = path + (".cc" if "++" in compiler else ".c")
        with open(name, "w") as f:
            f.write(source)
        options = self.run_in("pkg-config", *flags, "hilo").split()
        self.run_in(*compiler.split(), name, *options, "-o", path)
        return path, self.run_in(path, env={"HILO_SERVER": "127.0.0.1:%d" % server.port})

    def test_the_program_of_the_readme(self):
        source = PROGRAM.search(read("README.md")).group(1)
        self.assertLessEqual(len([l for l in source.splitlines() if l.strip()]), 10)
        server = self.hilod()
        path, said = self.build_and_run("cc", source, ("--cflags", "--libs"), server)
        self.assertEqual(said.split(), ["1", "2", "3"])
        self.assertIn("libhilo.so.0", self.run_in("readelf", "-d", path))
        _, said = self.build_and_run("g++ -std=c++11 -Wall -Wextra -Werror", source,
                                     ("--cflags", "--libs"), server)
        self.assertEqual(len(said.split()), 3)
        source = "#define HILO_NO_INLINE\n" + source
        _, said = self.build_and_run("cc -Wall -Wextra -Werror", source, ("--cflags", "--libs"),
                                     server)
        self.assertEqual(len(said.split()), 3)

    def test_the_header_alone_in_c_and_cpp(self):
        for compiler in ("cc -std=c11 -pedantic", "cc -std=c99", "g++ -std=c++11 -pedantic",
                         "cc -std=c11 -DHILO_NO_INLINE"):
            path = os.path.join(self.tmp(), "x.cc" if "++" in compiler else "x.c")
            with open(path, "w") as f:
                f.write("#include <hilo.h>\n")
            flags = self.run_in("pkg-config", "--cflags", "hilo").split()
            self.run_in(*compiler.split(), "-Wall", "-Wextra", "-Werror", "-fsyntax-only", path,
                        *flags)

    def test_static(self):
        source = PROGRAM.search(read("README.md")).group(1)
        path = os.path.join(self.tmp(), "app")
        with open(path + ".c", "w") as f:
            f.write(source)
        self.run_in("cc", path + ".c", "-I" + self.dest + "/usr/include",
                    self.dest + "/usr/lib/libhilo.a", "-levent_core", "-pthread", "-o", path)
        server = self.hilod()
        said = self.run_in(path, env={"HILO_SERVER": "127.0.0.1:%d" % server.port})
        self.assertEqual(said.split(), ["1", "2", "3"])

    def test_only_our_names_are_seen(self):
        lib = self.dest + "/usr/lib/"
        shared = self.run_in("nm", "-D", "--defined-only", lib + "libhilo.so").split("\n")
        static = self.run_in("nm", "-g", "--defined-only", lib + "libhilo.a").split("\n")
        for lines in (shared, static):
            names = {l.split()[2].split("@")[0] for l in lines if len(l.split()) == 3} - {"HILO_0"}
            # what hilo_inline.h needs of the library, besides
            declared = set(re.findall(r"\b(hilo_\w+)\(", re.sub(r"/\*.*?\*/", "",
                                                                 read("client/hilo.h"), flags=re.S)))
            self.assertEqual(names - {"hilo_refill_", "hilo_rows_"}, declared)
        needed = re.findall(r"NEEDED.*\[(.*?)\]", self.run_in("readelf", "-d", lib + "libhilo.so"))
        self.assertEqual({n.split(".so")[0].split("-2")[0] for n in needed} -
                         {"libc", "ld-linux-x86", "ld-linux-x86-64", "ld-linux-aarch64"},
                         {"libevent_core"})

    def test_manual_pages(self):
        man = self.dest + "/usr/share/man/"
        for page in ("man1/hilo.1", "man3/libhilo.3", "man8/hilod.8"):
            self.assertEqual(self.run_in("mandoc", "-T", "lint", "-W", "warning", man + page), "")
        text = read("client/libhilo.3")
        for name in set(re.findall(r"^\w.*\b(hilo_\w+)\(", read("client/hilo.h"), re.M)):
            self.assertIn(".Fn " + name, text)
        page = read("client/hilo.1")
        said = self.run_in(self.dest + "/usr/bin/hilo", "--help")
        for command in re.findall(r"(?m)^  (\w+) ", said):
            self.assertRegex(page, r"(?m)^\.It Cm %s\b" % command)
        for option in re.findall(r"--([a-z-]+)", said):
            self.assertRegex(page, r"(?m)^\.It Fl (\w+ , )?-%s\b|, -%s$|Fl -%s\b" % ((option,) * 3))

    def test_completion(self):
        server = self.hilod()
        with server.client() as c:
            for name in ("orders", "orbits", "users"):
                c.call("SEQ", "CREATE", name)
        script = """
            PATH=%s/usr/bin:$PATH; . %s/usr/share/bash-completion/completions/hilo
            try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hilo; echo "${COMPREPLY[*]}"; }
            try hilo d; try hilo next or; try hilo create x --du; try hilo create x --durability e
            try hilo --js; try hilo -s x inf; try hilo ping --st
        """ % (self.dest, self.dest)
        said = self.run_in("bash", "-c", script,
                           env={"HILO_SERVER": "127.0.0.1:%d" % server.port}).split("\n")
        self.assertEqual(said[:7], ["doctor", "orbits orders", "--durability", "each", "--json",
                                    "info", ""])

    def test_uninstall_leaves_nothing(self):
        self.make("uninstall")
        left = [f for _, _, files in os.walk(self.dest) for f in files]
        self.assertEqual(left, [])

    def test_the_files_it_installs(self):
        for name in ("sbin/hilod", "bin/hilo", "lib/libhilo.a", "include/hilo.h",
                     "include/hilo_inline.h", "include/hilo_error.h", "share/doc/hilo/hilod.conf"):
            self.assertTrue(os.path.exists(os.path.join(self.dest, "usr", name)), name)
        self.assertEqual(os.readlink(self.dest + "/usr/lib/libhilo.so"), "libhilo.so.0")


if __name__ == "__main__":
    harness.main()
