#!/usr/bin/env python3
"""run_test.py - `aware run` as a user meets it.

    run_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py.
"""

import csv
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cli_test
from cli_test import expect, expect_ok, on_a_terminal, run

ROOT = Path(__file__).resolve().parent.parent.parent
APP = """\
apiVersion: autoscaling.aware.dev/v1alpha1
kind: SimulatedApplication
metadata: {name: NAME}
spec:
  app: {seed: 1, index: 39}
  load: {source: "diurnal:peak=3,period=1h", cores: 2, seed: SEED}
  scenarios: neighbour-cpu@40m+10m
"""
AUTOSCALER = """\
apiVersion: autoscaling.aware.dev/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: NAME}
spec:
  scaleTargetRef: {name: NAME}
  goals: {slo: {latency: {target: 90ms}}}
  constraints: {global: {maxReplicas: 20}}
  learning: {episodeSteps: 20, fallback: {hpaTarget: 60}}
"""


def files(folder, names=("web", "api")):
    """A small world of two workloads: episodes of five minutes, so that an hour tells a story."""
    path = Path(folder, "world.yaml")
    parts = [text.replace("NAME", name).replace("SEED", str(seed))
             for seed, name in enumerate(names, 1) for text in (APP, AUTOSCALER)]
    path.write_text("---\n".join(parts), encoding="utf-8")
    return str(path)


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def steps_of(lines):
    return {(line["workload"], line["at_s"]): line for line in lines if line["type"] == "step"}


def rows_tell_of_every_episode_and_every_change():
    with tempfile.TemporaryDirectory() as folder:
        done = expect_ok("run", "-f", files(folder), "--duration", "1h", cwd=folder)
        text = done.stdout
        expect(text.count("> initialized -> offline") == 2, "both begin offline")
        expect(len(re.findall(r"^ +\d:\d\d  (?:web|api) +\d+  (?:offline|online|serving) ", text,
                              re.M)) == 24, "a row for each of two workloads' 12 episodes")
        expect("~ disturbed: neighbour-cpu" in text and "~ disturbance ends" in text, text)
        expect(re.search(r"^In all, AWARE spent ", text, re.M), "the summary says it in words")
        expect("Guard rails limited" in text and "watchdog" in text, "rails and watchdog are told")
        expect(not re.search(r"\x1b|\r", text), "no control characters without a terminal")
        expect(Path(folder, "aware-state", "run.state").exists(), "the run is kept")


def a_model_that_cannot_be_used_is_told_once_and_the_run_goes_on():
    for agent in ("network", "formula"):
        without_a_model(agent)


