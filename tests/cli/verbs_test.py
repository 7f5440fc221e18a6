#!/usr/bin/env python3
"""verbs_test.py - the operator's verbs against a running daemon, a stopped one and none.

    verbs_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py.
"""

import contextlib
import fcntl
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

import cli_test
from cli_test import expect, expect_ok, on_a_terminal, run
from run_test import files

ESCAPE = re.compile(r"\x1b|\r")
ESCAPE_CODES = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")
WAIT_S = 60


@contextlib.contextmanager
def daemon(folder, *more, names=("web", "api"), text=None):
    """A daemon at a hundred times the speed of life; ended at the end, if it has not been."""
    path = text or files(folder, names)
    environment = {name: value for name, value in os.environ.items() if name != "AWARE_SOCKET"}
    process = subprocess.Popen(
        [cli_test.AWARE, "run", "--daemon", "-f", path, "--speed", "200", *more], cwd=folder,
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + WAIT_S
        while True:
            done = run("get", "-o", "json", cwd=folder)
            if done.returncode == 0 and all(row["decided"] for row in
                                            json.loads(done.stdout)["workloads"]):
                break
            expect(time.monotonic() < deadline and process.poll() is None,
                   f"no daemon: {done.stderr!r}")
            time.sleep(0.1)
        yield process
    finally:
        if process.poll() is None:
            stop(process)


def stop(process):
    process.send_signal(signal.SIGTERM)
    expect(process.wait(timeout=WAIT_S) == 0, "the daemon ends well")


def json_of(folder, *args):
    document = json.loads(expect_ok(*args, "-o", "json", cwd=folder).stdout)
    expect(document["v"] == 1, f"{args}: no version in {list(document)[:5]}")
    return document


def until(what, seconds=WAIT_S):
    deadline = time.monotonic() + seconds
    while not what():
        expect(time.monotonic() < deadline, f"waited {seconds} s for {what.__name__}")
        time.sleep(0.2)


def changes_of(folder, name):
    entries = json_of(folder, "history", name, "--limit", "1000")["entries"]
    return [e for e in entries if e["kind"] == "decision" and e["changed"]]


# --- looking ------------------------------------------------------------------------------------


def workloads_are_listed_in_human_units_and_for_programs():
    with tempfile.TemporaryDirectory() as folder, daemon(folder):
        table = expect_ok("get", cwd=folder).stdout
        head, *rows = table.splitlines()
        expect(head.split()[:6] == ["NAME", "MODE", "STAGE", "ACTS", "REPLICAS", "CPU"], head)
        expect([row.split()[0] for row in rows] == ["api", "web"], "by name, without default/")
        expect(re.search(r"\d(m|Mi|Gi)\b", table) and "$" in table, f"no units: {table}")
        expect(not re.search(r"\b\d{7,}\b", table), f"plain bytes in {table}")
        expect(not ESCAPE.search(table), "escapes in a pipe")
        wide = expect_ok("get", "-o", "wide", cwd=folder).stdout
        expect("MODEL" in wide and "LOAD" in wide and "MODEL" not in table, "wide has more")
        document = json_of(folder, "get")
        expect([r["name"] for r in document["workloads"]] == ["default/api", "default/web"],
               document)
        one = json_of(folder, "get", "web")
        expect([r["workload"] for r in one["workloads"]] == ["web"], "only the one asked for")
        yaml = expect_ok("get", "-o", "yaml", cwd=folder).stdout
        expect(yaml.startswith("v: 1\n") and "\n  - name: default/api\n" in yaml, yaml[:200])
        expect(not expect_ok("get", "--no-headers", cwd=folder).stdout.startswith("NAME"), "heads")
        expect("No order is in force" in expect_ok("get", "--orders", cwd=folder).stdout, "orders")
        top = expect_ok("top", "--sort", "slo", cwd=folder).stdout
        expect("2 workloads" in top and "fallback" in top and not ESCAPE.search(top), top)
        expect(set(json_of(folder, "top")) >= {"status", "workloads"}, "top for programs")
        page = expect_ok("describe", "web", cwd=folder).stdout
        for word in ("Conditions:", "Budgets:", "Bounds", "SLO", "aware explain web"):
            expect(word in page, f"{word} is not in {page}")
        expect("Resizes" in expect_ok("budget", "web", cwd=folder).stdout, "budgets alone")


def tables_fit_the_terminal_and_colour_obeys():
    with tempfile.TemporaryDirectory() as folder, daemon(folder):
        where = ["--state", str(Path(folder, "aware-state"))]
        for columns in (60, 80, 140):
            code, drawn = on_a_terminal(["get", *where], columns=columns)
            lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in drawn.splitlines()]
            expect(code == 0 and max(map(len, lines)) <= columns, f"{columns}: {lines}")
            expect(lines[0].startswith("NAME"), lines)
        _, drawn = on_a_terminal(["get", *where])
        expect("\x1b[1m" in drawn, "no colour on a terminal")
        _, drawn = on_a_terminal(["get", *where], env={"NO_COLOR": "1"})
        expect("\x1b[" not in drawn, "colour with NO_COLOR")
        _, drawn = on_a_terminal(["top", "--once", *where], columns=80)
        expect("\x1b[?1049h" not in drawn, "--once takes no screen")


