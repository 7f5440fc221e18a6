"""pods_test.py - the ground that the others stand on: our programs as real pods, with real limits,
and what is measured of them."""

import json

from e2e import ROOT, expect, wait_for
from shop import metrics_api, query, shop


def a_workload_runs_under_the_limits_that_it_was_given(cluster):
    with shop(cluster, replicas=2, cpu="200m", memory="192Mi") as one:
        pods = one.pods()
        expect(len(pods) == 2, "two pods", pods)
        for pod in pods:
            quota = cluster.cgroup(pod, "cpu/cpu.cfs_quota_us")
            limit = cluster.cgroup(pod, "memory/memory.limit_in_bytes")
            expect(quota == 20000, "the CPU limit of the kernel", quota)
            expect(limit == 192 << 20, "the memory limit of the kernel", limit)


def load_shows_in_prometheus_and_in_metrics_k8s_io(cluster):
    with shop(cluster, replicas=2, cpu="300m", memory="192Mi") as one, metrics_api(cluster):
        with one.load(10):
            match = f'namespace="{one.ns}"'
            wait_for("requests in Prometheus", lambda: [
                row for row in query(f"sum(rate(aware_workload_requests_total{{{match}}}[20s]))")
                if float(row["value"][1]) > 5])
            wait_for("CPU in Prometheus", lambda: [row for row in query(
                "sum(rate(container_cpu_usage_seconds_total"
                f'{{job="cadvisor",{match},container="server"}}[20s]))')
                                                   if float(row["value"][1]) > 0.005])
            listed = json.loads(cluster.kubectl(
                "get", "--raw", f"/apis/metrics.k8s.io/v1beta1/namespaces/{one.ns}/pods"))
            expect(len(listed["items"]) == 2, "pods of metrics.k8s.io", listed)
            report = json.loads(cluster.run("doctor", "--output", "json", check=False).stdout)
            said = [row for row in report["findings"] if row["check"] == "metrics"]
            expect(all(row["state"] == "ok" for row in said), "the doctor sees no metrics", said)


def the_program_runs_as_nobody_on_a_read_only_root(cluster):
    archive = cluster.scratch / "aware.tar"
    cluster.script("program-image", archive, "aware.local/aware:e2e", cluster.aware,
                   ROOT / "models/default.safetensors", ROOT / "models/library.safetensors")
    cluster.script("load-image", archive)
    with cluster.namespace() as ns:
        shipped = next(row for row in cluster.kustomize("acting") if row["kind"] == "Deployment")
        spec = shipped["spec"]["template"]["spec"]
        container = spec["containers"][0]
        # the shipped pod, but for what it does: without a route to the API it could only complain
        container.update(image="aware.local/aware:e2e", imagePullPolicy="Never", args=["version"])
        container.pop("readinessProbe", None)
        container.pop("livenessProbe", None)
        spec.update(restartPolicy="Never", serviceAccountName="default",
                    automountServiceAccountToken=False)
        cluster.apply({"apiVersion": "v1", "kind": "Pod",
                       "metadata": {"name": "once", "namespace": ns}, "spec": spec})
        wait_for("the program to have run", lambda: cluster.get(
            "-n", ns, "pod", "once")["status"].get("phase") in ("Succeeded", "Failed"))
        found = cluster.get("-n", ns, "pod", "once")["status"]
        said = cluster.kubectl("-n", ns, "logs", "once", check=False).stdout
        expect(found["phase"] == "Succeeded" and "aware" in said,
               f"{found['phase']}: {found.get('containerStatuses')}", said)


TESTS = (
    a_workload_runs_under_the_limits_that_it_was_given,
    load_shows_in_prometheus_and_in_metrics_k8s_io,
    the_program_runs_as_nobody_on_a_read_only_root,
)
