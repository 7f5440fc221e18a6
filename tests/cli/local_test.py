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
from daemon_test import Daemon, ask, fetch, until

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


def world(folder, replicas=1):
    path = Path(folder, "world.yaml")
    text = WORLD.replace("RUNDIR", str(Path(folder, "runs")))
    path.write_text(text.replace("replicas: 1,", f"replicas: {replicas},")
                    .replace("minReplicas: 1,", f"minReplicas: {replicas},"), encoding="utf-8")
    return str(path)


def runs_of(folder):
    """Names of the runs that are written down; what else lives on this machine is not ours."""
    runs = Path(folder, "runs")
    return {path.name for path in runs.iterdir() if path.is_dir()} if runs.exists() else set()


def groups_of(folder):
    """Sub-trees of the runs that are written down, in every hierarchy of either version."""
    groups = []
    for state in Path(folder, "runs").glob("*/state"):
        try:
            lines = state.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:  # the run has just ended
            continue
        groups += [Path(line.split(" ", 1)[1]) for line in lines if line.startswith("group ")]
    return groups


def skip_without_control_groups():
    with tempfile.TemporaryDirectory() as folder:
        done = run("run", "--cluster", "local", "-f", world(folder), "--duration", "1s", "-q",
                   cwd=folder)
        if done.returncode == 69 and "control groups" in done.stderr:
            expect(len(done.stderr.splitlines()) == 1, done.stderr)
            print("skipped:", done.stderr.strip())
            sys.exit(77)


def nothing_is_left(folder, groups):
    """Of a run whose sub-trees were `groups` while it lived."""
    expect(groups, "no control groups were seen while it ran")
    left = [path for path in groups if path.exists()]
    expect(not left, f"left: {left}")
    expect(not runs_of(folder), f"left in the run directory: {runs_of(folder)}")


def ended(process, folder, patience_s):
    """A process to its end: output, errors, and sub-trees that were seen while it lived."""
    limit = time.monotonic() + patience_s
    groups = set()
    while True:
        try:
            return *process.communicate(timeout=0.1), groups
        except subprocess.TimeoutExpired:
            groups.update(path for path in groups_of(folder) if path.is_dir())
        if time.monotonic() > limit:
            process.kill()
            expect(False, f"it did not end in {patience_s} s")


