#!/usr/bin/env python3
"""web_test.py - the page and the metrics of a running daemon, as browsers and Prometheus see them.

    web_test.py TEST [AWARE [OUT]]    one of the functions below, against the program AWARE

OUT is where screenshots are kept, and what npm brings. Exit status as in cli_test.py.
"""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "cli"))

import cli_test  # noqa: E402
from cli_test import expect, run, skip  # noqa: E402
from run_test import files  # noqa: E402

WAIT_S = 60
TOKEN = "0123456789abcdef-right"
PROMETHEUS = ROOT / "deploy/prometheus"
OUT = None


def get(url, **headers):
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        return answer.read().decode()


def until(holds, what, wait_s=WAIT_S):
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            found = holds()
            if found:
                return found
        time.sleep(0.1)
    expect(False, f"waited {wait_s} s in vain: {what}")
    return None


@contextlib.contextmanager
def daemon(folder, *more, speed="900", names=("web", "api", "cart"), port=0):
    """A daemon with its page on a port, 0 for some free one; yields (process, url)."""
    log = Path(folder, "log")
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen(
            [cli_test.AWARE, "run", "--daemon", "-f", files(folder, names), "--state",
             str(Path(folder, "state")), "--speed", speed, "--threads", "1", "--listen",
             f"127.0.0.1:{port}", *more], cwd=folder, stderr=out, stdout=subprocess.DEVNULL)
    try:
        def found():
            expect(process.poll() is None, f"the daemon ended: {log.read_text()}")
            match = re.search(r"url=(\S+?)/?\s", log.read_text())
            return match and match.group(1).rstrip("/")
        url = until(found, "the address of the page")
        until(lambda: get(f"{url}/readyz"), "ready")
        yield process, url
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            expect(process.wait(timeout=WAIT_S) == 0, "the daemon ends well")


def tool(name, package):
    path = shutil.which(name)
    if not path:
        skip(f"{name} is not installed: apt-get install {package}")
    return path


