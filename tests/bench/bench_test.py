#!/usr/bin/env python3
"""bench_test.py - `aware-bench` as a developer meets it.

    bench_test.py TEST [BENCH [AWARE]]   one of the functions below, against the program BENCH

Exit status as in cli_test.py.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/cli"))

import cli_test  # noqa: E402
from cli_test import expect, expect_ok, run  # noqa: E402

BENCHMARKS = ["nn", "rl", "env", "sim", "ope", "control", "balancer", "rpc", "trace"]


def the_environments_are_measured():
    document = json.loads(expect_ok("env", "--output", "json", timeout=300).stdout)
    rates = {figure["name"]: figure["value"] for figure in document["figures"]}
    listed = subprocess.run([sys.argv[3], "env", "list", "-o", "json"], stdout=subprocess.PIPE,
                            check=True).stdout
    # those of many agents that act at once are measured by `aware-bench tenants`
    for name in [entry["name"] for entry in json.loads(listed) if "agents_max" not in entry]:
        mine = [rate for figure, rate in rates.items() if figure.startswith(name + " ")]
        # one that has options is also measured with an action that is held
        expect(len(mine) in (3, 4) and min(mine) > 1000, f"{name}: {mine}")


def a_decision_is_quick_and_allocates_nothing():
    document = json.loads(expect_ok("control", "-o", "json").stdout)
    figures = {figure["name"]: figure for figure in document["figures"]}
    expect(figures["allocations in 20 000 decisions"]["value"] == 0, "allocations")
    expect(figures["decision in SERVING, median"]["value"] > 0, "time")
    expect(all(figure["goal"] is not None for figure in figures.values()), "goals")
    # of the slowest in a hundred others on this machine decide, too
    missed = [name for name, figure in figures.items() if figure["missed"]]
    expect(set(missed) <= {"decision in SERVING, p99"}, f"missed: {missed}")


def an_opponent_that_is_none_is_refused():
    """To beat a PyTorch without a tuned BLAS proves nothing; to find none is no result."""
    with tempfile.TemporaryDirectory() as folder:
        for answer, words in (("ready 1.0 0", "no opponent"), ("", "no Python with PyTorch")):
            fake = Path(folder) / "python3"
            fake.write_text(f"#!/bin/sh\necho '{answer}'\nread -r line\n")
            fake.chmod(0o755)
            done = run("nn", "--against", "torch", "--check",
                       env={"AWARE_PYTHON": str(fake), "PATH": folder})
            expect(done.returncode == 69 and words in done.stderr and not done.stdout,
                   f"{answer!r}: exit {done.returncode}, {done.stderr!r}")


def help_names_every_benchmark_and_fits_the_screen():
    text = expect_ok("--help").stdout
    for name in BENCHMARKS:
        expect(re.search(rf"^  {name} ", text, re.M), f"no line tells of {name}:\n{text}")
    expect(max(map(len, text.splitlines())) <= cli_test.WIDTH_MAX, "a line is too long")


def figures_are_a_table_for_people():
    """A row for each figure, the columns one below another, and --check says what was missed."""
    lines = expect_ok("control").stdout.splitlines()
    place = lines[0].index("  UNIT")
    expect(lines[0].split() == ["WHAT", "AWARE", "UNIT", "PEER", "RATIO", "GOAL", "MET"], lines[0])
    expect(len(lines) > 3 and all(line[place - 1] != " " and line[place:place + 2] == "  "
                                  for line in lines), "\n".join(lines))
    missed = any(line.endswith(" no") for line in lines)
    expect(missed or lines[-1].endswith(" yes"), lines[-1])


BAD_INPUT = [
    ([], 64, ["--help"], "no benchmark"),
    (["everything"], 64, ["everything", "env"], "no such benchmark"),
    (["env", "rl"], 64, ["rl"], "two benchmarks"),
    (["rl", "--against", "torch"], 64, ["--against", "rl"], "no peer"),
    (["nn", "--against", "jax"], 64, ["--against", "jax", "torch"], "no such peer"),
    (["ope", "--cases", "3"], 64, ["--cases", "4", "16384"], "too few cases"),
    (["control", "--workloads", "many"], 64, ["--workloads", "many"], "no number"),
    (["env", "--output", "xml"], 64, ["--output", "xml", "json"], "an unknown format"),
]


def bad_input_gets_one_line_and_the_right_code():
    cli_test.BAD_INPUT = BAD_INPUT
    cli_test.bad_input_gets_one_line_and_the_right_code()


def every_command_of_the_docs_is_understood():
    """With --cases 0 in addition nothing runs: whatever else is wrong would be said instead."""
    commands = set()
    for path in [ROOT / "README.md", ROOT / "Makefile", *(ROOT / "docs").rglob("*.md")]:
        commands |= set(re.findall(r"aware-bench (\w+(?: --?\w+(?: [\w.]+)?)*)", path.read_text()))
    expect(len(commands) >= 10, f"found {commands}")
    for command in sorted(commands):
        done = run(*command.split(), "--cases", "0")
        expect(done.returncode == 64 and done.stderr.startswith("aware-bench: --cases"),
               f"{command}: exit {done.returncode}, {done.stderr!r}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = sys.argv[2]
    globals()[sys.argv[1]]()
