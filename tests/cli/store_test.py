#!/usr/bin/env python3
"""store_test.py - the verbs of the store, as a user meets them.

    store_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py.
"""

import csv
import io
import json
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import cli_test
from cli_test import expect, expect_ok, run


def row(workload, episode, step, end=False, **changes):
    return {"workload": workload, "episode": episode, "step": step,
            "at_us": 1_000_000 * (episode * 100 + step), "stage": "offline", "actor": "fallback",
            "model": "00000000000000ff", "obs": [0.1 * step, -1.5], "action": [0.25],
            "shadow": None if step % 2 else [1], "reward": 1.5, "next_obs": [0.1 * step + 0.1, 2],
            "terminated": False, "truncated": end, "arrivals_per_s": 3.5, "latency_us_p99": None,
            "slo_preservation": 1, "cpu_utilisation": 0.3, "memory_utilisation": 0.4,
            "cost": 1e-5, "paper_reward": 1.25, "replicas": 3, "violated": 0,
            "cpu_millicores": 250, "memory_bytes": 268435456, **changes}


def write_lines(folder, name, rows):
    path = Path(folder, name)
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return str(path)


def some_rows():
    return [row(w, e, s, s == 2) for w in ("shop/cart", "web") for e in range(4) for s in range(3)]


def filled(folder):
    store = str(Path(folder, "aware.db"))
    expect_ok("store", "import", store, write_lines(folder, "rows.jsonl", some_rows()))
    return store


def what_is_kept_is_listed():
    with tempfile.TemporaryDirectory() as folder:
        store = filled(folder)
        text = expect_ok("store", "list", store, "--check").stdout
        expect("shop/cart" in text and "2 workloads, 8 episodes, 24 rows" in text, text)
        document = json.loads(expect_ok("store", "list", store, "-o", "json").stdout)
        expect(document["rows"] == 24 and document["backend"] == "sqlite", str(document))
        first = document["workloads"][0]
        expect((first["workload"], first["last_episode"], first["last_step"]) ==
               ("shop/cart", 3, 2), str(first))
        expect(first["recent_return_mean"] == 4.5, str(first))


def exports_come_back_without_loss():
    with tempfile.TemporaryDirectory() as folder:
        store = filled(folder)
        lines = expect_ok("store", "export", store).stdout
        expect(len(lines.splitlines()) == 24, lines)
        expect([json.loads(line)["step"] for line in lines.splitlines()[:3]] == [0, 1, 2], lines)
        for name in ("all.jsonl", "all.csv"):
            path, other = str(Path(folder, name)), str(Path(folder, name + ".db"))
            expect("24 rows" in expect_ok("store", "export", store, "-o", path).stdout, name)
            expect("24 of them new" in expect_ok("store", "import", other, path).stdout, name)
            again = json.loads(expect_ok("store", "import", other, path, "-o", "json").stdout)
            expect(again == {"rows": 24, "rows_new": 0}, str(again))
            expect(expect_ok("store", "export", other).stdout == lines, f"{name}: another text")
        text = expect_ok("store", "export", store, "--format", "csv", "--workload", "web",
                         "--first", "1", "--last", "2").stdout
        rows = list(csv.DictReader(io.StringIO(text)))
        expect(len(rows) == 6 and {r["workload"] for r in rows} == {"web"}, text)
        expect(rows[1]["obs"] == "0.1 -1.5" and rows[1]["shadow"] == "", str(rows[1]))


def a_bad_line_is_named_and_what_was_before_it_is_kept():
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder, "aware.db"))
        cases = [
            ([row("a", 0, 0), row("a", 0, 1, stage="dreaming")], 65, ":2:", "dreaming"),
            ([row("a", 0, 0), row("a", 0, 0, reward=9)], 75, ":2: ", "episode 0, step 0"),
            ([row("a", 0, 0, obs=[1])], 65, ":1: ", "next_obs"),
            ([row("a", 0, 0, obs=[], next_obs=[])], 65, ":1: ", "obs"),
        ]
        for rows, code, place, words in cases:
            path = write_lines(folder, "bad.jsonl", rows)
            done = run("store", "import", store, path)
            lines = done.stderr.splitlines()
            expect(done.returncode == code, f"{words}: exit {done.returncode}, {done.stderr}")
            expect(f"bad.jsonl{place}" in lines[-1] and words in lines[-1], done.stderr)
        expect("1 row" in expect_ok("store", "list", store).stdout, "the first row is not kept")


def old_episodes_are_pruned():
    with tempfile.TemporaryDirectory() as folder:
        store = filled(folder)
        document = json.loads(
            expect_ok("store", "prune", store, "--episodes", "2", "-o", "json").stdout)
        expect(document == {"rows_dropped": 12, "rows": 12, "episodes": 4}, str(document))
        text = expect_ok("store", "prune", store, "--older-than", "1d").stdout
        expect("6 rows dropped, 6 in 2 episodes left" in text, text)
        done = run("store", "prune", store)
        expect(done.returncode == 64 and "--older-than" in done.stderr, done.stderr)


def what_is_not_a_store_is_refused_by_name():
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "notes.txt")
        text.write_text("remember the milk\n" * 300)
        foreign = str(Path(folder, "foreign.db"))
        with sqlite3.connect(foreign) as database:
            database.execute("CREATE TABLE t(x)")
        cases = [
            (str(text), 65, "not an SQLite database"),
            (foreign, 65, "not a store"),
            (str(Path(folder, "gone.db")), 66, "No such file"),
            ("memory", 64, "memory"),
            ("influx+http://user:hunter2@127.0.0.1:1/db", 69, "127.0.0.1:1/db"),
            ("ftp://somewhere/db", 69, "influx+http"),
        ]
        for store, code, words in cases:
            done = run("store", "list", store)
            expect(done.returncode == code and words in done.stderr, f"{store}: {done}")
            expect(len(done.stderr.splitlines()) == 1, done.stderr)
            expect("hunter2" not in done.stderr, "the password is shown")


def a_store_that_is_written_can_be_read_but_not_written_by_another():
    with tempfile.TemporaryDirectory() as folder:
        store = filled(folder)
        writer = subprocess.Popen([cli_test.AWARE, "store", "import", store, "-"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            while not Path(store + "-lock").exists():
                expect(writer.poll() is None, "the writer ended")
            expect("24 rows" in expect_ok("store", "list", store).stdout, "cannot be read")
            path = write_lines(folder, "more.jsonl", [row("c", 0, 0)])
            done = run("store", "import", store, path)
            expect(done.returncode == 69 and "in use by another process" in done.stderr and
                   str(writer.pid) in done.stderr, done.stderr)
        finally:
            out, _ = writer.communicate("")
        expect(writer.returncode == 0 and "0 rows" in out, out)
        expect_ok("store", "import", store, path)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = sys.argv[2]
    globals()[sys.argv[1]]()
