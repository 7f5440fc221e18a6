#!/usr/bin/env python3
"""agents_test.py - external agents as a user meets them: run --agents and agent serve.

    agents_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import cli_test
from cli_test import expect, run

FILE = """
apiVersion: autoscaling.aware.dev/v1alpha1
kind: SimulatedApplication
metadata: {name: shop}
spec:
  app: {seed: 1, index: 39}
  load: {source: "diurnal:peak=3,period=6h", cores: 2}
---
apiVersion: autoscaling.aware.dev/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: shop}
spec:
  scaleTargetRef: {name: shop}
  goals: {slo: {latency: {target: 89ms}}}
  constraints:
    global: {minReplicas: 1, maxReplicas: 20}
    pod:
      requests:
        minAllowed: {cpu: 100m, memory: 64Mi}
        maxAllowed: {cpu: 4, memory: 4Gi}
  learning:
    bootstrap: false
    agent: {name: external, settings: {deadline: 30, probation: 5}}
"""


def begin(folder, duration):
    """A run that waits for its agent, and the address where it lets one in.

    What it says goes to files: nobody reads a pipe while the agent is served.
    """
    path, address = Path(folder, "shop.yaml"), f"unix:{folder}/agents"
    path.write_text(FILE)
    with open(Path(folder, "out"), "w") as out, open(Path(folder, "err"), "w") as err:
        return subprocess.Popen(
            [cli_test.AWARE, "run", "-f", str(path), "--agents", address, "--agents-wait", "60s",
             "--state", "none", "--no-twin", "--duration", duration, "--output", "json"],
            stdout=out, stderr=err), address


def ended(process, folder):
    """What the run has said, and that it went well."""
    code = process.wait(timeout=120)
    expect(code == 0, Path(folder, "err").read_text())
    return Path(folder, "out").read_text()


def served(address, *more):
    """`agent serve`, once the door is open."""
    for _ in range(600):
        done = run("agent", "serve", "shop", "--address", address, *more)
        if done.returncode != 69 or "connect" not in done.stderr:
            return done
    return done


def until(holds, process):
    """Looks again until it holds; the daemon has to live meanwhile."""
    for _ in range(1200):
        expect(process.poll() is None, "the daemon ended")
        if holds():
            return
        time.sleep(0.1)
    expect(False, "waited two minutes in vain")


def scrape(url):
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        return answer.read().decode()


def steps_of(text):
    return [step for step in map(json.loads, text.splitlines()) if step["type"] == "step"]


def an_agent_decides_for_a_workload_behind_the_rails():
    with tempfile.TemporaryDirectory() as folder:
        process, address = begin(folder, "1h")
        agent = served(address, "--policy", "constant:0.2,0.3,0.1", "--name", "tiny")
        out = ended(process, folder)
        expect(agent.returncode == 0 and "default/shop: 240 states, 240 answers" in agent.stdout,
               agent.stdout + agent.stderr)
        steps = steps_of(out)
        actors = [step["actor"] for step in steps]
        expect(actors == ["fallback"] * 4 + ["agent"] * 236, str(actors))
        expect([round(a, 6) for a in steps[-1]["action"]] == [0.2, 0.3, 0.1], str(steps[-1]))


def an_agent_that_leaves_is_replaced_by_the_fallback():
    with tempfile.TemporaryDirectory() as folder:
        process, address = begin(folder, "1h")
        agent = served(address, "--policy", "fallback", "--steps", "50")
        out = ended(process, folder)
        expect(agent.returncode == 0 and "50 answers" in agent.stdout, agent.stdout + agent.stderr)
        actors = [step["actor"] for step in steps_of(out)]
        expect(len(actors) == 240 and actors.count("agent") in (45, 46), str(actors.count("agent")))
        expect(set(actors[60:]) == {"fallback"}, str(actors[60:]))


def what_an_agent_says_and_how_it_does_is_shown_to_people():
    """Over a daemon: the sentence of a decision, and /metrics as promtool likes it."""
    with tempfile.TemporaryDirectory() as folder:
        path, address = Path(folder, "shop.yaml"), f"unix:{folder}/agents"
        state = Path(folder, "state")
        path.write_text(FILE)
        with open(Path(folder, "log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [cli_test.AWARE, "run", "--daemon", "-f", str(path), "--agents", address, "--state",
                 str(state), "--speed", "300", "--no-twin", "--listen", "127.0.0.1:0"],
                stderr=log, stdout=subprocess.DEVNULL)
        agent = None
        try:
            until(lambda: "url=" in Path(folder, "log").read_text(), process)
            url = re.search(r"url=(\S+?)/?\s", Path(folder, "log").read_text())[1].rstrip("/")
            agent = subprocess.Popen(
                [cli_test.AWARE, "agent", "serve", "shop", "--address", address, "--policy",
                 "constant:0.2,0.3,0.1", "--name", "tiny"], stdout=subprocess.DEVNULL)
            acting = re.compile(r"^aware_agents_acting (\S+)", re.M)
            until(lambda: float(acting.search(scrape(url))[1]) == 1, process)
            text = scrape(url)
            told = run("explain", "shop", "--state", str(state))
        finally:
            for one in filter(None, (agent, process)):
                one.terminate()
                one.wait(timeout=120)
        expect("it says: policy constant:0.2,0.3,0.1" in told.stdout, told.stdout + told.stderr)
        figures = dict(re.findall(r"^(aware_agent\S+) (\S+)$", text, re.M))
        expect(figures['aware_agent_seats{standing="trusted"}'] == "1", str(figures))
        expect(float(figures["aware_agent_answers_total"]) >= 5, str(figures))
        expect(float(figures["aware_agent_answer_time_seconds_count"]) >= 5, str(figures))
        page = (Path(__file__).parents[2] / "docs/mechanisms/metrics.md").read_text()
        for name in {name.partition("{")[0] for name in figures}:
            family = re.sub("_(bucket|sum|count)$", "", name)
            expect(f"`{family}" in page, f"docs/mechanisms/metrics.md does not tell of {family}")
        promtool = shutil.which("promtool")
        if promtool:
            done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True,
                                  text=True, check=False)
            expect(done.returncode == 0, f"promtool check metrics: {done.stdout}{done.stderr}")


def loopback_grpc_seats_nobody_without_a_token():
    """The same rule as for orders by HTTP."""
    with tempfile.TemporaryDirectory() as folder:
        path, token = Path(folder, "shop.yaml"), Path(folder, "token")
        path.write_text(FILE)
        args = ["run", "-f", str(path), "--agents", "127.0.0.1:0", "--state", "none",
                "--duration", "30s", "-q"]
        bare = run(*args)
        expect(bare.returncode == 78 and "--agents-token-file" in bare.stderr, bare.stderr)
        token.write_text("a-token-of-many-characters\n")
        token.chmod(0o600)
        done = run(*args, "--agents-token-file", str(token))
        expect(done.returncode == 0, done.stderr)


def who_is_not_expected_is_told():
    with tempfile.TemporaryDirectory() as folder:
        process, address = begin(folder, "30s")
        served(address, "--steps", "1", "--policy", "nowhere")  # fails before it connects
        other = run("agent", "serve", "cart", "--address", address)
        for _ in range(600):
            if "connect" not in other.stderr:
                break
            other = run("agent", "serve", "cart", "--address", address)
        expect(other.returncode == 66 and 'is called "cart"' in other.stderr, other.stderr)
        bad = run("agent", "serve", "shop", "--address", address, "--policy", "constant:1,2")
        expect(bad.returncode == 64 and "CPU,MEMORY,REPLICAS" in bad.stderr, bad.stderr)
        process.terminate()
        process.wait(timeout=120)
        path = Path(folder, "shop.yaml")
        alone = run("run", "-f", str(path), "--state", "none")
        expect(alone.returncode == 64 and "--agents" in alone.stderr, alone.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = sys.argv[2]
    globals()[sys.argv[1]]()
