#!/usr/bin/env python3
"""program_test.py - complaints about other programs' behaviour, tried on the built program.

    program_test.py TEST [AWARE]    one of the functions below; each is named after a thread

Exit status: 0 it holds, 1 it does not (with a line that says what was expected and what was found),
77 skipped, with the reason. Only the standard library is used.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

AWARE = "aware"


def run(*args, cwd=None):
    environment = {"PATH": os.environ.get("PATH", ""), "TERM": "xterm"}
    for name, value in os.environ.items():
        if name.startswith(("ASAN_", "UBSAN_", "TSAN_", "LSAN_", "OPENBLAS_")):
            environment[name] = value
    return subprocess.run([AWARE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment, cwd=cwd, check=False, timeout=120)


def expect(holds, what):
    if not holds:
        print(f"FAILED: {what}")
        sys.exit(1)


def expect_ok(*args, **keywords):
    done = run(*args, **keywords)
    expect(done.returncode == 0, f"{args}: exit {done.returncode}, {done.stderr!r}")
    return done


def files_of(directory):
    return {path.name: path.read_bytes() for path in sorted(Path(directory).iterdir())
            if path.is_file()}


# --- those who train ------------------------------------------------------------------------------


def train(cwd, out, steps, *more):
    return expect_ok("train", "--env", "pendulum-v1", "--agent", "ddpg", "--steps", str(steps),
                     "--seed", "3", "--out", out, *more, cwd=cwd)


def dlr_rm_stable_baselines3_1016_the_replay_is_saved_with_the_rest():
    """A run that is interrupted and resumed ends as one that was not: the replay is part of it."""
    with tempfile.TemporaryDirectory() as folder:
        train(folder, "whole", 1500)
        train(folder, "part", 800)
        expect_ok("train", "--resume", "part", "--steps", "1500", cwd=folder)
        whole, part = files_of(f"{folder}/whole"), files_of(f"{folder}/part")
        for name in ("model.safetensors", "state.safetensors", "loop.state"):
            expect(name in whole, f"no {name} in {sorted(whole)}")
            expect(whole[name] == part[name], f"{name} differs after a resume")


def farama_gymnasium_1321_the_seed_decides_under_many_environments():
    with tempfile.TemporaryDirectory() as folder:
        for out, threads in (("a", "1"), ("b", "2")):
            train(folder, out, 600, "--envs", "4", "--threads", threads)
        a, b = files_of(f"{folder}/a"), files_of(f"{folder}/b")
        expect(a["model.safetensors"] == b["model.safetensors"],
               "the same seed gave other bytes with other threads")


def openai_gym_3121_truncated_and_terminated_are_two_things():
    """CartPole ends in two ways; an environment says which."""
    page = expect_ok("env", "describe", "cartpole-v1", "--output", "json").stdout
    text = json.dumps(json.loads(page)).lower()
    expect("500" in text, "the time limit is not told")
    expect_ok("env", "check", "cartpole-v1")
    expect_ok("env", "check", "autoscale-v0")


def ray_project_ray_21246_no_figure_is_made_up_before_the_first_episode():
    """Before an episode has ended there is no mean return: it is absent, not NaN, in JSON."""
    with tempfile.TemporaryDirectory() as folder:
        done = train(folder, "short", 50, "--output", "json")
        for line in (done.stdout + done.stderr).splitlines():
            expect("NaN" not in line and "nan" not in line.split(), f"NaN in {line!r}")
        json.loads(done.stdout, parse_constant=lambda word: expect(False, f"{word} in JSON"))


def vwxyzjn_cleanrl_11_a_run_is_not_silent():
    with tempfile.TemporaryDirectory() as folder:
        done = train(folder, "told", 3000)
        rows = [line for line in (done.stdout + done.stderr).splitlines() if re.search(r"\d", line)]
        expect(len(rows) >= 3, f"only {len(rows)} rows: {rows}")


def grafana_k6_1580_no_bars_where_there_is_no_terminal():
    with tempfile.TemporaryDirectory() as folder:
        done = train(folder, "plain", 1500)
        expect("\r" not in done.stdout + done.stderr and "\x1b" not in done.stdout + done.stderr,
               "control characters without a terminal")


# --- those who operate ----------------------------------------------------------------------------


def kubernetes_autoscaler_2747_every_field_is_explained():
    """A page per field, with its default: nobody has to read the source to know a constant."""
    schema = json.loads(expect_ok("explain-schema", "--output", "json").stdout)
    fields = json.dumps(schema)
    expect("guard" in fields and "learning" in fields, "guard or learning is not explained")
    page = expect_ok("explain-schema", "MultidimPodAutoscaler.spec.guard").stdout
    expect(len(page.splitlines()) > 10, f"too little is said: {page!r}")


def fairwinds_goldilocks_292_emptiness_says_what_is_missing():
    """Where there is nothing to show, the way on is shown."""
    with tempfile.TemporaryDirectory() as folder:
        done = run("get", cwd=folder)
        expect(done.returncode != 0, "an empty folder is no success")
        expect(len(done.stderr.splitlines()) == 1, f"more than one line: {done.stderr!r}")
        expect("aware run" in done.stderr, f"no way on: {done.stderr!r}")
        Path(folder, "empty").mkdir()
        done = run("run", "-f", "empty", "--state", "none", cwd=folder)
        expect(done.returncode != 0 and done.stderr.strip(), "nothing is said of an empty folder")


def jpedro1992_gym_hpa_no_secret_in_a_source_file():
    """Nothing that a user has to edit before the first run."""
    with tempfile.TemporaryDirectory() as folder:
        done = expect_ok("env", "check", "autoscale-v0", cwd=folder)
        expect(not any(Path(folder).iterdir()), "files were made")
        expect(done.stdout.strip() != "", "nothing is said")


def kubernetes_autoscaler_6040_learned_state_can_be_shown_and_reset():
    with tempfile.TemporaryDirectory() as folder:
        help_page = expect_ok("help", "state").stdout
        expect("reset" in help_page and "show" in help_page, f"state: {help_page!r}")
        done = run("state", "show", "cart", cwd=folder)
        expect(done.returncode != 0 and len(done.stderr.splitlines()) == 1, f"{done.stderr!r}")


def main():
    global AWARE
    if len(sys.argv) > 2:
        AWARE = os.path.abspath(sys.argv[2])
    globals()[sys.argv[1]]()


if __name__ == "__main__":
    main()
