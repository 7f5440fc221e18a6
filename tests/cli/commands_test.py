#!/usr/bin/env python3
"""commands_test.py - every command of README, docs, help and unit files, run as it stands there.

    commands_test.py TEST [AWARE]    one of the functions below, against the program AWARE

A scratch folder has what the commands name: files, a state, a daemon that answers. Each command is
typed into a shell there. What it does may be made smaller (SMALLER), never another: the verb and
every option stay. What cannot be run here is in NOT_HERE, with the reason; its verb and options
are held against the help. A command that no group runs and no reason excuses fails the test, and so
does a reason that excuses nothing.

Exit status as in cli_test.py. Files of measured data come from AWARE_DATA_DIR.
"""

import contextlib
import functools
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from shlex import quote

import cli_test
from cli_test import expect, run
from trace_test import DAY, faults_folder, minute_of_requests, pod, write

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = cli_test.PATIENCE_S

# --- what the documents say -----------------------------------------------------------------------

SHELL = re.compile(r"```(?:sh|console|bash|)\n(.*?)```", re.DOTALL)
PROGRAMS = ("aware aware-bench aware-workload make sudo kubectl helm docker python3 meson ninja "
            "curl systemctl").split()


def program_of(command):
    words = [word for word in command.split() if not re.match(r"[A-Z_]+=", word)]
    return Path(words[0]).name if words else ""


def of_documents():
    """{command: where it stands}; pages of results are records of long measurements."""
    found = {}
    pages = [ROOT / "README.md", ROOT / "python/README.md", *ROOT.glob("docs/*.md"),
             *ROOT.glob("docs/mechanisms/*.md"), *ROOT.glob("docs/algorithms/*.md")]
    for page in pages:
        if page.name == "REFERENCE.md": # the help, which is read from the program
            continue
        for block in SHELL.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                command = re.sub(r"^\$ |(?:\s+&)?\s+#.*|\s+&$", "", line.strip())
                command = re.sub(r"\s+", " ", command)
                if program_of(command) in PROGRAMS and not re.match(r"aware run demo:", command):
                    found.setdefault(command, str(page.relative_to(ROOT)))
    return found


@functools.cache
def help_of(*words):
    return cli_test.expect_ok("help", *words).stdout


def of_help():
    found = {}
    for words in cli_test.VERBS:
        page = help_of(*words)
        for line in page.split("Examples:")[-1].replace("\\\n", " ").splitlines():
            command = re.sub(r"\s+", " ", re.sub(r"\s+#.*", "", line.strip()))
            if "Examples:" in page and program_of(command) in PROGRAMS:
                found.setdefault(command, "help " + " ".join(words))
    return found


def of_units():
    found = {}
    for unit in (ROOT / "deploy/systemd").glob("*.service"):
        for line in unit.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
            match = re.match(r"Exec(?:Start|StartPre|Reload|Stop)=\W*(?:\S*/)?(aware .*)", line)
            if match:
                found.setdefault(re.sub(r"\s+", " ", match[1].strip()), unit.name)
    return found


def everything():
    return {**of_units(), **of_help(), **of_documents()}


# --- what is not run here -------------------------------------------------------------------------

# (what it matches, why)
NOT_HERE = [
    (r"(?:\S+=\S+ )*(?:make|sudo|meson|ninja)\b", "builds, installs or tests the project itself"),
    (r"(?:kubectl|helm|docker) ", "needs a cluster or a container engine; make e2e has one"),
    (r"python3 (?:examples|-m)", "the tests of python and of rpc run them"),
    (r"\S*aware-bench ", "a benchmark of this machine"),
    (r"aware (?:controller|doctor|scan|recommend)\b", "needs a Kubernetes cluster; "
     "tests/kube and make e2e run it"),
    (r"aware .*--cluster local|aware local clean",
     "needs control groups, for itself alone; local_test.py runs it"),
    (r"aware (?:trial|calibrate)\b", "real processes under control groups for minutes; "
     "trial_test.py and the tests of calibrate run them"),
    (r"aware .*--device nvml|aware gpu (?:list|reset)$|aware gpu watch --(?:clock|output) ",
     "needs a GPU; serving_test.py has a double of NVML"),
    (r"aware frequency |aware gpu helper",
     "needs a processor whose clock can be set, which virtual machines lack, and root"),
    (r"aware congestion wire", "needs root and network namespaces; wire_test.c has them"),
    (r"aware pretrain .*--resume", "needs the checkpoint of minutes; pretrain_test.py resumes one"),
    (r"aware simulate fit-surrogate", "hours, and it writes a source file"),
    (r"aware load (?::8080|http)|curl -sN|curl http://127.0.0.1:8080",
     "needs a server under load; load_test.py and serving_test.py have one"),
    (r"aware (?:env check .?grpc|env describe grpc|train .*grpc)",
     "needs a server of environments; rpc_test.py has one"),
    (r"aware serving proxy", "needs model servers; serving_test.py has stand-ins"),
    (r"aware serving profile .*\.onnx", "needs a model in ONNX; serving_test.py writes one"),
]