def without_a_model(agent):
    with tempfile.TemporaryDirectory() as folder:
        world = Path(files(folder))
        text = world.read_text(encoding="utf-8")
        outputs = []
        shipped = "default.safetensors" if agent == "network" else "library.safetensors"
        bad = Path(folder, shipped)
        flipped = bytearray(Path(ROOT, "models", shipped).read_bytes())
        flipped[len(flipped) // 2] ^= 1
        for model, damage in (("none", None), (str(bad), b""), (str(bad), b"\x08" + 15 * b"\0"),
                              ("shipped", b"no model at all"), ("shipped", bytes(flipped)),
                              ("shipped", None)):
            bad.unlink(missing_ok=True)
            if damage is not None:
                bad.write_bytes(damage)
            world.write_text(text.replace("learning: {", f"learning: {{model: {model}, agent: "
                                                         f"{{name: {agent}}}, "), encoding="utf-8")
            done = expect_ok("run", "-f", str(world), "--models", folder, "--duration", "15m",
                             "--state", "none", "--no-twin", "-o", "json", "--log-level", "warn",
                             cwd=folder)
            told = done.stderr.splitlines()
            if damage is None:
                expect(not told, done.stderr)
            else:
                expect(len(told) == 1 and "a model cannot be used" in told[0] and
                       shipped in told[0], done.stderr)
                outputs.append(done.stdout)
            if model == "none":
                outputs.append(done.stdout)
        expect(len(set(outputs)) == 1, "and decides as it does without a model")


def lines_are_json_and_the_last_one_sums_up():
    with tempfile.TemporaryDirectory() as folder:
        done = expect_ok("run", "-f", files(folder), "--duration", "30m", "--state", "none", "-o",
                         "json", cwd=folder)
        lines = lines_of(done.stdout)
        expect(lines[0]["type"] == "run" and lines[-1]["type"] == "summary", "first and last")
        steps = steps_of(lines)
        expect(len(steps) == 2 * 120 and len(lines) == 2 * 120 + 2, f"{len(lines)} lines")
        keys = {"workload", "at_s", "episode", "step", "stage", "actor", "model", "action",
                "shadow", "plan", "changed", "applied", "clips", "aware", "twin"}
        expect(all(keys <= set(step) for step in steps.values()), "stable keys")
        for name in ("default/web", "default/api"):
            mine = [step for step in steps.values() if step["workload"] == name]
            summed = next(w for w in lines[-1]["workloads"] if w["workload"] == name)
            for world in ("aware", "fallback"):
                truth = [step["twin" if world == "fallback" else "aware"] for step in mine]
                expect(abs(sum(t["cost"] for t in truth) - summed["whole"][world]["cost"]) < 1e-9,
                       f"the cost of {name}, {world}")
                expect(sum(t["violated"] for t in truth) == summed["whole"][world]["violations"],
                       f"the violations of {name}, {world}")
            expect(summed["decisions"] == 120, "decisions")
            expect(summed["clipped"] == sum(1 for step in mine if step["clips"]), "clips")
        expect(not Path(folder, "aware-state").exists(), "--state none keeps nothing")
        done = expect_ok("run", "-f", files(folder), "--duration", "30m", "--state", "none", "-o",
                         "csv", cwd=folder)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        expect(len(rows) == 240, f"{len(rows)} rows")
        for row in rows:
            step = steps[(row["workload"], float(row["at_s"]))]
            expect(abs(float(row["cost"]) - step["aware"]["cost"]) < 1e-12 and
                   row["stage"] == step["stage"] and
                   int(row["replicas"]) == step["plan"]["replicas"], f"{row} is not {step}")


def the_same_seed_gives_the_same_bytes_whatever_the_threads():
    with tempfile.TemporaryDirectory() as folder:
        args = ["run", "-f", files(folder), "--duration", "45m", "--state", "none", "-o", "json"]
        one = expect_ok(*args, "-j", "1").stdout
        expect(one == expect_ok(*args, "-j", "2").stdout, "one thread and two differ")
        expect(any(int(s["model"], 16) for s in steps_of(lines_of(one)).values()),
               "nothing was learned: the test is too short")
        other = expect_ok(*args, "--seed", "7").stdout
        expect(other != one, "the seed has no effect")


def start(folder, *args):
    environment = {"PATH": os.environ.get("PATH", ""), "TERM": "xterm"}
    for name, value in os.environ.items():
        if name.startswith(("ASAN_", "UBSAN_", "TSAN_", "LSAN_")):
            environment[name] = value
    return subprocess.Popen([cli_test.AWARE, "run", *args], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, cwd=folder, env=environment, text=True)


def a_killed_run_goes_on_with_the_same_decisions():
    with tempfile.TemporaryDirectory() as folder:
        args = ["-f", files(folder), "--duration", "1h", "-o", "json", "-j", "1"]
        whole = steps_of(lines_of(
            expect_ok("run", *args, "--state", "whole", cwd=folder).stdout))
        lived, kills = {}, 0
        for patience in (40, 150, 260, 10**9):  # lines until it is killed
            process = start(folder, *args, "--state", "killed")
            text = []
            for line in process.stdout:
                text.append(line)
                if len(text) >= patience:
                    process.kill()
                    kills += 1
                    break
            process.stdout.close()
            process.stderr.close()
            process.wait()
            lived.update(steps_of(json.loads(line) for line in text))
        expect(kills == 3, f"killed {kills} times")
        expect(any(int(step["model"], 16) for step in whole.values()), "nothing was learned")
        expect(len(whole) == 480 and set(lived) == set(whole), f"{len(lived)} of {len(whole)}")
        for key, step in whole.items():
            expect(lived[key] == step, f"at {key}:\n{lived[key]}\nis not\n{step}")


def an_interrupt_saves_sums_up_and_the_next_run_resumes():
    for number in (signal.SIGINT, signal.SIGTERM):
        with tempfile.TemporaryDirectory() as folder:
            path = files(folder)
            process = start(folder, "-f", path, "--duration", "30d")
            for line in process.stdout:
                if " 3  serving" in line:
                    break
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            expect(process.returncode == 130, f"exit {process.returncode}: {err}")
            expect("In all, AWARE" in out, "the summary is printed")
            expect("interrupted at" in err and "goes on from there" in err, err)
            expect(err.index("stopping after this step") < err.index("interrupted at"), err)
            at = int(re.search(r"(\d+):(\d\d)", err.split("interrupted at")[1])[1]) + 1
            done = expect_ok("run", "-f", path, "--duration", f"{at + 1}h", "-r", "page.html",
                             cwd=folder)
            expect("resuming aware-state at" in done.stderr, done.stderr)
            page = Path(folder, "page.html").read_text(encoding="utf-8")
            data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', page, re.S)[1])
            expect(data["workloads"][0]["t"][0] <= 60, "the plots begin with the first session")
            again = run("run", "-f", path, "--duration", "1m", cwd=folder)
            expect(again.returncode == 64 and "--fresh" in again.stderr, again.stderr)
            fresh = expect_ok("run", "-f", path, "--duration", "10m", "--fresh", cwd=folder)
            expect("resuming" not in fresh.stderr, fresh.stderr)


def an_interrupted_run_without_a_state_gives_one_hint():
    with tempfile.TemporaryDirectory() as folder:
        process = start(folder, "-f", files(folder), "--duration", "30d", "--state", "none")
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1]
        expect(process.returncode == 130, f"exit {process.returncode}: {err}")
        expect("nothing was kept: with --state DIR" in err and "goes on from there" not in err, err)
        expect("the demo keeps none" in " ".join(expect_ok("help", "run").stdout.split()), "help")


