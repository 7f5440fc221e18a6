#!/usr/bin/env python3
"""results_stale_test.py - tools/results-stale in histories made for it."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "results-stale"


class History(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.git("init", "-q")

    def tearDown(self):
        self.folder.cleanup()

    def git(self, *args):
        who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        done = subprocess.run(["git", "-C", self.root, *who, *args], capture_output=True,
                              text=True, check=True)
        return done.stdout.strip()

    def commit(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", path)
        return self.git("rev-parse", "--short=7", "HEAD")

    def stale(self):
        done = subprocess.run([sys.executable, TOOL, "--check", "--root", self.root],
                              capture_output=True, text=True, check=False)
        rows = {line.split()[0]: line for line in done.stdout.splitlines()}
        return done.returncode, rows, done.stderr

    def test_a_page_is_as_old_as_the_code_it_rests_on(self):
        self.commit("src/web/page.c", "1")
        old = self.commit("src/policy/rule.c", "1")
        new = self.commit("src/policy/rule.c", "2")
        self.commit("docs/results/old.md", f"# Old\n<!-- rests on: policy -->\nSource {old}.\n")
        self.commit("docs/results/new.md",
                    f"# New\n<!-- rests on: policy -->\nSource {old}, later source {new}.\n")
        self.commit("docs/results/none.md", "# None\n")
        self.commit("docs/results/all.md", f"# All\nsource {new}\n")
        self.commit("src/policy/rule_test.c", "a test is not what figures rest on")
        code, rows, _ = self.stale()
        self.assertEqual(code, 1)
        self.assertIn("stale: 1 files since, of policy", rows["old.md"])
        self.assertIn("fresh", rows["new.md"])
        self.assertIn("fresh", rows["all.md"])
        self.assertIn("names no source", rows["none.md"])
        self.commit("src/web/page.c", "2")
        rows = self.stale()[1]
        self.assertIn("stale", rows["all.md"])
        self.assertIn("fresh", rows["new.md"])

    def test_all_fresh_is_no_failure_and_a_room_must_be_one(self):
        new = self.commit("src/policy/rule.c", "1")
        self.commit("docs/results/new.md", f"# New\n<!-- rests on: policy -->\nSource {new}.\n")
        self.assertEqual(self.stale()[0], 0)
        self.commit("docs/results/odd.md", f"# Odd\n<!-- rests on: polcy -->\nSource {new}.\n")
        code, _, error = self.stale()
        self.assertEqual(code, 1)
        self.assertIn("polcy", error)


if __name__ == "__main__":
    unittest.main()
