#!/usr/bin/env python3
"""daemon_test.py - `aware run --daemon` as an operator meets it.

    daemon_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py.
"""

import contextlib
import ctypes
import fcntl
import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import cli_test
from cli_test import expect, run, skip
from run_test import AUTOSCALER, files

ROOT = Path(__file__).resolve().parent.parent.parent
WAIT_S = 60
SPEED = "900"  # a step of 15 s in a 60th of a second


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=WAIT_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(WAIT_S)
        self.sock.connect(self.path)


def fetch(path, route, body=None):
    connection = Connection(str(path))
    connection.request("POST" if body else "GET", route, json.dumps(body) if body else None)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def ask(path, route, body=None, status=200):
    found, text = fetch(path, route, body)
    expect(found == status, f"{route}: {found}, expected {status}: {text}")
    return json.loads(text)


def until(holds, what):
    """What `holds` returns, once that is true."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError, http.client.HTTPException):
            found = holds()
            if found:
                return found
        time.sleep(0.05)
    expect(False, f"waited {WAIT_S} s in vain: {what}")
    return None


class Daemon:
    """One in `folder`, with its log in a file; killed at the end if it still runs."""

    def __init__(self, folder, *args, env=None, world=None, speed=SPEED):
        self.folder = Path(folder)
        self.state = self.folder / "state"
        self.socket = self.state / "socket"
        self.log = self.folder / "log"
        world = world or files(folder)
        # through a pipe: a limit on the daemon's files does not reach its log
        with open(self.log, "a", encoding="utf-8") as log:
            self.keeper = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log)
        self.process = subprocess.Popen(
            [cli_test.AWARE, "run", "--daemon", "-f", world, "--state", str(self.state),
             "--speed", speed, "--threads", "1", *args],
            cwd=folder, stderr=self.keeper.stdin, stdout=subprocess.PIPE, env=env or os.environ)
        self.keeper.stdin.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.keeper.wait()

    def ready(self):
        until(lambda: self.process.poll() is not None or
              fetch(self.socket, "/v1/readyz")[0] == 200, "ready")
        expect(self.process.poll() is None, f"it ended: {self.text()}")
        return self

    def text(self):
        return self.log.read_text(encoding="utf-8")

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        out = self.process.communicate(timeout=WAIT_S)[0]
        self.keeper.wait()
        return self.process.returncode, out.decode()


def freezes(daemon):
    return ask(daemon.socket, "/v1/freezes")["freezes"]


def a_daemon_answers_freezes_and_ends_well():
    with tempfile.TemporaryDirectory() as folder, Daemon(folder) as daemon:
        daemon.ready()
        expect(stat.S_IMODE(os.stat(daemon.socket).st_mode) == 0o600, "the socket is private")
        expect(stat.S_IMODE(os.stat(daemon.state).st_mode) == 0o700, "and so is its folder")
        names = [row["name"] for row in ask(daemon.socket, "/v1/workloads")["workloads"]]
        expect(names == ["default/api", "default/web"], str(names))
        taken = ask(daemon.socket, "/v1/orders",
                    {"kind": "freeze", "name": "web", "reason": "the test"}, 201)
        expect(f"uid:{os.getuid()}" in taken["order"]["by"], "orders are signed")
        row = until(lambda: (r := ask(daemon.socket, "/v1/workloads/-/web")) and
                    r["decision"]["orders"]["freeze"] == "all" and r, "a frozen decision")
        expect(row["freeze"] == "all", "it is shown")
        explained = ask(daemon.socket, "/v1/workloads/default/web/explain")
        expect(explained["detail"]["replayed"] is True, "the decision can be taken again")
        status, out = daemon.end()
        expect(status == 0 and out == "", f"status {status}, output {out!r}")
        expect(not daemon.socket.exists(), "the socket is gone")
        views = json.loads((daemon.state / "views.json").read_text(encoding="utf-8"))
        expect(len(views["workloads"]["workloads"]) == 2 and views["freezes"]["freezes"],
               "what it would say is kept")
        for line in daemon.text().splitlines():
            expect(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z (info |warn |error) \S", line), line)


def the_series_and_sums_of_the_page_go_on_after_a_restart():
    def seen(daemon):
        return ask(daemon.socket, "/v1/workloads/-/web/series"), ask(daemon.socket, "/v1/series"), \
            ask(daemon.socket, "/v1/table")["since_start"]

    for number in (signal.SIGTERM, signal.SIGKILL):
        with tempfile.TemporaryDirectory() as folder:
            with Daemon(folder) as daemon:
                daemon.ready()
                until(lambda: len(seen(daemon)[0]["at"]) >= 120, "120 points")
                # an order is saved with all else, at the next tick
                ask(daemon.socket, "/v1/orders",
                    {"kind": "freeze", "name": "api", "reason": "the test"}, 201)
                saved = daemon.state / "recent"
                made = saved.stat().st_mtime_ns if saved.exists() else 0
                until(lambda: saved.exists() and saved.stat().st_mtime_ns > made, "a save")
                one, fleet, sums = seen(daemon)
                daemon.end(number)
            with Daemon(folder) as daemon:
                daemon.ready()
                later, later_fleet, later_sums = until(
                    lambda: (s := seen(daemon)) and len(s[0]["at"]) > len(one["at"]) and s,
                    "points behind those of before")
                expect(later["at"][:100] == one["at"][:100], f"{number}: old points are lost")
                expect(later["cost_per_hour"][:100] == one["cost_per_hour"][:100], "and their cost")
                expect(later["at"] == sorted(later["at"]), "points are in order")
                expect(later_fleet["at"][:100] == fleet["at"][:100], "the fleet's points are lost")
                expect(later_sums["steps"] >= 200 and later_sums["cost"] >= 0.8 * sums["cost"],
                       f"{number}: since the start: {sums} and then {later_sums}")
                expect(later["since_start"]["beside_twin"]["steps"] > 100,
                       f"the twin's: {later['since_start']}")


def a_killed_daemon_goes_on_frozen():
    with tempfile.TemporaryDirectory() as folder:
        with Daemon(folder) as daemon:
            daemon.ready()
            given = ask(daemon.socket, "/v1/orders",
                        {"kind": "freeze", "scope": "all", "reason": "before the fall"}, 201)
            until(lambda: ask(daemon.socket, "/v1/status")["counts"]["ticks"] > 30, "ticks")
            before = ask(daemon.socket, "/v1/status")["now"]
            daemon.process.kill()
            daemon.process.wait()
            expect(daemon.socket.exists(), "a dead process leaves its socket")
        with Daemon(folder) as daemon:
            until(lambda: ask(daemon.socket, "/v1/status")["now"] > before, "it goes on")
            standing = freezes(daemon)
            expect([f["id"] for f in standing] == [given["id"]], str(standing))
            expect(standing[0]["reason"] == "before the fall", "with its reason")
            second = run("run", "--daemon", "-f", files(folder), "--state", str(daemon.state))
            expect(second.returncode == 69 and "another run" in second.stderr, second.stderr)
            status, _ = daemon.end(signal.SIGINT)
            expect(status == 0, f"SIGINT: {status}")
        sequence = [json.loads(line)["seq"]
                    for file in sorted((Path(folder) / "state" / "audit").glob("*.jsonl"))
                    for line in file.read_text(encoding="utf-8").splitlines()]
        expect(sequence == list(range(1, len(sequence) + 1)), "the log has no gap")


def the_same_decisions_are_taken_whether_it_was_killed_or_not():
    def decisions(folder, kill):
        with Daemon(folder, "--duration", "40m") as daemon:
            if kill:
                daemon.ready()
                until(lambda: ask(daemon.socket, "/v1/status")["counts"]["ticks"] > 60, "ticks")
                daemon.process.kill()
                daemon.process.wait()
            else:
                daemon.process.communicate(timeout=WAIT_S)
        if kill:
            with Daemon(folder, "--duration", "40m") as daemon:
                daemon.process.communicate(timeout=WAIT_S)
                expect(daemon.process.returncode == 0, daemon.text())
        lines = [json.loads(line)
                 for file in sorted((Path(folder) / "state" / "audit").glob("*.jsonl"))
                 for line in file.read_text(encoding="utf-8").splitlines()]
        return [(line["at"], line["workload"], line["to"]) for line in lines
                if line["kind"] == "decision"]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        whole, broken = decisions(one, False), decisions(other, True)
        expect(len(whole) > 10 and whole == broken, f"{len(whole)} and {len(broken)} decisions")


def settings_are_reloaded_and_nonsense_is_refused():
    with tempfile.TemporaryDirectory() as folder, Daemon(folder) as daemon:
        daemon.ready()
        world = Path(folder, "world.yaml")
        text = world.read_text(encoding="utf-8")
        ask(daemon.socket, "/v1/orders", {"kind": "freeze", "name": "api", "reason": "stays"}, 201)

        def hang_up(content, says):
            seen = len(daemon.text())
            world.write_text(content, encoding="utf-8")
            daemon.process.send_signal(signal.SIGHUP)
            until(lambda: says in daemon.text()[seen:], f"{says!r} in the log")

        hang_up(text.replace("  learning:", "  policy: {updateMode: 'Off'}\n  learning:"),
                "reloaded workloads=2")
        row = until(lambda: (r := ask(daemon.socket, "/v1/workloads/default/web"))["decided"] and r,
                    "a decision")
        expect(row["mode"] == "Off", "the new mode")
        expect([f["name"] for f in freezes(daemon)] == ["default/api"], "orders stay")
        hang_up("kind: [", "reload refused")
        hang_up(text + "---\n" + AUTOSCALER.replace("NAME", "more"), "reload refused")
        hang_up(text.replace("  learning:", "  policy: {updateMode: 'Off'}\n  learning:"),
                "nothing has changed")
        expect(ask(daemon.socket, "/v1/workloads")["total"] == 2, "nothing was lost")
        expect(daemon.end()[0] == 0, daemon.text())


def bounds_slo_and_workloads_are_edited_live_and_the_others_lose_nothing():
    """maxReplicas and the SLO of one workload; one that comes, one that goes and comes back."""
    with tempfile.TemporaryDirectory() as folder, Daemon(folder) as daemon:
        daemon.ready()
        world = Path(folder, "world.yaml")
        parts = world.read_text(encoding="utf-8").split("---\n")
        web, api = parts[:2], parts[2:]
        more = [part.replace("web", "more") for part in web]

        def row(name):
            return ask(daemon.socket, f"/v1/workloads/default/{name}")

        def stage(name):
            return until(lambda: (r := row(name))["decided"] and r["stage"], "a decision")

        def hang_up(content, *says):
            seen = len(daemon.text())
            world.write_text("---\n".join(content), encoding="utf-8")
            daemon.process.send_signal(signal.SIGHUP)
            until(lambda: "reloaded workloads=" in daemon.text()[seen:], "reloaded")
            said = daemon.text()[seen:].split("reloaded workloads=")[0]
            for words in says:
                expect(words in said, f"{words!r} in {said}")
            expect("judged anew" not in said or "workload=api" not in said, said)
            expect(stage("api") == "serving", "api goes on")

        until(lambda: row("api")["stage"] == row("web")["stage"] == "serving", "serving")
        edited = [part.replace("maxReplicas: 20", "maxReplicas: 24") for part in web]
        hang_up(edited + api, "bounds.replicas_max 20 -> 24: what was learned is kept")
        expect(stage("web") == "serving", "it goes on")
        expect(row("web")["bounds"]["replicas"]["max"] == 24, "within other bounds")
        tight = [part.replace("target: 90ms", "target: 80ms") for part in edited]
        hang_up(tight + api, "this workload is judged anew, the others are not workload=web",
                "offline stage")
        until(lambda: row("web")["stage"] == "serving", "serving again")
        hang_up(tight + api + more, "a new workload: it begins to learn workload=more")
        expect(ask(daemon.socket, "/v1/workloads")["total"] == 3, "three")
        hang_up(api + more, "workload gone: what it has learned is kept workload=default/web")
        expect(ask(daemon.socket, "/v1/workloads")["total"] == 2, "two")
        hang_up(tight + api)
        expect(stage("web") == "serving", "it comes back and knows what it knew")
        expect(daemon.end()[0] == 0, daemon.text())
        second = Daemon(folder, "--seed", "9", world=str(world))
        with second as daemon:
            daemon.ready()
            said = daemon.text().split("stopped")[-1]
            expect("resumed" in said and "begins to learn" not in said, said)
            expect(stage("web") == stage("api") == "serving", "over a restart with another seed")
            expect(daemon.end()[0] == 0, daemon.text())


def damaged_databases_are_put_aside_and_the_daemon_goes_on():
    """Not SQLite any more, and a page in the middle overwritten."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder, "state")
        with Daemon(folder) as daemon:
            daemon.ready()
            until(lambda: ask(daemon.socket, "/v1/status")["counts"]["ticks"] > 200, "some life")
            expect(daemon.end()[0] == 0, daemon.text())
            state = Path(daemon.state)
        store = (state / "trajectories.db").read_bytes()
        expect(len(store) > 40960, f"{len(store)} bytes")
        (state / "trajectories.db").write_bytes(
            store[:8192] + b"\xff" * 16384 + store[24576:])
        (state / "decisions.db").write_bytes(b"not a database" * 1000)
        with Daemon(folder) as daemon:
            daemon.ready()
            ticks = ask(daemon.socket, "/v1/status")["counts"]["ticks"]
            later = until(lambda: (s := ask(daemon.socket, "/v1/status"))["counts"]["ticks"] >
                          ticks + 20 and s, "it goes on")
            expect(later["ok"] and not later["holds"], str(later["holds"]))
            expect(daemon.text().count("put aside") == 2, daemon.text())
            expect(daemon.end()[0] == 0, daemon.text())
        expect(len(list(state.glob("*.db.damaged-*"))) == 2, str(list(state.iterdir())))