def top_gives_the_terminal_back():
    with tempfile.TemporaryDirectory() as folder, daemon(folder):
        main, child = os.openpty()
        process = subprocess.Popen([cli_test.AWARE, "top", "--state", f"{folder}/aware-state"],
                                   stdin=child, stdout=child, stderr=child,
                                   env={"TERM": "xterm", "PATH": os.environ["PATH"]})
        os.close(child)
        drawn = b""
        for key in (b"s", b"n", b"q"):
            seen = len(drawn)
            while b"NAME" not in drawn[seen:]:
                ready, _, _ = select.select([main], [], [], WAIT_S)
                expect(ready, "top draws")
                drawn += os.read(main, 65536)
            os.write(main, key)
        with contextlib.suppress(OSError):
            while True:
                chunk = os.read(main, 65536)
                if not chunk:
                    break
                drawn += chunk
        os.close(main)
        expect(process.wait(timeout=WAIT_S) == 0, "q ends it")
        expect(drawn.endswith(b"\x1b[?25h\x1b[?1049l"), f"the screen is given back: {drawn[-40:]}")
        expect(b"by slo" in drawn and b"by name" in drawn, "keys sort")


def top_drills_down_and_comes_back():
    """The arrows move, Enter shows all of one, ESC comes back, as top does where that one goes;
    no line is wider than the screen."""
    with tempfile.TemporaryDirectory() as folder, daemon(folder) as served:
        main, child = os.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = subprocess.Popen([cli_test.AWARE, "top", "--sort", "name", "--state",
                                    f"{folder}/aware-state"], stdin=child, stdout=child,
                                   stderr=child, env={"TERM": "xterm", "PATH": os.environ["PATH"]})
        os.close(child)
        drawn = b""

        def wait_for(word, key=b""):
            nonlocal drawn
            seen = len(drawn)
            os.write(main, key)
            while word not in drawn[seen:]:
                ready, _, _ = select.select([main], [], [], WAIT_S)
                expect(ready, f"waited for {word}: {drawn[-400:]}")
                drawn += os.read(main, 65536)
            return drawn[seen:]

        wait_for(b"\x1b[7mapi")
        wait_for(b"\x1b[7mweb", b"\x1b[B")
        page = wait_for(b"ESC goes back", b"\r").decode()
        expect("default/web" in page and "Conditions" in page, f"not all of web: {page}")
        wait_for(b"\x1b[7mweb", b"\x1b")
        wait_for(b"ESC goes back", b"\r")
        world = Path(folder, "world.yaml")
        api = world.read_text(encoding="utf-8").split("---\n")[2:]
        world.write_text("---\n".join(api), encoding="utf-8")
        served.send_signal(signal.SIGHUP)
        wait_for(b"\x1b[7mapi")
        text = drawn.decode().replace("\x1b[H", "\n").replace("\r", "")
        for line in ESCAPE_CODES.sub("", text).split("\n"):
            expect(len(line) <= 80, f"{len(line)} columns: {line}")
        os.write(main, b"q")
        with contextlib.suppress(OSError):
            while os.read(main, 65536):
                pass
        os.close(main)
        expect(process.wait(timeout=WAIT_S) == 0, "q ends it")


def names_of_workloads_are_completed():
    with tempfile.TemporaryDirectory() as folder:
        def names(*words):
            done = expect_ok("__complete", "--", *words, cwd=folder)
            return [line.split("\t")[0] for line in done.stdout.splitlines()]

        expect(names("explain", "") == [], "no daemon is there, and nothing is said")
        with daemon(folder):
            expect(names("explain", "") == ["api", "web"], "all names")
            expect(names("explain", "w") == ["web"], "what is typed narrows them")
            expect(names("freeze", "--state", "aware-state", "a") == ["api"], "where it is said")
            expect(names("policy", "show", "") == ["api", "web"], "of a verb of two words")
        expect(names("describe", "") == ["api", "web"], "of a daemon that has ended")
        expect(names("describe", "--state=nowhere", "") == [], "and not of another place")


