#!/usr/bin/env python3
"""Four applications overcommitted on this machine, as real processes under real load.

    examples/real/tenants.py [--aware build/aware] [--repeats 3] [--minutes 30] [--speed 30]

In turn, as often as --repeats says: each application alone; all four under HPA and VPA, each for
itself; the same behind the arbiter (terms of examples/real/tenants.yaml); agents that were taught
together, behind it. The first ten minutes of control, in which no agent acts, are not counted. Needs
control groups, as `aware run --cluster local` does. Prints a table: steps that missed the SLO, and
cores held, mean and deviation over the repeats.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
APPS = ("storefront", "thumbs", "files", "crunch")
WARM_S = 600


def documents():
    return (HERE / "tenants.yaml").read_text().split("\n---\n")


def is_app(text, app):
    return f"name: {app}" in text and ("SimulatedApplication" in text or "PodAutoscaler" in text)


def file_of(apps, arbiter, agent):
    """tenants.yaml with these applications alone, with or without terms, under this agent."""
    kept = []
    for text in documents():
        tenant = "kind: Tenant" in text
        if (tenant and not arbiter) or (any(is_app(text, a) for a in APPS) and
                                        not any(is_app(text, a) for a in apps)):
            continue
        lines = [line for line in text.split("\n") if arbiter or "tenancy:" not in line]
        kept.append("\n".join(lines).replace("name: external", f"name: {agent}"))
    return "\n---\n".join(kept)


def run(ask, text, folder):
    path = Path(folder) / "run.yaml"
    path.write_text(text)
    out = subprocess.run(
        [ask.aware, "run", "--cluster", "local", "-f", path, "--duration", f"{ask.minutes}m",
         "--speed", str(ask.speed), "--agents", f"unix:{folder}/agents", "--state", "none",
         "--quiet", "-o", "json"],
        capture_output=True, text=True, check=False)
    if out.returncode != 0:
        sys.exit(f"aware run: {out.stderr.strip()}")
    missed, cores = {}, {}
    for line in out.stdout.splitlines():
        row = json.loads(line)
        if row["type"] != "step" or row["at_s"] < WARM_S:
            continue
        app = row["workload"].split("/")[-1]
        missed.setdefault(app, []).append(bool(row["aware"]["violated"]))
        cores.setdefault(app, []).append(row["plan"]["replicas"] * row["plan"]["cpu_millicores"] / 1e3)
    return {app: (statistics.mean(missed[app]), statistics.mean(cores[app])) for app in missed}


def spread(values):
    deviation = statistics.stdev(values) if len(values) > 1 else float("nan")
    return f"{100 * statistics.mean(values):5.1f} % +- {100 * deviation:4.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aware", default="aware")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--speed", type=float, default=30)
    ask = parser.parse_args()
    arms = {"alone": None, "HPA+VPA": (False, "external"), "arbiter": (True, "external"),
            "multi+arbiter": (True, "multi")}
    found = {arm: {app: [] for app in APPS} for arm in arms}
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(ask.repeats):
            for arm, how in arms.items():
                groups = [[app] for app in APPS] if how is None else [APPS]
                for apps in groups:
                    arbiter, agent = how or (False, "external")
                    for app, figures in run(ask, file_of(apps, arbiter, agent), folder).items():
                        found[arm][app].append(figures)
                print(f"# repeat {repeat + 1}: {arm} (load average {os.getloadavg()[0]:.0f})",
                      file=sys.stderr, flush=True)
    print(f"{'':14}" + "".join(f"{app:>18}" for app in APPS) + f"{'all':>18}{'cores':>8}")
    for arm in arms:
        by_app = [[figure[0] for figure in found[arm][app]] for app in APPS]
        every = [statistics.mean(values) for values in zip(*by_app)]
        cores = statistics.mean(sum(found[arm][app][k][1] for app in APPS)
                                for k in range(len(every)))
        print(f"{arm:14}" + "".join(f"{spread(values):>18}" for values in [*by_app, every]) +
              f"{cores:8.2f}")


if __name__ == "__main__":
    main()
