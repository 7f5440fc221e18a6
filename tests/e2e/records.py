"""records.py - thousands of Deployments with their ReplicaSets, pods and autoscalers, as records.

The first application goes through the API server, as it does in life: an object is created, and
what a kubelet or a controller would report is written through its status subresource; owners are
named by their uids. All others are copies of what the server made of that one, defaults and managed
fields included, with names and uids of their own, and go straight into etcd, where the server takes
JSON for its own: through it they would cost many minutes. Nothing runs.
"""

import base64
import datetime
import http.client
import json
import ssl
import uuid

EACH_NS = 100  # applications of a namespace
ETCD = ("127.0.0.1", 12379)
BATCH = 100  # of a transaction; etcd takes 128
SIZE = {"cpu": "250m", "memory": "256Mi"}


def spaces_of(objects):
    """Namespaces, and the applications of each."""
    spaces = {}
    for i in range(objects):
        spaces.setdefault(f"scale-{i // EACH_NS:02d}", []).append(f"app-{i:04d}")
    return spaces


def pod_prefix(app):
    return f"{app}-6c5d7f9b8"  # a ReplicaSet is named after its Deployment and a hash


def born(seconds_ago=3600):
    when = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=seconds_ago)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


class Lane:
    """One connection that is kept."""

    def __init__(self, server):
        tls = ssl.create_default_context(cafile=server["ca"])
        self.connection = http.client.HTTPSConnection(*server["address"], context=tls, timeout=120)
        # a client's certificate would be verified with every request
        self.headers = {"Content-Type": "application/json",
                        "Authorization": f"Bearer {server['token']}"}
        self.count = 0

    def send(self, method, path, body):
        self.connection.request(method, path, json.dumps(body) if body else None, self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")
        self.count += 1
        return json.loads(text)

    def create(self, path, body, status=None):
        made = self.send("POST", path, body)
        if status:
            made["status"] = status
            self.send("PUT", f"{path}/{made['metadata']['name']}/status", made)
        return made["metadata"]


def owner(kind, meta):
    return [{"apiVersion": "apps/v1", "kind": kind, "name": meta["name"], "uid": meta["uid"],
             "controller": True, "blockOwnerDeletion": True}]


def pod_spec():
    token = {"name": "default-token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
             "readOnly": True}
    return {"serviceAccountName": "default",
            "volumes": [{"name": "default-token", "secret": {"secretName": "default-token"}}],
            "tolerations": [{"key": f"node.kubernetes.io/{what}", "operator": "Exists",
                             "effect": "NoExecute", "tolerationSeconds": 300}
                            for what in ("not-ready", "unreachable")],
            "containers": [{"name": "server", "image": "registry.example/server:1",
                            "ports": [{"containerPort": 8080}],
                            "env": [{"name": "MODE", "value": "production"},
                                    {"name": "PORT", "value": "8080"}],
                            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
                            "volumeMounts": [token],
                            "resources": {"requests": SIZE, "limits": SIZE}}]}


def pod_status(i, since):
    return {"phase": "Running", "qosClass": "Guaranteed", "startTime": since,
            "hostIP": f"10.0.0.{i}", "podIP": f"10.1.0.{i}", "podIPs": [{"ip": f"10.1.0.{i}"}],
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": since}
                           for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")],
            "containerStatuses": [{
                "name": "server", "ready": True, "started": True, "restartCount": 0,
                "image": "registry.example/server:1",
                "imageID": "registry.example/server@sha256:" + "5f" * 32,
                "containerID": "containerd://" + "a1" * 32,
                "state": {"running": {"startedAt": since}}}]}


def application(lane, ns, app, pods, mode):
    """One application: its Deployment, ReplicaSet, pods and autoscaler."""
    since = born()
    labels = {"app": app, "app.kubernetes.io/part-of": ns}
    hashed = {**labels, "pod-template-hash": pod_prefix(app).rpartition("-")[2]}
    counts = {"replicas": pods, "readyReplicas": pods, "availableReplicas": pods,
              "observedGeneration": 1}
    apps = f"/apis/apps/v1/namespaces/{ns}"
    deployment = lane.create(f"{apps}/deployments", {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app, "labels": labels},
        "spec": {"replicas": pods, "selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": pod_spec()}}},
        {**counts, "updatedReplicas": pods})
    replicaset = lane.create(f"{apps}/replicasets", {
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": pod_prefix(app), "labels": hashed,
                     "ownerReferences": owner("Deployment", deployment)},
        "spec": {"replicas": pods, "selector": {"matchLabels": hashed},
                 "template": {"metadata": {"labels": hashed}, "spec": pod_spec()}}}, counts)
    for i in range(pods):
        lane.create(f"/api/v1/namespaces/{ns}/pods", {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"{pod_prefix(app)}-{i:02d}", "labels": hashed,
                         "ownerReferences": owner("ReplicaSet", replicaset)},
            "spec": {**pod_spec(), "nodeName": f"node-{i:02d}"}}, pod_status(i, since))
    lane.create(f"/apis/autoscaling.aware.dev/v1alpha1/namespaces/{ns}/multidimpodautoscalers", {
        "apiVersion": "autoscaling.aware.dev/v1alpha1", "kind": "MultidimPodAutoscaler",
        "metadata": {"name": app},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app},
                 "goals": {"slo": {"latency": {"target": "500ms"}}},
                 "constraints": {"global": {"minReplicas": 1, "maxReplicas": 40}},
                 **({"policy": {"updateMode": mode}} if mode else {})}})


