#!/usr/bin/env python3
"""scan_test.py - `aware scan` and the plugin of kubectl, as users meet them, on canned answers.

    scan_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py.
"""

import contextlib
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from pathlib import Path

import cli_test
from cli_test import expect, run

TOOLS = Path(__file__).resolve().parent.parent.parent / "tools/kubectl"
GIB = 1 << 30
PROXY = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy/api/v1/"


def workload(name, replicas, requests, limits=None):
    return {"metadata": {"namespace": "shop", "name": name}, "spec": {
        "replicas": replicas, "template": {"spec": {"containers": [
            {"name": "app", "resources": {"requests": requests, "limits": limits or {}}}]}}}}


EMPTY = {"items": [], "metadata": {}}
OBJECTS = {
    "/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.1"},
    "/apis": {"groups": [{"name": "autoscaling", "versions": [{"version": "v2"}]}]},
    "/api/v1": {"resources": []},
    "/apis/apps/v1/deployments": {"metadata": {}, "items": [
        workload("fat", 4, {"cpu": "2", "memory": "2Gi"}, {"memory": "2Gi"}),
        workload("thin", 1, {"cpu": "100m", "memory": "64Mi"}, {"memory": "64Mi"})]},
    "/apis/apps/v1/statefulsets": EMPTY,
    "/apis/apps/v1/daemonsets": EMPTY,
    "/api/v1/pods": EMPTY,
    "/apis/autoscaling/v2/horizontalpodautoscalers": EMPTY,
    "/api/v1/services": {"metadata": {}, "items": [
        {"metadata": {"namespace": "monitoring", "name": "prometheus"},
         "spec": {"ports": [{"name": "web", "port": 9090}]}}]},
}


def series(pod, *values):
    metric = {"namespace": "shop", "pod": pod}
    return {"metric": metric, "values": [[i, str(value)] for i, value in enumerate(values)]}


def history(query):
    """What the Prometheus of the cluster remembers."""
    result = []
    if "cpu_usage" in query:
        result = [series("fat-5d9c7b8f6-aaaaa", 0.2, 0.2), series("thin-5d9c7b8f6-aaaaa", 0.3)]
    elif "working_set" in query:
        result = [series("fat-5d9c7b8f6-aaaaa", GIB // 2), series("thin-5d9c7b8f6-aaaaa", 63 << 20)]
    kind = "matrix" if result else "vector"
    return {"status": "success", "data": {"resultType": kind, "result": result}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects = OBJECTS
    written = []

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        path = path.replace("/namespaces/shop", "")
        if path.startswith(PROXY):
            self.answer(200, history(urllib.parse.parse_qs(query)["query"][0]))
        elif path in self.objects:
            self.answer(200, self.objects[path])
        else:
            self.answer(404, {"kind": "Status", "reason": "NotFound", "message": path})

    def do_POST(self):
        self.written.append(self.path)
        self.answer(403, {"kind": "Status", "reason": "Forbidden"})

    do_PUT = do_PATCH = do_DELETE = do_POST

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def cluster(**changes):
    """A server, with other answers where `changes` say so, and the kubeconfig that leads to it."""
    Handler.objects, Handler.written = {**OBJECTS, **changes.get("objects", {})}, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config")
        path.write_text(json.dumps({
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "namespace": "shop"}}],
            "clusters": [{"name": "c", "cluster": {
                "server": f"http://127.0.0.1:{server.server_address[1]}"}}]}), encoding="utf-8")
        try:
            yield str(path)
        finally:
            server.shutdown()
            server.server_close()


def waste_and_risk_are_ranked_and_nothing_is_written():
    with cluster() as config:
        done = run("scan", "--kubeconfig", config)
        expect(done.returncode == 0 and done.stderr == "", done.stderr)
        lines = done.stdout.splitlines()
        expect("Deployment/fat" in lines[1] and "none" in lines[1], done.stdout)
        expect("Deployment/thin" in lines[2] and "memory near its" in lines[2], done.stdout)
        expect("2 workloads" in done.stdout and "1 at risk" in done.stdout, done.stdout)
        expect(max(map(len, lines)) <= 200, done.stdout)
        done = run("scan", "-A", "--sort", "risk", "--limit", "1", "--price-cpu", "10",
                   "--price-memory", "1", "-o", "json", env={"KUBECONFIG": config})
        answer = json.loads(done.stdout)
        expect(answer["source"] == "history" and answer["workloads"] == 2, answer)
        expect([row["name"] for row in answer["rows"]] == ["thin"], answer)
        fat_cpu, fat_memory = 4 * (2 - 0.23), 4 * (2 - 0.575) * GIB
        expect(abs(answer["cpu"]["unused"] / fat_cpu - 1) < 0.01, answer)
        expect(abs(answer["memory"]["unused"] / fat_memory - 1) < 0.01, answer)
        expect(answer["rows"][0]["unusedMonthly"] == 0, answer)
        expect(Handler.written == [], Handler.written)


