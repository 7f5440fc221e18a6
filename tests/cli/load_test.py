#!/usr/bin/env python3
"""load_test.py - aware-workload and `aware load`, as a user meets them.

    load_test.py TEST AWARE AWARE_WORKLOAD    one of the functions below, against the programs

Everything listens on and talks to 127.0.0.1. Exit status as in cli_test.py.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import cli_test
from cli_test import expect, expect_ok, run

WORKLOAD = "aware-workload"
PATIENCE_S = 60


def fetch(address, path, method="GET"):
    """(status, body); urllib raises for what is not 2xx, which is an answer all the same."""
    request = urllib.request.Request(f"http://{address}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@contextlib.contextmanager
def workload(*args, ready=True, **keywords):
    """A running aware-workload; yields its process and address, and expects it to end well."""
    process = subprocess.Popen([WORKLOAD, *args, "--listen", "127.0.0.1:0"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, **keywords)
    try:
        line = process.stdout.readline()
        expect(line.startswith("listening on 127.0.0.1:"), f"{line!r} {process.poll()}")
        address = line.split()[-1]
        until = time.monotonic() + PATIENCE_S
        while ready and fetch(address, "/readyz")[0] != 200:
            expect(time.monotonic() < until, "never ready")
            time.sleep(0.01)
        yield process, address
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE_S)
        expect(code == 0, f"exit {code}: {process.stderr.read()}")
    finally:
        process.kill()
        process.communicate()


def metrics(address):
    """{name with labels: value}"""
    lines = fetch(address, "/metrics")[1].splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines
            if not line.startswith("#")}


def load(address, *args):
    done = expect_ok("load", f"http://{address}/", *args, "-o", "json")
    return json.loads(done.stdout)


def a_workload_starts_serves_drains_and_leaves_nothing():
    with tempfile.TemporaryDirectory() as folder:
        app = "kind:gzip,file_write,table_scan,json_to_yaml,object_read,ml_inference"
        with workload("--app", app, "--start", "0s", "--temp", folder,
                      "--work-scale", "0.2") as (process, address):
            result = load(address, "--rate", "5/s", "--duration", "2s", "--timeout", "30s")
            expect(result["ok"] == result["due"] > 0, str(result))
            figures = metrics(address)
            expect(figures['aware_workload_requests_total{outcome="ok"}'] == result["ok"],
                   str(figures))
            for kind in app.removeprefix("kind:").split(","):
                runs = figures[f'aware_workload_segment_runs_total{{kind="{kind}"}}']
                cpu = figures[f'aware_workload_segment_cpu_seconds_total{{kind="{kind}"}}']
                expect(runs == result["ok"] and cpu > 0, f"{kind}: {runs} runs, {cpu} s")
            expect(not os.listdir(folder), f"left: {os.listdir(folder)}")
            # what is killed leaves nothing either: its files have no name
            process.kill()
            process.wait()
            expect(not os.listdir(folder), f"left: {os.listdir(folder)}")
            process.send_signal = lambda number: None
            process.wait = lambda timeout=None: 0


def a_service_is_as_slow_to_start_as_it_is_described():
    before = time.monotonic()
    with workload("--app", "kind:sleep", "--start", "1500ms", ready=False) as (_, address):
        expect(fetch(address, "/healthz")[0] == 200, "not alive")
        expect(fetch(address, "/readyz")[0] == 503, "ready at once")
        expect(fetch(address, "/")[0] == 503, "served before it was ready")
        while fetch(address, "/readyz")[0] != 200:
            time.sleep(0.02)
        expect(time.monotonic() - before >= 1.5, "ready too early")


def a_socket_that_listens_already_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        process = subprocess.Popen(
            [WORKLOAD, "--app", "kind:sleep", "--start", "0s", "--listen",
             f"fd:{listener.fileno()}"],
            pass_fds=[listener.fileno()], stdout=subprocess.PIPE, text=True)
        try:
            line = process.stdout.readline()
            expect(line == f"listening on 127.0.0.1:{port}\n", line)
            expect(fetch(f"127.0.0.1:{port}", "/healthz")[0] == 200, "not alive")
            process.terminate()
            expect(process.wait(PATIENCE_S) == 0, "did not end well")
        finally:
            process.kill()
            process.communicate()


def unix_fetch(path, target):
    """The status line of an answer over a Unix socket."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(PATIENCE_S)
        peer.connect(path)
        peer.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while part := peer.recv(4096):
            answer += part
    return answer.decode().split("\r\n")[0]