class Etcd:
    """The server's own store, for records by the thousand."""

    def __init__(self, pki):
        self.tls = ssl.create_default_context(cafile=pki / "ca.crt")
        self.tls.load_cert_chain(pki / "etcd.crt", pki / "etcd.key")
        self.connection = http.client.HTTPSConnection(*ETCD, context=self.tls, timeout=120)
        self.waiting = []
        self.count = 0

    @staticmethod
    def encoded(text):
        return base64.b64encode(text.encode()).decode()

    def put(self, key, value):
        self.waiting.append({"requestPut": {"key": self.encoded(key),
                                            "value": self.encoded(value)}})
        if len(self.waiting) == BATCH:
            self.flush()

    def flush(self):
        if not self.waiting:
            return
        self.connection.request("POST", "/v3/kv/txn", json.dumps({"success": self.waiting}))
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200 or not json.loads(text).get("succeeded"):
            raise RuntimeError(f"etcd: {answer.status} {text[:500]!r}")
        self.count += len(self.waiting)
        self.waiting = []


def stored(lane, ns, app, pods):
    """What the server made of an application: keys of the store, and texts."""
    apps = f"/apis/apps/v1/namespaces/{ns}"
    paths = [(f"/registry/deployments/{ns}/{app}", f"{apps}/deployments/{app}"),
             (f"/registry/replicasets/{ns}/{pod_prefix(app)}",
              f"{apps}/replicasets/{pod_prefix(app)}")]
    for i in range(pods):
        name = f"{pod_prefix(app)}-{i:02d}"
        paths.append((f"/registry/pods/{ns}/{name}", f"/api/v1/namespaces/{ns}/pods/{name}"))
    paths.append((f"/registry/autoscaling.aware.dev/multidimpodautoscalers/{ns}/{app}",
                  f"/apis/autoscaling.aware.dev/v1alpha1/namespaces/{ns}/multidimpodautoscalers/"
                  f"{app}"))
    found, uids = [], []
    for key, path in paths:
        value = lane.send("GET", path, None)
        for name in ("resourceVersion", "selfLink"):
            value["metadata"].pop(name, None)
        uids.append(value["metadata"]["uid"])
        found.append((key, json.dumps(value, separators=(",", ":"))))
    return found, uids


def create(server, pki, spaces, pods, mode):
    """Writes them all; returns how many. `server`: address, ca, token."""
    lane, etcd = Lane(server), Etcd(pki)
    applications = [(ns, app) for ns, apps in spaces.items() for app in apps]
    for ns in spaces:
        lane.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace",
                                           "metadata": {"name": ns}})
    first_ns, first = applications[0]
    application(lane, first_ns, first, pods, mode)
    model, uids = stored(lane, first_ns, first, pods)
    for ns, app in applications[1:]:
        changed = [(uid, str(uuid.uuid4())) for uid in uids]
        for key, text in model:
            for before, after in changed:
                text = text.replace(before, after)
            etcd.put(key.replace(first_ns, ns).replace(first, app),
                     text.replace(first_ns, ns).replace(first, app))
    etcd.flush()
    return etcd.count + len(model)
