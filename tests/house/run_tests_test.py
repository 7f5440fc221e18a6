#!/usr/bin/env python3
"""run_tests_test.py - tools/run-tests counts what happened, not what it hoped for; what it runs."""

import importlib.machinery
import importlib.util
import io
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.dont_write_bytecode = True


def load(tool):
    path = Path(__file__).resolve().parents[2] / "tools" / tool
    loader = importlib.machinery.SourceFileLoader(tool.replace("-", "_"), str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


run_tests = load("run-tests")

CASES = [
    # result, stdout, (passed, failed, skipped), why
    ("OK", "", (1, 0, 0), "a program without TAP counts once"),
    ("OK", "1..3\nok 1 - a\nok 2 - b\nok 3 - c\n", (3, 0, 0), "each cmocka test counts"),
    ("FAIL", "1..2\nok 1 - a\nnot ok 2 - b\n", (1, 1, 0), "so does each failure, once"),
    ("OK", "1..2\nok 1 - a\nnot ok 2 # SKIP b\n", (1, 0, 1), "cmocka's way to write a skip"),
    ("OK", "1..2\nok 1 - a\nok 2 # SKIP b\n", (1, 0, 1), "and TAP's own way"),
    ("FAIL", "1..3\nok 1 - a\n", (1, 1, 0), "a crash half way is a failure"),
    ("FAIL", "1..1\nok 1 - a\n", (1, 1, 0), "a leak found at exit is a failure"),
    ("TIMEOUT", "", (0, 1, 0), "so is a timeout"),
    ("ERROR", "1..1\n", (0, 1, 0), "and a program that cannot start"),
    ("SKIP", "", (0, 0, 1), "exit status 77"),
    ("EXPECTEDFAIL", "", (1, 0, 0), "meant to fail, and did"),
    ("UNEXPECTEDPASS", "", (0, 1, 0), "meant to fail, and did not"),
]


class BuildTest(unittest.TestCase):
    def test_what_cannot_be_built_is_told_and_shown_when_it_is_waited_for(self):
        shown = io.BytesIO()
        with unittest.mock.patch.object(run_tests.sys, "stdout", io.TextIOWrapper(shown)):
            there = run_tests.Build("nowhere", beside=True).wait() # there is no such phase
            run_tests.sys.stdout.flush()
            text = shown.getvalue().decode()
        self.assertFalse(there)
        self.assertIn("'nowhere'", text)

    def test_what_nobody_waits_for_is_ended(self):
        build = run_tests.Build("nowhere", beside=True)
        build.end()
        self.assertIsNotNone(build.process.returncode)
        build.end() # twice is once
        build.written.close()


def described(name, *suites, cmd=("./test",)):
    return {"name": name, "suite": [f"aware:{suite}" for suite in suites], "cmd": list(cmd)}


class ChosenTest(unittest.TestCase):
    TESTS = [
        described("guard", "unit", "room-control"),
        described("server", "unit", "room-web", "threads"),
        described("local-chaos", "realtime", "room-cluster", "threads"),
        described("store-kill", "slow", "room-store"),
        described("learn_ppo", "learning"),
        described("house-uses", "house"),
        described("verbs-x", "cli", cmd=("python3", "/x/build/../tests/cli/verbs_test.py", "x")),
    ]

    def names(self, phase):
        return [test["name"] for test in run_tests.chosen(phase, self.TESTS)]

    def test_each_phase_has_its_tests_and_together_they_have_all(self):
        for phase, expected in (
                ("release", ["guard", "server", "house-uses", "verbs-x"]),
                ("asan", ["guard", "server", "verbs-x"]),
                ("tsan", ["server"]),
                ("slow", ["store-kill", "learn_ppo"]),
                ("realtime", ["local-chaos"])):
            with self.subTest(phase):
                self.assertEqual(self.names(run_tests.PHASES[phase]), expected)
        together = {name for phase in run_tests.PHASES.values() for name in self.names(phase)}
        self.assertEqual(together, {test["name"] for test in self.TESTS})

    def test_a_check_has_the_rooms_and_the_files_that_changed(self):
        check = {**run_tests.CHECK, "only": {"house", "room-web", "room-store"},
                 "files": {"/x/tests/cli/verbs_test.py"}}
        self.assertEqual(self.names(check), ["server", "house-uses", "verbs-x"])


class SecondLooksTest(unittest.TestCase):
    def test_twice_in_ten_runs_is_too_often(self):
        remember, most = run_tests.remember, run_tests.RUNS_REMEMBERED
        self.assertEqual(remember([], []), ([[]], []))
        self.assertEqual(remember([], ["a"]), ([["a"]], []))
        self.assertEqual(remember([["a"], []], ["b"])[1], [])
        self.assertEqual(remember([["a"], []], ["b", "a"])[1], ["a"])
        self.assertEqual(remember([], ["a", "a"])[1], ["a"], "release and asan of one run")
        self.assertEqual(remember([["a"], *[[]] * (most - 2)], ["a"])[1], ["a"])
        self.assertEqual(remember([["a"], *[[]] * (most - 1)], ["a"])[1], [], "long ago")
        self.assertEqual(remember([["a"], ["a"]], [])[1], [], "what was told is not told again")
        self.assertEqual(len(remember([[]] * 99, [])[0]), most)

    def test_the_rest_of_a_run_is_no_run_of_its_own(self):
        self.assertEqual(run_tests.remember([["a"], ["b"]], ["c"], True), ([["a"], ["b", "c"]], []))
        self.assertEqual(run_tests.remember([["b"]], ["b"], True)[1], ["b"])
        self.assertEqual(run_tests.remember([], ["b"], True), ([["b"]], []))

    def test_they_are_written_down_where_they_survive_a_clone(self):
        with (tempfile.TemporaryDirectory() as folder,
              unittest.mock.patch.dict(run_tests.os.environ, {"XDG_CACHE_HOME": folder}),
              unittest.mock.patch.object(run_tests, "ROOT", Path(folder))):
            keep, kept = run_tests.keep_second_looks, Path(folder, "build", "second-looks.txt")
            self.assertEqual(keep([("release", "pace")], False), [])
            self.assertEqual(keep([("asan", "door")], True), [])
            self.assertEqual(kept.read_text(), "release pace\nasan door\n")
            self.assertEqual(keep([], False), [])
            self.assertEqual(kept.read_text(), "")
            self.assertEqual(keep([("tsan", "door")], False), ["door"])
            Path(folder, "aware", "second-looks.json").write_text("not JSON")
            self.assertEqual(keep([("tsan", "door")], False), [])


class ChangedRoomsTest(unittest.TestCase):
    PAGE = ("| room | may use |\n|---|---|\n| base | libc |\n| nn | base |\n| rl | base nn |\n"
            "| store | base |\n| cli | anything |\n\n"
            "| tests of | may also use |\n|---|---|\n| store | rl |\n\n"
            "| public header | room | about |\n|---|---|---|\n| aware/nn.h | nn | networks |\n")

    def test_who_depends_on_what_changed_is_affected(self):
        rooms = load("changed-rooms")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "docs").mkdir()
            Path(folder, "docs", "ARCHITECTURE.md").write_text(self.PAGE)
            for files, expected in (
                    (["src/rl/ppo.c"], {"rl", "store", "cli"}),
                    (["src/nn/mlp_test.c"], {"nn", "rl", "store", "cli"}),
                    (["include/aware/nn.h"], {"nn", "rl", "store", "cli"}),
                    (["src/base/err.c"], {"base", "nn", "rl", "store", "cli"}),
                    (["src/store/influx/influx.c", "README.md"], {"store", "cli"}),
                    (["README.md", "meson.build"], set()),
                    ([], set())):
                with self.subTest(files):
                    self.assertEqual(rooms.affected(folder, files), expected)

    def test_changes_are_those_of_a_branch_or_of_the_last_commit(self):
        rooms = load("changed-rooms")
        with tempfile.TemporaryDirectory() as folder:
            def git(*words):
                subprocess.run(["git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@t",
                                *words], check=True, capture_output=True)
            git("init", "-b", "main")
            for number, name in enumerate(("first", "second")):
                Path(folder, name).write_text("x")
                git("add", ".")
                git("commit", "-m", str(number))
            self.assertEqual(rooms.changed_files(folder), {"second"}, "nothing is open")
            Path(folder, "first").write_text("y")
            Path(folder, "new").write_text("y")
            self.assertEqual(rooms.changed_files(folder), {"first", "new"})
            git("checkout", "-b", "branch")
            git("commit", "-am", "2")
            Path(folder, "second").unlink()
            self.assertEqual(rooms.changed_files(folder), {"first", "second", "new"})