def a_failed_start_leaves_no_state_folder():
    with tempfile.TemporaryDirectory() as folder, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        args = ["run", "--daemon", "-f", files(folder), "--listen", f"127.0.0.1:{port}", "--state"]
        done = run(*args, "state", cwd=folder)
        expect(done.returncode == 69 and not Path(folder, "state").exists(), done.stderr)
        Path(folder, "mine").mkdir()  # one that was there stays
        Path(folder, "mine", "note").write_text("x")
        done = run(*args, "mine", cwd=folder)
        expect(done.returncode == 69 and Path(folder, "mine", "note").exists(), done.stderr)


def a_state_in_use_is_refused_and_other_settings_go_on():
    with tempfile.TemporaryDirectory() as folder:
        path = files(folder)
        process = start(folder, "-f", path, "--duration", "30d", "--state", "kept")
        process.stdout.readline()
        while not Path(folder, "kept", "run.state").exists():
            time.sleep(0.02)
        second = run("run", "-f", path, "--state", "kept", cwd=folder)
        process.kill()
        process.communicate()
        expect(second.returncode == 69 and f"process {process.pid}" in second.stderr,
               f"{second.returncode}: {second.stderr}")
        came = re.compile(r"resuming kept at (?:(\d+)d )?(\d+):(\d\d)")

        def goes_on(*args):
            done = run("run", "-f", path, "--state", "kept", "--duration", "1m", *args, cwd=folder)
            at = re.search(r"has already come to (?:(\d+)d )?(\d+):(\d\d)", done.stderr)
            expect(done.returncode == 64 and at, done.stderr)
            hours = 24 * int(at[1] or 0) + int(at[2]) + 1
            done = run("run", "-f", path, "--state", "kept", "--duration", f"{hours}h", *args,
                       cwd=folder)
            expect(done.returncode == 0 and came.search(done.stderr), done.stderr)
            return done.stderr

        goes_on("--seed", "9")
        text = Path(path).read_text(encoding="utf-8")
        Path(path).write_text(text.replace("target: 90ms", "target: 80ms", 1), encoding="utf-8")
        said = goes_on()
        expect("judged anew" in said and said.count("judged anew") == 1, said)
        state = Path(folder, "kept", "run.state")
        state.write_bytes(state.read_bytes()[:10])
        damaged = run("run", "-f", path, "--state", "kept", cwd=folder)
        expect(damaged.returncode == 65 and "truncated" in damaged.stderr, damaged.stderr)
        store = run("run", "-f", path, "--state", "new", "--store", "kept/trajectories.db",
                    cwd=folder)
        expect(store.returncode == 73 and "another run" in store.stderr, store.stderr)


