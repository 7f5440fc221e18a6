#!/usr/bin/env python3
"""deps_test.py - tools/deps on systems other than this one: fakes of apt and friends on PATH."""

import os
import shutil
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

DEPS = Path(__file__).resolve().parents[2] / "tools" / "deps"
REAL_TOOLS = ("sh", "awk", "sed", "cut", "tr", "sort", "grep", "tail", "cat", "mktemp", "rm", "env",
              "dirname", "touch")


class DepsTest(unittest.TestCase):
    def setUp(self):
        self.bin = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.bin)
        for tool in REAL_TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.calls = self.bin / "calls"
        self.calls.touch()
        # a Debian where the compiler is there, the lists know everything, and we are root
        self.fake("dpkg-query", 'echo "installed gcc"; echo "installed libc6-dev"; exit 1')
        self.fake("apt-cache", f"{DEPS} list | awk '{{ print $2 }}'")
        self.fake("apt-get", f'echo "apt-get $*" >>{self.calls}')
        self.fake("id", "echo 0")

    def fake(self, name, body):
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run_deps(self, *groups, **extra):
        done = subprocess.run([DEPS, *groups], capture_output=True, text=True, check=False,
                              env={"PATH": str(self.bin), **extra})
        actions = [word for line in self.calls.read_text().splitlines()
                   for word in line.split() if word in ("update", "install")]
        return done, actions

    def everything_is_installed(self):
        self.fake("dpkg-query", f"{DEPS} list | awk '{{ print \"installed \" $2 }}'")

    def test_nothing_missing_does_nothing(self):
        self.everything_is_installed()
        done, actions = self.run_deps("build", "test", "fuzz", "bench", "docs", "tidy")
        self.assertEqual((done.returncode, done.stdout, done.stderr, actions), (0, "", "", []))

    def test_only_what_is_missing_is_installed_and_said_with_its_reason(self):
        done, actions = self.run_deps("build")
        self.assertEqual((done.returncode, actions), (0, ["install"]), done.stderr)
        command = self.calls.read_text().split()
        self.assertIn("meson", command)
        self.assertNotIn("gcc", command)
        self.assertNotIn("clang", command)
        self.assertRegex(done.stdout, r"libyaml-dev +YAML")

    def test_a_removed_package_with_files_left_counts_as_missing(self):
        self.fake("dpkg-query", f"{DEPS} list | awk '{{ print \"config-files \" $2 }}'")
        done, actions = self.run_deps("build")
        self.assertEqual((done.returncode, actions), (0, ["install"]), done.stderr)

    def test_unknown_packages_make_it_read_the_lists_first(self):
        self.fake("apt-cache", "echo gcc")
        done, actions = self.run_deps("build")
        self.assertEqual((done.returncode, actions), (0, ["update", "install"]), done.stderr)

    def test_stale_lists_are_read_anew_and_it_tries_again(self):
        self.fake("apt-get", f'echo "apt-get $*" >>{self.calls}\ncase "$*" in *" update") '
                             f"touch {self.bin}/fresh ;; *) test -e {self.bin}/fresh ;; esac")
        done, actions = self.run_deps("build")
        self.assertEqual((done.returncode, actions), (0, ["install", "update", "install"]))

    def test_without_network_it_lists_what_to_install(self):
        self.fake("apt-get", f'echo "apt-get $*" >>{self.calls}; echo "cannot resolve"; exit 100')
        done, _ = self.run_deps("build")
        self.assertEqual(done.returncode, 69)
        self.assertIn("cannot resolve", done.stderr)
        self.assertRegex(done.stderr, r"by hand(.|\n)*libopenblas-dev")

    def test_sudo_is_used_only_when_not_root(self):
        self.fake("sudo", f'echo "sudo" >>{self.calls}; exec "$@"')
        self.run_deps("build")
        self.assertNotIn("sudo", self.calls.read_text())
        self.fake("id", "echo 1000")
        done, actions = self.run_deps("build")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sudo", self.calls.read_text())
        self.assertEqual(actions, ["install", "install"])

    def test_neither_root_nor_sudo_is_a_clear_message(self):
        self.fake("id", "echo 1000")
        done, actions = self.run_deps("build")
        self.assertEqual((done.returncode, actions), (69, []))
        self.assertIn("needs root", done.stderr)

    def test_another_system_is_told_what_is_missing_and_let_through_when_nothing_is(self):
        (self.bin / "apt-get").unlink()
        done, _ = self.run_deps("build")
        self.assertEqual(done.returncode, 69)
        self.assertIn("not Debian", done.stderr)
        for tool in ("gcc", "meson", "ninja", "pkg-config"):
            self.fake(tool, "exit 0")
        self.assertEqual(self.run_deps("build")[0].returncode, 0)

    def test_asked_not_to_install_it_only_says(self):
        done, actions = self.run_deps("build", AWARE_NO_INSTALL="1")
        self.assertEqual((done.returncode, actions), (69, []))
        self.assertIn("meson", done.stderr)

    def test_an_unknown_group_is_refused(self):
        done, actions = self.run_deps("kitchen")
        self.assertEqual((done.returncode, actions), (64, []))
        self.assertIn("no group 'kitchen'", done.stderr)
        self.assertEqual(os.linesep.join(done.stderr.splitlines()).count("deps:"), 1)


if __name__ == "__main__":
    unittest.main()
