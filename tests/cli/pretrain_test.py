#!/usr/bin/env python3
"""pretrain_test.py - pretrain, embed and adapt, as a user meets them.

    pretrain_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py.
"""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cli_test
from cli_test import expect, expect_ok, need, run, skip
from store_test import row, write_lines

# As small as it can be and still learn, check and know somebody.
SMALL = ["--apps", "1:12", "--check", "760-763", "--load", "diurnal:period=1h", "--set", "rounds=4",
         "--set", "teacher_tries=10", "--set", "teacher_episodes=1", "--set", "check_every=1",
         "--set", "env.episode_steps=40", "--set", "hidden=16"]
APP = ["--app", "817", "--load", "diurnal:period=1h"]


def pretrain(folder, name, *more, **keywords):
    return run("pretrain", *SMALL, "--out", str(Path(folder, name)), *more, **keywords)


def model_in(folder):
    done = pretrain(folder, "m", "-q")
    expect(done.returncode == 0, done.stderr)
    return str(Path(folder, "m.safetensors"))


def metadata(path):
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + length])["__metadata__"]


def a_model_is_written_with_its_card_and_told_in_words_and_json():
    with tempfile.TemporaryDirectory() as folder:
        done = pretrain(folder, "new/m")
        expect(done.returncode == 0, done.stderr)
        expect("reward R per episode" in done.stdout and "FALLBACK" in done.stdout, done.stdout)
        rows = [line.split()[0] for line in done.stderr.splitlines() if line[:5].strip().isdigit()]
        expect(rows == ["1", "2", "3", "4"], done.stderr)
        expect("\x1b" not in done.stderr and "\r" not in done.stderr, "control characters in rows")
        card = Path(folder, "new/m.md").read_text()
        for words in ("# Model card", "aware pretrain --apps 1:12", "## Limits", "seed 1",
                      "applications 0 to 11", "applications 760 to 763", "`OPENBLAS_CORETYPE="):
            expect(words in card, f"{words!r} is not in the card:\n{card}")
        expect(folder not in card, "the card names a folder of this machine")
        done = pretrain(folder, "j", "-q", "-o", "json")
        document = json.loads(done.stdout)
        expect(document["best_round"] in (1, 2, 3, 4) and len(document["history"]) == 4,
               str(document))
        expect(all(0 < point["check"]["R"] <= 80 for point in document["history"]), str(document))
        expect(document["policy"]["R"] in [p["check"]["R"] for p in document["history"]],
               "what is reported is not a check")
        expect(f"OPENBLAS_CORETYPE={document['kernels']}" in card and
               metadata(Path(folder, "new/m.safetensors"))["kernels"] == document["kernels"], card)


def the_line_on_a_terminal_fits_and_is_cleared():
    with tempfile.TemporaryDirectory() as folder:
        for columns in (100, 40, 12):
            args = ["pretrain", *SMALL, "--out", str(Path(folder, f"m{columns}"))]
            code, drawn = cli_test.on_a_terminal(args, columns)
            expect(code == 0, drawn[-300:])
            lines = [frame for frame in re.findall(r"\r([^\r\n\x1b]*)\x1b\[K", drawn) if frame]
            expect(lines and max(map(len, lines)) < columns, f"{columns}: {lines}")


def the_same_seed_gives_the_same_model_whatever_the_threads():
    with tempfile.TemporaryDirectory() as folder:
        for name, more in (("one", ["-j", "1"]), ("two", ["-j", "2"]), ("other", ["-s", "2"])):
            done = pretrain(folder, f"{name}/m", "-q", *more)
            expect(done.returncode == 0, done.stderr)
        one, two, other = (Path(folder, n, "m.safetensors").read_bytes()
                           for n in ("one", "two", "other"))
        expect(one == two, "threads change the model")
        expect(one != other, "the seed changes nothing")