def a_table_is_drawn_in_place_and_leaves_the_summary():
    with tempfile.TemporaryDirectory() as folder:
        path = files(folder)
        code, text = on_a_terminal(["run", "-f", path, "--duration", "12h", "--state", "none"],
                                   columns=130)
        expect(code == 0, text[-500:])
        expect("WORKLOAD" in text and "LATENCY / SLO" in text and "times real time" in text, text)
        expect("\x1b[?25l" in text and text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"),
               "the cursor comes back")
        expect("In all, AWARE" in text[text.rindex("\x1b[?25h"):], "the summary stays")
        frames = re.split(r"\r\x1b\[\d+A", text[:text.rindex("\x1b[?25h")])
        expect(len(frames) > 2, "it is redrawn")
        for columns in (40, 80):
            code, text = on_a_terminal(
                ["run", "-f", path, "--duration", "20m", "--state", "none"], columns=columns)
            table = text[:text.rindex("\x1b[?25h")]
            for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", table).replace("\r", "").split("\n"):
                expect(len(line) < columns, f"{len(line)} columns of {columns}: {line!r}")
        plain = on_a_terminal(["run", "-f", path, "--duration", "10m", "--state", "none"],
                              env={"NO_COLOR": "1"}, columns=130)[1]
        expect("\x1b[32m" not in plain and "\x1b[2m" not in plain, "NO_COLOR is obeyed")


def bad_input_gets_one_line_and_the_right_code():
    with tempfile.TemporaryDirectory() as folder:
        path = files(folder)
        lone = Path(folder, "lone.yaml")
        lone.write_text(AUTOSCALER.replace("NAME", "lone") + "---\n" + # a name that is misspelt
                        APP.replace("NAME", "loan").replace("SEED", "1"), encoding="utf-8")
        typo = Path(folder, "typo.yaml")
        typo.write_text(AUTOSCALER.replace("NAME", "x").replace("maxReplicas", "maxReplica"),
                        encoding="utf-8")
        empty = Path(folder, "empty.yaml")
        empty.write_text(APP.replace("NAME", "x").replace("SEED", "1"), encoding="utf-8")
        for args, code, words in (
                (["-f", str(lone)], 78, ["lone.yaml:", "SimulatedApplication"]),
                (["-f", str(typo)], 78, ["typo.yaml:", "maxReplica"]),
                (["-f", str(empty)], 78, ["nothing to run"]),
                (["-f", "missing.yaml"], 78, ["missing.yaml"]),
                (["-f", path, "--speed", "fast"], 64, ["--speed", "fast"]),
                (["-f", path, "--duration", "soon"], 64, ["--duration", "soon"]),
                (["-f", path, "--duration", "0"], 64, ["--duration"]),
                (["-f", path, "--cluster", "moon"], 64, ["--cluster", "sim"]),
                (["-f", path, "--state", "d", "--store", "memory"], 64, ["--store memory"]),
                (["--fresh"], 64, ["--fresh"]),
                (["-f", path, "--store", "no/such/folder.db", "--state", "none"], 66,
                 ["no/such"])):
            done = run("run", *args, cwd=folder)
            expect(done.returncode == code, f"{args}: exit {done.returncode}, {done.stderr!r}")
            for word in words:
                expect(word in done.stderr, f"{args}: {word!r} is not in {done.stderr!r}")
            expect(not done.stdout, f"{args}: {done.stdout!r}")


def every_demo_of_the_readme_runs_and_writes_its_page():
    """Those of other systems; the control loop's own has tests of its own."""
    named = set(re.findall(r"run --demo ([a-z]+)", (ROOT / "README.md").read_text("utf-8")))
    choices = expect_ok("help", "run").stdout
    expect(len(named) >= 4, f"README names {named}")
    for name in sorted(named):
        expect(f" {name}: " in " ".join(choices.split()), f"help run does not list {name}")
        with tempfile.TemporaryDirectory() as folder:
            done = expect_ok("run", "--demo", name, "--quiet", cwd=folder)
            page = Path(folder, "report.html")
            expect(page.exists() and page.stat().st_size > 10_000, f"{name}: {done.stdout[-200:]}")


