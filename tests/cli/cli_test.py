#!/usr/bin/env python3
"""cli_test.py - the built program as a user meets it: its words, exit codes, files and signals.

    cli_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status: 0 it holds, 1 it does not (with a line that says what was expected and what was found),
77 skipped, with the reason. Only the standard library is used.
"""

import fcntl
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

AWARE = "aware"
WIDTH_MAX = 100
SLOWER = float(os.environ.get("AW_SLOWER", "1")) # about how much a sanitizer makes it
PATIENCE_S = 100 * SLOWER
ESCAPE = re.compile(r"\x1b|\r")

# Every verb there is; another test keeps the reference equal to the program.
VERBS = [line.split()[2:] for line in (ROOT / "docs/REFERENCE.md").read_text().splitlines()
         if line.startswith("## aware ")]


def run(*args, env=None, stdout=subprocess.PIPE, cwd=None, timeout=100):
    """Runs aware with a bare environment; text in, text out. OpenBLAS's kernels stay those that
    the environment names: other ones round otherwise, and bytes are compared."""
    environment = {"PATH": os.environ.get("PATH", ""), "TERM": "xterm", **(env or {})}
    for name, value in os.environ.items():
        if name.startswith(("ASAN_", "UBSAN_", "TSAN_", "LSAN_", "OPENBLAS_")):
            environment[name] = value
    return subprocess.run([AWARE, *args], stdout=stdout, stderr=subprocess.PIPE, text=True,
                          env=environment, cwd=cwd, check=False, timeout=timeout * SLOWER)


def expect(holds, what):
    if not holds:
        print(f"FAILED: {what}")
        sys.exit(1)


def expect_ok(*args, **keywords):
    done = run(*args, **keywords)
    expect(done.returncode == 0, f"{args}: exit {done.returncode}, {done.stderr!r}")
    return done


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def need(program):
    if not shutil.which(program):
        skip(f"{program} is not installed")


# --- words --------------------------------------------------------------------------------------


def help_of_every_verb_fits_the_screen():
    pages = [[]] + VERBS + [["env"], ["agent"]]
    for words in pages:
        page = expect_ok("help", *words).stdout
        expect("Usage:" in page, f"help {words}: no usage line")
        wide = [line for line in page.splitlines() if len(line) > WIDTH_MAX]
        expect(not wide, f"help {words}: wider than {WIDTH_MAX}: {wide[:1]}")
        expect("\t" not in page and not ESCAPE.search(page), f"help {words}: control characters")
        flag = expect_ok(*words, "--help").stdout
        expect(flag == page, f"{words} --help differs from help {words}")
    for words in VERBS[:-1]:
        page = expect_ok("help", *words).stdout
        expect("Examples:" in page, f"help {words}: no examples")
    expect(expect_ok("-h").stdout == expect_ok().stdout == expect_ok("help").stdout,
           "aware, aware -h and aware help differ")
    page = expect_ok("help").stdout
    expect("Others:" not in page, f"frame/help.c puts a verb under no heading: {page}")
    expect("Run and watch:" in page and page.index("run  ") < page.index("get  "), page)


def every_example_of_the_help_parses():
    """An example that names an option or a setting that does not exist is worse than none."""
    with tempfile.TemporaryDirectory() as folder:
        for words in VERBS:
            page = expect_ok("help", *words).stdout
            for line in page.split("Examples:")[-1].splitlines():
                command = line.strip()
                if not command.startswith("aware train -") or "--resume" in command:
                    continue
                if "grpc://" in command: # needs a server; rpc_test.py has one
                    continue
                args = command.split()[1:]
                for option in ("-n", "--steps"):
                    if option in args:
                        del args[args.index(option):args.index(option) + 2]
                expect_ok(*args, "-n", "1", "--eval-episodes", "0", "-q", cwd=folder)


def make_help_lists_targets_with_a_dash():
    page = subprocess.run(["make", "-s", "-C", str(ROOT), "help"], capture_output=True, text=True,
                          check=True).stdout
    text = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^([a-z0-9-]+):.*## ", text, re.MULTILINE):
        shown = "(none)" if target == "all" else target
        expect(re.search(rf"^  {re.escape(shown)}  ", page, re.MULTILINE), f"{target} is hidden")
    expect("  e2e-compare  " in page and "  test-all " in page, page)