def files_that_say_the_same_are_read_and_no_step_comes_sooner():
    # a step of 15 s takes 3 s
    with tempfile.TemporaryDirectory() as folder, Daemon(folder, speed="5") as daemon:
        daemon.ready()

        def ticks():
            return ask(daemon.socket, "/v1/status")["counts"]["ticks"]

        before, begin = ticks(), time.monotonic()
        for _ in range(8):
            seen = daemon.text().count("nothing has changed")
            daemon.process.send_signal(signal.SIGHUP)
            until(lambda: daemon.text().count("nothing has changed") > seen, "read again")
        steps, took = ticks() - before, time.monotonic() - begin
        expect(steps <= took / 3 + 1, f"{steps} steps in {took:.1f} s")
        until(lambda: ticks() > before, "it goes on")
        expect(daemon.end()[0] == 0, daemon.text())


def a_reload_that_fails_late_saves_nothing_over_what_was_learned():
    with tempfile.TemporaryDirectory() as folder:
        world, state = Path(files(folder)), Path(folder, "state", "run.state")
        log, end = os.pipe()
        room = fcntl.fcntl(log, fcntl.F_SETPIPE_SZ, 4096)
        process = subprocess.Popen(
            [cli_test.AWARE, "run", "--daemon", "-f", world, "--state", state.parent, "--speed",
             SPEED, "--threads", "1"], cwd=folder, stderr=end, stdout=subprocess.DEVNULL)
        with contextlib.ExitStack() as after:
            after.callback(os.close, log)
            after.callback(process.wait)
            after.callback(process.kill)
            until(lambda: fetch(state.parent / "socket", "/v1/readyz")[0] == 200, "ready")
            # the log takes nothing more: the line between the trial of new settings and their
            # taking over waits for us
            os.read(log, room)
            os.write(end, b" " * room)
            os.close(end)
            text = world.read_text(encoding="utf-8")
            world.write_text(text.replace("  learning:",
                                          "  policy: {updateMode: 'Off'}\n  learning:"),
                             encoding="utf-8")
            process.send_signal(signal.SIGHUP)
            tasks, begin = Path(f"/proc/{process.pid}/task"), time.monotonic()
            # a kernel that does not tell where threads wait gets three seconds
            until(lambda: time.monotonic() > begin + 3 or
                  any("pipe" in (t / "wchan").read_text() for t in tasks.iterdir()),
                  "it waits to write")
            damaged = b"damaged" * 1000
            state.write_bytes(damaged)
            said = b"".join(iter(lambda: os.read(log, room), b"")).decode()
            expect(process.wait(timeout=WAIT_S) != 0, said)
            expect("settings changed" in said and "reloaded" not in said, said)
            expect(not state.exists() or state.read_bytes() == damaged, "saved over it")