class CountTest(unittest.TestCase):
    def test_every_result_is_counted(self):
        for result, stdout, expected, why in CASES:
            with self.subTest(why):
                self.assertEqual(run_tests.count([{"result": result, "stdout": stdout}]), expected)

    def test_counts_add_up_over_programs(self):
        logs = [{"result": result, "stdout": stdout} for result, stdout, _, _ in CASES]
        sums = tuple(sum(column) for column in zip(*(case[2] for case in CASES)))
        self.assertEqual(run_tests.count(logs), sums)

    def test_only_what_shares_the_machine_is_looked_at_again(self):
        def log(*names, result="FAIL"):
            return [{"name": f"aware:unit / {name}", "result": result} for name in names]
        again = run_tests.second_looks
        self.assertEqual(again(log("local-chaos", "guard", "runner")), ["local-chaos"])
        self.assertEqual(again(log("web-it_scrapes", result="TIMEOUT")), ["web-it_scrapes"])
        self.assertEqual(again(log("local", "server", result="OK")), [])
        self.assertEqual(again(log("local", result="SKIP")), [])
        self.assertEqual(again(log("kube-prom", "kube-project", "controller-admission",
                                   "controller-admission-review")),
                         ["kube-prom", "controller-admission"])
        self.assertEqual(again(log("segments-runner", "sim", "cli-args", "simulate",
                                   "cli-an_interrupt_saves_and_resumes_to_the_same_bytes")),
                         ["segments-runner",
                          "cli-an_interrupt_saves_and_resumes_to_the_same_bytes"])
        self.assertEqual(again(log(*["local"] * (run_tests.SECOND_LOOKS_MAX + 1))), [])

    def test_some_failures_get_no_second_look(self):
        for wrote in ("books: 3 lost", "WARNING: ThreadSanitizer: data race (pid=1)",
                      "==1==ERROR: AddressSanitizer: heap-use-after-free",
                      "x.c:1:2: runtime error: signed integer overflow"):
            for stream in ("stdout", "stderr"):
                failed = {"name": "aware:unit / local", "result": "FAIL", stream: wrote}
                self.assertEqual(run_tests.second_looks([failed]), [], wrote)

    def test_what_failed_is_said_at_the_end_with_its_last_lines(self):
        said = run_tests.last_words("asan", [
            {"name": "aware:unit / guard", "result": "OK", "stdout": "1..1\nok 1 - a\n"},
            {"name": "aware:unit / local", "result": "SKIP", "stdout": "no cgroups\n"},
            {"name": "aware:unit / server", "result": "FAIL",
             "stdout": "1..2\nok 1 - a\nnot ok 2 - b\n# 1 != 2\n", "stderr": "it leaks\n"},
            {"name": "aware:unit / pace", "result": "TIMEOUT", "stdout": "line\n" * 99}])
        self.assertEqual(said[0].splitlines(), [
            "== asan: aware:unit / server: FAIL", "  not ok 2 - b", "  # 1 != 2", "  it leaks"])
        self.assertEqual(said[1].splitlines(), [
            "== asan: aware:unit / pace: TIMEOUT", *["  line"] * run_tests.LAST_LINES])
        self.assertEqual(len(said), 2)

    def test_time_is_told_with_the_work_that_was_in_it(self):
        self.assertEqual(run_tests.took((10, 1.2), (20.4, 19)), "10 s (18 s of CPU)")
        self.assertLessEqual(run_tests.clock(), run_tests.clock())

    def test_the_last_line_reads_as_promised(self):
        self.assertEqual(run_tests.summary(3, 0, 1), "3 passed, 0 failed, 1 skipped")


if __name__ == "__main__":
    unittest.main()
