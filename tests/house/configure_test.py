#!/usr/bin/env python3
"""configure_test.py - tools/configure makes a folder once, anew if it must, deletes no other."""

import shutil
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

CONFIGURE = Path(__file__).resolve().parents[2] / "tools" / "configure"

# stands in for `meson setup DIR OPTIONS`: notes the call, makes what Meson makes, or breaks off
FAKE_MESON = """#!/bin/sh
echo "$CC $*" >>calls
mkdir -p "$2/meson-private"
if [ -e broken ]; then echo "no compiler found"; exit 1; fi
touch "$2/build.ninja"
"""


class ConfigureTest(unittest.TestCase):
    def setUp(self):
        self.top = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        (self.top / "tools").mkdir()
        shutil.copy(CONFIGURE, self.top / "tools")
        (self.top / "bin").mkdir()
        meson = self.top / "bin" / "meson"
        meson.write_text(FAKE_MESON)
        meson.chmod(meson.stat().st_mode | stat.S_IXUSR)

    def configure(self, profile, **extra):
        return subprocess.run([self.top / "tools" / "configure", profile], capture_output=True,
                              text=True, check=False,
                              env={"PATH": f"{self.top / 'bin'}:/usr/bin:/bin"} | extra)

    def tools(self):
        """A folder with what the script needs, and no MPI."""
        folder = self.top / "tools-alone"
        folder.mkdir()
        for name in ("sh", "cat", "dirname", "grep", "ls", "mkdir", "mktemp", "rm", "touch"):
            (folder / name).symlink_to(shutil.which(name))
        return folder

    def calls(self):
        path = self.top / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def test_a_second_call_does_nothing(self):
        self.assertEqual(self.configure("release").returncode, 0)
        self.assertEqual(self.configure("release").stdout, "")
        self.assertEqual(self.calls(), ["gcc setup build"])

    def test_each_profile_has_its_folder_and_compiler(self):
        for profile, folder, compiler in (("release", "build", "gcc"),
                                          ("asan", "build-asan", "clang"),
                                          ("tsan", "build-tsan", "gcc"),
                                          ("fuzz", "build-fuzz", "clang"),
                                          ("tidy", "build-tidy", "clang")):
            with self.subTest(profile):
                self.assertEqual(self.configure(profile).returncode, 0)
                self.assertTrue(self.calls()[-1].startswith(f"{compiler} setup {folder}"))
                self.assertTrue((self.top / folder / "build.ninja").exists())

    def test_a_setup_that_broke_half_way_says_why_and_is_made_anew(self):
        (self.top / "broken").touch()
        done = self.configure("release")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no compiler found", done.stderr)
        (self.top / "broken").unlink()
        self.assertEqual(self.configure("release").returncode, 0)
        self.assertEqual(len(self.calls()), 2)

    def test_another_compiler_or_place_makes_it_anew(self):
        self.configure("release")
        (self.top / "build" / "old").touch()
        self.configure("release", AWARE_CC="clang")
        self.assertFalse((self.top / "build" / "old").exists())
        (self.top / "build" / "configured-as").write_text("/elsewhere gcc \n")
        self.configure("release")
        self.assertEqual(self.calls(),
                         ["gcc setup build", "clang setup build", "gcc setup build"])

    def test_mpi_that_came_later_is_seen_and_nothing_is_lost(self):
        self.configure("release", PATH=f"{self.top / 'bin'}:{self.tools()}")
        (self.top / "build" / "compiled").touch()
        mpicc = self.top / "bin" / "mpicc"
        mpicc.write_text("#!/bin/sh\n")
        mpicc.chmod(mpicc.stat().st_mode | stat.S_IXUSR)
        for _ in range(2):
            self.assertEqual(self.configure("release").returncode, 0)
        self.assertEqual(self.calls(), ["gcc setup build", "gcc setup build --reconfigure"])
        self.assertTrue((self.top / "build" / "compiled").exists())

    def test_looking_again_that_broke_off_makes_it_anew(self):
        self.configure("release")
        recipe = self.top / "build" / "configured-as"
        recipe.write_text(recipe.read_text().splitlines()[0] + "\nmpicc: elsewhere\n")
        (self.top / "broken").touch()
        self.assertEqual(self.configure("release").returncode, 1)
        (self.top / "broken").unlink()
        self.assertEqual(self.configure("release").returncode, 0)
        self.assertEqual(self.calls(), ["gcc setup build", "gcc setup build --reconfigure",
                                        "gcc setup build"])

    def test_a_folder_that_is_not_ours_is_left_alone(self):
        (self.top / "build").mkdir()
        (self.top / "build" / "thesis.txt").write_text("years of work")
        done = self.configure("release")
        self.assertEqual(done.returncode, 73)
        self.assertIn("not a build folder", done.stderr)
        self.assertEqual((self.top / "build" / "thesis.txt").read_text(), "years of work")

    def test_an_unknown_profile_is_refused(self):
        done = self.configure("debug")
        self.assertEqual(done.returncode, 64)
        self.assertIn("found 'debug'", done.stderr)


if __name__ == "__main__":
    unittest.main()