def a_save_on_a_full_disk_is_tried_again_but_not_in_every_step():
    cli_test.need("prlimit")
    libc = ctypes.CDLL(None, use_errno=True)
    with tempfile.TemporaryDirectory() as folder, Daemon(folder) as daemon:
        daemon.ready()
        until(lambda: (daemon.state / "run.state").exists(), "a first save")
        watch = libc.inotify_init1(os.O_NONBLOCK)
        expect(libc.inotify_add_watch(watch, str(daemon.state).encode(), 0x100) > 0, "IN_CREATE")

        def tries():
            with contextlib.suppress(BlockingIOError):
                return os.read(watch, 1 << 20).count(b"views.json.")  # the last file of a save
            return 0

        subprocess.run(["prlimit", "--pid", str(daemon.process.pid), "--fsize=1:"], check=True)
        until(lambda: "state cannot be saved" in daemon.text(), "told")
        tries()
        ticks = ask(daemon.socket, "/v1/status")["counts"]["ticks"]
        seen = 0

        def tried_again():
            nonlocal seen
            seen += tries()
            return seen >= 2

        until(tried_again, "tried again")
        passed = ask(daemon.socket, "/v1/status")["counts"]["ticks"] - ticks
        expect(seen <= 1 + passed / 20, f"{seen} times in {passed} steps")
        subprocess.run(["prlimit", "--pid", str(daemon.process.pid), "--fsize=unlimited:"],
                       check=True)
        until(lambda: "over what=" in daemon.text() and
              "state cannot be saved" in daemon.text().split("over what=", 1)[1], "over")
        os.close(watch)
        expect(daemon.end()[0] == 0, daemon.text())