def commands_of_the_documents_are_taken():
    """Each `aware VERB ...` of README and docs: the verb is there, it has the options that are
    named and is given those that it needs."""
    pages = {}
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/mechanisms/*.md")]:
        text = page.read_text(encoding="utf-8")
        found = re.findall(r"`(aware [a-z][^`\n]*)`", text)
        whole = page.name == "OPERATING.md"  # what operators type; elsewhere prose names verbs
        prose = 0 if whole else len(found)
        for block in re.findall(r"```(?:sh|console)\n(.*?)```", text, re.DOTALL):
            found += re.findall(r"^(?:\$ )?(aware [a-z][^\n]*)", block.replace("\\\n", " "),
                                re.MULTILINE)
        for i, command in enumerate(found):
            command = re.split(r"\s+(?:#|\||>|&&|;)\s?", command)[0]
            try:
                words = shlex.split(command)[1:]
            except ValueError:
                continue
            for count in (2, 1):
                verb = tuple(words[:count])
                if len(verb) == count and list(verb) in VERBS:
                    break
            else:
                continue
            if verb not in pages:
                pages[verb] = expect_ok("help", *verb).stdout
            help_ = pages[verb]
            given = {word.strip("[]").split("=")[0] for word in words
                     if re.match(r"\[?--?[a-z]", word)}
            for option in given:
                expect(re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", help_),
                       f"{page.name}: {command}: no option {option}")
            usage = " ".join(help_.split("Usage:")[-1].split("\n\n")[0].split())
            needed = re.findall(r"(?<!\[)(--[a-z-]+) [A-Z]", re.sub(r"\[[^]]*\]", "", usage))
            for option in needed if len(words) > len(verb) and i >= prose else []:
                expect(option in given or any(w.startswith("-") and len(w) == 2 for w in given),
                       f"{page.name}: {command}: it needs {option}")


def the_manual_page_is_clean():
    need("mandoc")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "aware.1"
        page.write_text(expect_ok("__man").stdout)
        lint = subprocess.run(["mandoc", "-Tlint", "-W", "style", page], capture_output=True,
                              text=True, check=False)
        expect(lint.returncode == 0 and not lint.stdout, f"mandoc: {lint.stdout[:300]}")
        text = subprocess.run(["mandoc", "-Tascii", page], capture_output=True, text=True,
                              check=True).stdout
        text = re.sub(r".\x08", "", text)
        expect("aware - learn to autoscale" in text.replace("\u2013", "-"), "NAME says what it is")
        for words in VERBS:
            expect(f"aware {' '.join(words)}" in text, f"the page lacks {words}")
        for option in re.findall(r"--[a-z-]+", expect_ok("help", "train").stdout):
            expect(option in text, f"the page lacks {option}")


def the_reference_names_every_verb_and_option():
    page = expect_ok("__reference").stdout
    for words in VERBS:
        expect(f"## aware {' '.join(words)}\n" in page, f"the reference lacks {words}")
        options = expect_ok("help", *words).stdout.split("Examples:")[0]
        for option in re.findall(r"--[a-z-]+", options):
            expect(option in page, f"the reference lacks {option} of {words}")


def the_committed_reference_is_what_the_program_says():
    page = Path(__file__).resolve().parents[2] / "docs" / "REFERENCE.md"
    expect(page.read_text() == expect_ok("__reference").stdout,
           "docs/REFERENCE.md is not what the program says: run make docs and commit it")


# --- results ------------------------------------------------------------------------------------


def json_is_one_document_with_stable_keys():
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/run"
        table = [
            (["version"], {"version", "source", "compiler", "cpu", "openblas", "jansson"}),
            (["env", "list"], None),
            (["env", "describe", "pendulum-v1"], {"name", "observation", "action", "reward_low"}),
            (["env", "check", "cartpole-v1"], {"env", "errors", "warnings", "findings"}),
            (["agent", "list"], None),
            (["agent", "describe", "ppo"], {"name", "settings", "presets", "discrete"}),
            (["train", "-e", "cartpole-v1", "-a", "ppo", "-n", "600", "--out", out],
             {"env", "agent", "seed", "steps", "episodes", "training", "evaluation", "dir"}),
            (["train", "eval", out, "--episodes", "5"], {"env", "agent", "episodes", "return_mean",
                                                "return_low_95", "return_high_95"}),
        ]
        for args, keys in table:
            done = expect_ok(*args, "--output", "json")
            document = json.loads(done.stdout)
            if keys is None:
                expect(isinstance(document, list) and document, f"{args}: not a list")
            else:
                expect(keys <= set(document), f"{args}: lacks {keys - set(document)}")
            expect("NaN" not in done.stdout and "Infinity" not in done.stdout, f"{args}: not JSON")


def the_same_seed_gives_the_same_bytes():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a", "b"):
            expect_ok("train", "-e", "pendulum-v1", "-a", "td3", "-n", "1200", "-s", "5", "-q",
                      "--out", f"{folder}/{name}")
        for name in ("model.safetensors", "state.safetensors", "loop.state", "run.json"):
            expect(Path(folder, "a", name).read_bytes() == Path(folder, "b", name).read_bytes(),
                   f"{name} differs between two runs of one seed")
        first = expect_ok("eval", f"{folder}/a", "-n", "7").stdout
        expect(first.splitlines()[:3] == expect_ok("eval", f"{folder}/b", "-n", "7").stdout
               .splitlines()[:3], "two evaluations of one policy differ")


def a_run_directory_holds_what_the_manual_says():
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "deep", "run")
        expect_ok("train", "-e", "cartpole-v1", "-a", "ppo", "-n", "1k", "--out", str(out), "-q",
                  "--eval-every", "400", "--eval-episodes", "3")
        names = {path.name for path in out.iterdir()}
        wanted = {"run.json", "model.safetensors", "state.safetensors", "loop.state",
                  "progress.csv", "evaluation.csv", "events.out.tfevents.aware"}
        expect(names == wanted, f"expected {wanted}, found {names}")
        rows = (out / "progress.csv").read_text().splitlines()
        expect(rows[0] == "step,time_s,episode_return,episode_length", f"columns {rows[0]}")
        lengths = sum(int(row.split(",")[3]) for row in rows[1:])
        expect(lengths <= 1000 and len(rows) > 5, f"{len(rows)} rows of {lengths} steps")
        rows = (out / "evaluation.csv").read_text().splitlines()
        expect([row.split(",")[0] for row in rows[1:]] == ["400", "800"], f"evaluations {rows}")
        events = (out / "events.out.tfevents.aware").read_bytes()
        for tag in (b"brain.Event:2", b"rollout/ep_rew_mean", b"rollout/ep_len_mean", b"time/fps",
                    b"train/", b"eval/mean_reward"):
            expect(tag in events, f"no {tag} in the event file")


# --- errors -------------------------------------------------------------------------------------

TRAIN = ["train", "-e", "cartpole-v1", "-a", "ppo", "-n", "10"]

BAD_INPUT = [
    # arguments, exit code, words that the line must have, why
    (["tarin"], 64, ["tarin", "'train'"], "an unknown verb, with the nearest"),
    (["xyzzy"], 64, ["xyzzy", "aware help"], "an unknown verb far from any"),
    (["env"], 64, ["list", "describe", "check", "serve"], "a group alone"),
    (["env", "lst"], 64, ["lst", "env list"], "an unknown second word"),
    (["env", "list", "more"], 64, ["more"], "a word too many"),
    (["env", "describe"], 64, ["NAME"], "a word too few"),
    (["env", "describe", "cartpole-v2"], 66, ["cartpole-v2", "cartpole-v1"], "no such environment"),
    (["env", "describe", ""], 64, ["empty"], "an empty name"),
    (["agent", "describe", "pp0"], 66, ["pp0", "ppo"], "no such learner"),
    (["completion", "tcsh"], 64, ["tcsh", "bash"], "no such shell"),
    (["bench", "env"], 64, ["build/aware-bench"], "a verb that became a program"),
    (["fallback", "check", "one.json"], 64, ["test-upstream-cases"], "one that became a test"),
    (["help", "bench"], 64, ["build/aware-bench"], "help of one"),
    (["help", "nothing"], 64, ["nothing"], "help of an unknown verb"),
    (["help", "train", "more"], 64, ["train"], "help of a second word that is none"),
    (["version", "--outptu", "json"], 64, ["--outptu", "--output"], "an unknown option"),
    (["version", "--output", "xml"], 64, ["--output", "xml", "json"], "an unknown format"),
    (["version", "--output"], 64, ["--output", "FORMAT"], "an option without its value"),
    (["version", "-o"], 64, ["--output", "FORMAT"], "a letter without its value"),
    (["version", "-z"], 64, ["-z"], "an unknown letter"),
    (["version", "--help=yes"], 64, ["--help", "no value"], "a value for a flag"),
    (["version", "--log"], 64, ["--log-level", "--log-format"], "an ambiguous beginning"),
    (["version", "--color", "never", "--color", "always"], 64, ["--color", "once"], "given twice"),
    (["--frobnicate"], 64, ["--frobnicate"], "an unknown option and no verb"),
    (["train"], 64, ["--env"], "nothing to train on"),
    (["train", "-e", "cartpole-v1"], 64, ["--agent"], "nobody to train"),
    (["train", "-e", "pendulum", "-a", "ppo"], 66, ["pendulum", "pendulum-v1"], "no such env"),
    (["train", "-e", "cartpole-v1", "-a", "ddpg"], 69, ["ddpg", "dqn"], "wrong kind of action"),
    (TRAIN[:-1] + ["0"], 64, ["--steps", "1"], "no steps"),
    (TRAIN[:-1] + ["-5"], 64, ["--steps", "-5"], "fewer than no steps"),
    (TRAIN[:-1] + ["ten"], 64, ["--steps", "ten"], "steps in words"),
    (TRAIN[:-1] + ["1.5k"], 64, ["--steps", "1.5k"], "half a step"),
    (TRAIN[:-1] + ["99999999999999999999"], 64, ["--steps"], "more steps than a number holds"),
    (TRAIN[:-1] + ["10\nrm"], 64, ["--steps"], "a value that would break the line"),
    (TRAIN + ["--seed", "-1"], 64, ["--seed", "-1"], "a seed below zero"),
    (TRAIN + ["--seed", "99999999999999999999"], 64, ["--seed"], "a seed beyond 64 bits"),
    (TRAIN + ["--envs", "0"], 64, ["--envs"], "no environments"),
    (TRAIN + ["--envs", "1000000"], 64, ["--envs"], "too many environments"),
    (TRAIN + ["--set", "gama=0.9"], 78, ["gama", "gamma"], "an unknown setting"),
    (TRAIN + ["--set", "gamma=1.5"], 78, ["gamma", "1.5"], "a setting out of range"),
    (TRAIN + ["--set", "gamma"], 78, ["gamma"], "a setting without a value"),
    (TRAIN + ["--preset", "fast"], 66, ["fast"], "no such preset"),
    (TRAIN + ["--eval-every", "5", "--eval-episodes", "0"], 64, ["--eval-every"],
     "a contradiction"),
    (TRAIN + ["--out", "/proc/nowhere"], 66, ["/proc/nowhere"], "a place where nothing can be"),
    (TRAIN + ["--out", "/dev/null/run"], 73, ["/dev/null"], "a directory under a file"),
    (TRAIN + ["--out", "x" * 5000], 64, ["--out", "4095"], "a path beyond any limit"),
    (["train", "--resume", "/nonexistent"], 66, ["/nonexistent"], "no run there"),
    (["train", "--resume", "/tmp", "--seed", "1"], 64, ["--seed"], "a run is what it is"),
    (["eval", "/nonexistent"], 66, ["/nonexistent/run.json"], "no run to evaluate"),
    (["eval", "/tmp", "--episodes", "0"], 64, ["--episodes"], "no episodes"),
    (["experiment"], 64, ["--list"], "an experiment without a name"),
    (["experiment", "adaptatoin"], 64, ["adaptation"], "no such experiment"),
    (["experiment", "adaptation"], 64, ["--load", "AWARE_DATA_DIR"], "no trace to be found"),
    (["experiment", "adaptation", "--load", "/nonexistent.csv"], 66, ["/nonexistent.csv"],
     "no such trace"),
    (["experiment", "adaptation", "--load", "diurnal", "--model", "/nonexistent"], 66,
     ["/nonexistent"], "no such model"),
    (["experiment", "adaptation", "--load", "diurnal", "--work", "/dev/null/work"], 73,
     ["/dev/null"], "a folder under a file"),
    (["experiment", "adaptation", "--load", "diurnal", "--work", "/tmp", "--report",
      "/dev/null/page.html"], 73, ["/dev/null"], "a report under a file"),
    (["experiment", "adaptation", "--load", "diurnal", "--markdown", "-o", "json"], 64,
     ["--markdown", "--output"], "two forms at once"),
    (["experiment", "embedding", "--load", "diurnal", "--seeds", "3"], 64, ["--seeds", "--seed"],
     "an experiment that knows one seed"),
    (["experiment", "ablation", "--load", "diurnal", "--apps", "3"], 64, ["--apps", "ablation"],
     "an experiment that chooses its applications itself"),
    (["experiment", "adaptation", "--load", "diurnal", "--set", "deadband=0"], 64,
     ["--set", "env.deadband=0"], "a setting that is not of the environment"),
    (["experiment", "serving", "--load", "diurnal", "--set", "env.deadband=0"], 64,
     ["--set", "serving"], "whole lives have no environment"),
    (["experiment", "adaptation", "--load", "diurnal", "--split", "200"], 64,
     ["--split", "200:800"], "half a split"),
    (["experiment", "ablation", "--load", "diurnal", "--split", "200:800"], 64,
     ["--split", "ablation"], "an experiment that has its own numbers"),
    (["experiment", "all", "--load", "diurnal", "--report", "x.html"], 64, ["--report"],
     "one page for all experiments"),
    (["experiment", "adaptation", "--scale", "huge"], 64, ["--scale", "full"], "no such scale"),
]


def bad_input_gets_one_line_and_the_right_code():
    for args, code, words, why in BAD_INPUT:
        done = run(*args)
        line = done.stderr
        expect(done.returncode == code,
               f"{why}: {args}: exit {done.returncode}, not {code}: {line!r}")
        expect(re.fullmatch(rf"{Path(AWARE).name}: [^\n]*\n", line),
               f"{why}: {args}: not one line: {line!r}")
        expect(all(word in line for word in words), f"{why}: {args}: {words} not in {line!r}")
        expect(done.stdout == "", f"{why}: {args}: something on stdout")
        expect(len(line) < 400, f"{why}: {args}: a long line: {line!r}")


def damaged_files_are_refused_with_their_name():
    with tempfile.TemporaryDirectory() as folder:
        good = Path(folder, "good")
        expect_ok(*TRAIN[:-1], "600", "-q", "--out", str(good))
        table = [
            ("run.json", lambda b: b[:50], ["run.json"], "cut off"),
            ("run.json", lambda b: b"", ["run.json"], "empty"),
            ("run.json", lambda b: b.replace(b'"seed": 0', b'"seed": -1'), ["run.json:", "seed"],
             "a value out of range, with line and column"),
            ("run.json", lambda b: b.replace(b'"gamma"', b'"gama"'), ["run.json:", "gamma"],
             "an unknown setting"),
            ("loop.state", lambda b: b[:-9], ["loop.state"], "cut off"),
            ("loop.state", lambda b: b"x" * 5000, ["loop.state"], "foreign"),
            ("model.safetensors", lambda b: b[:-4], ["model.safetensors"], "cut off"),
            ("state.safetensors", lambda b: b[:100], ["state.safetensors"], "cut off"),
            ("state.safetensors", lambda b: bytes([b[0] ^ 1]) + b[1:], ["state.safetensors"],
             "one bit flipped"),
        ]
        for name, damage, words, why in table:
            bad = Path(folder, "bad")
            shutil.copytree(good, bad)
            (bad / name).write_bytes(damage((good / name).read_bytes()))
            done = run("train", "--resume", str(bad), "--steps", "700")
            expect(done.returncode in (65, 78),
                   f"{name} {why}: exit {done.returncode}: {done.stderr}")
            expect(done.stderr.count("\n") == 1 and all(word in done.stderr for word in words),
                   f"{name} {why}: {done.stderr!r}")
            shutil.rmtree(bad)
        (good / "model.safetensors").unlink()
        done = run("eval", str(good))
        expect(done.returncode == 66 and "model.safetensors" in done.stderr, done.stderr)


def a_directory_that_is_not_empty_is_not_overwritten():
    with tempfile.TemporaryDirectory() as folder:
        mine = Path(folder, "thesis.txt")
        mine.write_text("five years")
        done = run(*TRAIN, "--out", folder)
        expect(done.returncode == 73 and "--force" in done.stderr and "--resume" in done.stderr,
               f"exit {done.returncode}: {done.stderr}")
        expect([mine] == list(Path(folder).iterdir()), "something was written")
        expect_ok(*TRAIN, "--out", folder, "--force", "-q")
        expect(mine.read_text() == "five years", "--force removed what is not a run's")
        before = Path(folder, "progress.csv").read_bytes()
        expect_ok(*TRAIN[:-1], "300", "--out", folder, "--force", "-q")
        expect(Path(folder, "progress.csv").read_bytes() != before, "--force kept the old rows")


def a_full_disk_is_an_error_and_a_closed_pipe_is_not():
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = run("env", "list", stdout=full)
            expect(done.returncode == 74 and "No space" in done.stderr,
                   f"exit {done.returncode}: {done.stderr!r}")
            done = run("version", "-o", "json", stdout=full)
            expect(done.returncode == 74 and done.stderr.count("\n") == 1, repr(done.stderr))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        done = run("help", "train", stdout=pipe)
    expect(done.returncode in (0, 141, -signal.SIGPIPE) and done.stderr == "",
           f"exit {done.returncode}: {done.stderr!r}")


# --- terminal -----------------------------------------------------------------------------------


def on_a_terminal(args, columns=100, env=None):
    """Runs aware with stdout and stderr on a terminal of so many columns; returns what it drew."""
    main, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {"PATH": os.environ.get("PATH", ""), "TERM": "xterm", **(env or {})}
    process = subprocess.Popen([AWARE, *args], stdin=child, stdout=child, stderr=child,
                               env=environment)
    os.close(child)
    drawn = b""
    while True:
        ready, _, _ = select.select([main], [], [], 100)
        try:
            chunk = os.read(main, 65536) if ready else b""
        except OSError: # the other end is closed
            chunk = b""
        if not chunk:
            break
        drawn += chunk
    os.close(main)
    return process.wait(), drawn.decode()


def colour_is_for_terminals_and_obeys_its_switches():
    expect(not ESCAPE.search(expect_ok("env", "list").stdout), "escapes in a pipe")
    expect("\x1b[" in expect_ok("env", "list", "--color", "always").stdout, "no colour on demand")
    expect("\x1b[" in expect_ok("--color=always", "env", "list").stdout, "option before the verb")
    plain = [{"NO_COLOR": "1"}, {"TERM": "dumb"}]
    code, drawn = on_a_terminal(["env", "list"])
    expect(code == 0 and "\x1b[1m" in drawn, "no colour on a terminal")
    for env in plain:
        _, drawn = on_a_terminal(["env", "list"], env=env)
        expect("\x1b[" not in drawn, f"colour with {env}")
    _, drawn = on_a_terminal(["env", "list", "--color", "never"])
    expect("\x1b[" not in drawn, "colour with --color never")
    done = expect_ok(*TRAIN[:-1], "2000", env={"TERM": "xterm"})
    expect(not ESCAPE.search(done.stderr + done.stdout), "escapes or frames in piped progress")


def the_progress_line_fits_redraws_and_is_cleared():
    args = ["train", "-e", "cartpole-v1", "-a", "ppo", "-n", "6000", "--eval-episodes", "0"]
    for columns in (100, 60, 30, 10):
        begin = time.monotonic()
        code, drawn = on_a_terminal(args, columns)
        seconds = time.monotonic() - begin
        expect(code == 0, f"exit {code}: {drawn[-200:]}")
        frames = [frame.split("\x1b[K")[0] for frame in drawn.split("\r") if "\x1b[K" in frame]
        lines = [frame for frame in frames if frame]
        expect(lines, f"no line was drawn at {columns} columns")
        expect(len(lines) <= 10 * seconds + 2, f"{len(lines)} redraws in {seconds:.1f} s")
        expect(all(len(line) < columns for line in lines),
               f"too wide for {columns}: {max(lines, key=len)!r}")
        expect(frames[-1] == "", "the line was left standing")
        if columns == 100:
            expect("%" in lines[-1] and "steps" in lines[-1] and "return" in lines[-1]
                   and "/s" in lines[-1] and "left" in lines[-1], lines[-1])
    code, drawn = on_a_terminal([*args, "--quiet"])
    expect(code == 0 and "\x1b[K" not in drawn, "--quiet draws")


def rows_take_the_place_of_the_line_without_a_terminal():
    done = expect_ok(*TRAIN[:-1], "4000", "--eval-episodes", "0")
    rows = [line for line in done.stderr.splitlines() if re.match(r"\s+\d+\s", line)]
    expect(15 <= len(rows) <= 25, f"{len(rows)} rows")
    expect("nan" not in done.stderr.lower(), "nan in a row")
    expect("nothing will be saved" in done.stderr, "does not say that nothing is saved")
    done = expect_ok(*TRAIN, "--quiet")
    expect(done.stderr == "", f"--quiet says {done.stderr!r}")


def log_lines_are_json_when_asked():
    done = expect_ok(*TRAIN, "--quiet", "--log-level", "info", "--log-format", "json")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    expect([line["message"] for line in lines] == ["run begun", "run ended"], f"{lines}")
    expect(lines[0]["env"] == "cartpole-v1" and lines[0]["steps"] == 10, f"{lines[0]}")


# --- signals ------------------------------------------------------------------------------------


def an_interrupt_saves_and_resumes_to_the_same_bytes():
    for env_name, agent, steps in (("cartpole-v1", "ppo", 30000), ("pendulum-v1", "ddpg", 3000)):
        with tempfile.TemporaryDirectory() as folder:
            args = ["train", "-e", env_name, "-a", agent, "-n", str(steps), "--eval-episodes", "0"]
            expect_ok(*args, "-q", "--out", f"{folder}/whole")
            process = subprocess.Popen([AWARE, *args, "--out", f"{folder}/cut"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            progress = Path(folder, "cut", "progress.csv")
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and process.poll() is None:
                if progress.exists() and len(progress.read_bytes()) > 60:
                    break
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
            expect(process.returncode == 130, f"exit {process.returncode}: {err[-300:]}")
            last = err.splitlines()[-1]
            expect("interrupted at step" in last and "aware train --resume" in last, last)
            expect(out == "", f"something on stdout: {out!r}")
            expect_ok("train", "--resume", f"{folder}/cut", "-q", "--eval-episodes", "0")
            for name in ("model.safetensors", "state.safetensors", "loop.state", "run.json"):
                expect(Path(folder, "whole", name).read_bytes() ==
                       Path(folder, "cut", name).read_bytes(), f"{agent}: {name} differs")
            tables = []
            for part in ("whole", "cut"):
                rows = Path(folder, part, "progress.csv").read_text().splitlines()
                tables.append([[row.split(",")[i] for i in (0, 2, 3)] for row in rows])
            expect(tables[0] == tables[1], f"{agent}: the CSV differs beyond its time column")
            done = expect_ok("train", "--resume", f"{folder}/cut", "--eval-episodes", "0")
            expect(str(steps) in done.stdout, "a finished run does not resume to its end")


def a_run_killed_at_once_can_be_resumed():
    """kill -9 right after the first save costs what was done, not the run."""
    with tempfile.TemporaryDirectory() as folder:
        args = ["train", "-e", "cartpole-v1", "-a", "dqn", "-n", "2000", "--eval-episodes", "0"]
        expect_ok(*args, "-q", "--out", f"{folder}/whole")
        process = subprocess.Popen([AWARE, *args, "--out", f"{folder}/cut"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not Path(folder, "cut", "loop.state").exists():
            time.sleep(0.001)
        process.kill()
        process.wait()
        expect_ok("train", "--resume", f"{folder}/cut", "-q", "--eval-episodes", "0")
        for name in ("model.safetensors", "state.safetensors", "loop.state", "run.json"):
            expect(Path(folder, "whole", name).read_bytes() ==
                   Path(folder, "cut", name).read_bytes(), f"{name} differs")


# --- completion ---------------------------------------------------------------------------------


def candidates(*words):
    done = expect_ok("__complete", "--", *words)
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


def candidates_fit_the_place_of_the_cursor():
    table = [
        ([""], ["run", "get", "explain", "freeze", "state", "train", "env", "agent",
                "simulate", "evaluate", "apps", "load", "store", "validate",
                "explain-schema", "completion", "version", "help"],
         False),
        (["free"], ["freeze"], True),
        (["experiment", "adap"], ["adaptation"], True),
        (["experiment", "al"], ["all"], True),
        (["experiment", "--scale", ""], ["quick", "full"], True),
        (["state", ""], ["show", "export", "reset"], True),
        (["get", "--sort", ""], ["name", "cost", "slo", "stage", "changed"], True),
        (["replay", "--policy", "hpa", "--set", "hpa_ta"], ["hpa_target="], True),
        (["export", "--what", "a"], ["audit"], True),
        (["store", ""], ["list", "export", "import", "prune"], True),
        (["simulate", ""], ["fit", "fit-surrogate"], True),
        (["simulate", "--see"], ["--seed"], True),
        (["simulate", "--compare", "hpa,cons"], ["hpa,constant", "hpa,constant-reward"], True),
        (["simulate", "--compare", "hpa,aw"], ["hpa,aware", "hpa,aware:day2"], True),
        (["simulate", "--set", "slo_b"], ["slo_budget="], True),
        (["simulate", "--load", "diu"], ["diurnal", ":files"], True),
        (["validate", "one.yaml", ""], [":files"], True),
        (["trai"], ["train"], True),
        (["env", ""], ["list", "describe", "check", "serve"], True),
        (["env", "describe", "cart"], ["cartpole-v1"], True),
        (["agent", "describe", "pp"], ["ppo"], True),
        (["completion", ""], ["bash", "zsh", "fish"], True),
        (["train", "--see"], ["--seed"], True),
        (["train", "--env", "pend"], ["pendulum-v1"], True),
        (["train", "-e", "pend"], ["pendulum-v1"], True),
        (["train", "--env=pend"], ["--env=pendulum-v1"], True),
        (["train", "--agent", "ddpg", "--set", "gam"], ["gamma="], True),
        (["train", "-a", "ddpg", "--set", "noise=o"], ["noise=ou"], True),
        (["train", "-a", "ppo", "--preset", "cart"], ["cartpole-v1"], True),
        (["train", "--out", ""], [":dirs"], True),
        (["train", "eval", ""], [":dirs"], True),
        (["version", "--output", ""], ["table", "json"], True),
        (["help", "trai"], ["train"], True),
        (["help", "env", "de"], ["describe"], True),
        (["train", "--steps", ""], [], True),
        (["nonsense", ""], [], True),
        (["train", "--"], ["--env", "--agent", "--steps", "--resume", "--help"], False),
    ]
    for words, wanted, exact in table:
        found = candidates(*words)
        expect(found == wanted if exact else set(wanted) <= set(found),
               f"{words}: expected {wanted}, found {found}")
    expect(candidates() == candidates(""), "no word at all")


def shell_path():
    """A folder with nothing but a link called aware, for shells that look it up."""
    folder = tempfile.mkdtemp()
    os.symlink(AWARE, f"{folder}/aware")
    return folder


def in_shell(command, **keywords):
    folder = shell_path()
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", **keywords}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=60)
    shutil.rmtree(folder)
    return done


BASH = r"""
source <(aware completion bash) || exit 3
try() {
    COMP_LINE="$1"; COMP_POINT=${#1}; COMPREPLY=()
    _aware 2>/dev/null # compopt complains outside of a completion
    echo "${COMPREPLY[*]}"
}
try 'aware trai'
try 'aware env d'
try 'aware train --agent ddpg --set gam'
try 'aware train --env=pend'
complete -p aware
"""


def completion_works_in_bash():
    need("bash")
    done = in_shell(["bash", "--norc", "-c", BASH])
    lines = done.stdout.splitlines()
    expect(done.returncode == 0 and lines[:4] == ["train", "describe", "gamma=", "pendulum-v1"],
           f"{done.stdout!r} {done.stderr!r}")


ZSH = r"""
autoload -Uz compinit && compinit -u -d "$ZDOTDIR/dump"
source <(aware completion zsh) || exit 3
[[ ${_comps[aware]} == _aware ]] || exit 4
# the functions of the completion system need a line editor: stand in for the two that are called
_describe() { local name=${@[-1]}; [[ $name == '' ]] && name=${@[-3]}; local a
    for a in "$@"; do [[ $a == plain || $a == open ]] && print -rl -- "${(@P)a%%:*}"; done; }
_files() { print -r -- files "$@"; }
try() { local -a words; words=("$@"); local CURRENT=$#words; _aware; }
try aware trai
try aware env d
try aware train --agent ddpg --set gam
try aware train eval ''
"""


def completion_works_in_zsh():
    need("zsh")
    with tempfile.TemporaryDirectory() as folder:
        done = in_shell(["zsh", "-f", "-c", ZSH], ZDOTDIR=folder)
    expect(done.returncode == 0 and
           done.stdout.splitlines() == ["train", "describe", "gamma=", "files -/"],
           f"{done.returncode}: {done.stdout!r} {done.stderr!r}")


FISH = """
aware completion fish | source; or exit 3
complete -C 'aware trai'
complete -C 'aware env d'
complete -C 'aware train --agent ddpg --set gam'
complete -C 'aware train --env pend'
"""


def completion_works_in_fish():
    need("fish")
    with tempfile.TemporaryDirectory() as home:
        done = in_shell(["fish", "--no-config", "-c", FISH], HOME=home)
    found = [line.split("\t")[0] for line in done.stdout.splitlines()]
    expect(done.returncode == 0 and found == ["train", "describe", "gamma=", "pendulum-v1"],
           f"{done.returncode}: {done.stdout!r} {done.stderr!r}")


# --- the evaluation -----------------------------------------------------------------------------


def estimates_are_counted_and_the_exit_status_says_whether_they_hold():
    done = run("evaluate", "estimates", "--apps", "8", "--load", "diurnal:length=2h", "--seeds",
               "1",
               "--tuning", "3", "--quiet", "--check", "--output", "json")
    document = json.loads(done.stdout)
    within = sum(case["low"] <= case["truth"] <= case["high"] for case in document["cases"])
    group = document["groups"]["all"]
    expect(document["cases"] and group["cases"] == len(document["cases"]), f"{group}")
    expect(abs(group["within"] - within / len(document["cases"])) < 1e-9, f"{group}")
    met = all(goal["met"] for goal in document["goals"])
    expect(done.returncode == (0 if met else 1), f"exit {done.returncode}, {document['goals']}")


def a_day_has_its_figures_and_its_goals_decide_the_exit_status():
    args = ["evaluate", "day", "--apps", "600", "--load", "diurnal:length=4h", "--seeds", "1",
            "--tuning", "5", "--quiet", "--check"]
    done = run(*args, "--output", "json")
    document = json.loads(done.stdout)
    for member in ("acting_by_15min_share", "missed_hour1", "missed_2_12h", "missed_12_24h",
                   "within_budget_share", "cost_day1_geomean", "cost_day2_geomean",
                   "cost_day2_median", "won_budget_first", "won_strict", "changes_per_day",
                   "changes_per_day_hpa", "reversals_in_window"):
        expect(isinstance(document[member], float), f"{member}: {document[member]}")
    row = document["apps"][0]
    labels = {when: sum(row["missed_why"][when].values()) for when in ("first_hour", "after")}
    expect(labels["first_hour"] == row["aware"]["hour1"]["violations"] and
           sum(labels.values()) == row["aware"]["whole"]["violations"], f"{labels}")
    expect(document["cost_day1_geomean_95"] and document["fallback"] == "hpa+vpa-mem", done.stdout)
    missed = [goal["name"] for goal in document["goals"] if not goal["met"]]
    expect(len(document["goals"]) == 14 and done.returncode == (1 if missed else 0),
           f"exit {done.returncode}, {missed}")
    expect(done.stderr == "" or "goals are missed" in done.stderr, done.stderr)
    bad = run("evaluate", "day", "--load", "diurnal:length=4h", "--budget", "2")
    expect(bad.returncode != 0 and "slo_budget" in bad.stderr, bad.stderr)


def an_experiment_prints_and_writes_the_same_figures():
    with tempfile.TemporaryDirectory() as folder:
        args = ["experiment", "overhead", "--load", "diurnal:length=2h", "-j", "1"]
        done = expect_ok(*args, "-o", "json", "--report", "out/page.html", cwd=folder)
        document = json.loads(done.stdout)
        expect("out/page.html" in done.stderr and "out/page.json" in done.stderr, done.stderr)
        written = json.loads(Path(folder, "out", "page.json").read_text())
        expect([f["name"] for f in written["figures"]] == [f["name"] for f in document["figures"]]
               and written["figures"], f"{written['figures']}")
        expect(document["command"] == "aware experiment overhead --load diurnal:length=2h",
               document["command"])
        for figure in document["figures"]:
            if figure["goal"] is None or figure["value"] is None:
                continue
            met = (figure["value"] <= figure["goal"] if figure["goal_is"] == "at most" else
                   figure["value"] >= figure["goal"])
            expect(figure["met"] == met, f"{figure}")
        page = Path(folder, "out", "page.html").read_text()
        expect(not re.search(r'(?:src|href)="?(?:https?:|//|/)', page), "the page wants more files")
        data = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
        expect(json.loads(data[1])["title"] == document["title"], "the page has other data")
        done = expect_ok(*args, "--markdown", "-q", "--work", "w", cwd=folder)
        expect("| figure | here | 95 % | paper | goal | met |" in done.stdout and not done.stderr,
               done.stdout)
        expect(Path(folder, "overhead.html").exists() and Path(folder, "w").is_dir(),
               f"{os.listdir(folder)}")
        cache = str(Path(folder, "cache"))
        expect_ok(*args, env={"XDG_CACHE_HOME": cache}, cwd=folder)
        expect(sorted(os.listdir(Path(cache, "aware"))) ==
               ["experiment-overhead", "overhead.html", "overhead.json"], f"{os.listdir(cache)}")


def an_experiment_that_is_interrupted_says_how_to_go_on():
    listed = json.loads(expect_ok("experiment", "--list", "-o", "json").stdout)
    expect(all(entry["shows"] and entry["title"] for entry in listed), f"{listed}")
    expect("adaptation" in [entry["name"] for entry in listed], f"{listed}")
    with tempfile.TemporaryDirectory() as folder:
        args = [AWARE, "experiment", "adaptation", "--load", "diurnal:length=2h", "--apps", "1",
                "--seeds", "1", "-j", "1"]
        process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   cwd=folder, env={"PATH": os.environ.get("PATH", "")})
        first = process.stderr.readline()
        expect("experiment-adaptation" in first, f"where pieces are kept: {first!r}")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=170)
        expect(process.returncode == 130, f"exit {process.returncode}: {err!r}")
        expect(re.search(r"^ *\d+ %  .+: \d+ of \d+, ", err, re.M), f"a row of progress: {err!r}")
        expect("once more ends at once" in err and "the same command goes on" in err, f"{err!r}")
        expect(out == "", f"something on stdout: {out!r}")
        expect(os.listdir(folder) == ["experiment-adaptation"], f"{os.listdir(folder)}")


def main():
    global AWARE
    name = sys.argv[1]
    if len(sys.argv) > 2:
        AWARE = os.path.abspath(sys.argv[2])
    globals()[name]()


if __name__ == "__main__":
    main()