def mpa(name, **recommendation):
    status = {"recommendation": {**recommendation, "time": "2026-01-31T12:00:00Z"},
              "lastDecision": {"message": "less load"}} if recommendation else {}
    return {"metadata": {"namespace": "shop", "name": name}, "status": status,
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": name}}}


RECOMMENDED = {
    "/apis/autoscaling.aware.dev/v1alpha1/multidimpodautoscalers": {"metadata": {}, "items": [
        mpa("fat", replicas=3, cpu="500m", memory="1Gi"),
        mpa("thin", replicas=1, cpu="100m", memory="64Mi"), mpa("new")]},
    "/apis/apps/v1/deployments/fat": OBJECTS["/apis/apps/v1/deployments"]["items"][0],
    "/apis/apps/v1/deployments/thin": OBJECTS["/apis/apps/v1/deployments"]["items"][1],
    "/apis/apps/v1/deployments/new": workload("new", 1, {}),
}


def recommendations_become_patches_and_nothing_is_written():
    with cluster(objects=RECOMMENDED) as config:
        done = run("recommend", "--kubeconfig", config)
        expect(done.returncode == 0, done.stderr)
        expect(done.stdout == """--- shop/Deployment/fat
+++ recommended: less load
-replicas: 4
+replicas: 3
 template:
   spec:
     containers:
       - name: app
         resources:
           requests:
-            cpu: "2"
+            cpu: "500m"
-            memory: "2Gi"
+            memory: "1Gi"
           limits:
-            memory: "2Gi"
+            memory: "1Gi"
""", done.stdout)
        expect("shop/new: " in done.stderr and "no recommendation yet" in done.stderr, done.stderr)
        expect("1 of 3 autoscalers recommend a change" in done.stderr, done.stderr)
        done = run("recommend", "fat", "-o", "yaml", "--kubeconfig", config)
        expect("# shop/fat: less load" in done.stdout and "kind: Deployment" in done.stdout,
               done.stdout)
        expect("replicas: 3" in done.stdout and "500m" in done.stdout, done.stdout)
        done = run("recommend", "-A", "-o", "kustomize", "--kubeconfig", config)
        expect("kind: Kustomization" in done.stdout and "patches:" in done.stdout, done.stdout)
        done = run("recommend", "nobody", "--kubeconfig", config)
        expect(done.returncode == 66 and "nobody" in done.stderr, done.stderr)
        expect(Handler.written == [], Handler.written)


def without_a_prometheus_it_says_what_it_does_not_know():
    with cluster(objects={"/api/v1/services": EMPTY}) as config:
        done = run("scan", "--kubeconfig", config)
        expect(done.returncode == 0 and "nothing is known of usage" in done.stderr, done.stderr)
        expect("2 had no usage to judge by" in done.stdout, done.stdout)


def an_empty_cluster_is_told_in_a_line():
    with cluster(objects={"/apis/apps/v1/deployments": EMPTY}) as config:
        done = run("scan", "--kubeconfig", config)
        expect(done.returncode == 0 and done.stdout.count("\n") == 1, done.stdout + done.stderr)
        expect("was found" in done.stdout, done.stdout)
        answer = json.loads(run("scan", "--kubeconfig", config, "-o", "json").stdout)
        expect(answer["rows"] == [] and answer["workloads"] == 0, answer)


def wrong_words_are_refused_before_anything_is_asked():
    for words, text in ((["--history", "5s"], "--history"), (["--price-cpu", "cheap"], "cheap"),
                        (["-A", "-n", "shop"], "exclude"), (["--history", "soon"], "soon")):
        done = run("scan", *words, env={"HOME": "/nonexistent"})
        expect(done.returncode in (64, 65) and text in done.stderr, (words, done.stderr))


def the_plugin_finds_who_leads_and_asks_there():
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        kubectl = Path(folder, "kubectl")
        kubectl.write_text(f"#!/bin/sh\necho \"$*\" >>{log}\n"
                           "case \"$*\" in *holderIdentity*) printf aware-7d-x ;; esac\n",
                           encoding="utf-8")
        kubectl.chmod(0o755)
        os.symlink(cli_test.AWARE, Path(folder, "aware"))
        env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}

        def plugin(*words, program="kubectl-aware"):
            return subprocess.run([TOOLS / program, *words], env=env, capture_output=True,
                                  text=True, check=False, timeout=60)

        done = plugin("freeze", "--context", "prod", "shop/web", "--reason", "a b")
        expect(done.returncode == 0, done.stderr)
        last = log.read_text(encoding="utf-8").splitlines()[-1]
        expect(last == "--context=prod exec --quiet --namespace aware-system --container "
               "controller aware-7d-x -- /bin/aware freeze shop/web --reason a b --state /state",
               last)
        plugin("objects", "-A", "--kubeconfig=x")
        last = log.read_text(encoding="utf-8").splitlines()[-1]
        expect(last == "--kubeconfig=x get multidimpodautoscalers.autoscaling.aware.dev -A", last)
        with cluster() as config:
            done = plugin("scan", "--kubeconfig", config)
            expect(done.returncode == 0 and "Deployment/fat" in done.stdout, done.stderr)
        expect("kubectl aware scan -A" in plugin().stdout, plugin().stdout)
        done = plugin("scan", "--so", program="kubectl_complete-aware")
        expect(done.stdout.startswith("--sort\t") and done.stdout.endswith("\n:4\n"), done.stdout)
        done = plugin("ob", program="kubectl_complete-aware")
        expect(done.stdout.startswith("objects\t"), done.stdout)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])
    globals()[sys.argv[1]]()