def a_log_that_cannot_be_written_holds_everything_and_says_so():
    cli_test.need("prlimit")
    with tempfile.TemporaryDirectory() as folder, Daemon(folder) as daemon:
        daemon.ready()
        # no more bytes in any file for this process: the log's next line does not fit
        subprocess.run(["prlimit", "--pid", str(daemon.process.pid), "--fsize=1:"], check=True)
        status = until(lambda: (s := ask(daemon.socket, "/v1/status")) and not s["ok"] and s,
                       "not well")
        expect(any("audit log cannot be written" in hold for hold in status["holds"]) or
               any("cannot be kept" in hold for hold in status["holds"]), str(status["holds"]))
        refused = ask(daemon.socket, "/v1/orders",
                      {"kind": "freeze", "scope": "all", "reason": "too late"}, 500)
        expect("not taken" in refused["error"]["message"], str(refused))
        before = ask(daemon.socket, "/v1/status")["counts"]
        ticks = before["ticks"]
        later = until(lambda: (s := ask(daemon.socket, "/v1/status"))["counts"]["ticks"] >
                      ticks + 20 and s, "it goes on")
        changed = later["counts"]["plans_applied"] - before["plans_applied"]
        expect(changed <= later["counts"]["late"] - before["late"], "more is changed than grows")
        expect("nothing is changed but growth" in daemon.text(), "the log says so")
        table = run("get", "--socket", daemon.socket)
        expect("audit log cannot be written" in table.stderr or
               "cannot be kept" in table.stderr, table.stderr)
        subprocess.run(["prlimit", "--pid", str(daemon.process.pid), "--fsize=unlimited:"],
                       check=True)
        until(lambda: ask(daemon.socket, "/v1/status")["ok"], "well again")
        expect(daemon.end()[0] == 0, daemon.text())


