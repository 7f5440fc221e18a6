#!/usr/bin/env python3
"""crowd.py - what a round of `aware controller` costs with thousands of objects.

    crowd.py AWARE [--objects 5000] [--pods 10] [--rounds 3] [--no-metrics]

Makes up an API server on loopback that has so many MultidimPodAutoscalers, a Deployment for each
and so many pods for each of those, runs the recommender against it, and prints one line per round:
what the recommender's thread worked, how many statuses it wrote, and what the process takes. The
server is slow, so how long a round lasted says nothing; what was worked does.
"""

import argparse
import datetime
import json
import re
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

NAMESPACES = 50
BORN = "2026-01-01T00:00:00Z"
ROUND = re.compile(r"\bround .*?cpu_ms=(\d+) .*?active=(\d+) .*?writes=(\d+) waiting=(\d+)")


class Crowd:
    """Objects by number; nothing is kept but how often each status was written."""

    def __init__(self, objects, pods, metrics):
        self.objects, self.pods, self.metrics = objects, pods, metrics
        self.written = {}

    @staticmethod
    def meta(i, name, uid, **more):
        return {"namespace": f"team-{i % NAMESPACES}", "name": name, "uid": uid,
                "resourceVersion": "7", "generation": 1, "creationTimestamp": BORN, **more}

    def mpa(self, i):
        meta = self.meta(i, f"app{i}", f"m{i}", resourceVersion=str(8 + self.written.get(i, 0)))
        return {"metadata": meta, "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"app{i}"},
            "goals": {"slo": {"latency": {"quantile": "p99", "target": "250ms"}}},
            "constraints": {"global": {"minReplicas": 1, "maxReplicas": 4 * self.pods},
                            "container": [{"name": "app", "requests": {
                                "minAllowed": {"cpu": "100m", "memory": "128Mi"},
                                "maxAllowed": {"cpu": "4", "memory": "8Gi"}}}]}}}

    def deployment(self, i):
        n = self.pods
        return {"metadata": self.meta(i, f"app{i}", f"d{i}"),
                "spec": {"replicas": n, "selector": {"matchLabels": {"app": f"app{i}"}}},
                "status": {"replicas": n, "readyReplicas": n, "updatedReplicas": n,
                           "observedGeneration": 1}}

    def pod(self, k):
        i, n = divmod(k, self.pods)
        size = {"cpu": "500m", "memory": "512Mi"}
        owner = {"kind": "ReplicaSet", "name": f"app{i}-7", "uid": f"r{i}", "controller": True}
        labels = {"app": f"app{i}", "pod-template-hash": "7", "tier": "front"}
        return {"metadata": self.meta(i, f"app{i}-7-{n}", f"p{k}", labels=labels,
                                      ownerReferences=[owner]),
                "spec": {"nodeName": f"node-{k % 500}",
                         "containers": [{"name": "app",
                                         "resources": {"requests": size, "limits": size}}]},
                "status": {"phase": "Running", "qosClass": "Guaranteed", "startTime": BORN,
                           "conditions": [{"type": "Ready", "status": "True",
                                           "lastTransitionTime": BORN}],
                           "containerStatuses": [{"name": "app", "restartCount": 0, "ready": True,
                                                  "state": {"running": {}}}]}}

    def usage(self, namespace):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        used = [{"name": "app", "usage": {"cpu": "350m", "memory": "300Mi"}}]
        return [{"metadata": {"namespace": f"team-{i % NAMESPACES}", "name": f"app{i}-7-{n}"},
                 "timestamp": now, "window": "30s", "containers": used}
                for i in range(self.objects) for n in range(self.pods)
                if namespace in (None, f"team-{i % NAMESPACES}")]

    def groups(self):
        names = ["events.k8s.io/v1", "coordination.k8s.io/v1"]
        names += ["metrics.k8s.io/v1beta1"] if self.metrics else []
        return [{"name": name.split("/")[0], "versions": [{"version": name.split("/")[1]}]}
                for name in names]

    def collection(self, plural):
        return {"multidimpodautoscalers": (self.mpa, self.objects),
                "deployments": (self.deployment, self.objects),
                "pods": (self.pod, self.objects * self.pods)}.get(plural, (None, 0))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    crowd = None
    over = threading.Event()

    def log_message(self, *args):
        pass

    def answer(self, value, code=200):
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def watch(self):
        """Nothing ever happens; a bookmark says that we are here."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1000"}}}
        line = json.dumps(mark).encode() + b"\n"
        while not self.over.wait(20):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))

    def do_GET(self):
        url = urlparse(self.path)
        query, parts = parse_qs(url.query), url.path.split("/")
        fixed = {"/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.1"},
                 "/apis": {"kind": "APIGroupList", "groups": self.crowd.groups()},
                 "/api/v1": {"resources": [{"name": "pods", "kind": "Pod"}]}}
        if url.path in fixed:
            return self.answer(fixed[url.path])
        if "watch" in query:
            return self.watch()
        if "metrics.k8s.io" in url.path:
            space = parts[parts.index("namespaces") + 1] if "namespaces" in parts else None
            return self.answer({"kind": "PodMetricsList", "items": self.crowd.usage(space)})
        make, count = self.crowd.collection(parts[-1])
        begin, limit = int(query.get("continue", ["0"])[0]), int(query.get("limit", ["500"])[0])
        last = min(count, begin + limit)
        meta = {"resourceVersion": "1000", **({"continue": str(last)} if last < count else {})}
        return self.answer({"kind": "List", "metadata": meta,
                            "items": [make(i) for i in range(begin, last)]})

    def body(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def do_PATCH(self):
        i, body = int(re.search(r"/app(\d+)/", self.path).group(1)), self.body()
        self.crowd.written[i] = self.crowd.written.get(i, 0) + 1
        self.answer({**self.crowd.mpa(i), "status": body["status"]})

    def do_POST(self):
        self.answer(self.body(), 201)


def resident_mib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
    return 0


def kubeconfig(port):
    return json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "x", "user": {}}]})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("aware")
    parser.add_argument("--objects", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-metrics", action="store_true")
    asked = parser.parse_args()
    Handler.crowd = Crowd(asked.objects, asked.pods, not asked.no_metrics)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rounds, active = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "kubeconfig")
        config.write_text(kubeconfig(server.server_address[1]))
        controller = subprocess.Popen(
            [asked.aware, "controller", "--kubeconfig", config, "--lease", "none", "--state",
             "none", "--step", "2s", "--log-level", "debug"], stderr=subprocess.PIPE, text=True)
        for line in controller.stderr:
            found = ROUND.search(line)
            if not found:
                continue
            rounds, active = rounds + 1, int(found.group(2))
            print(f"round {rounds}: {active} objects, {asked.pods * active} pods, worked "
                  f"{found.group(1)} ms, wrote {found.group(3)}, {found.group(4)} wait, "
                  f"{resident_mib(controller.pid)} MiB at most", flush=True)
            if rounds == asked.rounds:
                break
        controller.terminate()
        controller.stderr.read()
        status = controller.wait()
    Handler.over.set()
    return status if status else int(rounds < asked.rounds or active < asked.objects)


if __name__ == "__main__":
    sys.exit(main())