# --- explaining ---------------------------------------------------------------------------------


def a_decision_is_explained_and_taken_again():
    with tempfile.TemporaryDirectory() as folder, daemon(folder):
        def changed():
            return changes_of(folder, "web")
        until(changed)
        entry = changed()[0]
        page = expect_ok("explain", "web", "--decision", str(entry["seq"]), "--replay",
                         cwd=folder).stdout
        for word in (f"decision {entry['seq']}", "What was done", "What it saw", "arrivals_per_s",
                     "Who wanted what", "What the rails made of it", "applied",
                     "Which inputs moved it most", "What is expected of it", "seed",
                     "the same, byte for byte"):
            expect(word in page, f"{word!r} is not in {page}")
        told = json_of(folder, "explain", "web", "--decision", str(entry["seq"]))
        expect(told["account"]["workload"] == "default/web", told["account"].keys())
        expect(told["detail"]["replayed"] is True, told["detail"])
        alone = expect_ok("explain", "--decision", str(entry["seq"]), cwd=folder).stdout
        expect(alone.split("\n", 1)[1] in page, "the number alone says whose it is")
        other = run("explain", "api", "--decision", str(entry["seq"]), cwd=folder)
        expect(other.returncode == 66, f"another workload's decision: {other.stderr!r}")
        table = expect_ok("history", "web", cwd=folder).stdout
        expect(re.search(rf"^ *{entry['seq']} ", table, re.M) and "->" in table, table)


def history_limits_what_it_shows_and_not_what_it_reads():
    with tempfile.TemporaryDirectory() as folder, daemon(folder):
        until(lambda: len(changes_of(folder, "web")) > 3)
        def shown(*args):
            return [e["seq"] for e in json_of(folder, "history", "web", *args)["entries"]]
        newest = changes_of(folder, "web")[0]["seq"]
        for _ in range(3):  # outcomes and what tells nothing lie above the newest change
            few = shown("--limit", "2")
            expect(len(few) == 2, f"two were asked for, and there are more: {few}")
        every = shown("--limit", "1000")
        expect(every[:1] and every[0] >= newest, str(every[:3]))
        expect(len(shown("--limit", "3", "--all")) == 3, "--all counts every entry")
        outcomes = [e for e in json_of(folder, "history", "web", "--limit", "1000")["entries"]
                    if e["kind"] == "outcome" and e["result"] == "done"]
        expect(not outcomes, f"left out without --all: {outcomes[:1]}")


def explain_says_when_a_newer_decision_stands_in_the_list():
    with tempfile.TemporaryDirectory() as folder, daemon(folder):
        until(lambda: changes_of(folder, "web"))
        def newer():
            told = json_of(folder, "explain", "web")
            latest = told["latest"]
            return latest and latest["at"] > told["at"] and latest["sentence"]
        until(newer)
        until(lambda: "Nothing new was decided since" in
              expect_ok("explain", "web", cwd=folder).stdout)


# --- ordering -----------------------------------------------------------------------------------


def orders_are_taken_told_and_lifted():
    with tempfile.TemporaryDirectory() as folder, daemon(folder):
        def ordered(*args):
            return json_of(folder, *args)["id"]

        def frozen(name="web"):
            row = json_of(folder, "get", name)["workloads"][0]
            return row["freeze"]

        first = ordered("freeze", "web", "--scale-down-only", "--for", "2h", "--reason", "a test")
        until(lambda: frozen() == "down")
        table = expect_ok("get", "--orders", cwd=folder).stdout
        expect("scale-down only" in table and "a test" in table and "uid:" in table, table)
        expect(f"scale-down frozen by order {first}" in expect_ok("get", cwd=folder).stdout,
               "the list says so")
        ordered("unfreeze", str(first))
        until(lambda: frozen() == "none")
        ordered("freeze", "--all", "--reason", "everything")
        until(lambda: frozen("api") == "all" and frozen("web") == "all")
        done = run("unfreeze", "web", cwd=folder)
        expect(done.returncode == 66 and "lift that one" in done.stderr, done.stderr)
        ordered("unfreeze", "--all")
        ordered("freeze", "-n", "default", "--reason", "a namespace")
        ordered("unfreeze", "-n", "default")
        until(lambda: frozen() == "none")

        # time goes on between a look and an order: what must not shrink meanwhile does not
        held = ordered("freeze", "web", "--scale-down-only", "--reason", "hold still")
        until(lambda: frozen() == "down")
        before = json_of(folder, "get", "web")["workloads"][0]
        ordered("emergency", "web", "--factor", "2", "--reason", "launch")

        def grown():
            row = json_of(folder, "get", "web")["workloads"][0]
            return row["replicas"]["wanted"] >= 2 * before["replicas"]["wanted"]
        until(grown)
        expect("emergency" in expect_ok("describe", "web", cwd=folder).stdout, "described")
        ordered("calm", "web")
        ordered("unfreeze", str(held))

        def changed():
            return changes_of(folder, "api")
        until(changed)
        last = changed()[0]
        undo = run("undo", str(last["seq"]), "--reason", "a test", cwd=folder)
        expect(undo.returncode in (0, 75), undo.stderr) # 75: it has changed since
        kinds = [e["order"] for e in json_of(folder, "history", "web", "--limit", "1000")["entries"]
                 if e["kind"] == "order"]
        expect(kinds.count("freeze") == 4 and "emergency" in kinds and "calm" in kinds, kinds)


