#!/usr/bin/env python3
"""task_test.py - the verbs `task` and `size`, as a user meets them.

    task_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import cli_test
from cli_test import expect, expect_ok, run, skip

ROOT = Path(__file__).parent.parent.parent
SIZES, MINE = ROOT / "examples" / "sizes.csv", ROOT / "examples" / "size-mine.csv"
KEYS = ["set", "shots", "method", "mape", "median_ape", "regret3", "regret5", "coverage90"]


def a_csv_becomes_a_task():
    expect(len(SIZES.read_text().splitlines()) < 100, "the example has fewer than 100 lines")
    asked = ["task", "evaluate", "size", "--data", str(SIZES), "--seeds", "1", "-o", "json", "-q"]
    done = expect_ok(*asked)
    rows = json.loads(done.stdout)["rows"]
    expect(list(rows[0])[:8] == KEYS, f"keys {list(rows[0])}")
    at_two = {row["method"]: row["mape"] for row in rows if row["shots"] == 2}
    expect(at_two["aware"] < 0.5 * at_two["flat"], f"at two shots {at_two}")
    peers = compared("size", "--seeds", "1", "--data", str(SIZES))
    for name in ("transfer learning", "Reptile", "MAML, first order"):
        peer = peers[f"peer {name}"]
        expect(peer["mape"] < peers["flat"]["mape"], f"{name} at three shots: {peer}")
    again = expect_ok(*asked, "--threads", "1")
    expect(again.stdout == done.stdout, "the same seed gives the same figures on any threads")


def a_class_in_python_becomes_a_task():
    example = ROOT / "examples" / "python" / "cache_task.py"
    expect(len(example.read_text().splitlines()) < 100, "the example has fewer than 100 lines")
    done = subprocess.run([sys.executable, str(example), cli_test.AWARE], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    expect(done.returncode == 0, f"{done.stdout}{done.stderr}")


def a_workload_is_sized_in_time_and_money():
    asked = ["size", "--data", str(SIZES), "--measured", str(MINE)]
    told = json.loads(expect_ok(*asked, "-o", "json").stdout)
    expect(told["workload"] == "render" and told["measured"] == 2, f"{told['workload']}")
    expect(len(told["configurations"]) == 8, "every configuration is there")
    for row in told["configurations"]:
        expect(row["seconds_low"] <= row["seconds"] <= row["seconds_high"] * 1.0001, f"{row}")
        expect(row["usd"] > 0, f"{row}")
    expect(told["choice"]["measured"], "what is chosen was measured")
    expect(not told["next"]["measured"] and told["next"]["expected_gain"] > 0, f"{told['next']}")
    text = expect_ok(*asked).stdout
    expect("Choice: " in text and "Next: " in text and "$" in text, text)
    cheap = json.loads(expect_ok(*asked, "--goal", "cost", "-o", "json").stdout)
    expect(cheap["choice"]["usd"] <= told["choice"]["usd"], "the goal decides")
    alone = expect_ok("size", "--measured", str(ROOT / "examples" / "size-alone.csv")).stdout
    expect("Learned from nothing" in alone, alone)
    expect("Stop: " in expect_ok(*asked, "--stop", "100").stdout, "a limit ends it")


def bad_files_are_told_with_their_line():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bad.csv"
        for text, word in [("workload,cpus,time\na,1,5\na,2,x\n", "bad.csv:3"),
                           ("a,b\n1,2\n", "workload"), ("", "bad.csv:1"),
                           ("workload,cpus,time\na,1,5\nb,1,5\n", "two configurations")]:
            path.write_text(text)
            done = run("task", "evaluate", "size", "--data", str(path))
            expect(done.returncode != 0 and word in done.stderr, f"{text!r}: {done.stderr}")
            expect(len(done.stderr.strip().splitlines()) == 1, done.stderr)
    done = run("task", "train", "size")
    expect(done.returncode == 69 and "train" in done.stderr, done.stderr)
    done = run("task", "meet", "sise")
    expect(done.returncode == 66 and "size" in done.stderr, done.stderr)
    done = run("size", "--data", str(SIZES), "--workload", "nobody")
    expect(done.returncode == 66 and "nobody" in done.stderr, done.stderr)


def odd_tables_are_survived():
    """One group, one workload, holes everywhere, many features, one shot possible."""
    tables = {
        "one": "workload,cpus,time\na,1,5\na,2,3\n",
        "two": "workload,cpus,time\na,1,5\na,2,3\nb,1,9\nb,2,7\n",
        "holes": "workload,cpus,time\n" + "".join(f"w{i},{i % 7},{1 + i % 5}\n" for i in range(20)),
        "same": "workload,cpus,time\n" + "".join(
            f"w{i},{c},4\n" for i in range(6) for c in (1, 2, 4)),
        "words": "workload,kind,zone,value\n" + "".join(
            f"w{i},k{c},z{c % 3},{1e-6 * 10 ** c}\n" for i in range(4) for c in range(6)),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tables.items():
            path = Path(folder) / f"{name}.csv"
            path.write_text(text)
            told = json.loads(expect_ok("task", "evaluate", "size", "--data", str(path), "--seeds",
                                        "1", "-q", "-o", "json").stdout)
            expect(told["rows"] or told["notes"], f"{name}: rows, or why there are none")


def compared(name, *more):
    done = expect_ok("task", "compare", name, "-q", "-o", "json", *more,
                     env={**os.environ, "AWARE_MODELS": str(ROOT / "models")})
    return {row["method"]: row for row in json.loads(done.stdout)["rows"]}


def embeddings_of_applications_earn_their_place():
    rows = compared("autoscaling", "--seeds", "3")
    learned = rows["learned, first episode"]
    for name in ("HPA on CPU, VPA on memory", "one action all the time",
                 "learned, embedding zeroed", "learned, embedding shuffled"):
        expect(learned["reward"] > rows[name]["reward"], f"{name}: {rows[name]}, {learned}")
    expect(learned["violations"] < 0.05, f"{learned}")


def a_pair_that_is_met_needs_fewer_episodes_than_transfer():
    rows = compared("frequency", "--seeds", "1")
    ours, theirs = rows["learned, adapting"], rows["DQN of another pair, trained on (transfer)"]
    expect(ours["pairs"] == 8 and 3 * ours["episodes"] < theirs["episodes"], f"{ours} {theirs}")
    expect(ours["drop"] < 0.05 < rows["DQN of another pair (vanilla)"]["drop"], f"{rows}")


def the_demo_shows_every_task_and_writes_a_page():
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "tasks.html"
        done = expect_ok("run", "--demo", "tasks", "--report", str(page),
                         env={**os.environ, "AWARE_MODELS": str(ROOT / "models")})
        for name in ("size", "congestion", "frequency", "autoscaling"):
            expect(f"{name}: " in done.stdout, done.stdout)
        expect("expected_gain" in page.read_text(), "the page has the rows")


def measured_functions_hold_the_goals():
    """The goals of configuration search on a real set (AWARE_DATA_DIR), one seed."""
    data = os.environ.get("AWARE_DATA_DIR")
    if not data:
        skip("AWARE_DATA_DIR is not set")
    path = Path(data) / "sizeless" / "lambda_runtimes.csv"
    rows = json.loads(expect_ok("task", "evaluate", "size", "--data", str(path), "--seeds", "1",
                                "-q", "-o", "json").stdout)["rows"]
    simple = ("flat", "additive", "gp", "nearest", "family")
    for shots in (2, 3):
        at = {row["method"]: row for row in rows if row["shots"] == shots}
        best = min(at[name]["mape"] for name in simple)
        expect(at["aware"]["mape"] <= best + 0.02, f"{shots} shots: {at['aware']['mape']}, {best}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])
    globals()[sys.argv[1]]()