def stopped_anywhere_and_resumed_is_never_stopped():
    with tempfile.TemporaryDirectory() as folder:
        state = str(Path(folder, "state"))
        long = ["--rounds", "30", "--patience", "0", "-q"]
        done = pretrain(folder, "whole/m", *long)
        expect(done.returncode == 0, done.stderr)
        for name, number in (("int", signal.SIGINT), ("kill", signal.SIGKILL)):
            command = [cli_test.AWARE, "pretrain", *SMALL, *long, "--out",
                       str(Path(folder, name, "m")), "--checkpoint", state, "--force"]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       text=True)
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not Path(state).exists():
                time.sleep(0.01)
            time.sleep(0.1)
            process.send_signal(number)
            said = process.communicate()[1]
            if number == signal.SIGINT and process.returncode != 0:
                expect(process.returncode == 130 and "--resume" in said, said)
            done = pretrain(folder, f"{name}/m", *long, "--checkpoint", state, "--resume",
                            "--force")
            expect(done.returncode == 0, done.stderr)
            expect(Path(folder, name, "m.safetensors").read_bytes() ==
                   Path(folder, "whole/m.safetensors").read_bytes(), f"{name}: another model")
            Path(state).unlink()


def a_run_without_improvement_stops_early():
    with tempfile.TemporaryDirectory() as folder:
        still = ["--rounds", "30", "--patience", "2", "--set", "updates=0", "-q", "-o", "json"]
        document = json.loads(pretrain(folder, "m", *still).stdout)
        expect(document["stopped_early"] and document["rounds"] == 3, str(document["rounds"]))
        expect(document["best_round"] == 1, str(document["best_round"]))


def bad_input_gets_one_line_and_the_right_code():
    with tempfile.TemporaryDirectory() as folder:
        model = model_in(folder)
        state = str(Path(folder, "state"))
        expect(pretrain(folder, "s", "-q", "--checkpoint", state).returncode == 0, "no state")
        whole = Path(state).read_bytes()
        Path(folder, "cut").write_bytes(whole[:-8])
        flipped = bytearray(Path(model).read_bytes())
        flipped[8] ^= 0xff
        Path(folder, "damaged").write_bytes(flipped)
        Path(folder, "text").write_text("not a model")
        Path(folder, "apps").write_text("apps: 3\n")
        Path(folder, "kinds").write_text("segments:\n- {name: nap, cpu: 1ms}\n")
        expect_ok("apps", "generate", "--seed", "1", "-n", "4", "-o", f"{folder}/first.yaml")
        out = ["--out", str(Path(folder, "x"))]
        table = [
            (["pretrain"], 64, ["--out"]),
            (["pretrain", *SMALL, "--out", model], 73, ["there already", "--force"]),
            (["pretrain", *out, "--load", "diurnal", "--apps", "5"], 64, ["--apps", "FIRST-LAST"]),
            (["pretrain", *out, "--load", "diurnal", "--apps", "0-9", "--check", "5-12"], 64,
             ["--check", "shares"]),
            (["pretrain", *out, "--load", "diurnal", "--apps", f"{folder}/none.yaml"], 66,
             ["none.yaml: --apps: there is no such file"]),
            (["pretrain", *out, "--load", "diurnal", "--check", f"{folder}/apps"], 78,
             [f"{folder}/apps:1:7: apps: expected a list"]),
            (["pretrain", *out, "--load", "diurnal", "--apps", f"{folder}/kinds"], 78,
             [f"{folder}/kinds:1:1: expected \"apps\""]),
            (["pretrain", *out, "--load", "diurnal", "--apps", f"{folder}/first.yaml", "--check",
              "3-9"], 64, ["--check: shares", "1:3"]),
            (["pretrain", *out, "--apps", "1:3"], 64, ["--load", "AWARE_DATA_DIR"]),
            (["pretrain", *out, "--load", "diurnl"], 66, ["diurnal"]),
            (["pretrain", *out, "--load", "diurnal", "--set", "noisy=1"], 78, ["noise"]),
            (["pretrain", *out, "--load", "diurnal", "--set", "env.sloo=1"], 78, ["sloo"]),
            (["pretrain", *SMALL, *out, "--resume"], 64, ["--checkpoint"]),
            (["pretrain", *SMALL, *out, "--checkpoint", state], 73, ["--resume"]),
            (["pretrain", *SMALL, *out, "--checkpoint", f"{folder}/none", "--resume"], 66,
             ["none"]),
            (["pretrain", *SMALL, *out, "--checkpoint", f"{folder}/cut", "--resume"], None,
             ["cut"]),
            (["pretrain", *SMALL, *out, "--checkpoint", model, "--resume"], None, ["format"]),
            (["pretrain", *SMALL, *out, "--checkpoint", state, "--resume", "--set", "noise=0.5"],
             None, ["another run", "noise 0.5"]),
        ]
        for verb in (["embed"], ["adapt", "-n", "1"]):
            table += [
                ([*verb, *APP], 64, ["--model"]),
                ([*verb, *APP, "--model", f"{folder}/nowhere"], 66, ["nowhere"]),
                ([*verb, *APP, "--model", f"{folder}/damaged"], None, ["damaged"]),
                ([*verb, *APP, "--model", f"{folder}/text"], None, ["text"]),
                ([*verb, *APP, "--model", state], None, ["format"]),
                ([*verb, "--model", model, "--app", "x", "--load", "diurnal"], 64, ["--app"]),
                ([*verb, "--model", model, "--app", f"{folder}/first.yaml:x", "--load", "diurnal"],
                 66, ["first.yaml: --app: has no application \"x\""]),
            ]
        table += [
            (["embed", "--model", model], 64, ["--app", "--store"]),
            (["embed", "--model", model, "--store", "x.db"], 64, ["--workload"]),
            (["adapt", "--model", model, *APP, "--set", "hidden=99"], None, ["another shape"]),
            (["adapt", "--model", model, *APP, "--out", model], 73, ["--force"]),
        ]
        for args, code, words in table:
            done = run(*args)
            lines = done.stderr.splitlines()
            expect(done.returncode == code if code else done.returncode > 1,
                   f"{args}: exit {done.returncode}, {done.stderr!r}")
            expect(len(lines) == 1 and all(word in lines[0] for word in words),
                   f"{args}: expected one line with {words}, found {done.stderr!r}")
            expect(not done.stdout, f"{args}: {done.stdout!r}")