def orders_of_a_simulation_are_not_given_in_1970():
    with tempfile.TemporaryDirectory() as folder, daemon(folder):
        said = expect_ok("freeze", "web", "--for", "2h", "--reason", "a test", cwd=folder).stdout
        expect(re.search(r"until \d+:\d\d:\d\d of simulated time$", said, re.M), said)
        said += expect_ok("emergency", "api", "--for", "2h", "--reason", "tv", cwd=folder).stdout
        until(lambda: "emergency" in expect_ok("history", cwd=folder).stdout)
        for words in (["get", "--orders"], ["describe", "web"], ["describe", "api"], ["history"],
                      ["explain", "web"], ["audit", "show", "aware-state/audit"]):
            said += expect_ok(*words, cwd=folder).stdout
        expect("1970" not in said, "\n".join(row for row in said.splitlines() if "1970" in row))


def a_change_waits_for_approval():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(files(folder, ("web",)))
        path.write_text(path.read_text(encoding="utf-8").replace(
            "  scaleTargetRef:", "  policy: {updateMode: Approve}\n  scaleTargetRef:"),
            encoding="utf-8")
        with daemon(folder, text=str(path)):
            def waiting():
                return json_of(folder, "get", "--proposals")["proposals"]
            until(waiting)
            expect("waits for approval" in expect_ok("get", cwd=folder).stdout, "the list says so")
            table = expect_ok("get", "--proposals", cwd=folder).stdout
            expect("->" in table and "$" in table, table)
            for _ in range(20): # a newer proposal may take its place in between
                done = run("approve", str(waiting()[0]["id"]), cwd=folder)
                if done.returncode == 0:
                    break
            expect(done.returncode == 0, done.stderr)
            until(lambda: changes_of(folder, "web"))
            expect(changes_of(folder, "web")[0]["actor"] == "person", "a person did it")


def what_was_learned_can_be_shown_and_forgotten():
    with tempfile.TemporaryDirectory() as folder, daemon(folder, names=("web",)):
        def state():
            return json_of(folder, "state", "show", "web")
        until(lambda: state()["model"], 200)
        before = state()
        expect(before["policy"], "the numbers of its policy are told")
        expect_ok("state", "export", "web", "-f", "web.json", cwd=folder)
        kept = json.loads(Path(folder, "web.json").read_text(encoding="utf-8"))
        expect(kept["v"] == 1 and kept["policy"].keys() == before["policy"].keys(), kept)
        row = json_of(folder, "get", "web")["workloads"][0]
        done = expect_ok("state", "reset", "web", "--reason", "another program", cwd=folder)
        expect("forgotten" in done.stdout, done.stdout)
        until(lambda: not state()["model"], 20)
        after = json_of(folder, "get", "web")["workloads"][0]
        expect(after["stage"] in ("initialized", "offline") and after["actor"] == "fallback", after)
        expect(row["replicas"]["max"] == after["replicas"]["max"], "its bounds stay")
        orders = [e for e in json_of(folder, "history", "web", "--limit", "1000")["entries"]
                  if e["kind"] == "order"]
        expect(orders[0]["order"] == "reset" and orders[0]["reason"] == "another program", orders)
        last = json_of(folder, "explain", "web")
        expect(last["detail"]["replayed"] is True, "what is decided afterwards can be taken again")


