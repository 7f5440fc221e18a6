#!/usr/bin/env python3
"""trial_test.py - `aware trial` as a user meets it, on real processes.

    trial_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py; 77 where control groups cannot be written. What is asserted is that
everything was done, answered and cleaned up, and that no policy runs wild; never that something
was fast: the machine may be busy.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cli_test
import local_test
from cli_test import expect, run
from local_test import (ended, groups_of, nothing_is_left, runs_of,
                        skip_without_control_groups)

WORLD = """\
apiVersion: autoscaling.aware.dev/v1alpha1
kind: SimulatedCluster
metadata: {name: here}
spec:
  local: {runDir: RUNDIR, cores: 8, drainSeconds: 2, stopSeconds: 1, backoffSeconds: 1}
"""
WORKLOAD = """\
---
apiVersion: autoscaling.aware.dev/v1alpha1
kind: SimulatedApplication
metadata: {name: NAME}
spec:
  app: {seed: 1, index: INDEX}
  load: {source: "SOURCE", cores: 0.15}
  start: {replicas: 2, cpu: 300m, memory: 160Mi}
---
apiVersion: autoscaling.aware.dev/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: NAME}
spec:
  scaleTargetRef: {name: NAME}
  goals: {slo: {latency: {target: 2s}}}
  constraints:
    global: {minReplicas: 1, maxReplicas: 4}
    pod: {requests: {minAllowed: {cpu: 100m, memory: 64Mi}, maxAllowed: {cpu: "1", memory: 512Mi}}}
  policy: {updateMode: Auto}
