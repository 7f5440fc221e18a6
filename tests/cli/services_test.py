#!/usr/bin/env python3
"""services_test.py - services of Debian are autoscaled as real processes (examples/real).

    services_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py; 77 where control groups cannot be written, or where the service is
not installed ("tools/deps services" installs it).
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cli_test
import local_test
from cli_test import expect
from local_test import ended, nothing_is_left, skip_without_control_groups

REAL = Path(__file__).resolve().parents[2] / "examples" / "real"


def has_postgres():
    asked = subprocess.run(["/usr/bin/python3", "-c", "import psycopg2"], check=False,
                           stderr=subprocess.DEVNULL)
    return glob.glob("/usr/lib/postgresql/*/bin/postgres") and asked.returncode == 0


NEEDS = {"nginx": ("nginx-light", lambda: shutil.which("nginx", path="/usr/sbin:/usr/bin")),
         "web": ("python3", lambda: os.path.exists("/usr/bin/python3")),
         "redis": ("redis-server", lambda: shutil.which("redis-server")),
         "postgres": ("postgresql and python3-psycopg2", has_postgres)}


def world(folder, name):
    """One workload of the example under a load that hurries nobody."""
    documents = (REAL / "services.yaml").read_text(encoding="utf-8").split("---\n")
    one = [text for text in documents if f"metadata: {{name: {name}}}" in text]
    expect(len(one) == 2, f"{name}: {len(one)} documents")
    text = "---\n".join([documents[0].replace("local:\n", f"local:\n    runDir: {folder}/runs\n"),
                         *one])
    begin = text.index('source: "') + len('source: "')
    text = text[:begin] + "constant:mean=40/s" + text[text.index('"', begin):]
    text = text.replace("cpu: 200m", 'cpu: "1"').replace("examples/real/", f"{REAL}/")
    path = Path(folder, "world.yaml")
    path.write_text(text, encoding="utf-8")
    return str(path)


def lives(name):
    """A quarter of a minute of it: it begins, answers, is scaled, and leaves nothing behind."""
    package, there = NEEDS[name]
    if not there():
        print(f"skipped: {package} is not installed (tools/deps services)")
        sys.exit(77)
    skip_without_control_groups()
    with tempfile.TemporaryDirectory() as folder:
        path = world(folder, name)
        os.chmod(folder, 0o755)  # who runs it is nobody
        process = subprocess.Popen([cli_test.AWARE, "run", "--cluster", "local", "-f", path,
                                    "--speed", "15", "--duration", "4m", "-o", "json"], cwd=folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        stdout, stderr, groups = ended(process, folder, patience_s=150)
        expect(process.returncode == 0, f"exit {process.returncode}: {stderr}")
        expect("unmeetable" not in stderr, stderr)  # nobody knows what its requests need
        lines = [json.loads(line) for line in stdout.splitlines()]
        shop = lines[-1]["workloads"][0]
        whole, requests = shop["whole"]["aware"], shop["requests"]
        expect(whole["steps"] == 16 and requests["sent"] > 300, shop)
        expect(requests["failed"] == 0 and requests["lost"] == 0, shop)
        expect(0 < whole["cpu_utilization"] <= 1 and 0 < whole["memory_utilization"] <= 1, shop)
        nothing_is_left(folder, groups)


def nginx_lives():
    lives("nginx")


def a_python_application_lives():
    lives("web")


def redis_lives_beside_it():
    lives("redis")


def postgres_lives_beside_it():
    lives("postgres")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])
        local_test.cli_test.AWARE = cli_test.AWARE
    globals()[sys.argv[1]]()