def served(folder, names=("web", "api")):
    """Workloads whose policies act from the first step on, each with one of its own; no episode
    ends, so nobody learns another one. What is proposed is not refused for what rails cut: how much
    that is depends on when somebody proposes it."""
    path = Path(files(folder, names))
    text = path.read_text(encoding="utf-8").replace("  scenarios: neighbour-cpu@40m+10m\n", "")
    text = text.replace("diurnal:peak=3,period=1h", "constant").replace("90ms", "20s")
    for seed in range(1, len(names) + 1):
        text = text.replace("{episodeSteps: 20, fallback",
                            f"{{bootstrap: false, seed: {seed}, episodeSteps: 10000, "
                            "canary: {shadowSteps: 20, clipped: 1}, fallback", 1)
    path.write_text(text, encoding="utf-8")
    return str(path)


def policies_are_exported_proposed_shown_and_rolled_back():
    with tempfile.TemporaryDirectory() as folder:
        with daemon(folder, text=served(folder)) as process:
            def shown(name="web"):
                return json_of(folder, "policy", "show", name)

            until(lambda: shown()["acting"] and shown("api")["acting"])
            before = shown()
            expect(before["acting"] == before["good"] and before["good"]["checksum"], before)
            page = expect_ok("policy", "show", "web", cwd=folder).stdout
            expect("known good" in page and before["good"]["id"] in page, page)
            expect_ok("policy", "export", "api", "--out", "api.json", cwd=folder)
            text = Path(folder, "api.json").read_text(encoding="utf-8")
            policy = json.loads(text)
            expect(policy["format"] == "aware-policy" and
                   policy["id"] == shown("api")["good"]["id"], policy)
            expect(policy["id"] != before["good"]["id"], "two policies")

            # what is wrong gets one line, and the workload stays as it was
            Path(folder, "cut.json").write_text(text[:100], encoding="utf-8")
            Path(folder, "edited.json").write_text(
                text.replace('"margin":0.', '"margin":1.', 1), encoding="utf-8")
            Path(folder, "nul.json").write_bytes(b"\0" * 10)
            expect_ok("policy", "export", "web", "--out", "own.json", cwd=folder)
            for args, code, words in (
                    (["web", "missing.json"], 66, ["missing.json"]),
                    (["web", "cut.json"], 65, ["not a policy"]),
                    (["web", "edited.json"], 65, ["checksum", "edited"]),
                    (["web", "nul.json"], 65, ["nul.json", "not a policy"]),
                    (["web", "own.json"], None, ["is the one that"]),
                    (["nope", "api.json"], 66, ["nope"]),
                    (["web"], 64, ["FILE"]),
                    (["web", "api.json", "--reason", "x" * 300], 64, ["--reason"])):
                done = run("policy", "propose", *args, cwd=folder)
                expect(done.returncode == code or (code is None and done.returncode),
                       f"{args}: {done.returncode} {done.stderr!r}")
                lines = [x for x in done.stderr.splitlines() if x.startswith("aware:")]
                expect(len(lines) == 1, f"{args}: not one line: {done.stderr!r}")
                for word in words:
                    expect(word in done.stderr, f"{args}: {word!r} is not in {done.stderr!r}")
            done = run("policy", "rollback", "web", cwd=folder)
            expect(done.returncode == 75 and "last known good" in done.stderr, done.stderr)
            expect(shown()["canary"]["state"] == "none", "nothing was tried")

            told = expect_ok("policy", "propose", "web", "api.json", "--reason", "from api",
                             cwd=folder).stdout
            expect(told.startswith("order ") and "watched" in told, told)
            until(lambda: shown()["canary"]["state"] == "trial")
            during = shown()
            expect(during["trial"] == shown("api")["good"] and
                   during["good"] == before["good"] and during["order"]["result"] == "done",
                   during)
            trial = expect_ok("policy", "export", "web", "--trial", cwd=folder).stdout
            expect(json.loads(trial)["checksum"] == policy["checksum"], "the one on trial")
            order = next(e for e in json_of(folder, "history", "web", "--limit", "1000")["entries"]
                         if e["kind"] == "order")
            expect(order["order"] == "propose" and order["reason"] == "from api" and
                   order["policy"]["checksum"] == policy["checksum"] and "uid:" in order["by"],
                   order)
            again = run("policy", "propose", "web", "api.json", cwd=folder)
            expect(again.returncode == 75 and "one at a time" in again.stderr, again.stderr)
            expect_ok("policy", "rollback", "web", "--reason", "enough", cwd=folder)
            until(lambda: shown()["canary"]["state"] == "rolled_back")
            after = shown()
            expect(after["trial"] is None and after["acting"] == before["good"], after)
            expect("a person ordered it" in after["canary"]["sentence"], after["canary"])
            stop(process)
        left = json_of(folder, "policy", "show", "web")
        expect(left["good"] == before["good"] and left["canary"]["state"] == "rolled_back", left)
        text = expect_ok("policy", "export", "web", cwd=folder).stdout
        expect(json.loads(text)["checksum"] == before["good"]["checksum"], "of a stopped one")
        for args in (["propose", "web", "api.json"], ["rollback", "web"]):
            done = run("policy", *args, cwd=folder)
            expect(done.returncode == 69 and "running daemon" in done.stderr, done.stderr)
        expect_ok("audit", "verify", "aware-state/audit", cwd=folder)