def watched(folder, *words):
    """A run to its end: the lines that it printed, and its sub-trees."""
    process = subprocess.Popen([cli_test.AWARE, "run", "--cluster", "local", "-f", world(folder),
                                *words, "-o", "json"], cwd=folder, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    stdout, stderr, groups = ended(process, folder, patience_s=100)
    expect(process.returncode == 0, f"{words}: exit {process.returncode}, {stderr!r}")
    return [json.loads(line) for line in stdout.splitlines()], groups


def a_real_application_is_autoscaled():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        lines, groups = watched(folder, "--duration", "8s")
        expect(lines[0]["type"] == "run" and lines[0]["cluster"] == "local", lines[0])
        steps = [line for line in lines if line["type"] == "step"]
        expect(len(steps) == 8, f"{len(steps)} steps")
        summary = lines[-1]
        expect(summary["type"] == "summary", summary)
        shop = summary["workloads"][0]
        whole, requests = shop["whole"]["aware"], shop["requests"]
        expect(whole["steps"] == 8 and requests["sent"] > 100, shop)
        expect(requests["failed"] == 0 and requests["lost"] == 0, shop)
        expect(0 < whole["cpu_utilization"] <= 1 and 0 < whole["memory_utilization"] <= 1, shop)
        expect(shop["stage"] == "offline" and "fallback" not in shop["whole"], shop)
        # by the replicas' own histogram, whose bounds are up to 2.5 times the one before
        expect(0 < requests["inside_us_p50"] <= requests["inside_us_p99"], shop)
        expect(requests["inside_us_p50"] <= 2.5 * requests["latency_us_p99"], shop)
        expect(any(step["inside_ms_p50"] is not None for step in steps), steps)
        nothing_is_left(folder, groups)


def metrics_that_are_not_there_are_missing_and_nothing_else():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(world(folder))
        text = path.read_text(encoding="utf-8")
        here = "  start: {replicas: 1, cpu: 500m, memory: 256Mi}\n"
        path.write_text(text.replace(here, here + "  local: {metrics: /nowhere}\n"),
                        encoding="utf-8")
        done = expect_ok("run", "--cluster", "local", "-f", str(path), "--duration", "4s",
                         "-o", "json", cwd=folder)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        steps = [line for line in lines if line["type"] == "step"]
        shop = lines[-1]["workloads"][0]
        requests = shop["requests"]
        expect(shop["whole"]["aware"]["steps"] == len(steps) == 4, shop)
        expect(requests["failed"] == 0 and requests["inside_us_p50"] is None, shop)
        expect(requests["inside_us_p99"] is None, shop)
        for step in steps:
            expect(step["inside_ms_p50"] is None and step["inside_ms_p99"] is None, step)
        expect(any(step["aware"]["latency_ms"] for step in steps), steps)
        path.write_text(text.replace(here, here + "  local: {metrics: nowhere}\n"),
                        encoding="utf-8")
        done = run("run", "--cluster", "local", "-f", str(path), "--duration", "1s", cwd=folder)
        expect(done.returncode == 78 and "path of metrics begins with /" in done.stderr, done)
        expect(not runs_of(folder), runs_of(folder))


def time_may_run_faster_and_rates_stay():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        lines, groups = watched(folder, "--duration", "20s", "--speed", "4")
        took = time.monotonic() - begin
        steps = [line for line in lines if line["type"] == "step"]
        expect(len(steps) == 20 and steps[-1]["at_s"] == 19, f"{len(steps)} steps")
        shop = lines[-1]["workloads"][0]
        # 30 in a real second; in a second of the controllers' time it would be four times as many
        expect(50 < shop["requests"]["sent"] < 45 * took + 50, f"{took} s: {shop}")
        nothing_is_left(folder, groups)


def the_table_is_drawn_on_a_terminal():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        code, text = on_a_terminal(["run", "--cluster", "local", "-f", world(folder),
                                    "--duration", "4s", "--state", "none"], columns=140)
        expect(code == 0, f"exit {code}: {text}")
        expect("shop" in text and "REPLICAS" in text and "REQUESTS" in text, text)


def begun(folder, replicas=1):
    """A run that listens and has a replica, and where it listens."""
    process = subprocess.Popen([cli_test.AWARE, "run", "--cluster", "local", "-f",
                                world(folder, replicas), "--duration", "60s"], cwd=folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    found = re.match(r"shop listens on http://127\.0\.0\.1:(\d+)", line)
    expect(found, line + process.stderr.read() if not found else "")
    time.sleep(2)
    return process, int(found.group(1))


def an_interrupt_ends_everything():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        process, _ = begun(folder)
        groups = groups_of(folder)
        expect(groups and all(path.is_dir() for path in groups), f"not there: {groups}")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        expect(process.returncode == 130, f"exit {process.returncode}")
        nothing_is_left(folder, groups)


def after_kill_9_clean_leaves_nothing():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        process, _ = begun(folder)
        groups = groups_of(folder)
        alive = expect_ok("local", "clean", "--run-dir", str(Path(folder, "runs"))).stdout
        expect("1 run is alive and untouched" in alive, alive)
        process.kill()
        process.communicate(timeout=30)
        expect(groups and all(path.is_dir() for path in groups),
               f"the control groups went by themselves: {groups}")
        done = expect_ok("local", "clean", "--run-dir", str(Path(folder, "runs")), "-o", "json")
        expect(json.loads(done.stdout)["cleared"] == 1, done.stdout)
        nothing_is_left(folder, groups)


def replicas_in(group):
    """Of a sub-tree: the words of each replica by its number."""
    found = {}
    for procs in group.glob("w*/cgroup.procs"):
        for pid in procs.read_text(encoding="utf-8").split():
            try:
                words = Path("/proc", pid, "cmdline").read_text(encoding="utf-8").split("\0")
            except OSError:
                continue
            if "aware-workload" in words[0]:
                found[int(pid)] = words
    return found


def replicas_share_what_their_work_costs():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        process, _ = begun(folder, replicas=3)
        groups = groups_of(folder)
        shared = list(Path(folder, "runs").glob("*/*.costs"))
        expect(len(shared) == 1, f"{shared}")
        costs, stamp = json.loads(shared[0].read_text("utf-8")), shared[0].stat().st_mtime_ns
        expect(all(segment["piece_us"] > 0 for segment in costs["segments"]), costs)
        first = replicas_in(groups[0])
        expect(len(first) >= 3, first)
        # one that comes later reads them
        os.kill(min(first), signal.SIGKILL)
        limit = time.monotonic() + 30
        while time.monotonic() < limit and not set(replicas_in(groups[0])) - set(first):
            time.sleep(0.05)
        later = replicas_in(groups[0])
        expect(set(later) - set(first), "the replica was not started again")
        time.sleep(1)
        for words in [*first.values(), *later.values()]:
            expect(words[words.index("--costs") + 1] == str(shared[0]), words)
        expect(shared[0].stat().st_mtime_ns == stamp, "measured again")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        nothing_is_left(folder, groups)


def page_of(path):
    """The figures that a report carries."""
    text = path.read_text(encoding="utf-8")
    expect("<html" in text and "on this machine" in text, text[:200])
    return text


def a_run_is_kept_resumed_and_reported():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        words = ["--state", "kept", "--audit", "--report", "page.html"]
        lines, groups = watched(folder, "--duration", "3s", *words)
        expect(lines[0]["steps_before"] == 0 and lines[0]["twin"] is False, lines[0])
        nothing_is_left(folder, groups)
        page_of(Path(folder, "page.html"))
        before = lines[-1]["workloads"][0]
        # the same command with a longer duration goes on, with processes of its own
        lines, groups = watched(folder, "--duration", "6s", *words)
        steps = [line for line in lines if line["type"] == "step"]
        expect(lines[0]["steps_before"] == 3 and len(steps) == 3, lines[0])
        expect([step["at_s"] for step in steps] == [3, 4, 5], steps)
        shop = lines[-1]["workloads"][0]
        expect(shop["whole"]["aware"]["steps"] == 6, shop)
        expect(shop["whole"]["aware"]["requests"] > before["whole"]["aware"]["requests"], shop)
        nothing_is_left(folder, groups)
        page_of(Path(folder, "page.html"))
        expect_ok("audit", "verify", str(Path(folder, "kept", "audit")))
        done = run("run", "--cluster", "local", "-f", world(folder), "--duration", "6s", *words,
                   cwd=folder)
        expect(done.returncode == 64 and "has already come to" in done.stderr, done)


def a_state_of_the_simulator_is_refused():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        expect_ok("run", "-f", world(folder), "--duration", "3s", "--no-twin", "-q", cwd=folder)
        done = run("run", "--cluster", "local", "-f", world(folder), "--duration", "6s", "-q",
                   cwd=folder)
        expect(done.returncode == 65 and "--fresh begins anew" in done.stderr, done)
        expect(not runs_of(folder), runs_of(folder))


def daemon_of(folder):
    return Daemon(folder, "--cluster", "local", world=world(folder, replicas=2), speed="1")


def arrivals(daemon):
    return ask(daemon.socket, "/v1/workloads/-/shop")["arrivals_per_s"] or 0


def a_daemon_answers_outlives_kill_9_and_goes_on():
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        with daemon_of(folder) as daemon:
            daemon.ready()
            status = ask(daemon.socket, "/v1/status")
            expect(status["cluster"] == "local" and status["virtual_time"] is False, status)
            until(lambda: arrivals(daemon) > 0, "requests")
            socket = ["--socket", str(daemon.socket)]
            expect("shop" in expect_ok("get", *socket).stdout, "get")
            expect("shop" in expect_ok("explain", "shop", *socket).stdout, "explain")
            expect_ok("freeze", "shop", "--reason", "the test", *socket)
            until(lambda: ask(daemon.socket, "/v1/workloads/-/shop")["freeze"] == "all", "frozen")
            until(lambda: (daemon.state / "run.state").stat().st_mtime >= time.time() - 3, "saved")
            groups = groups_of(folder)
            daemon.end(signal.SIGKILL)
        expect(groups, "no control groups")
        with daemon_of(folder) as daemon:
            daemon.ready()
            expect("resumed" in daemon.text(), daemon.text())
            expect(not any(path.exists() for path in groups), "the dead run's groups are gone")
            until(lambda: arrivals(daemon) > 0, "requests again")
            row = ask(daemon.socket, "/v1/workloads/-/shop")
            expect(row["freeze"] == "all" and row["replicas"]["wanted"] == 2, row)
            history = expect_ok("history", "shop", "--socket", str(daemon.socket)).stdout
            expect("the test" in history, history)
            # other settings are taken over beside processes that live on
            pids = replicas_in(groups_of(folder)[0])
            path = Path(folder, "world.yaml")
            path.write_text(path.read_text("utf-8").replace("hpaTarget: 60", "hpaTarget: 70"),
                            encoding="utf-8")
            daemon.process.send_signal(signal.SIGHUP)
            until(lambda: "reloaded" in daemon.text(), "reloaded")
            until(lambda: arrivals(daemon) > 0, "requests after a reload")
            expect(replicas_in(groups_of(folder)[0]) == pids, "the same processes")
            groups = groups_of(folder)
            status, _ = daemon.end()
            expect(status == 0, f"{status}: {daemon.text()}")
        nothing_is_left(folder, groups)
        expect_ok("audit", "verify", str(daemon.state / "audit"))


def more_replicas_are_allowed_while_processes_run():
    """A higher maxReplicas that SIGHUP has taken over is used."""
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder, daemon_of(folder) as daemon:
        daemon.ready()
        until(lambda: arrivals(daemon) > 0, "requests")
        path = Path(folder, "world.yaml")
        text = path.read_text("utf-8")
        bound = re.search(r"maxReplicas: (\d+)", text)
        expect(bound and int(bound.group(1)) < 12, text)

        def hang_up(count, says):
            path.write_text(text.replace(bound.group(0), f"maxReplicas: {count}"), encoding="utf-8")
            daemon.process.send_signal(signal.SIGHUP)
            until(lambda: says in daemon.text(), says)

        hang_up(200, "at most 128 replicas")
        hang_up(12, "reloaded")
        until(lambda: arrivals(daemon) > 0, "requests after the reload")
        expect_ok("emergency", "shop", "--factor", "6", "--reason", "the test", "--socket",
                  str(daemon.socket))
        until(lambda: ask(daemon.socket, "/v1/workloads/-/shop")["replicas"]["wanted"] == 12,
              "as many as the new bound")
        status, _ = daemon.end()
        expect(status == 0, f"{status}: {daemon.text()}")


def workloads_come_and_go_while_processes_run():
    """SIGHUP starts what a file adds and ends what it drops; the processes of the others stay."""
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder, daemon_of(folder) as daemon:
        daemon.ready()
        until(lambda: arrivals(daemon) > 0, "requests")
        until(lambda: ask(daemon.socket, "/v1/workloads/-/shop")["replicas"]["ready"] == 2, "both")
        group = groups_of(folder)[0]
        path = Path(folder, "world.yaml")
        text = path.read_text("utf-8")
        cluster, app, scaler = text.split("---\n")
        # the new one stands before the old one, so that numbers change
        more = "---\n".join([cluster, app.replace("name: shop", "name: cart"),
                             scaler.replace("name: shop", "name: cart"), app, scaler])
        first = set(replicas_in(group))
        expect(len(first) == 2, f"replicas of shop: {first}")

        def hang_up(world_text, names):
            path.write_text(world_text, encoding="utf-8")
            daemon.process.send_signal(signal.SIGHUP)
            until(lambda: list(rows()) == names, names)

        def rows():  # while settings are taken over it says "ask again"
            status, answer = fetch(daemon.socket, "/v1/workloads")
            found = json.loads(answer)["workloads"] if status == 200 else []
            return {row["workload"]: row for row in found}

        def busy(name):
            return lambda: (rows().get(name, {}).get("arrivals_per_s") or 0) > 0

        hang_up(more, ["cart", "shop"])
        until(busy("cart"), "requests at the new one")
        until(busy("shop"), "requests at the old one")
        now = set(replicas_in(group))
        expect(first < now, f"of shop {first} ran, now {now}")
        expect(rows()["shop"]["replicas"]["ready"] == 2, "shop has two")
        hang_up(text, ["shop"])
        until(lambda: set(replicas_in(group)) == first, "the other one's processes end")
        until(busy("shop"), "requests at the one that stays")
        hang_up(more, ["cart", "shop"])
        until(busy("cart"), "requests at the one that came back")
        expect(first < set(replicas_in(group)), "and nothing happened to the other")
        # one that cannot be started is refused, and everything goes on
        path.write_text(more.replace("metadata: {name: cart}\nspec:\n  app: {seed: 1, index: 39}",
                                     "metadata: {name: cart}\nspec:\n  app: {segments: []}"),
                        encoding="utf-8")
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: "reload refused" in daemon.text(), "a refusal")
        until(busy("shop"), "requests after the refusal")
        status, _ = daemon.end()
        expect(status == 0, f"{status}: {daemon.text()}")
        expect(not groups_of(folder), "nothing is left")


def what_does_not_go_together_is_told():
    with tempfile.TemporaryDirectory() as folder:
        path = world(folder)
        done = run("run", "--cluster", "local", "-f", path, "--speed", "max", cwd=folder)
        expect(done.returncode == 64 and "--cluster local" in done.stderr, done.stderr)
        done = run("run", "--cluster", "local", cwd=folder)
        expect(done.returncode == 64 and "needs a file" in done.stderr, done.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])
    globals()[sys.argv[1]]()
