#!/usr/bin/env python3
"""image_test.py - the OCI image: built without a daemon, and started.

    image_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import cli_test
from cli_test import expect, need, skip

ROOT = Path(__file__).resolve().parent.parent.parent


def call(*args, status=0):
    env = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
    done = subprocess.run(args, capture_output=True, text=True, check=False, timeout=150, env=env)
    expect(done.returncode == status, f"{' '.join(args)}: {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def blob(archive, descriptor):
    return json.load(archive.extractfile("blobs/" + descriptor["digest"].replace(":", "/")))


def an_image_is_built_without_a_daemon_and_runs():
    need("buildah")
    if os.getuid() != 0:
        skip("buildah's chroot isolation needs root here")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/aware.oci"
        call(str(ROOT / "tools/image"), cli_test.AWARE, path, "aware:test")
        with tarfile.open(path) as archive:
            index = json.load(archive.extractfile("index.json"))
            manifest = blob(archive, index["manifests"][0])
            config = blob(archive, manifest["config"])["config"]
            names = []
            for layer in manifest["layers"]:
                member = archive.extractfile("blobs/" + layer["digest"].replace(":", "/"))
                with tarfile.open(fileobj=member) as files:
                    names += files.getnames()
        expect(config["User"] == "65532:65532", f"it is root's: {config}")
        expect(config["Entrypoint"] == ["/bin/aware"], config["Entrypoint"])
        programs = [n for n in names if n.startswith("bin/") and n != "bin/"]
        expect(programs == ["bin/aware"], f"beside the program there is {programs}")
        expect("share/aware/models/library.safetensors" in names, "no library of rules")

        tool = ["buildah", "--root", f"{folder}/store", "--runroot", f"{folder}/run"]
        call(*tool, "from", "--name", "it", "--pull-never", f"oci-archive:{path}")
        said = call(*tool, "run", "it", "--", "/bin/aware", "version")
        expect(said.startswith("aware "), said)
        out = call(*tool, "run", "it", "--", "/bin/aware", "run", "--duration", "30m", "--state",
                   "none", "--report", "none", "-o", "json")
        last = json.loads(out.splitlines()[-1])
        expect(last["type"] == "summary" and len(last["workloads"]) == 5, "the demo did not run")
        call(*tool, "rm", "it")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])
    globals()[sys.argv[1]]()