# --- a stopped daemon ---------------------------------------------------------------------------


def a_stopped_daemon_is_read_from_what_it_left():
    with tempfile.TemporaryDirectory() as folder:
        with daemon(folder) as process:
            until(lambda: changes_of(folder, "web"))
            stop(process)
            alive = None
            for args in (["get"], ["describe", "web"], ["explain", "web"], ["history", "web"],
                         ["top"], ["state", "show", "web"]):
                done = expect_ok(*args, cwd=folder)
                expect("the daemon is not running; as of " in done.stderr, f"{args}: {done.stderr}")
                expect(done.stdout, f"{args} says nothing")
                alive = done
            expect(alive, "something was asked")
            quiet = expect_ok("get", "-o", "json", cwd=folder)
            expect(not quiet.stderr and json.loads(quiet.stdout)["v"] == 1, quiet.stderr)
            entry = changes_of(folder, "web")[0]
            page = expect_ok("explain", "web", "--decision", str(entry["seq"]), "--replay",
                             cwd=folder).stdout
            expect("the same, byte for byte" in page, page)
            lines = expect_ok("export", "--what", "audit", cwd=folder).stdout.splitlines()
            expect(json.loads(lines[0])["seq"] == 1, lines[0])
            lines = expect_ok("export", "web", cwd=folder).stdout.splitlines()
            expect(json.loads(lines[0])["account"]["workload"] == "default/web", lines[0][:80])
            for args in (["undo", str(entry["seq"])], ["approve", "1"], ["calm", "web"],
                         ["emergency", "web", "--reason", "x"], ["get", "--watch"],
                         ["state", "reset", "web", "--reason", "x"]):
                done = run(*args, cwd=folder)
                expect(done.returncode == 69 and "running daemon" in done.stderr,
                       f"{args}: {done.returncode} {done.stderr}")


def a_freeze_given_while_it_is_stopped_stands_when_it_starts():
    with tempfile.TemporaryDirectory() as folder:
        with daemon(folder) as process:
            stop(process)
        done = expect_ok("freeze", "web", "--reason", "before it starts", cwd=folder)
        expect("stands when the daemon starts" in done.stdout, done.stdout)
        done = run("unfreeze", "api", cwd=folder)
        expect(done.returncode == 66, f"nothing to lift: {done.stderr}")
        with daemon(folder):
            def frozen():
                return json_of(folder, "get", "web")["workloads"][0]["freeze"] == "all"
            until(frozen)
            orders = json_of(folder, "get", "--orders")["freezes"]
            expect(orders[0]["reason"] == "before it starts", orders)
        expect_ok("unfreeze", "web", cwd=folder)
        expect_ok("audit", "verify", "aware-state/audit", cwd=folder)


# --- files, history, wrong words ----------------------------------------------------------------


def what_files_would_change_is_told_field_by_field():
    with tempfile.TemporaryDirectory() as folder, daemon(folder):
        same = expect_ok("diff", "-f", "world.yaml", cwd=folder).stdout
        expect("Nothing would change" in same, same)
        other = Path(folder, "other.yaml")
        text = Path(folder, "world.yaml").read_text(encoding="utf-8")
        other.write_text(text.replace("maxReplicas: 20", "maxReplicas: 9", 1)
                         .replace("target: 90ms", "target: 80ms", 1), encoding="utf-8")
        done = run("diff", "-f", str(other), cwd=folder)
        expect(done.returncode == 1, f"exit {done.returncode}: {done.stderr}")
        expect("20 -> 9" in done.stdout and "90ms -> 80ms" in done.stdout, done.stdout)
        expect("1 changed" in done.stderr, done.stderr)
        half = Path(folder, "half.yaml")
        half.write_text("---\n".join(text.split("---\n")[:2]), encoding="utf-8")
        done = run("diff", "-f", str(half), cwd=folder)
        expect(done.returncode == 1 and "- default/api" in done.stdout, done.stdout)
        half.write_text("kind: nothing", encoding="utf-8")
        done = run("diff", "-f", str(half), cwd=folder)
        expect(done.returncode == 78 and "half.yaml" in done.stderr, done.stderr)