def free_port():
    """Below those that the kernel gives to outgoing connections, which may take one any moment."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as one:
            one.bind(("127.0.0.1", random.randrange(20000, 32000)))
            return one.getsockname()[1]


# --- metrics -------------------------------------------------------------------------------------


def names_in(expression):
    return set(re.findall(r"\b((?:aware|workqueue|controller_runtime|process)_[a-z_]+)",
                          expression))


def dashboard_expressions():
    dashboard = json.loads((ROOT / "deploy/grafana/aware.json").read_text(encoding="utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def alerts_and_dashboard_are_sound():
    promtool = tool("promtool", "prometheus")
    for args in (["check", "rules", "alerts.yml"], ["check", "config", "prometheus.yml"],
                 ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run([promtool, *args], cwd=PROMETHEUS, capture_output=True, text=True,
                              check=False)
        expect(done.returncode == 0, f"promtool {args}: {done.stdout}{done.stderr}")
    with tempfile.TemporaryDirectory() as folder:
        rules = "groups:\n- name: dashboard\n  rules:\n"
        for i, expression in enumerate(dashboard_expressions()):
            expression = re.sub(r"\$(namespace|workload|job)", ".*", expression)
            rules += f"  - record: panel:{i}\n    expr: {json.dumps(expression)}\n"
        Path(folder, "dashboard.yml").write_text(rules, encoding="utf-8")
        done = subprocess.run([promtool, "check", "rules", "dashboard.yml"], cwd=folder,
                              capture_output=True, text=True, check=False)
        expect(done.returncode == 0, f"the dashboard's questions: {done.stdout}{done.stderr}")


def metrics_are_clean_and_what_the_samples_ask_for_exists():
    with tempfile.TemporaryDirectory() as folder, \
            daemon(folder, "--agents", f"unix:{folder}/agents") as (_, url):
        ticks = re.compile(r"^aware_ticks_total (\S+)", re.M)
        until(lambda: float(ticks.search(get(f"{url}/metrics"))[1]) > 50, "ticks")
        text = get(f"{url}/metrics")
        known = set(re.findall(r"^([a-z_]+)[{ ]", text, re.M))
        wanted = set().union(*map(names_in, dashboard_expressions()))
        wanted |= names_in((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))
        wanted |= {"aware_workload_model_info", "aware_workload_decisions_total"}
        # those of Kubernetes' controllers, which this daemon is not (tests/kube scrapes one)
        wanted = {name for name in wanted if not re.match("aware_(updater|admission|vpa)_", name)}
        page = (ROOT / "docs/mechanisms/metrics.md").read_text(encoding="utf-8")
        expect(wanted <= known | {"aware_workload_model_info"}, f"not there: {wanted - known}")
        told = {re.sub("_(bucket|sum|count)$", "", name) for name in known
                if name.startswith("aware_")}
        missing = sorted(name for name in told if name not in page)
        expect(not missing, f"docs/mechanisms/metrics.md does not tell of {missing}")
        promtool = tool("promtool", "prometheus")
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True,
                              text=True, check=False)
        expect(done.returncode == 0, f"promtool check metrics: {done.stdout}{done.stderr}")


def a_real_prometheus_scrapes_it():
    prometheus = tool("prometheus", "prometheus")
    with tempfile.TemporaryDirectory() as folder, daemon(folder) as (_, url):
        shutil.copy(PROMETHEUS / "alerts.yml", folder)
        config = (PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8")
        config = config.replace("127.0.0.1:9180", url.removeprefix("http://"))
        config = re.sub(r"(_interval): 15s", r"\1: 1s", config)
        Path(folder, "prometheus.yml").write_text(config, encoding="utf-8")
        port = free_port()
        with open(Path(folder, "prometheus.log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [prometheus, f"--config.file={folder}/prometheus.yml",
                 f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"],
                stdout=log, stderr=log)
        try:
            base = f"http://127.0.0.1:{port}/api/v1"

            def ask(question):
                quoted = urllib.request.quote(question)
                return json.loads(get(f"{base}/query?query={quoted}"))["data"]["result"]

            until(lambda: ask('up{job="aware"}')[0]["value"][1] == "1", "a scrape that succeeds")
            until(lambda: float(ask("rate(aware_ticks_total[10s])")[0]["value"][1]) > 1, "ticks")
            target = json.loads(get(f"{base}/targets"))["data"]["activeTargets"][0]
            expect(target["lastError"] == "" and target["health"] == "up", f"{target}")
            stages = ask("sum by (stage) (aware_workload_stage)")
            expect(sum(float(one["value"][1]) for one in stages) == 3, f"{stages}")
            total = ask("sum(aware_workload_steps_total)")
            expect(float(total[0]["value"][1]) > 0, f"{total}")
            name = "controller_runtime_reconcile_time_seconds"
            types = get(f"{base}/metadata?metric={name}")
            expect("histogram" in types, types)
            until(lambda: ask(f"histogram_quantile(0.9, rate({name}_bucket[10s]))"), "durations")
            rules = json.loads(get(f"{base}/rules"))["data"]["groups"][0]["rules"]
            written = (PROMETHEUS / "alerts.yml").read_text(encoding="utf-8").count("alert:")
            expect(len(rules) == written, f"{len(rules)} rules of {written}")
            until(lambda: all(rule["health"] == "ok" for rule in
                              json.loads(get(f"{base}/rules"))["data"]["groups"][0]["rules"]),
                  "every rule can be evaluated")
        finally:
            process.terminate()
            process.wait(timeout=WAIT_S)


# --- the door ------------------------------------------------------------------------------------


def wrong_doors_get_one_line_and_the_right_code():
    with tempfile.TemporaryDirectory() as folder:
        path = files(folder)
        token = Path(folder, "token")
        token.write_text(TOKEN, encoding="utf-8")
        token.chmod(0o644)
        base = ["run", "--daemon", "-f", path, "--state", f"{folder}/state"]
        for args, code, words in (
                ([*base, "--listen", "example.org:80"], 64, "127.0.0.1:9180"),
                ([*base, "--listen", "127.0.0.1"], 64, "expected an address"),
                ([*base, "--listen", "0.0.0.0:9180"], 64, "--token-file"),
                ([*base, "--token-file", str(token)], 64, "--listen"),
                ([*base, "--reports", folder], 64, "--listen"),
                (["run", "-f", path, "--listen", "9180"], 64, "--daemon"),
                ([*base, "--listen", "9180", "--token-file", str(token)], 78, "chmod"),
                ([*base, "--listen", "9180", "--token-file", f"{folder}/none"], 66, "none")):
            done = run(*args)
            expect(done.returncode == code and words in done.stderr,
                   f"{args[4:]}: {done.returncode} {done.stderr!r}, expected {code} and {words}")
            expect(len([line for line in done.stderr.splitlines() if "warning" not in line]) == 1,
                   f"one line: {done.stderr!r}")


def a_page_survives_a_reload_and_forgets_nothing():
    with tempfile.TemporaryDirectory() as folder, daemon(folder) as (process, url):
        until(lambda: json.loads(get(f"{url}/v1/table"))["tick"] > 30, "ticks")
        before = json.loads(get(f"{url}/v1/workloads/default/web/series"))["at"]
        world = Path(folder, "world.yaml")
        text = world.read_text(encoding="utf-8")
        world.write_text(text.replace("  learning:", "  policy: {updateMode: 'Off'}\n  learning:"),
                         encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        until(lambda: json.loads(get(f"{url}/v1/workloads/default/web"))["mode"] == "Off",
              "the new settings")
        series = json.loads(get(f"{url}/v1/workloads/default/web/series"))["at"]
        expect(series[0] == before[0] and len(series) >= len(before),
               f"{len(series)} points, {len(before)} before")
        expect(series == sorted(series), "in order")


def idle_it_takes_next_to_nothing():
    """At the speed of life, with page, metrics, a listener and the door of external agents: less
    than 1 % of a core, 64 MB."""
    if "asan" in cli_test.AWARE or os.environ.get("ASAN_OPTIONS"):
        skip("figures of a sanitized build say nothing")
    with tempfile.TemporaryDirectory() as folder, \
            daemon(folder, "--agents", f"unix:{folder}/agents", speed="1") as (process, url):
        expect(Path(folder, "agents").is_socket(), "gRPC is on")

        def cpu_s():
            fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        seconds = float(os.environ.get("AWARE_IDLE_SECONDS", "12"))
        stream = urllib.request.urlopen(f"{url}/v1/events", timeout=WAIT_S)
        stream.readline()
        time.sleep(1)
        begin, begin_cpu = time.monotonic(), cpu_s()
        while time.monotonic() - begin < seconds:
            get(f"{url}/metrics", Accept="application/openmetrics-text")
            time.sleep(2)
        share = (cpu_s() - begin_cpu) / (time.monotonic() - begin)
        status = Path(f"/proc/{process.pid}/status").read_text()
        resident = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024
        stream.close()
        print(f"idle for {seconds:.0f} s: {100 * share:.2f} % of a core, {resident:.1f} MiB")
        expect(share < 0.01, f"{100 * share:.2f} % of a core")
        expect(resident < 64, f"{resident:.1f} MiB")


# --- the browser ---------------------------------------------------------------------------------


def playwright():
    """The module that drives the browser, from npm, pinned by package-lock.json; kept in OUT."""
    place = Path(OUT, "npm")
    module = place / "node_modules/playwright-core"
    if not module.exists() or not (place / "node_modules/axe-core").exists():
        npm = tool("npm", "npm")
        place.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, place)
        done = subprocess.run([npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=place,
                              capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            skip(f"npm cannot bring playwright-core: {done.stderr.strip().splitlines()[-1:]}")
    return str(module)


@contextlib.contextmanager
def tenants_daemon(folder):
    """A daemon whose workloads share a cluster that is too small for them."""
    place = Path(folder, "tenants")
    place.mkdir()
    (place / "world.yaml").write_text(
        (ROOT / "examples/tenants/tenants.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    port = free_port()
    with open(place / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [cli_test.AWARE, "run", "--daemon", "-f", str(place / "world.yaml"), "--state",
             str(place / "state"), "--speed", "60", "--threads", "1", "--listen",
             f"127.0.0.1:{port}"], cwd=place, stderr=log, stdout=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: get(f"{url}/v1/capacity"), "the capacity of the tenants")
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=WAIT_S)


def the_page_works_in_a_browser():
    node, chromium = tool("node", "nodejs"), tool("chromium", "chromium")
    module = playwright()
    axe = Path(module).parent / "axe-core/axe.min.js"
    shots = Path(OUT, "screenshots")
    shots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        token = Path(folder, "token")
        token.write_text(TOKEN, encoding="utf-8")
        token.chmod(0o600)
        reports = Path(folder, "reports")
        reports.mkdir()
        done = run("train", "--env", "cartpole-v1", "--agent", "ppo", "--steps", "4000", "--seed",
                   "1", "--out", str(reports / "pole"))
        expect(done.returncode == 0, done.stderr)
        (reports / "sample.html").write_text("<!doctype html><p>a report</p>", encoding="utf-8")
        asked = {"port": free_port()}
        more = ("--token-file", str(token), "--reports", str(reports))
        with contextlib.ExitStack() as running:
            _, url = running.enter_context(daemon(folder, *more, **asked))
            until(lambda: json.loads(get(f"{url}/v1/workloads/default/web/episodes"))["at"],
                  "an episode")
            shared = running.enter_context(contextlib.ExitStack())
            tenants = shared.enter_context(tenants_daemon(folder))
            browser = subprocess.Popen(
                [node, str(HERE / "browser_test.mjs"), url, str(shots), chromium, TOKEN, module,
                 str(axe), tenants],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            failed = []
            for line in browser.stdout:
                print(line, end="")
                failed += [line] if line.startswith("not ok") else []
                if line.startswith("stop the daemon"):
                    running.close()
                elif line.startswith("start the daemon"):
                    running.enter_context(daemon(folder, *more, **asked))
                else:
                    continue
                browser.stdin.write("done\n")
                browser.stdin.flush()
            expect(browser.wait() == 0, f"the page: {failed}")


def the_plotting_library_is_what_was_published():
    tool("npm", "npm")
    done = subprocess.run([str(ROOT / "src/web/page/vendor/verify")], capture_output=True,
                          text=True, check=False, timeout=120)
    if done.returncode == 69:
        skip(done.stderr.strip())
    expect(done.returncode == 0, done.stdout + done.stderr)


def main():
    global OUT
    cli_test.AWARE = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else "aware"
    OUT = sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp()
    globals()[sys.argv[1]]()


if __name__ == "__main__":
    main()