# --- smaller, never another -----------------------------------------------------------------------

SMALLER = [
    (r"(--duration|-d) (?:7d|24h|24m|2h)", r"\1 5m"),
    (r"^(aware run (?!.*(?:--duration|-d |--daemon|--demo)).+)", r"\1 --duration 5m"),
    (r"--speed 60(?!0)", "--speed max"),
    (r"(--steps|-n) (?:100k|20k)\b", r"\1 1k"),
    (r"--steps 200k", "--steps 2k"),
    (r"^(aware train (?!.*(?:--steps|-n |eval)).+)", r"\1 --steps 1k"),
    (r"--episodes (?:1000|28)\b", "--episodes 2"),
    (r"--apps 100\b", "--apps 2"),
    (r"--seeds 1\.\.2000", "--seeds 1..3"),
    (r"--count 1000\b", "--count 20"),
    (r"--model reference", "--model reference --episodes 1 --as-given"),
    (r"--seconds 30\b", "--seconds 3"),
]

# State that documents name is the scratch folder's.
PLACES = [
    (r"/var/lib/aware-shop", "graph-state"),
    (r"/var/lib/aware", "aware-state"),
    (r"/etc/aware", "etc"),
    (r"\bSTATE/", "aware-state/"),
    (r"\bFILES\b", "shop.yaml"),
    (r"\bDIR\b", "reports"),
    (r"--data gpu_freq", "--data $AWARE_DATA_DIR/gpu_freq"),
    (r"--data sweep.csv", "--data $AWARE_DATA_DIR/gpu_freq/nvdvfs_gtx980_time_power.csv"),
]

# --- the folder that the commands are typed in ----------------------------------------------------

APP = """\
apiVersion: autoscaling.aware.dev/v1alpha1
kind: SimulatedApplication
metadata: {name: NAME, namespace: shop}
spec:
  app: {seed: 1, index: INDEX}
  load: {source: "diurnal:peak=4,period=20m", cores: 2, seed: INDEX}
"""
AUTOSCALER = """\
apiVersion: autoscaling.aware.dev/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: NAME, namespace: shop}
spec:
  policy: {updateMode: MODE}
  scaleTargetRef: {name: NAME}
  goals: {slo: {latency: {target: 90ms}}}
  constraints: {global: {maxReplicas: 20}}
  learning: {episodeSteps: 20, fallback: {hpaTarget: 60}}
"""
CLUSTER = """\
apiVersion: autoscaling.aware.dev/v1alpha1
kind: SimulatedCluster
metadata: {name: small}
spec: {nodeCount: 6, nodeCores: 16, nodeMemoryGib: 64}
"""
SEGMENTS = """\
segments:
  - {name: gzip, family: file, cpu: 30ms, cpu_cv: 0.2, memory: 1Mi, memory_per_request: 64Ki}
"""
WORKLOADS = {"cart": (39, "Auto"), "storefront": (3, "Auto"), "checkout": (5, "Approve"),
             "web": (7, "Auto")}


