"""controller.py - `aware controller` as a process of this machine, with no other rights than those
of its service account, and what it says of an object."""

import contextlib
import json
import os
import signal
import subprocess

from e2e import HERE, PROMETHEUS, Failed, expect, wait_for
from shop import GATEWAY

OBJECTS = "/apis/autoscaling.aware.dev/v1alpha1/namespaces/{ns}/multidimpodautoscalers/{name}"
STEP_S = 2
WEBHOOK_PORT = 9443


class Controller:
    """One process; its log and its state are kept in a folder until the cluster is closed."""

    def __init__(self, cluster, roles, *more, prometheus=PROMETHEUS, name="one", clock=None,
                 state=None):
        self.cluster = cluster
        self.folder = cluster.scratch / f"controller-{cluster.count}-{name}"
        cluster.count += 1
        self.folder.mkdir()
        self.log = self.folder / "log"
        self.state = state or self.folder / "state"
        # a clock that is wrong by so many seconds
        moved = [HERE / "cluster/skewed", str(clock)] if clock else []
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [*moved, cluster.aware, "controller", f"--roles={roles}", f"--state={self.state}",
                 f"--kubeconfig={cluster.account()}", f"--step={STEP_S}s", "--log-level=info",
                 *([f"--prometheus={prometheus}"] if prometheus else []), *more],
                stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "POD_NAME": f"aware-{name}",
                     "POD_NAMESPACE": "aware-system"})

    def said(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def ask(self, *words, check=True):
        """A verb of the socket."""
        done = self.cluster.run(*words, "--socket", self.state / "socket", check=False)
        if check and done.returncode:
            raise Failed(f"aware {' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def alive(self):
        return self.process.poll() is None

    def end(self, how=signal.SIGTERM):
        if self.alive():
            self.process.send_signal(how)
        try:
            self.process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed(f"does not end\n{self.said()[-4000:]}") from None
        return self.process.returncode


@contextlib.contextmanager
def controller(cluster, roles="recommender", *more, **how):
    one = Controller(cluster, roles, *more, **how)
    try:
        yield one
        expect(one.alive(), "the controller ended by itself", one.said()[-4000:])
    except Failed as why:
        raise Failed(f"{why}\n--- log\n{one.said()[-4000:]}") from why
    finally:
        status = one.end()
    expect(status == 0, f"status {status} after SIGTERM", one.said()[-4000:])


def autoscaler(ns, name="shop", **more):
    """An object; `more` goes into its spec."""
    return {
        "apiVersion": "autoscaling.aware.dev/v1alpha1", "kind": "MultidimPodAutoscaler",
        "metadata": {"name": name, "namespace": ns},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "goals": {"slo": {"latency": {"quantile": "p99", "target": "500ms"}}},
            "constraints": {
                "global": {"minReplicas": 1, "maxReplicas": 5},
                "container": [{"name": "server", "requests": {
                    "minAllowed": {"cpu": "100m", "memory": "128Mi"},
                    "maxAllowed": {"cpu": "600m", "memory": "384Mi"}}}]},
            "learning": {"stepSeconds": STEP_S},
            **more}}


def status(cluster, ns, name="shop"):
    found = cluster.read(OBJECTS.format(ns=ns, name=name))
    return (found or {}).get("status", {})


def holds(cluster, ns, condition, name="shop"):
    """The status of a condition: "True", "False", "Unknown", or None."""
    for one in status(cluster, ns, name).get("conditions", []):
        if one["type"] == condition:
            return one["status"]
    return None


def recommended(cluster, ns, name="shop"):
    return status(cluster, ns, name).get("recommendation")


def holder(cluster):
    lease = cluster.read("/apis/coordination.k8s.io/v1/namespaces/aware-system/leases/aware")
    return lease["spec"].get("holderIdentity") if lease else None


@contextlib.contextmanager
def webhook(cluster):
    """The shipped webhook configuration and service, served by a process of this machine: the
    service has no pods, and an endpoint that is this machine."""
    shipped = cluster.kustomize("acting")
    service = next(one for one in shipped if one["kind"] == "Service")
    del service["spec"]["selector"]
    service["spec"]["ports"] = [{"name": "webhook", "port": 443, "targetPort": WEBHOOK_PORT}]
    endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {
        "name": "aware", "namespace": "aware-system"}, "subsets": [
            {"addresses": [{"ip": GATEWAY}], "ports": [{"name": "webhook", "port": WEBHOOK_PORT}]}]}
    hook = next(one for one in shipped if one["kind"] == "MutatingWebhookConfiguration")
    cluster.kubectl("-n", "aware-system", "delete", "service", "aware", "--ignore-not-found")
    try:
        cluster.apply([service, endpoints, hook])
        yield
    finally:
        cluster.kubectl("delete", "mutatingwebhookconfiguration", "aware", "--ignore-not-found",
                        check=False)


def events(cluster, ns):
    return [one for one in cluster.read(f"/api/v1/namespaces/{ns}/events")["items"]
            if (one.get("reportingComponent") or one.get("source", {}).get("component", "")
                ).startswith("aware")]


def wait_recommended(cluster, ns, name="shop"):
    return wait_for(f"a recommendation for {name}", lambda: recommended(cluster, ns, name))


def pretty(found):
    return json.dumps(found, indent=1)
