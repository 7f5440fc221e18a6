"""pretend.py - nodes and running pods that are records alone, and a Prometheus that says what the
test wants: for a control plane without a kubelet (tests/e2e/cluster/up --control).

Everything else is real: the API server, admission, the scheduler, the controllers of Deployments
and disruption budgets, and the programs under test. A pretended kubelet does what they need of one:
it renews the Lease of its node, says of pods that are placed there that they run, and lets go those
that are to end.
"""

import contextlib
import http.server
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from e2e import SERVER, Failed, wait_for

TURN_S = 0.3
LEASE_S = 8


def stamp(seconds=None, micro=False):
    at = time.gmtime(seconds if seconds is not None else time.time())
    return time.strftime("%Y-%m-%dT%H:%M:%S", at) + (".000000Z" if micro else "Z")


def send(cluster, method, path, body=None, kind="application/json"):
    """One request; what the server refused is Failed, what is not there None."""
    request = urllib.request.Request(
        f"{SERVER}{path}", method=method, data=json.dumps(body).encode() if body else None,
        headers={"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, context=cluster.tls, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refusal:
        if refusal.code == 404:
            return None
        raise Failed(f"{method} {path}: {refusal.code} {refusal.read()!r}") from refusal
    except (OSError, ValueError) as why:
        raise Failed(f"{method} {path}: {why}") from why


def patch(cluster, path, body):
    return send(cluster, "PATCH", path, body, "application/merge-patch+json")


PRETENDED = {"aware.io/pretended": "yes"}  # of a node; a real one would look for the image


class Node:
    """A node by name, and the pods on it, kept by a thread until it is closed."""

    def __init__(self, cluster, name, cpu="4", memory="8Gi"):
        self.cluster, self.name = cluster, name
        self.room = {"cpu": cpu, "memory": memory, "pods": "110"}
        self.leased = 0
        self.stop = threading.Event()
        send(cluster, "DELETE", f"/api/v1/nodes/{name}")  # of a test that was ended
        send(cluster, "POST", "/api/v1/nodes", {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, **PRETENDED}}})
        self.beat()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        # taken up by the scheduler: the taint of a node that is not ready is gone
        wait_for(f"the node {name}", lambda: not cluster.read(f"/api/v1/nodes/{name}")["spec"].get(
            "taints"))

    def beat(self):
        """What the node controller wants to hear."""
        if time.monotonic() < self.leased:
            return
        self.leased = time.monotonic() + LEASE_S
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": 40,
                "renewTime": stamp(micro=True)}
        if not patch(self.cluster, f"{path}/{self.name}", {"spec": spec}):
            send(self.cluster, "POST", path, {
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": self.name, "namespace": "kube-node-lease"}, "spec": spec})
        good = [("Ready", "True")] + [(kind, "False") for kind in (
            "MemoryPressure", "DiskPressure", "PIDPressure")]
        patch(self.cluster, f"/api/v1/nodes/{self.name}/status", {"status": {
            "capacity": self.room, "allocatable": self.room,
            "conditions": [{"type": kind, "status": status, "reason": "Pretended",
                            "message": "a record", "lastHeartbeatTime": stamp(),
                            "lastTransitionTime": stamp(0)} for kind, status in good]}})

    def pods(self):
        return self.cluster.read(
            f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.name}")["items"]

    def tend(self, pod):
        meta, path = pod["metadata"], "/api/v1/namespaces/{namespace}/pods/{name}"
        path = path.format(**meta)
        if "deletionTimestamp" in meta:
            send(self.cluster, "DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {
                "uid": meta["uid"]}})
        elif pod["status"].get("phase") != "Running":
            now = stamp()
            patch(self.cluster, f"{path}/status", {"status": {
                "phase": "Running", "startTime": now, "podIP": "127.0.0.1",
                "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now}
                               for kind in ("PodScheduled", "Initialized", "ContainersReady",
                                            "Ready")],
                "containerStatuses": [{
                    "name": one["name"], "image": one["image"], "imageID": "pretended",
                    "ready": True, "started": True, "restartCount": 0,
                    "state": {"running": {"startedAt": now}}} for one in
                    pod["spec"]["containers"]]}})

    def run(self):
        while not self.stop.wait(TURN_S):
            with contextlib.suppress(Failed):  # the next turn tries again
                self.beat()
                for pod in self.pods():
                    self.tend(pod)

    def close(self):
        self.stop.set()
        self.thread.join()
        for pod in self.pods():
            with contextlib.suppress(Failed):
                send(self.cluster, "DELETE", "/api/v1/namespaces/{namespace}/pods/{name}".format(
                    **pod["metadata"]), {"gracePeriodSeconds": 0})
        send(self.cluster, "DELETE", f"/api/v1/nodes/{self.name}")


