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
  learning:
    episodeSteps: 60
    agent: {name: AGENT}
    fallback: {hpaPeriod: 10}
"""
POLICIES = ["fallback", "zero-shot", "adapted"]
# the share of steps that a learned policy may miss more than the rules do: five of twenty, because
# they run one after the other, and others may use the machine meanwhile
WILD = 0.25


def world(folder, agent="network", workloads=(("pages", 825, "diurnal:peak=2,period=30m"),)):
    text = WORLD.replace("RUNDIR", str(Path(folder, "runs")))
    for name, index, source in workloads:
        text += (WORKLOAD.replace("NAME", name).replace("INDEX", str(index))
                 .replace("SOURCE", source + ",length=2h,slot=15s").replace("AGENT", agent))
    path = Path(folder, "world.yaml")
    path.write_text(text, encoding="utf-8")
    return str(path)


def check_run(one):
    expect(one["steps"] == 20, one)
    expect(one["requests"] > 0 and one["failed"] <= 0.05 * one["requests"], one)
    expect(0 <= one["violation_share"] <= 1 and 0 <= one["agent_share"] <= 1, one)
    expect(0 < one["reward_per_100_steps"] <= 200, one)
    expect(0 < one["cores"] <= 8 and one["cost_per_hour"] > 0, one)
    expect(0 < one["inside_ms_p50"] <= one["inside_ms_p99"], one)


def a_trial_measures_three_policies_on_one_load():
    """The whole trial, 60 times faster: about a minute and a half."""
    skip_without_control_groups()
    apps = (("pages", 825, "diurnal:peak=2,period=30m"), ("thumbs", 912, "ramp:peak=2,period=40m"))
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([cli_test.AWARE, "trial", "-f", world(folder, workloads=apps),
                                    "--speed", "60", "--bootstrap", "3", "--adapt", "1",
                                    "--steps", "20", "--warm", "10", "--repeats", "1",
                                    "-o", "json"], cwd=folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stdout, stderr, groups = ended(process, folder, patience_s=500)
        expect(process.returncode == 0, f"exit {process.returncode}: {stderr}")
        trial = json.loads(stdout)
        expect([one["name"] for one in trial["workloads"]] == ["default/pages", "default/thumbs"],
               trial)
        expect(trial["warm_steps"] == 10, trial)
        for one in trial["workloads"]:
            expect(one["bootstrap"]["steps"] == 180 and one["adapt"]["steps"] == 60, one)
            expect(one["bootstrap"]["agent_steps"] <= 1, one["bootstrap"])  # the last decision's
            expect([policy["name"] for policy in one["policies"]] == POLICIES, one["policies"])
            missed = {}
            for policy in one["policies"]:
                expect(len(policy["runs"]) == 1, policy)
                check_run(policy["runs"][0])
                missed[policy["name"]] = policy["violation_share"]["mean"]
            expect(missed["fallback"] <= 0.5, missed)  # or there is nothing to compare with
            rules, *learned = one["policies"]
            expect(rules["agent_share"]["mean"] == 0, rules)
            for policy in learned:
                expect(missed[policy["name"]] <= missed["fallback"] + WILD, missed)
            if learned[0]["specialised_from"] is None:
                print(one["name"], "could not be copied here, so that its model was not asked")
            else:
                expect(learned[0]["known_by_episodes"] >= 1, learned[0])
                expect(learned[0]["agent_share"]["mean"] > 0, learned[0])  # it took over
        expect(len(stderr.splitlines()) == 4, stderr)  # learning, and three runs
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
                (["-f", path, "--steps", "61"], 64, "at most an episode"),
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
        done = run("trial", "-f", world(folder, agent="formula"), cwd=folder)
        expect(done.returncode == 78 and "network" in done.stderr, done.stderr)
        expect(not runs_of(folder), "something was started")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])
        local_test.cli_test.AWARE = cli_test.AWARE
    globals()[sys.argv[1]]()
