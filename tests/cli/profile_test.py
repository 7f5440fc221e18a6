#!/usr/bin/env python3
"""profile_test.py - the verbs that check and explain files of autoscalers, as a user meets them.

    profile_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import cli_test
from cli_test import expect, expect_ok, on_a_terminal, run

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
FINDING = re.compile(r"^(warning: )?[^:]+:\d+:\d+: ")
GOOD = """apiVersion: autoscaling.aware.dev/v1alpha1
kind: MultidimPodAutoscaler
metadata: {name: cart}
spec:
  scaleTargetRef: {name: cart}
  goals: {slo: {latency: {target: 200ms}}}
  constraints: {global: {maxReplicas: 9}}
"""
BAD = GOOD.replace("200ms", "0s").replace("maxReplicas: 9", "maxReplicas: 9, minReplica: 2")


def examples_are_sound_and_counted():
    for name, counts in (("ten-lines", "1 autoscaler"), ("full", "1 autoscaler"),
                         ("simulated", "2 autoscalers, 2 simulated applications, "
                                       "1 simulated cluster")):
        path = EXAMPLES / f"{name}.yaml"
        done = expect_ok("validate", str(path))
        expect(done.stdout == f"{path}: ok ({counts})\n", repr(done.stdout))
        expect(done.stderr == "", repr(done.stderr))
    lines = [line for line in (EXAMPLES / "ten-lines.yaml").read_text().splitlines()
             if line and not line.startswith("#")]
    expect(len(lines) <= 10, f"ten lines are {len(lines)}")
    done = expect_ok("validate", str(EXAMPLES))
    files = len(list(EXAMPLES.glob("*.yaml")))
    expect(files >= 3 and done.stdout.count(": ok (") == files, done.stdout)


def every_error_is_a_line_and_the_exit_status_is_78():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "good.yaml").write_text(GOOD)
        Path(folder, "bad.yaml").write_text(BAD)
        done = run("validate", "bad.yaml", "good.yaml", "none.yaml", cwd=folder)
        expect(done.returncode == 78, f"exit {done.returncode}")
        expect(done.stdout == "good.yaml: ok (1 autoscaler)\n", repr(done.stdout))
        lines = done.stderr.splitlines()
        expect(len(lines) == 4, done.stderr)
        expect(lines[0].startswith("bad.yaml:6:35: spec.goals.slo.latency.target: expected a "
                                   "duration"), lines[0])
        expect('did you mean "minReplicas"' in lines[1] and FINDING.match(lines[1]), lines[1])
        expect(lines[2].startswith("none.yaml: "), lines[2])
        expect(lines[3] == "aware: 3 errors", lines[3])


def files_are_judged_together():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.yaml", "b.yml"):
            Path(folder, name).write_text(GOOD)
        for arguments in (["a.yaml", "b.yml"], ["."]):
            done = run("validate", *arguments, cwd=folder)
            expect(done.returncode == 78 and "a.yaml:1 already" in done.stderr, done.stderr)
            # a file is called fine once all was judged, and not before its error
            expect(done.stdout.count("ok") == 1 and "a.yaml: ok" in done.stdout, done.stdout)
        expect_ok("validate", "a.yaml", cwd=folder)
        expect_ok("validate", "-f", "a.yaml", cwd=folder)  # as `aware run` names files
        done = run("validate", cwd=folder)
        expect(done.returncode == 64 and "-f" in done.stderr, done.stderr)


def standard_input_is_a_file():
    done = subprocess.run([cli_test.AWARE, "validate", "-"], input=GOOD, text=True,
                          capture_output=True, check=False, timeout=100)
    expect(done.returncode == 0 and done.stdout == "standard input: ok (1 autoscaler)\n",
           f"{done.returncode} {done.stdout!r} {done.stderr!r}")


def findings_are_json_when_asked():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "x.yaml").write_text(BAD + "---\n" + GOOD.replace("cart", "b").replace(
            "  goals: {slo: {latency: {target: 200ms}}}\n", ""))
        done = run("validate", "-o", "json", "x.yaml", cwd=folder)
        expect(done.returncode == 78, f"exit {done.returncode}")
        document = json.loads(done.stdout)
        expect(document["ok"] is False and document["errors"] == 2 and document["warnings"] == 1,
               str(document)[:300])
        expect([f["name"] for f in document["findings"]] == ["CONFIG", "CONFIG", "no_slo"],
               str(document["findings"]))
        first = document["findings"][0]
        expect((first["severity"], first["file"], first["line"], first["column"], first["path"]) ==
               ("error", "x.yaml", 6, 35, "spec.goals.slo.latency.target"), str(first))
        expect(document["files"] == [{"file": "x.yaml", "ok": False, "autoscalers": 2,
                                      "simulated_applications": 0, "simulated_clusters": 0,
                                      "errors": 2, "warnings": 1}], str(document["files"]))


def fields_are_explained_and_wrong_paths_told_the_nearest():
    text = expect_ok("explain-schema").stdout
    for kind in ("MultidimPodAutoscaler", "SimulatedApplication", "SimulatedCluster"):
        expect(kind in text, f"{kind} is not named")
    text = expect_ok("explain-schema", "spec.goals.slo.latency").stdout
    for words in ("quantile", "<duration>, required", "default 30s"):
        expect(words in text, f"{words} is not in {text}")
    text = expect_ok("explain-schema", "spec.learning.fallback.hpaTarget").stdout
    expect("Default:  80" in text and "1 to 100" in text, text)
    expect_ok("explain-schema", "app.spec.load")
    expect_ok("explain-schema", "SimulatedCluster.spec.nodeCount")
    done = run("explain-schema", "spec.goals.slo.latncy")
    expect(done.returncode == 66 and 'did you mean "latency"' in done.stderr, done.stderr)
    expect("\x1b" not in text, "colour without a terminal")
    expect("\x1b[1m" in on_a_terminal(["explain-schema"])[1], "no colour on a terminal")
    for line in expect_ok("explain-schema", "spec.learning").stdout.splitlines():
        expect(len(line) <= 80, f"too wide: {line}")


def paths_of(fields, prefix=""):
    for field in fields:
        path = prefix + field["name"]
        yield path, field
        yield from paths_of(field.get("fields", []), path + ".")


def the_schema_as_json_has_every_path_and_each_can_be_explained():
    kinds = json.loads(expect_ok("explain-schema", "-o", "json").stdout)
    expect([k["kind"] for k in kinds] == ["MultidimPodAutoscaler", "SimulatedApplication",
                                          "SimulatedCluster", "Tenant"], kinds)
    found = dict(paths_of(kinds[0]["fields"]))
    for path in ("spec.goals.slo.budget", "spec.constraints.container.requests.minAllowed.cpu",
                 "spec.guard.peakWindow", "spec.learning.thresholds.online"):
        expect(path in found, f"{path} is missing")
    for path in list(found)[::15]:
        one = json.loads(expect_ok("explain-schema", "-o", "json", path).stdout)
        expect(one == found[path], path)


def defaults_can_be_written_out():
    """What the schema calls a default is taken when it is written, and changes nothing."""
    kinds = json.loads(expect_ok("explain-schema", "-o", "json").stdout)
    spec = next(f for f in kinds[0]["fields"] if f["name"] == "spec")

    def written(fields):
        result = {}
        for field in fields:
            default = field["default"]
            if not field["supported"] or field["type"] in ("list of objects", "any"):
                continue
            if "fields" in field:
                below = written(field["fields"])
                if below:
                    result[field["name"]] = below
            elif default not in (None, ""):
                kind = field["type"]
                if kind == "boolean":
                    result[field["name"]] = default == "true"
                elif kind in ("number", "whole number"):
                    result[field["name"]] = json.loads(default)
                elif kind == "list of choices":
                    result[field["name"]] = default.split(",")
                else:
                    result[field["name"]] = default
        return result

    document = written(spec["fields"])
    document["scaleTargetRef"]["name"] = "cart"
    document["goals"]["slo"]["latency"]["target"] = "200ms"
    document["constraints"]["global"]["maxReplicas"] = 9
    document["constraints"]["pod"] = {"requests": {"minAllowed": {"cpu": "100m", "memory": "64Mi"}}}
    text = json.dumps({"apiVersion": "autoscaling.aware.dev/v1alpha1",
                       "kind": "MultidimPodAutoscaler", "metadata": {"name": "cart"},
                       "spec": document})
    done = subprocess.run([cli_test.AWARE, "validate", "-"], input=text, text=True,
                          capture_output=True, check=False, timeout=100)
    expect(done.returncode == 0 and not done.stderr, f"{done.stderr}\n{text}")


def the_openapi_schema_is_structural():
    """As the API server asks of a CustomResourceDefinition: everything has a type or is open."""
    document = json.loads(expect_ok("explain-schema", "--openapi", "mpa").stdout)

    def check(node, path):
        expect("type" in node or node.get("x-kubernetes-preserve-unknown-fields") or
               node.get("x-kubernetes-int-or-string"), f"{path} has no type")
        if node.get("type") == "array":
            check(node["items"], path + "[]")
        for name in node.get("required", []):
            expect(name in node["properties"], f"{path}.{name} is required and not described")
        for name, child in node.get("properties", {}).items():
            check(child, f"{path}.{name}")

    check(document, "")
    expect(document["properties"]["spec"]["required"] == ["scaleTargetRef", "constraints"], "spec")
    every = json.loads(expect_ok("explain-schema", "--openapi").stdout)
    expect(every["MultidimPodAutoscaler"] == document, "all kinds")
    expect(run("explain-schema", "--openapi", "spec.goals").returncode == 64, "a part of a kind")


def main():
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])
    globals()[sys.argv[1]]()


if __name__ == "__main__":
    main()