def systemd_is_told_and_the_journal_gets_priorities():
    with tempfile.TemporaryDirectory() as folder:
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(folder + "/notify")
        notify.settimeout(WAIT_S)
        told = []

        def listen():
            with contextlib.suppress(OSError):
                while True:
                    told.append(notify.recv(4096).decode())

        threading.Thread(target=listen, daemon=True).start()
        env = dict(os.environ, NOTIFY_SOCKET=folder + "/notify", WATCHDOG_USEC="400000")
        with Daemon(folder, "--log-format", "journald", env=env) as daemon:
            daemon.ready()
            until(lambda: sum("WATCHDOG=1" in t for t in told) >= 3, "the watchdog is fed")
            expect(daemon.end()[0] == 0, daemon.text())
            for line in daemon.text().splitlines():
                expect(re.match(r"<[3467]>\S", line), line)
        expect("READY=1" in told[0] and "workloads" in told[0], str(told[:1]))
        expect(any("STATUS=" in t and "offline" in t for t in told), "how it stands")
        expect(any("STOPPING=1" in t for t in told), "that it ends")


def bad_input_gets_one_line_and_the_right_code():
    with tempfile.TemporaryDirectory() as folder:
        world = files(folder)
        for args, code, says in (
                (["--state", "none"], 64, "--state DIR"),
                (["--store", "memory"], 64, "--store memory"),
                (["--report", "x.html"], 64, "--report"),
                (["--output", "json"], 64, "--output"),
                (["--socket", "/tmp/" + "x" * 120], 65, "107"),
                (["--socket", world], 73, "not a socket"),
                (["--speed", "0"], 64, "--speed"),
        ):
            done = run("run", "--daemon", "-f", world, *args, cwd=folder)
            lines = done.stderr.strip().splitlines()
            expect(done.returncode == code and says in done.stderr and len(lines) == 1,
                   f"{args}: {done.returncode} {done.stderr}")
        done = run("run", "-f", world, "--socket", "x", cwd=folder)
        expect(done.returncode == 64 and "--daemon" in done.stderr, done.stderr)