@contextlib.contextmanager
def nodes(cluster, *names, **room):
    made = []
    try:
        for name in names:
            made.append(Node(cluster, name, **room))
        yield made
    finally:
        for one in made:
            one.close()


class Figures:
    """Answers the questions of kube/metrics_query.c and controller/vpa_usage.c for the running pods
    of a namespace: every ready pod uses, and answers requests, as the attributes say."""

    def __init__(self, cluster, ns):
        self.cluster, self.ns = cluster, ns
        self.cores, self.memory = 0.2, 100 << 20
        self.requests, self.latency_s = 10.0, 0.05
        self.seen, self.seen_until = [], 0
        figures = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name # the library's
                self.answer(urllib.parse.urlparse(self.path).query)

            def do_POST(self):  # pylint: disable=invalid-name
                self.answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

            def answer(self, form):
                question = urllib.parse.parse_qs(form).get("query", [""])[0]
                body = json.dumps({"status": "success", "data": {
                    "resultType": "vector", "result": figures.vector(question)}}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):  # who asked has given up
                    self.wfile.write(body)

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def running(self):
        if time.monotonic() > self.seen_until:
            self.seen, self.seen_until = self.look(), time.monotonic() + 1
        return self.seen

    def look(self):
        return [pod for pod in self.cluster.read(f"/api/v1/namespaces/{self.ns}/pods")["items"]
                if pod["status"].get("phase") == "Running" and
                "deletionTimestamp" not in pod["metadata"]]

    def of(self, question):
        """The figure of one pod, or buckets; None: nobody exports that."""
        if "timestamp(" in question:
            return time.time()
        if "container_cpu_usage_seconds_total" in question:
            return self.cores
        if "container_memory_working_set_bytes" in question:
            return self.memory
        if "_bucket" in question:
            return {"0.001": 0, f"{2 * self.latency_s:g}": self.requests, "+Inf": self.requests}
        if "in_flight" in question or "active_requests" in question:
            return self.requests * self.latency_s
        if "throttled" in question or "_sum" in question:
            return None
        if "http_requests_total" in question:
            return 0.0 if "code" in question or "status" in question else self.requests
        return None

    def vector(self, question):
        found = self.of(question)
        now, rows = time.time(), []
        by_container = question.startswith("max by (namespace, pod, container)")
        for pod in self.running() if found is not None else []:
            labels = {"namespace": self.ns, "pod": pod["metadata"]["name"]}
            for one in pod["spec"]["containers"] if by_container else [None]:
                more = {"container": one["name"]} if one else {}
                each = found if isinstance(found, dict) else {"": found}
                rows += [{"metric": {**labels, **more, **({"le": le} if le else {})},
                          "value": [now, str(value)]} for le, value in each.items()]
        return rows

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@contextlib.contextmanager
def figures(cluster, ns, **what):
    one = Figures(cluster, ns)
    for name, value in what.items():
        setattr(one, name, value)
    try:
        yield one
    finally:
        one.close()


def deployment(ns, name="shop", replicas=2, cpu="300m", memory="192Mi"):
    size = {"cpu": cpu, "memory": memory}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": ns},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"automountServiceAccountToken": False, "nodeSelector": PRETENDED,
                     "containers": [{"name": "server", "image": "pretended", "resources": {
                         "requests": size, "limits": size}}]}}}}


def deploy(cluster, ns, **what):
    """A Deployment whose pods run, as far as anybody can tell."""
    one = deployment(ns, **what)
    cluster.apply(one)
    return wait_for("pods that run", lambda: ready(cluster, ns, one["spec"]["replicas"]))


def pods(cluster, ns, name="shop"):
    items = cluster.read(f"/api/v1/namespaces/{ns}/pods?labelSelector=app%3D{name}")["items"]
    return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]


def ready(cluster, ns, count):
    found = [pod for pod in pods(cluster, ns) if pod["status"].get("phase") == "Running"]
    return found if len(found) >= count else None


def replicas(cluster, ns, name="shop"):
    return cluster.read(f"/apis/apps/v1/namespaces/{ns}/deployments/{name}")["spec"]["replicas"]