def the_applications_of_a_file_are_learned_from_under_their_names():
    with tempfile.TemporaryDirectory() as folder:
        apps, check, state = (str(Path(folder, n)) for n in ("apps.yaml", "judges.yaml", "state"))
        expect_ok("apps", "generate", "--seed", "1", "-n", "4", "-o", apps)
        expect_ok("apps", "generate", "--seed", "2", "-n", "3", "-o", check)
        few = ["--apps", apps, "--check", check, *SMALL[4:], "--rounds", "1", "--predict", "2"]
        whole = ["pretrain", *few, "--out", f"{folder}/m", "--checkpoint", state]
        done = run(*whole, "-o", "json")
        expect(done.returncode == 0 and "4 applications of apps.yaml" in done.stderr, done.stderr)
        document = json.loads(done.stdout)
        expect(document["apps"] == {"file": "apps.yaml", "count": 4} and
               document["check"] == {"file": "judges.yaml", "count": 3}, str(document))
        expect("--apps apps.yaml --check judges.yaml" in document["command"], document["command"])
        model = f"{folder}/m.safetensors"
        told = metadata(model)
        expect(told["known.names"].split("\n") == [f"app-1-{i}" for i in range(4)], str(told))
        expect(told["apps"] == "4 of apps.yaml" and told["check"] == "3 of judges.yaml", str(told))
        card = Path(folder, "m.md").read_text()
        expect("all 4 applications of the file `apps.yaml`" in card and folder not in card, card)
        # those of --check are the generator's as long as nobody says otherwise
        done = run("pretrain", "--apps", apps, *SMALL[4:], "--rounds", "1", "--predict", "0", "-q",
                   "--out", f"{folder}/usual", "-o", "json")
        expect(json.loads(done.stdout)["check"] == {"seed": 1, "first": 760, "count": 40},
               done.stdout)
        # one of them, by its name
        load = ["--load", "diurnal:period=1h", "-o", "json"]
        own = json.loads(expect_ok("embed", "--model", model, "--app", f"{apps}:app-1-2",
                                   *load).stdout)
        expect(own["nearest"][0]["name"] == "app-1-2", str(own["nearest"]))
        adapted = json.loads(expect_ok("adapt", "--model", model, "--app", f"{apps}:app-1-2", "-n",
                                       "1", "-q", *load).stdout)
        expect(adapted["app"] == {"from": f"{apps}:app-1-2", "name": "app-1-2"}, str(adapted))
        # a file that has changed is another run
        Path(apps).write_text(Path(apps).read_text().replace("28.96ms", "28.97ms"))
        done = run(*whole, "--resume", "--force")
        expect(done.returncode > 1 and "another run" in done.stderr and
               "4 of apps.yaml" in done.stderr, done.stderr)