def a_unix_socket_is_served_beside_the_port_and_removed():
    sleeper = ["--app", "kind:sleep", "--start", "0s"]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/s"
        for words, offered in (["--socket", path], {}), ([], {"AWARE_SOCKET": path}):
            with workload(*sleeper, *words, env={**os.environ, **offered}) as (_, address):
                expect(os.stat(path).st_mode & 0o777 == 0o600, "others may connect")
                expect(unix_fetch(path, "/readyz") == "HTTP/1.1 200 OK", "not over the socket")
                expect(fetch(address, "/")[0] == 200, "not over the port")
            expect(not os.path.lexists(path), "it was left behind")
        with workload(*sleeper, "--socket", "", env={**os.environ, "AWARE_SOCKET": path}):
            expect(not os.path.lexists(path), "it was not wanted")
        # what is asked for must be had; what is offered need not
        Path(path).write_text("somebody's")
        for wrong, reason in (path, "there already"), (f"{folder}/{'x' * 120}", "1 to 107 bytes"):
            asked = [WORKLOAD, *sleeper, "--listen", "127.0.0.1:0", "--socket", wrong]
            done = subprocess.run(asked, capture_output=True, text=True)
            expect(done.returncode not in (0, 1) and reason in done.stderr, str(done))
            expect(done.stderr.count("\n") == 1, done.stderr)
            with workload(*sleeper, env={**os.environ, "AWARE_SOCKET": wrong}) as (_, address):
                expect(fetch(address, "/")[0] == 200, "not over the port")
        expect(Path(path).read_text() == "somebody's", "it was taken away")


def what_was_measured_is_kept_for_the_next_start():
    with tempfile.TemporaryDirectory() as folder:
        costs = Path(folder, "costs.json")
        args = ("--app", "1:3", "--start", "0s", "--no-memory", "--costs", str(costs))
        with workload(*args):
            pass
        first = json.loads(costs.read_text())
        expect(first["app"] == "app-1-3" and all(s["piece_us"] > 0 for s in first["segments"]),
               str(first))
        stamp = costs.stat().st_mtime_ns
        with workload(*args):
            pass
        expect(costs.stat().st_mtime_ns == stamp, "measured again")
        with workload(*args[2:], "--app", "1:4"): # another application: its own costs
            pass
        expect(json.loads(costs.read_text())["app"] == "app-1-4", costs.read_text())


def applications_are_those_of_the_simulator():
    with tempfile.TemporaryDirectory() as folder:
        apps = str(Path(folder, "apps.yaml"))
        expect_ok("apps", "generate", "--seed", "7", "--count", "3", "--out", apps)
        for name, app in (("app-7-0", apps), ("app-7-2", apps + ":app-7-2"), ("app-7-2", "7:2")):
            with workload("--app", app, "--start", "0s", "--no-memory",
                          ready=False) as (_, address):
                expect(f'aware_workload_info{{app="{name}"}}' in metrics(address), name)
        for app, code in (("kind:nothing", 64), (apps + ":app-7-9", 66), ("no-such-file", 66)):
            done = subprocess.run([WORKLOAD, "--app", app], capture_output=True, text=True,
                                  check=False, timeout=PATIENCE_S)
            expect(done.returncode == code and done.stderr.count("\n") == 1 and
                   done.stderr.startswith("aware-workload: "), f"{app}: {done}")


