#!/usr/bin/env python3
"""local_test.py - `aware run --cluster local` and `aware local clean` as a user meets them.

    local_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py; 77 where control groups cannot be written.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cli_test
from cli_test import expect, expect_ok, on_a_terminal, run

WORLD = """\
apiVersion: autoscaling.aware.dev/v1alpha1
kind: SimulatedCluster
metadata: {name: here}
spec:
  local: {runDir: RUNDIR, cores: 8, drainSeconds: 3, stopSeconds: 1}
---
apiVersion: autoscaling.aware.dev/v1alpha1
kind: SimulatedApplication
metadata: {name: shop}
spec:
  app: {seed: 1, index: 39}
  load: {source: "constant:mean=30/s", cores: 0}
  start: {replicas: 1, cpu: 500m, memory: 256Mi}
---
apiVersion: autoscaling.aware.dev/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: shop}
spec:
  scaleTargetRef: {name: shop}
  goals: {slo: {latency: {target: 2s}}}
  constraints:
    global: {minReplicas: 1, maxReplicas: 4}
    pod: {requests: {minAllowed: {cpu: 100m, memory: 128Mi}, maxAllowed: {cpu: "1", memory: 512Mi}}}
  policy: {updateMode: Auto}
  learning: {stepSeconds: 1, episodeSteps: 4, fallback: {hpaTarget: 60}}
"""


def world(folder):
    path = Path(folder, "world.yaml")
    path.write_text(WORLD.replace("RUNDIR", str(Path(folder, "runs"))), encoding="utf-8")
    return str(path)


def runs_of(folder):
    """Names of the runs that are written down; what else lives on this machine is not ours."""
    runs = Path(folder, "runs")
    return {path.name for path in runs.iterdir() if path.is_dir()} if runs.exists() else set()


def groups(runs):
    """Sub-trees of these runs, in every hierarchy."""
    return [path for run in runs for path in Path("/sys/fs/cgroup").glob(f"*/aware-local-{run}")]


def skip_without_control_groups():
    with tempfile.TemporaryDirectory() as folder:
        done = run("run", "--cluster", "local", "-f", world(folder), "--duration", "1s", "-q",
                   cwd=folder)
        if done.returncode == 69 and "control groups" in done.stderr:
            expect(len(done.stderr.splitlines()) == 1, done.stderr)
            print("skipped:", done.stderr.strip())
            sys.exit(77)


def nothing_is_left(folder, runs=()):
    expect(not groups(runs), f"left: {groups(runs)}")
    expect(not runs_of(folder), f"left in the run directory: {runs_of(folder)}")


def a_real_application_is_autoscaled():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        done = expect_ok("run", "--cluster", "local", "-f", world(folder), "--duration", "8s",
                         "-o", "json", cwd=folder)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        expect(lines[0]["type"] == "run" and lines[0]["cluster"] == "local", lines[0])
        steps = [line for line in lines if line["type"] == "step"]
        expect(len(steps) == 8, f"{len(steps)} steps")
        summary = lines[-1]
        expect(summary["type"] == "summary", summary)
        shop = summary["workloads"][0]
        expect(shop["steps"] == 8 and shop["requests"] > 100, shop)
        expect(shop["failed"] == 0 and shop["balancer_lost"] == 0, shop)
        expect(0 < shop["cpu_utilisation"] <= 1 and 0 < shop["memory_utilisation"] <= 1, shop)
        expect(shop["stage"] == "offline", shop)
        nothing_is_left(folder)  # a run forgets its groups only when they are gone


def time_may_run_faster_and_rates_stay():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        done = expect_ok("run", "--cluster", "local", "-f", world(folder), "--duration", "20s",
                         "--speed", "4", "-o", "json", cwd=folder)
        took = time.monotonic() - begin
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        steps = [line for line in lines if line["type"] == "step"]
        expect(len(steps) == 20 and steps[-1]["at_s"] == 19, f"{len(steps)} steps")
        shop = lines[-1]["workloads"][0]
        # 30 in a real second; in a second of the controllers' time it would be four times as many
        expect(50 < shop["requests"] < 45 * took + 50, f"{took} s: {shop}")
        nothing_is_left(folder)


def the_table_is_drawn_on_a_terminal():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        code, text = on_a_terminal(["run", "--cluster", "local", "-f", world(folder),
                                    "--duration", "4s"], columns=140)
        expect(code == 0, f"exit {code}: {text}")
        expect("shop" in text and "REPLICAS" in text and "REQUESTS" in text, text)


def begun(folder):
    """A run that listens and has a replica, and where it listens."""
    process = subprocess.Popen([cli_test.AWARE, "run", "--cluster", "local", "-f", world(folder),
                                "--duration", "60s"], cwd=folder, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    found = re.match(r"shop listens on http://127\.0\.0\.1:(\d+)", line)
    expect(found, line + process.stderr.read() if not found else "")
    time.sleep(2)
    return process, int(found.group(1))


def an_interrupt_ends_everything():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        process, _ = begun(folder)
        runs = runs_of(folder)
        expect(len(runs) == 1 and groups(runs), "no control groups while it runs")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        expect(process.returncode == 130, f"exit {process.returncode}")
        nothing_is_left(folder, runs)


def after_kill_9_clean_leaves_nothing():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        process, _ = begun(folder)
        runs = runs_of(folder)
        alive = expect_ok("local", "clean", "--run-dir", str(Path(folder, "runs"))).stdout
        expect("1 run is alive and untouched" in alive, alive)
        process.kill()
        process.communicate(timeout=30)
        expect(groups(runs), "the control groups went by themselves")
        done = expect_ok("local", "clean", "--run-dir", str(Path(folder, "runs")), "-o", "json")
        expect(json.loads(done.stdout)["cleared"] == 1, done.stdout)
        nothing_is_left(folder, runs)


def what_does_not_go_together_is_told():
    with tempfile.TemporaryDirectory() as folder:
        path = world(folder)
        for words in (["--daemon"], ["--speed", "max"], ["--report", "r.html"]):
            done = run("run", "--cluster", "local", "-f", path, *words, cwd=folder)
            expect(done.returncode == 64 and "--cluster local" in done.stderr, done.stderr)
        done = run("run", "--cluster", "local", cwd=folder)
        expect(done.returncode == 64 and "needs a file" in done.stderr, done.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])
    globals()[sys.argv[1]]()
