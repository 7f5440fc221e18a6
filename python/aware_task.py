"""aware_task.py - a supervised task written in Python, learned by `aware` (docs/mechanisms/tasks.md).

A task is an object with
    name                       lower case, digits, dashes
    columns                    names of the numbers or words of a configuration
    configurations             a list of tuples, one value for each column
    pair(seed)                 an (application, environment) of any kind
    sample(pair, configuration) -> float above 0, lower is better

Nothing but the standard library is needed. `compare` measures every pair on every configuration, hands the table to `aware task compare size`
and returns its rows: what was learned from other pairs, beside flat, additive, nearest and the
rest, on pairs never seen.
"""

import csv
import json
import os
import subprocess
import tempfile


def write_csv(task, pairs, out):
    """Every pair on every configuration, as a CSV that any verb of `aware size` reads."""
    rows = csv.writer(out)
    rows.writerow(["workload", *task.columns, "value"])
    for seed in range(pairs):
        pair = task.pair(seed)
        for configuration in task.configurations:
            value = float(task.sample(pair, configuration))
            if not value > 0:
                raise ValueError(f"{task.name}: expected a value above 0, found {value}")
            rows.writerow([f"{task.name}-{seed}", *configuration, repr(value)])


def compare(task, pairs=24, seeds=1, aware="aware"):
    """Rows of `aware task compare size` over the task: a list of dictionaries."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="", delete=False) as out:
        write_csv(task, pairs, out)
    try:
        done = subprocess.run([aware, "task", "compare", "size", "--data", out.name, "--seeds",
                               str(seeds), "--output", "json", "--quiet"],
                              stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)["rows"]
    finally:
        os.unlink(out.name)