def invocations(path, functions=4):
    """A day of an Azure trace: its functions, minute by minute."""
    lines = ["HashOwner,HashApp,HashFunction,Trigger," + ",".join(str(m + 1) for m in range(1440))]
    for f in range(functions):
        day = (str(60 + 40 * f + (m * 7 * (f + 1)) % 120) for m in range(1440))
        lines.append(f"{f:064x},{f:064x},{f:064x},http," + ",".join(day))
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def measured(path):
    with path.open("w", encoding="utf-8") as out:
        out.write("requests,latency_ms,replicas,cores\n")
        for i in range(400):
            cores, load = (0.5, 1)[i % 2], 0.05 + 0.9 * (i // 2) / 200
            out.write(f"{60 * load * cores / 0.020:.1f},{25 + 8 * load / (1.02 - load):.2f},1,"
                      f"{cores}\n")


def type_in(folder, command, limit=LIMIT_S):
    """As a person would, at a shell. (status, output)"""
    environment = {"PATH": f"{folder}/bin:{os.environ.get('PATH', '')}", "TERM": "xterm",
                   "HOME": str(folder), "AWARE_MODELS": str(ROOT / "models")}
    for name, value in os.environ.items():
        if name.startswith(("ASAN_", "UBSAN_", "TSAN_", "LSAN_", "AWARE_DATA_DIR")):
            environment[name] = value
    with subprocess.Popen(["bash", "-c", command], cwd=folder, env=environment, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            out, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            return -signal.SIGALRM, out
    return process.returncode, out


@contextlib.contextmanager
def scratch():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("bin", ".config/fish/completions", ".zfunc", "recommended", "reports", "etc",
                     "autoscalers", "models", "runs"):
            (folder / part).mkdir(parents=True)
        (folder / "bin/aware").symlink_to(Path(cli_test.AWARE).resolve())
        for part in ("examples", "tools"):
            shutil.copytree(ROOT / part, folder / part)
        (folder / "deploy/crd").mkdir(parents=True)
        (folder / "my.yaml").write_text(SEGMENTS, encoding="utf-8")
        shutil.copy(ROOT / "models/default.safetensors", folder / "models/default.safetensors")
        for word, (index, mode) in WORKLOADS.items():
            text = "---\n".join((APP, AUTOSCALER)).replace("NAME", word).replace("MODE", mode)
            with (folder / "shop.yaml").open("a", encoding="utf-8") as out:
                out.write("---\n" + text.replace("INDEX", str(index)))
        shutil.copy(folder / "shop.yaml", folder / "autoscalers")
        shutil.copy(folder / "shop.yaml", folder / "etc")
        (folder / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
        for trace in ("invocations.csv", "trace.csv", "traces/day.csv"):
            invocations(folder / trace)
        measured(folder / "measured.csv")
        shutil.copy(ROOT / "examples/sizes.csv", folder / "measurements.csv")
        shutil.copy(ROOT / "tests/golden/trace/jaeger.json", folder)
        for stem, slow in (("normal", None), ("slow", "pay"), ("spans", None), ("a", None),
                           ("b", "pay")):
            minute = 8 if slow else 2
            requests = minute_of_requests(0x5b8e0000, minute, count=1) + minute_of_requests(
                len(stem), minute, slow=slow, ms=90.0).split("\n", 1)[1]
            write(name, stem + ".csv.gz", requests)
            status, out = type_in(folder, f"aware trace import {stem}.csv.gz --out {stem}.json")
            expect(status == 0, out)
        pods = "".join(f"x,{DAY + 60 * m + 9},{pod('pay')},{500 if m == 2 else 5},"
                       f"{100 if m == 2 else 1}\n" for m in range(4))
        for path in ("pods.csv", "pods.csv.gz"):
            write(name, path, "Time,TimeStamp,PodName,CpuUsage(m),CpuUsageRate(%)\n" + pods)
        yield folder


# --- groups ---------------------------------------------------------------------------------------

# Asked of a daemon, in the order of PEOPLE; STAYS are ended by a person.
STAYS = r"aware get --watch"
PEOPLE = ("get describe explain history top capacity budget export reject approve undo policy "
          "freeze unfreeze emergency calm state diff curl").split()
# Until they are told to end. Each is interrupted after this time, and must have lived for it.
SERVE_S = 2
LONG_S = 8
SERVERS = (r"aware run .*--daemon|aware (?:env|agent) serve|aware serving standin|"
           r"aware trace collect|aware gpu watch(?!.*--count)")
LONG = (r"aware (?:evaluate|experiment (?!--list)|chaos (?!--list)|pretrain|adapt|embed|"
        r"task (?:train|meet|evaluate|compare)|"
        r"trace (?:learn|evaluate)|serving (?:plan|validate|profile)|simulate .*--compare|inject|"
        r"replay|run --demo|run$|train --resume)")


def verb_of(command):
    words = command.split()
    return words[1] if Path(words[0]).name == "aware" and len(words) > 1 else Path(words[0]).name


def excused(command):
    return next((why for pattern, why in NOT_HERE if re.match(pattern, command)), None)


def group_of(command):
    command = re.sub(r"^build/", "", command)
    if excused(command):
        return "not here"
    if re.match(SERVERS, command):
        return "servers"
    if re.match(r"aware run .*(?:-f|--file) ", command):
        return "runs"
    if verb_of(command) in PEOPLE:
        return "people"
    return "long" if re.match(LONG, command) else "files"


def commands(group):
    return {re.sub(r"^build/", "", command): where for command, where in everything().items()
            if group_of(command) == group}


def exact(command, more=()):
    """The command as it is run here."""
    for pattern, instead in [*PLACES, *more, *SMALLER]:
        command = re.sub(pattern, instead, command)
    return command


def run_all(folder, asked, more=(), fine=(0,), order=None):
    """Every one of them, and then what failed."""
    failed, began = [], time.monotonic()
    for command in sorted(asked, key=order or (lambda command: command)):
        typed, start = exact(command, more), time.monotonic()
        status, out = type_in(folder, typed)
        took = time.monotonic() - start
        if took > 5:
            print(f"{took:.0f} s: {typed}")
        if status not in fine:
            failed.append(f"{asked[command]}: {command}\n  typed: {typed}\n  status {status}: "
                          f"{out[-600:]}")
    print(f"{len(asked)} commands, {time.monotonic() - began:.0f} s")
    expect(not failed, "\n".join(failed))


def free_port():
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return door.getsockname()[1]


def commands_of_files_run():
    with scratch() as folder:
        port = free_port()
        status, out = type_in(folder, f"""
            set -e
            aware run -f shop.yaml -d 10m --state aware-state -r none -q
            for name in aware a b trajectories; do cp aware-state/trajectories.db $name.db; done
            aware store export a.db -o all.jsonl
            aware apps generate --seed 1 --count 18 -o apps.yaml
            aware simulate fit measured.csv -o app.yaml
            aware train -e cartpole-v1 -a ppo -n 1k -q --out runs/first
            rm -r aware-state
            timeout -s TERM 1 aware run --daemon -f shop.yaml || true
            aware trace collect --listen 127.0.0.1:{port} --grpc none --keep 0 &
            until curl -s 127.0.0.1:{port}/v1/traces -o answer; do sleep 0.1; done
            for file in normal slow; do
                while read -r line; do
                    printf %s "$line" | curl -sf 127.0.0.1:{port}/v1/traces -o answer \
                        -H 'content-type: application/json' --data-binary @-
                done <$file.json
            done
            kill %1; wait %1 || true""")
        expect(status == 0, out)
        run_all(folder, commands("files"), order=written_first)


def written_first(command):
    """What writes a file before what reads it."""
    return (not command.startswith("aware train --env"), "--resume" in command, command)


def commands_of_runs_run():
    """Each in a folder without a state."""
    with scratch() as folder:
        asked = commands("runs")
        for command in asked:
            shutil.rmtree(folder / "aware-state", ignore_errors=True)
            run_all(folder, {command: asked[command]})


@contextlib.contextmanager
def daemon(folder, file, state, *more):
    with subprocess.Popen([cli_test.AWARE, "run", "--daemon", "-f", file, "--state", state,
                           "--speed", "200", *more], cwd=folder, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as process:
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        reader.start()
        deadline = time.monotonic() + 60 * cli_test.SLOWER
        while run("get", "--state", state, cwd=folder).returncode != 0:
            expect(time.monotonic() < deadline and process.poll() is None, f"no daemon: {state}")
            time.sleep(0.1)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            expect(process.wait(timeout=60) == 0, f"the daemon of {state} ends well")


def json_at(folder, *args):
    done = run(*args, "-o", "json", cwd=folder)
    expect(done.returncode == 0, done.stderr)
    return json.loads(done.stdout)


def wait_for(what, seconds=60):
    deadline = time.monotonic() + seconds * cli_test.SLOWER
    while True:
        got = what()
        if got:
            return got
        expect(time.monotonic() < deadline, f"not in time: {what}")
        time.sleep(0.2)


class People:
    """What people type at a daemon names numbers; here they are those of this daemon's log, looked
    up when they are needed. What must have happened before is waited for."""

    def __init__(self, folder):
        self.folder = folder
        self.others = ["storefront", "web", "checkout"]

    def newest(self, wanted, *args):
        entries = json_at(self.folder, "history", *args)["entries"]
        return next((e["seq"] for e in entries if wanted(e)), None)

    def changed(self, *args):
        return self.newest(lambda e: e["kind"] == "decision" and e.get("changed"), *args)

    def proposal(self):
        proposals = json_at(self.folder, "get", "--proposals")["proposals"]
        return proposals[0]["id"] if proposals else None

    def freeze(self):
        run("freeze", "web", "--reason", "to be lifted", cwd=self.folder)
        return self.newest(lambda e: e["kind"] == "order" and e["order"] == "freeze")

    def another_policy(self):
        (self.folder / "cart.policy.json").unlink()
        done = run("policy", "export", "storefront", "--out", "cart.policy.json", cwd=self.folder)
        expect(done.returncode == 0, done.stderr)
        return ""

    def on_trial(self):
        state = json_at(self.folder, "policy", "show", "cart")["canary"]["state"]
        if state not in ("shadow", "trial"): # it has ended before it was seen: another one
            self.others.append(self.others.pop(0))
            name = f"{self.others[0]}.policy.json"
            run("policy", "export", self.others[0], "--out", name, cwd=self.folder)
            run("policy", "propose", "cart", name, "--reason", "again", cwd=self.folder)
        return "" if state == "trial" else None

    def number(self, command):
        """The one that the command needs, "" for none; None: not yet."""
        for pattern, look in ((r"aware (?:approve|reject) 310", self.proposal),
                              (r"aware undo 28", lambda: self.changed("--state", "graph-state")),
                              (r"aware undo \d", lambda: self.changed("web")),
                              (r"aware explain mail",
                               lambda: self.changed("mail", "--state", "graph-state")),
                              (r"aware explain cart --dec", lambda: self.changed("cart")),
                              (r"aware explain --decision", self.changed),
                              (r"aware unfreeze 41", self.freeze),
                              (r"aware policy propose", self.another_policy),
                              (r"aware policy rollback", self.on_trial)):
            if re.match(pattern, command):
                return look()
        return ""

    def say(self, command, more):
        """A change or a newer proposal may come in between: it is tried again then."""
        deadline = time.monotonic() + 60 * cli_test.SLOWER
        while True:
            number = self.number(command)
            if number is not None:
                typed = exact(command, more)
                typed = re.sub(r"\b(?:310|186|28|41)\b", str(number), typed) if number else typed
                if re.match(STAYS, command):
                    typed = f"timeout -s INT {SERVE_S} {typed}"
                status, out = type_in(self.folder, typed)
                if status == 124 and re.match(STAYS, command):
                    status = 0 # it stayed
                elif status == 0 and re.match(STAYS, command):
                    status = -1
                if status == 0 or not re.match(r"aware (?:approve|reject|undo|policy r)", command):
                    return status, out, typed
            if time.monotonic() > deadline:
                return -1, "its time did not come", command
            time.sleep(0.2)


def commands_of_people_run():
    with scratch() as folder:
        port, failed = free_port(), []
        more = [(r"127\.0\.0\.1:9180", f"127.0.0.1:{port}"),
                (r"^(aware capacity.*)", r"\1 --state tenants-state")]
        with daemon(folder, "shop.yaml", "aware-state", "--listen", f"127.0.0.1:{port}"), \
             daemon(folder, "examples/services/shop.yaml", "graph-state"), \
             daemon(folder, "examples/tenants", "tenants-state"):
            people, asked = People(folder), commands("people")
            wait_for(lambda: all(row["stage"] == "serving" for row in
                                 json_at(folder, "get")["workloads"] if row["name"] == "cart"))
            for command in sorted(asked, key=lambda c: PEOPLE.index(verb_of(c))):
                status, out, typed = people.say(command, more)
                if status != 0:
                    failed.append(f"{asked[command]}: {typed}\n  status {status}: {out[-600:]}")
        expect(not failed, "\n".join(failed))


def commands_of_servers_run():
    """Each answers until it is told to end, and then ends."""
    with scratch() as folder:
        failed = []
        status, out = type_in(folder, "aware train -e autoscale-v0 -a td3 -n 300 -q -o json "
                              "--out runs/td3")
        expect(status == 0, out)
        text = (folder / "shop.yaml").read_text(encoding="utf-8")
        text = text.replace("learning: {", "learning: {bootstrap: false, agent: {name: external}, ")
        text = text.replace("name: cart, namespace: shop", "name: cart")
        (folder / "agents.yaml").write_text(text, encoding="utf-8")
        for command, where in sorted(commands("servers").items()):
            shutil.rmtree(folder / "aware-state", ignore_errors=True)
            needs = contextlib.nullcontext()
            if "agent serve" in command:
                needs = daemon(folder, "agents.yaml", "aware-state", "--agents",
                               "unix:aware-state/agents")
            with needs:
                typed = exact(command, [(r"127\.0\.0\.1:9180", f"127.0.0.1:{free_port()}")])
                status, out = type_in(folder, f"timeout -s INT {SERVE_S} {typed}")
            if status != 124: # it ended before it was told to
                failed.append(f"{where}: {typed}\n  status {status}: {out[-600:]}")
        expect(not failed, "\n".join(failed))


def long_commands_run():
    """To their end, or for LONG_S, if they are still at work then: what is wrong with the words,
    the options or the files of a command ends it at once."""
    if not os.environ.get("AWARE_DATA_DIR"):
        cli_test.skip("AWARE_DATA_DIR is not set: measured loads, clocks and faults")
    with scratch() as folder:
        faults_folder(str(folder / "faults"))
        status, out = type_in(folder, """
            set -e
            aware apps generate --seed 1 --count 18 -o apps.yaml
            aware run --daemon --speed max -f shop.yaml -d 1h --state aware-state
            aware run -f examples/demo.yaml -d 1h --state st --no-twin -r none -q
            for name in aware trajectories; do cp aware-state/trajectories.db $name.db; done
            aware train -e cartpole-v1 -a ppo -n 1k -q --out runs/cart""")
        expect(status == 0, out)
        asked, failed = commands("long"), []
        for command in sorted(asked):
            typed = exact(command)
            for left in (folder / "models").glob("*") if "pretrain" in command else ():
                left.unlink()
            if re.match(r"aware (?:adapt|embed)|.*--model models/", command):
                for name in ("mine", "default"):
                    shutil.copy(ROOT / "models/default.safetensors", folder / "models" /
                                f"{name}.safetensors")
            status, out = type_in(folder, f"timeout -s INT -k 20 {LONG_S} bash -c {quote(typed)}")
            missed = status == 1 and "--check" in command # a goal, at this scale
            at_work = status in (124, 130, 137, -signal.SIGKILL)
            if status != 0 and not at_work and not missed:
                failed.append(f"{asked[command]}: {typed}\n  status {status}: {out[-600:]}")
        expect(not failed, "\n".join(failed))


def words_are_known(command):
    words = command.split()[1:]
    verb = next((words[:n] for n in (2, 1) if words[:n] in cli_test.VERBS), None)
    expect(verb, f"{command}: no such verb")
    page = help_of(*verb)
    for option in re.findall(r"(?<= )--?[a-z][a-z-]*", re.split(r" [|>&;] ?", command)[0]):
        option = option[:2] if not option.startswith("--") else option
        expect(re.search(rf"(?<![\w-]){option}(?![\w-])", page), f"{command}: no option {option}")


def every_command_is_run_or_excused():
    """Nothing is left out in silence, and no excuse outlives its command."""
    asked = everything()
    expect(len(asked) > 250, f"{len(asked)} commands found")
    groups = {}
    for command in asked:
        groups.setdefault(group_of(command), []).append(command)
    plain = [re.sub(r"^build/", "", command) for command in asked]
    for pattern, why in NOT_HERE:
        expect(any(re.match(pattern, command) for command in plain), f"excuses nothing: {why}")
    for pattern, _ in PLACES + SMALLER:
        expect(any(re.search(pattern, command) for command in plain), f"matches nothing: {pattern}")
    for command in plain:
        if excused(command) and verb_of(command) != Path(command.split()[0]).name:
            words_are_known(command)
    for name, members in sorted(groups.items()):
        print(f"{name}: {len(members)}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = str(Path(sys.argv[2]).resolve())
    globals()[sys.argv[1]]()
