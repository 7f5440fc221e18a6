"""resize_test.py - what in-place resizes of a real server do to real pods under load: the ground
that the updater and the fake API server of the unit tests stand on."""

import collections
import contextlib
import json
import random
import signal
import subprocess
import time

from e2e import expect, wait_for
from shop import shop

RESIZES = 120
KERNEL_S = 3
RATE = 4  # requests a second to each pod
MIB = 1 << 20
SEED = 33


def resize(cluster, one, pod, cpu, memory):
    """Both of one container; what kubectl said."""
    size = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return cluster.kubectl(
        "-n", one.ns, "patch", "pod", pod["metadata"]["name"], "--subresource=resize",
        "--type=strategic", "-p", json.dumps({"spec": {"containers": [
            {"name": "server", "resources": {"requests": size, "limits": size}}]}}), check=False)


def kernel(cluster, pod):
    return (cluster.cgroup(pod, "cpu/cpu.cfs_quota_us") // 100,
            cluster.cgroup(pod, "memory/memory.limit_in_bytes") // MIB)


def told(cluster, one, pod):
    """What the node says of a resize that is not done: (condition, reason)."""
    found = cluster.read(f"/api/v1/namespaces/{one.ns}/pods/{pod['metadata']['name']}")
    return [(row["type"], row.get("reason", "")) for row in found["status"]["conditions"]
            if row["type"].startswith("PodResize") and row["status"] == "True"]


@contextlib.contextmanager
def counted_load(cluster, one):
    """Requests to each pod; afterwards `counted` has what became of them."""
    running, counted = [], []
    for address in one.addresses():
        running.append(subprocess.Popen(
            [cluster.aware, "load", f"http://{address}:8080/", "--allow-remote", "--rate",
             f"{RATE}/s", "--duration", "30m", "--output", "json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
    try:
        yield counted
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)  # with what was measured so far
        counted.extend(json.loads(process.communicate(timeout=60)[0]) for process in running)


def random_resizes_reach_the_kernel_and_disturb_nobody(cluster):
    cluster.needs(33, "pods/resize")
    dice = random.Random(SEED)
    with shop(cluster, replicas=2, cpu="300m", memory="192Mi") as one:
        pods, took, explained = one.pods(), [], collections.Counter()
        with counted_load(cluster, one) as counted:
            for turn in range(RESIZES):
                pod = pods[turn % len(pods)]
                wanted = (dice.randrange(200, 601, 10), dice.randrange(160, 385, 4))
                before = time.monotonic()
                done = resize(cluster, one, pod, *wanted)
                expect(done.returncode == 0, f"{wanted} was refused", done.stderr)
                asked = time.monotonic()
                while kernel(cluster, pod) != wanted and time.monotonic() < asked + KERNEL_S:
                    time.sleep(0.02)
                if kernel(cluster, pod) == wanted:
                    took.append(time.monotonic() - before)
                    continue
                why = told(cluster, one, pod)
                expect(why, f"{wanted} is not in the kernel, and nobody says why",
                       kernel(cluster, pod))
                explained.update(" ".join(row).strip() for row in why)
        after = one.pods()
        expect({pod["metadata"]["uid"] for pod in after} == {
            pod["metadata"]["uid"] for pod in pods}, "pods were replaced")
        expect(all(pod["status"]["containerStatuses"][0]["restartCount"] == 0 for pod in after),
               "a container was restarted")
        sent = sum(row["answered"] for row in counted)
        failed = sum(row["answered"] - row["ok"] + sum(row["errors"].values()) for row in counted)
        took.sort()
        print(f"      {len(took)} of {RESIZES} resizes in the kernel: half within "
              f"{took[len(took) // 2]:.2f} s of the request, all within {took[-1]:.2f} s; "
              f"others told: {dict(explained)}; {sent} requests answered, {failed} failed")
        expect(failed == 0 and sent > 0, "requests failed", counted)


def what_a_server_says_to_a_size_that_cannot_be(cluster):
    """The words by which the updater tells a node that is too small from a missing right."""
    cluster.needs(33, "pods/resize")
    with shop(cluster, replicas=1, cpu="300m", memory="192Mi") as one:
        pod = one.pods()[0]
        done = resize(cluster, one, pod, 900000, 192)
        expect("Forbidden" in done.stderr and "allocatable resources" in done.stderr,
               "beyond the node", done.stderr)
        cluster.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {
            "name": "small", "namespace": one.ns}, "spec": {"limits": [
                {"type": "Container", "max": {"cpu": "400m"}}]}})
        done = wait_for("the LimitRange to hold", lambda: (lambda said: said if said.returncode
                                                           else None)(
            resize(cluster, one, pod, 410 + int(time.time()) % 50, 192)))
        expect("maximum cpu usage per Container" in done.stderr, "beyond a LimitRange", done.stderr)
        cluster.kubectl("-n", one.ns, "delete", "limitrange", "small")
        cluster.kubectl("-n", one.ns, "create", "quota", "small", "--hard=requests.cpu=450m")
        wait_for("the quota to be counted", lambda: cluster.get(
            "-n", one.ns, "quota", "small")["status"].get("used"))
        done = resize(cluster, one, pod, 700, 192)
        expect("exceeded quota" in done.stderr, "beyond a quota", done.stderr)
        expect(pod["metadata"]["uid"] == one.pods()[0]["metadata"]["uid"], "it was replaced")


TESTS = (
    random_resizes_reach_the_kernel_and_disturb_nobody,
    what_a_server_says_to_a_size_that_cannot_be,
)