LEARNING"""
CONTROLLERS = ["rules", "hpa-tuned", "constant", "aware-minute-0", "aware"]
# the share of steps that a learned policy may miss more than the rules do: five of twenty, because
# they run one after the other, and others may use the machine meanwhile
WILD = 0.25


def world(folder, learning="", workloads=(("pages", 825, "diurnal:peak=2,period=30m"),)):
    text = WORLD.replace("RUNDIR", str(Path(folder, "runs")))
    for name, index, source in workloads:
        text += (WORKLOAD.replace("NAME", name).replace("INDEX", str(index))
                 .replace("SOURCE", source + ",length=2h,slot=15s").replace("LEARNING", learning))
    path = Path(folder, "world.yaml")
    path.write_text(text, encoding="utf-8")
    return str(path)


def check_run(one):
    expect(one["steps"] == 20, one)
    expect(one["requests"] > 0 and one["failed"] <= 0.05 * one["requests"], one)
    expect(0 <= one["violation_share"] <= 1 and 0 <= one["agent_share"] <= 1, one)
    expect((one["acts_from_step"] is None) == (one["agent_share"] == 0), one)
    expect(0 < one["cores"] <= 8 and one["cost_per_hour"] > 0, one)
    expect(0 < one["inside_ms_p50"] <= one["inside_ms_p99"], one)


def check_verdicts(verdicts):
    expect([(one["controller"], one["against"]) for one in verdicts] ==
           [(a, b) for a in CONTROLLERS[3:] for b in CONTROLLERS[:3]], verdicts)
    for one in verdicts:
        low, high = one["cost_ratio_interval"]
        expect(0 < low <= one["cost_ratio"] * 1.0001 and one["cost_ratio"] <= high * 1.0001, one)
        low, high = one["violation_points_interval"]
        expect(low - 1e-6 <= one["violation_points"] <= high + 1e-6, one)


def a_trial_measures_five_controllers_on_one_load():
    """The whole trial, 60 times faster: some two minutes."""
    skip_without_control_groups()
    apps = (("pages", 825, "diurnal:peak=2,period=30m"), ("thumbs", 912, "ramp:peak=2,period=40m"))
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([cli_test.AWARE, "trial", "-f", world(folder, workloads=apps),
                                    "--speed", "60", "--tune", "15", "--learn", "60",
                                    "--steps", "20", "--warm", "10", "--repeats", "1",
                                    "-o", "json"], cwd=folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stdout, stderr, groups = ended(process, folder, patience_s=500)
        expect(process.returncode == 0, f"exit {process.returncode}: {stderr}")
        trial = json.loads(stdout)
        expect([one["name"] for one in trial["workloads"]] == ["default/pages", "default/thumbs"],
               trial)
        expect(trial["warm_steps"] == 10, trial)
        check_verdicts(trial["verdicts"])
        for one in trial["workloads"]:
            tuned = one["tuned"]
            expect([run["target_percent"] for run in tuned["targets"]] == [80, 70, 60, 50, 40],
                   tuned)
            expect(all(run["steps"] == 15 and run["agent_steps"] == 0 for run in tuned["targets"]),
                   tuned)
            expect(tuned["target_percent"] in (80, 70, 60, 50, 40) and
                   1 <= tuned["constant_replicas"] <= 4, tuned)
            learning = tuned["learning"]
            expect(learning["steps"] == 60, learning)
            if learning["acts_from_step"] is not None:  # ten minutes, and not at once
                expect(30 <= learning["acts_from_step"] <= 60, learning)
            expect([rival["name"] for rival in one["controllers"]] == CONTROLLERS, one)
            check_verdicts(one["verdicts"])
            by_name = {rival["name"]: rival["runs"][0] for rival in one["controllers"]}
            for run_of in by_name.values():
                check_run(run_of)
            for name in CONTROLLERS[:4]:  # AWARE that is new has not seen enough in 20 steps
                expect(by_name[name]["agent_share"] == 0, by_name[name])
            expect(by_name["constant"]["replica_changes"] == 0, by_name["constant"])
            expect(by_name["rules"]["violation_share"] <= 0.5, by_name["rules"])
            expect(by_name["aware"]["violation_share"] <=
                   by_name["rules"]["violation_share"] + WILD, by_name)
            if learning["acts_from_step"] is None:
                print(one["name"], "was let act by nobody while it learned")
            else:
                expect(by_name["aware"]["agent_share"] > 0, by_name["aware"])  # it goes on
        expect(len(stderr.splitlines()) == 11, stderr)  # five targets, learning, five runs
        nothing_is_left(folder, groups)


def an_interrupt_ends_everything():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen([cli_test.AWARE, "trial", "-f", world(folder)], cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            until = time.monotonic() + 60
            while not groups_of(folder) and time.monotonic() < until:
                time.sleep(0.1)
            groups = groups_of(folder)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=60)
            expect(process.returncode == 130, f"exit {process.returncode}: {told}")
        expect("interrupted" in told.splitlines()[-1], told)
        nothing_is_left(folder, groups)


def what_cannot_be_tried_is_told():
    with tempfile.TemporaryDirectory() as folder:
        path = world(folder)
        for words, code, text in (
                ([], 64, "needs a file"),
                (["-f", path, "--steps", "0"], 64, "--steps"),
                (["-f", path, "--speed", "0"], 64, "--speed"),
                (["-f", path, "--speed", "fast"], 64, "--speed"),
                (["-f", path, "--load", "trace.csv", "--top", "0"], 64, "--top"),
                (["-f", path, "--load", "trace.csv", "--top", "x"], 64, "--top"),
                (["-f", path, "--load", "no-such-trace.csv"], 66, "no-such-trace.csv"),
                (["-f", path, "--markdown", "-o", "json"], 64, "--markdown")):
            done = run("trial", *words, cwd=folder)
            expect(done.returncode == code and text in done.stderr,
                   f"{words}: exit {done.returncode}, {done.stderr}")
            expect(len(done.stderr.splitlines()) == 1, done.stderr)
        text = Path(path).read_text(encoding="utf-8")
        Path(path).write_text(text.replace("  goals: {slo: {latency: {target: 2s}}}\n", ""),
                              encoding="utf-8")
        done = run("trial", "-f", path, cwd=folder)
        expect(done.returncode == 78 and "write an SLO" in done.stderr, done.stderr)
        expect(not runs_of(folder), "something was started")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])
        local_test.cli_test.AWARE = cli_test.AWARE
    globals()[sys.argv[1]]()
