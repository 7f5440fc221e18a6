#!/usr/bin/env python3
"""run_tests_test.py - tools/run-tests counts what happened, not what it hoped for."""

import importlib.machinery
import importlib.util
import io
import sys
import unittest
import unittest.mock
from pathlib import Path

sys.dont_write_bytecode = True
PROGRAM = Path(__file__).resolve().parents[2] / "tools" / "run-tests"
LOADER = importlib.machinery.SourceFileLoader("run_tests", str(PROGRAM))
run_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", LOADER))
LOADER.exec_module(run_tests)

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
        with (unittest.mock.patch.dict(run_tests.PHASES, {"nowhere": {"dir": "build-nowhere"}}),
              unittest.mock.patch.object(run_tests.sys, "stdout", io.TextIOWrapper(shown))):
            there = run_tests.Build("nowhere", beside=True).wait() # tools/configure knows it not
            run_tests.sys.stdout.flush()
            text = shown.getvalue().decode()
        self.assertFalse(there)
        self.assertIn("found 'nowhere'", text)

    def test_what_nobody_waits_for_is_ended(self):
        with unittest.mock.patch.dict(run_tests.PHASES, {"nowhere": {"dir": "build-nowhere"}}):
            build = run_tests.Build("nowhere", beside=True)
            build.end()
            self.assertIsNotNone(build.process.returncode)
            build.end() # twice is once
            build.written.close()


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