def the_unit_file_is_sound():
    with tempfile.TemporaryDirectory() as folder:
        unit = (ROOT / "deploy" / "systemd" / "aware.service").read_text(encoding="utf-8")
        expect(f"{cli_test.AWARE}" and "--daemon" in unit, "it runs a daemon")
        for word in ("WatchdogSec=", "NoNewPrivileges=yes", "ProtectSystem=strict",
                     "StateDirectory=aware", "Restart=on-failure", "Type=notify"):
            expect(word in unit, word)
        options = re.search(r"^ExecStart=/usr/local/bin/aware (.*)$", unit, re.M).group(1).split()
        known = run(*options[:1], "--help").stdout
        for option in options:
            expect(not option.startswith("--") or option in known, f"{option} is an option")
        try:
            copy = Path(folder, "aware.service")
            copy.write_text(unit.replace("/usr/local/bin/aware", cli_test.AWARE), encoding="utf-8")
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(copy)],
                                  capture_output=True, text=True, check=False)
        except FileNotFoundError:
            skip("systemd-analyze is not here")
        expect(done.returncode == 0 and "aware.service" not in done.stderr, done.stderr)


def a_run_without_a_daemon_can_keep_its_record_too():
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder, "state")
        args = ["run", "-f", files(folder), "--duration", "20m", "--state", str(state), "-q"]
        done = run(*args, "--audit", cwd=folder)
        expect(done.returncode == 0, done.stderr)
        kinds = {json.loads(line)["kind"] for file in (state / "audit").glob("*.jsonl")
                 for line in file.read_text(encoding="utf-8").splitlines()}
        expect({"start", "decision", "stop"} <= kinds, str(kinds))
        expect((state / "decisions.db").exists(), "explanations")
        done = run(*args, "--audit", "--fresh", cwd=folder)
        expect(done.returncode == 0, done.stderr)
        expect(len(list(state.glob("audit-until-*"))) == 1, "an old record is put aside")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])
    globals()[sys.argv[1]]()