def ten_lines_are_enough():
    """No application is described: a generated one stands in, and that is said."""
    with tempfile.TemporaryDirectory() as folder:
        done = run("run", "-f", str(ROOT / "examples/ten-lines.yaml"), "-d", "30m", "--state",
                   "none", cwd=folder)
        expect(done.returncode == 0 and "shop/cart" in done.stdout, done.stderr)
        expect("generated ones stand in" in done.stderr, done.stderr)


def the_demo_is_the_file_beside_it_and_writes_its_page():
    demo = expect_ok("run", "--print-demo").stdout
    example = ROOT / "examples" / "demo.yaml"
    expect(example.read_text(encoding="utf-8") == demo,
           "examples/demo.yaml is not what 'aware run --print-demo' says")
    with tempfile.TemporaryDirectory() as folder:
        short = ["--duration", "1h", "-j", "1", "-o", "json"]
        builtin = expect_ok("run", *short, cwd=folder).stdout
        written = expect_ok("run", "-f", str(example), *short, "--state", "none",
                            cwd=folder).stdout
        expect(builtin == written, "the built-in demo and its file differ")
        expect(len(steps_of(lines_of(builtin))) == 5 * 240, "five workloads")
        page = Path(folder, "report.html").read_text(encoding="utf-8")
        data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', page, re.S)[1])
        expect(len(data["workloads"]) == 5 and len(data["workloads"][0]["t"]) == 240, "its data")
        expect("http://" not in re.sub(r"http://www\.w3\.org", "", page) and
               not re.search(r'(src|href)="(?!data:|#)', page), "the page needs no other file")
        expect(not Path(folder, "aware-state").exists(), "the demo keeps no state")


def the_demo_changes_replicas_little_and_takes_none_back():
    """A day of the demo: at most 1.5 times the changes of HPA and VPA, none removed within five
    minutes of being added, and cost within 3 % of the 0.79 of HPA and VPA that it was while
    replicas came and went as the policy liked."""
    with tempfile.TemporaryDirectory() as folder:
        done = expect_ok("run", "-o", "json", "--report", "none", "--state", "none", cwd=folder,
                         timeout=1100)
    whole = lines_of(done.stdout)[-1]["all"]["whole"]
    own, twin = whole["aware"], whole["fallback"]
    expect(own["steps"] == 5 * 24 * 240, f"a day of five workloads: {own['steps']} steps")
    expect(twin["replica_changes"] > 100, f"HPA and VPA hardly moved: {twin}")
    expect(own["replica_changes"] <= 1.5 * twin["replica_changes"],
           f"{own['replica_changes']} changes, HPA and VPA {twin['replica_changes']}")
    expect(own["replicas_removed_within_5m"] == 0,
           f"{own['replicas_removed_within_5m']} removed within five minutes of being added")
    expect(whole["cost_ratio"] <= 1.03 * 0.79, f"cost {whole['cost_ratio']} of HPA and VPA")


def without_a_twin_there_is_nothing_to_compare_with():
    with tempfile.TemporaryDirectory() as folder:
        args = ["run", "-f", files(folder), "--duration", "30m", "--state", "none", "--no-twin"]
        text = expect_ok(*args, cwd=folder).stdout
        expect("fallback 0" not in text and "alone on the same load" not in text, text)
        expect("AWARE spent $" in text, text)
        lines = lines_of(expect_ok(*args, "-o", "json", cwd=folder).stdout)
        expect("twin" not in lines[1] and "fallback" not in lines[-1]["all"]["whole"], "no twin")


def simulated_time_keeps_its_pace():
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        expect_ok("run", "-f", files(folder), "--duration", "5m", "--speed", "200", "--state",
                  "none", "-q", cwd=folder)
        spent = time.monotonic() - begin
        expect(1.4 <= spent <= 10, f"300 s at 200 times real time took {spent:.2f} s")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])  # some tests run it elsewhere
    globals()[sys.argv[1]]()