def a_model_with_a_flipped_bit_is_refused():
    shipped = Path(__file__).resolve().parents[2] / "models" / "default.safetensors"
    expect("checksum" in metadata(shipped), "the shipped model has no checksum")
    with tempfile.TemporaryDirectory() as folder:
        bad = Path(folder, "bad.safetensors")
        for model in (Path(model_in(folder)), shipped):
            whole = model.read_bytes()
            first = 8 + struct.unpack("<Q", whole[:8])[0]
            noise = whole.index(b'"pretrain.noise":"0.') + 20
            for at in (noise, first, (first + len(whole)) // 2, len(whole) - 1):
                flipped = bytearray(whole)
                flipped[at] ^= 1
                bad.write_bytes(flipped)
                for verb in (["embed"], ["adapt", "-n", "1"]):
                    done = run(*verb, "--model", str(bad), *APP)
                    expect(done.returncode > 1 and not done.stdout and
                           "the file is damaged" in done.stderr and
                           len(done.stderr.splitlines()) == 1, f"{at}: {done.stderr!r}")
            bad.write_bytes(whole)
            expect_ok("embed", "--model", str(bad), *APP)


def a_workload_is_embedded_and_its_nearest_are_named():
    with tempfile.TemporaryDirectory() as folder:
        model = model_in(folder)
        text = expect_ok("embed", "--model", model, *APP).stdout
        expect("NEAREST" in text and "reward missing at first: " in text, text)
        document = json.loads(expect_ok("embed", "--model", model, *APP, "-o", "json").stdout)
        expect(len(document["embedding"]) == 32 and document["known"] == 12, str(document))
        similar = [near["similarity"] for near in document["nearest"]]
        expect(len(similar) == 5 and similar == sorted(similar, reverse=True), str(similar))
        for key, words, unit in (("reward_drop", "reward missing at first", 100),
                                 ("retraining_episodes", "episodes to adapt", 1)):
            told = document[key]
            expect(set(told) == {"value", "deviation", "related", "outside"} and
                   unit * told["deviation"] >= 0.1, str(told))
            line = next(line for line in text.splitlines() if line.startswith(words))
            expect(f"{unit * told['value']:.1f}" in line and
                   f"give or take {unit * told['deviation']:.1f}" in line, f"{told}: {line}")
            expect(("no relation" in line) != told["related"] and
                   ("outside" in line) == told["outside"], f"{told}: {line}")
        expect(document["embed_ms"] > 0, str(document))
        # one that it was taught on is known under its own name
        own = json.loads(expect_ok("embed", "--model", model, "--app", "7", "--load",
                                   "diurnal:period=1h", "-o", "json").stdout)
        expect(not own["out_of_distribution"], str(own))


def a_workload_of_a_store_is_embedded_by_what_was_kept():
    with tempfile.TemporaryDirectory() as folder:
        model = model_in(folder)
        shape = metadata(model)
        states, actions = int(shape["obs_dim"]), int(shape["act_dim"])
        rows = [row("shop/cart", e, s, s == 9, obs=[0.1 * s] * states, action=[0.5] * actions,
                    shadow=None, next_obs=[0.2] * states) for e in range(3) for s in range(10)]
        rows += [row("odd", 0, s, s == 2) for s in range(3)]
        store = str(Path(folder, "aware.db"))
        expect_ok("store", "import", store, write_lines(folder, "rows.jsonl", rows))
        ask = ["embed", "--model", model, "--store", store, "--workload"]
        document = json.loads(expect_ok(*ask, "shop/cart", "-o", "json").stdout)
        expect(document["from"] == "3 episodes of the fallback in the store", str(document["from"]))
        expect(any(document["embedding"]), "an embedding of zeros")
        for name, words in (("odd", ["2 states", str(states)]), ("none", ["no finished episode"])):
            done = run(*ask, name)
            expect(done.returncode > 1 and all(word in done.stderr for word in words) and
                   len(done.stderr.splitlines()) == 1, f"{name}: {done.stderr!r}")


def a_model_gets_used_to_an_application_and_is_kept():
    with tempfile.TemporaryDirectory() as folder:
        model, out = model_in(folder), str(Path(folder, "adapted"))
        args = ["adapt", "--model", model, *APP, "-n", "7"]
        text = expect_ok(*args, "-q").stdout
        rows = [line.split()[0] for line in text.splitlines() if line[:7].strip().isdigit()]
        expect(rows == [str(i) for i in range(8)] and "the fallback: R" in text, text)
        document = json.loads(expect_ok(*args, "-q", "-o", "json", "--out", out).stdout)
        curve = document["curve"]
        expect(len(curve) == 8 and curve[0]["lived"] is None and curve[7]["lived"]["R"] > 0,
               str(curve))
        again = json.loads(expect_ok("adapt", "--model", out, *APP, "-n", "0", "-q", "-o",
                                     "json").stdout)
        expect(again["curve"][0]["judged"] == curve[7]["judged"], "the kept model is another one")
        known = json.loads(expect_ok("embed", "--model", out, *APP, "-o", "json").stdout)["known"]
        expect(known == 12, "the adapted model forgot whom it knows")


def processes_learn_one_policy_together():
    need("mpirun")
    if not Path(cli_test.AWARE).resolve().parent.joinpath("libaware-mpi.so").exists():
        skip("libaware-mpi.so was not built: no MPI when the build folder was made")
    mpirun = ["mpirun", "--oversubscribe", "-n", "2"]
    if os.geteuid() == 0:
        mpirun.insert(1, "--allow-run-as-root")
    with tempfile.TemporaryDirectory() as folder:
        def team(name, *more):
            return subprocess.run([*mpirun, cli_test.AWARE, "pretrain", *SMALL, "--out",
                                   str(Path(folder, name, "m")), *more], capture_output=True,
                                  text=True, check=False, timeout=100)
        state = str(Path(folder, "state"))
        done = team("one", "-o", "json")
        expect(done.returncode == 0, done.stderr)
        document = json.loads(done.stdout)
        expect(document["processes"] == 2 and len(document["history"]) == 4, str(document))
        expect(done.stderr.count("pretraining on") == 1, f"more than one speaks: {done.stderr}")
        expect(expect_ok("embed", "--model", f"{folder}/one/m.safetensors", *APP, "-o", "json")
               .stdout.count('"known": 12') == 1, "not all applications are known")
        done = team("two", "-q", "--checkpoint", state)
        expect(done.returncode == 0, done.stderr)
        expect(Path(folder, "one/m.safetensors").read_bytes() ==
               Path(folder, "two/m.safetensors").read_bytes(), "the same team, another model")
        done = team("two", "-q", "--checkpoint", state, "--resume", "--force")
        expect(done.returncode == 0, done.stderr)
        expect(Path(folder, "one/m.safetensors").read_bytes() ==
               Path(folder, "two/m.safetensors").read_bytes(), "resumed, another model")
        mine = Path(f"{state}.1-of-2")
        mine.write_bytes(mine.read_bytes()[:-8])
        done = team("two", "-q", "--checkpoint", state, "--resume", "--force")
        expect(done.returncode > 0 and "process 1 of 2: " in done.stderr and
               "1-of-2" in done.stderr, done.stderr)
        done = team("one", "-q")
        expect(done.returncode > 0 and done.stderr.count("there already") == 1, done.stderr)


def without_its_module_a_team_is_told_what_is_missing():
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder, "aware")
        # the module is looked for beside the program itself, so that must be elsewhere
        alone.write_bytes(Path(cli_test.AWARE).read_bytes())
        alone.chmod(0o755)
        done = subprocess.run([str(alone), "pretrain", *SMALL, "--out", f"{folder}/m"],
                              env={**os.environ, "OMPI_COMM_WORLD_SIZE": "2"}, check=False,
                              capture_output=True, text=True, timeout=60)
        expect(done.returncode > 1 and len(done.stderr.splitlines()) == 1 and
               "libaware-mpi.so" in done.stderr and "mpirun" in done.stderr, done.stderr)


def main():
    name = sys.argv[1]
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])
    globals()[name]()


if __name__ == "__main__":
    main()