def wrong_options_get_one_line_and_the_right_code():
    for args in (["--app"], ["--nonsense"], [], ["word"], ["--app", "1:1", "--threads", "0"],
                 ["--app", "1:1", "--payload", "0"], ["--app", "1:1", "--listen", "nowhere"],
                 ["--app", "1:1", "--listen", "fd:0"], ["--app", "1:1", "--start", "soon"],
                 ["--app", "1:1", "--waits", "never"],
                 ["--app", "1:1", "--families", "image,"],
                 ["--app", "1:1", "--families", "none"]):
        done = subprocess.run([WORKLOAD, *args], capture_output=True, text=True, check=False,
                              timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
        expect(done.returncode in (64, 65) and done.stderr.count("\n") == 1 and not done.stdout,
               f"{args}: {done}")
    done = subprocess.run([WORKLOAD, "--help"], capture_output=True, text=True, check=True,
                          timeout=PATIENCE_S)
    expect("usage: aware-workload" in done.stdout and
           all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout)


def a_payload_grows_for_the_families_that_are_named():
    for families, grows in (("file,table", True), ("image", False)):
        with workload("--app", "kind:file_read", "--start", "0s", "--payload", "4", "--families",
                      families, "--waits", "real") as (_, address):
            expect(fetch(address, "/")[0] == 200, "not served")
            read = metrics(address)["aware_workload_read_bytes_total"]
            expect(read == 256 * 1024 * (4 if grows else 1), f"{families}: {read}")


def an_object_server_can_be_a_process_of_its_own():
    with workload("object-server", ready=False) as (_, objects):
        expect(fetch(objects, "/healthz")[0] == 200, "not alive")
        with workload("--app", "kind:object_write,object_stream", "--start", "0s",
                      "--object-server", objects) as (_, address):
            result = load(address, "--requests", "3", "--rate", "10/s", "--timeout", "30s")
            expect(result["ok"] == 3, str(result))
            expect(result["latency_ms"]["p50"] > 20, "no wait for the store")


def load_is_told_in_words_and_in_json():
    with workload("--app", "kind:sleep", "--start", "0s") as (_, address):
        args = ("--rate", "100/s", "--duration", "1s", "--seed", "5")
        text = expect_ok("load", f"http://{address}/", *args).stdout
        for word in ("from when it was due", "p99.9", "Due:", "Answered:", "Errors:      none"):
            expect(word in text, text)
        first, second = load(address, *args), load(address, *args)
        expect(first["due"] == second["due"], "the same seed, another number")
        expect(first["due"] != load(address, *args[:-1], "6")["due"] or
               first["due"] != load(address, *args[:-1], "7")["due"], "chance without chance")
        expect(set(first["latency_ms"]) == {"p50", "p90", "p99", "p99.9", "max", "mean"},
               str(first))
        expect(first["latency_ms"]["p50"] >= 10, "a sleep of 10 ms took less")
        expect(load(address, "--requests", "7", "--arrivals", "even")["answered"] == 7, "not 7")
        result = load(f"{address}/nowhere?x=", "--requests", "4")
        expect(result["errors"]["status"] == 4 and result["ok"] == 0, str(result))
        result = load(address, "--requests", "3", "--method", "POST", "--body", "100000",
                      "-H", "X-Test: 1")
        expect(result["ok"] == 3 and result["bytes_out"] > 300000, str(result))


def a_trace_is_replayed_faster_than_it_was():
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "rates.txt")
        trace.write_text("20\n0\n40\n")
        with workload("--app", "kind:sleep", "--start", "0s") as (_, address):
            result = load(address, "--load", f"{trace}:slot=10s", "--speed", "20", "--arrivals",
                          "even", "--duration", "1500ms")
            # half a second each of 20/s, of nothing, and of 40/s
            expect(29 <= result["due"] <= 31 and result["ok"] == result["due"], str(result))


def only_this_machine_is_pressed():
    for url in ("http://192.0.2.1/", "http://example.com/"):
        done = run("load", url)
        expect(done.returncode == 64 and "--allow-remote" in done.stderr, str(done))
    for args in (["https://127.0.0.1/"], ["http://127.0.0.1/", "--rate", "fast"],
                 ["http://127.0.0.1/", "--rate", "5/s", "--load", "constant"],
                 ["http://127.0.0.1/", "--duration", "0"], ["http://127.0.0.1/", "-H", "nonsense"],
                 ["http://127.0.0.1/", "--speed", "0"], ["http://127.0.0.1/", "--rate", "1e9/s"]):
        done = run("load", *args)
        expect(done.returncode != 0 and done.stderr.count("\n") == 1, f"{args}: {done}")


def an_interrupt_ends_it_with_what_was_measured():
    with workload("--app", "kind:sleep", "--start", "0s") as (_, address):
        process = subprocess.Popen([cli_test.AWARE, "load", f"http://{address}/", "--duration",
                                    "10m"], stdout=subprocess.PIPE, text=True)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        text = process.communicate(timeout=PATIENCE_S)[0]
        expect(process.returncode == 0 and "(interrupted)" in text, text)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        cli_test.AWARE, WORKLOAD = sys.argv[2:4]
    globals()[sys.argv[1]]()