def another_policy_is_scored_on_recorded_days():
    with tempfile.TemporaryDirectory() as folder:
        expect_ok("run", "-f", files(folder, ("web",)), "--duration", "2h", "--no-twin", "-q",
                  "--report", "none", cwd=folder)
        args = ["replay", "--policy", "hpa+vpa-mem,static", "world.yaml"]
        page = expect_ok(*args, cwd=folder).stdout
        for word in ("web:", "Measured:", "recorded", "hpa+vpa-mem", "static", "(median)"):
            expect(word in page, f"{word!r} is not in {page}")
        told = json.loads(expect_ok(*args, "-o", "json", cwd=folder).stdout)
        again = json.loads(expect_ok(*args, "-o", "json", cwd=folder).stdout)
        expect(told == again, "the same twice")
        for workload in told["workloads"]:
            recorded, hpa, static = workload["policies"]
            expect(abs(recorded["cost_per_hour"] / workload["measured_cost_per_hour"] - 1) < 0.05,
                   f"the copy costs what was measured: {workload}")
            expect(workload["copy_p99_error"] < 0.3, f"a poor copy: {workload['copy_p99_error']}")
            expect(static["replica_changes"] == 0 and hpa["replica_changes"] > 0, workload)
        set_ = ["replay", "--policy", "hpa", "-w", "web", "world.yaml", "-o", "json", "--set"]
        low, high = (json.loads(expect_ok(*set_, f"hpa_target={target}", cwd=folder).stdout)
                     ["workloads"][0]["policies"][1]["cost_per_hour"] for target in (30, 90))
        expect(low > high, f"a lower target costs more: {low} and {high}")


def wrong_words_get_one_line_and_the_right_code():
    with tempfile.TemporaryDirectory() as folder, daemon(folder):
        for args, code, words in (
                (["get", "nope"], 66, ["nope", "aware get"]),
                (["get", "-o", "csv"], 64, ["--output", "wide", "yaml"]),
                (["get", "--sort", "age"], 64, ["--sort", "changed"]),
                (["get", "--orders", "--proposals"], 64, ["ask for one"]),
                (["get", "web", "--orders"], 64, ["takes no workload"]),
                (["top", "web"], 64, ["does not take"]),
                (["describe"], 64, ["needs WORKLOAD"]),
                (["describe", "nope"], 66, ["nope"]),
                (["describe", "other/web"], 66, ["other/web"]),
                (["explain"], 64, ["WORKLOAD", "--decision"]),
                (["explain", "web", "--decision", "0"], 64, ["--decision"]),
                (["explain", "web", "--decision", "99999999"], 66, ["99999999"]),
                (["history", "web", "--since", "soon"], 64, ["--since", "2h", "soon"]),
                (["history", "nope"], 66, ["nope"]),
                (["undo"], 64, ["needs ID"]),
                (["undo", "web"], 64, ["ID", "number"]),
                (["undo", "99999999"], 66, ["99999999"]),
                (["approve", "-1"], 64, ["-1"]),
                (["approve", "99999999"], 66, ["99999999"]),
                (["reject", "99999999"], 66, ["99999999"]),
                (["freeze", "web"], 64, ["--reason"]),
                (["freeze", "--reason", "x"], 64, ["WORKLOAD", "--namespace", "--all"]),
                (["freeze", "web", "--all", "--reason", "x"], 64, ["found 2"]),
                (["freeze", "web", "--for", "soon", "--reason", "x"], 64, ["--for", "soon"]),
                (["freeze", "web", "--for", "0", "--reason", "x"], 64, ["--for"]),
                (["freeze", "nope", "--reason", "x"], 66, ["nope"]),
                (["unfreeze"], 64, ["WORKLOAD"]),
                (["unfreeze", "web"], 66, ["freeze"]),
                (["unfreeze", "99999999"], 66, ["99999999"]),
                (["emergency", "web"], 64, ["--reason"]),
                (["emergency", "web", "--factor", "0.5", "--reason", "x"], 64, ["--factor"]),
                (["emergency", "nope", "--reason", "x"], 66, ["nope"]),
                (["calm", "web"], 66, ["emergency"]),
                (["export", "--what", "dreams"], 64, ["--what", "audit"]),
                (["export", "nope"], 66, ["nope"]),
                (["export", "-f", "no/such/file"], 66, ["no/such"]),
                (["diff"], 64, ["--file"]),
                (["diff", "-f", "missing.yaml"], 78, ["missing.yaml"]),
                (["replay", "--policy", "magic"], 64, ["--policy", "hpa", "formula"]),
                (["replay"], 64, ["--policy"]),
                (["replay", "--policy", "hpa", "--from", "nowhere"], 66, ["nowhere"]),
                (["replay", "--policy", "hpa", "--set", "x"], 64, ["key=value"]),
                (["replay", "--policy", "hpa", "--set", "x=1"], 78, ["x"]),
                (["replay", "--policy", "hpa", "--set", "kind=vpa"], 64, ["--policy"]),
                (["replay", "--policy", "hpa", "-w", "nope"], 66, ["nope"]),
                (["state"], 64, ["show", "export", "reset"]),
                (["state", "show"], 64, ["needs WORKLOAD"]),
                (["state", "reset", "web"], 64, ["--reason"]),
                (["policy"], 64, ["show", "export", "propose", "rollback"]),
                (["policy", "show"], 64, ["needs WORKLOAD"]),
                (["policy", "show", "nope"], 66, ["nope"]),
                (["policy", "export", "nope"], 66, ["nope"]),
                (["policy", "rollback", "nope"], 66, ["nope"]),
                (["budget", "nope"], 66, ["nope"]),
                (["get", "--socket", "x" * 200], 64, ["socket"])):
            done = run(*args, cwd=folder)
            expect(done.returncode == code, f"{args}: exit {done.returncode}, {done.stderr!r}")
            lines = [line for line in done.stderr.splitlines() if line.startswith("aware:")]
            expect(len(lines) == 1, f"{args}: not one line: {done.stderr!r}")
            for word in words:
                expect(word in done.stderr, f"{args}: {word!r} is not in {done.stderr!r}")
            expect(not done.stdout, f"{args}: {done.stdout!r}")


def without_a_daemon_one_line_says_how_to_start_one():
    with tempfile.TemporaryDirectory() as folder:
        for args in (["get"], ["top"], ["describe", "web"], ["explain", "web"], ["history"],
                     ["freeze", "web", "--reason", "x"], ["undo", "1"], ["export"],
                     ["state", "show", "web"]):
            done = run(*args, cwd=folder)
            expect(done.returncode == 69, f"{args}: exit {done.returncode}")
            expect(done.stderr.count("\n") == 1 and "aware run --daemon" in done.stderr,
                   f"{args}: {done.stderr!r}")
        done = run("get", cwd=folder, env={"AWARE_SOCKET": "/nowhere/socket"})
        expect("/nowhere/socket" in done.stderr, done.stderr)
        done = run("get", "--state", "elsewhere", cwd=folder,
                   env={"AWARE_SOCKET": "/nowhere/socket"})
        expect("elsewhere/socket" in done.stderr, f"--state is nearer than the environment: {done}")


def a_peer_that_is_no_daemon_is_one_line_too():
    answers = {
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi!": "not JSON",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n": "status 500",
        b"HTTP/1.1 409 No\r\nContent-Length: 58\r\n\r\n"
        b'{"error":{"code":"CONFLICT","message":"it has changed"}}  ': "it has changed",
        b"SSH-2.0-x\r\n": "",
        b"": "",
    }
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "s"))
        for answer, word in answers.items():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            server = socket.socket(socket.AF_UNIX)
            server.bind(path)
            server.listen(4)

            def serve(sock=server, said=answer):
                with contextlib.suppress(OSError):
                    while True:
                        peer, _ = sock.accept()
                        if peer.recv(65536):
                            peer.sendall(said)
                        peer.close()
            threading.Thread(target=serve, daemon=True).start()
            done = run("top", "--socket", path, cwd=folder)
            server.shutdown(socket.SHUT_RDWR)
            server.close()
            expect(done.returncode > 0 and done.stderr.count("\n") == 1,
                   f"{answer!r}: {done.returncode} {done.stderr!r}")
            expect(word in done.stderr, f"{answer!r}: {done.stderr!r}")


if __name__ == "__main__":
    cli_test.AWARE = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else "aware"
    globals()[sys.argv[1]]()
