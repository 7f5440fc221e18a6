#!/usr/bin/env python3
"""doctor_test.py - `aware doctor` as a user meets it, against a few canned answers.

    doctor_test.py TEST [AWARE]    one of the functions below, against the program AWARE

Exit status as in cli_test.py.
"""

import contextlib
import http.server
import json
import os
import sys
import tempfile
import threading
from pathlib import Path

import cli_test
from cli_test import expect, run

TOKEN = "a-secret-that-nobody-may-see"

ANSWERS = {
    "/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.1"},
    "/apis": {"groups": [
        {"name": "autoscaling", "versions": [{"version": "v2"}]},
        {"name": "coordination.k8s.io", "versions": [{"version": "v1"}]},
        {"name": "metrics.k8s.io", "versions": [{"version": "v1beta1"}]}]},
    "/api/v1": {"resources": [
        {"name": "pods/eviction", "version": "v1"}, {"name": "pods/resize"}]},
    "/apis/metrics.k8s.io/v1beta1/nodes": {"items": []},
    "/apis/autoscaling/v2/horizontalpodautoscalers": {"items": [], "metadata": {}},
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    denied = None
    written = []

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        body = ANSWERS.get(self.path.split("?")[0])
        if not known:
            self.answer(401, {"kind": "Status", "reason": "Unauthorized", "message": "who?"})
        elif body is None:
            self.answer(404, {"kind": "Status", "reason": "NotFound", "message": self.path})
        else:
            self.answer(200, body)

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.written.append(self.path.split("?")[0])
        wanted = review["spec"]["resourceAttributes"]
        allowed = wanted["resource"] not in ("secrets", self.denied)
        self.answer(201, {"status": {"allowed": allowed}})

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def cluster(token=TOKEN, denied=None):
    """A server and the kubeconfig that leads to it."""
    Handler.denied, Handler.written = denied, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config")
        path.write_text(json.dumps({
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {
                "server": f"http://127.0.0.1:{server.server_address[1]}"}}],
            "users": [{"name": "u", "user": {"token": token}}]}), encoding="utf-8")
        try:
            yield str(path)
        finally:
            server.shutdown()
            server.server_close()


def a_cluster_that_has_everything_is_told_so():
    with cluster() as config:
        done = run("doctor", "--act", env={"KUBECONFIG": config})
        expect(done.returncode == 0, done.stdout + done.stderr)
        expect("v1.33.1" in done.stdout and "lack" not in done.stdout, done.stdout)
        expect("no other autoscaler" in done.stdout, done.stdout)
        expect(set(Handler.written) ==
               {"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"}, Handler.written)


def what_is_missing_is_told_with_its_remedy():
    with cluster(denied="deployments") as config:
        done = run("doctor", "--kubeconfig", config, "-o", "json")
        expect(done.returncode == 1 and "missing" in done.stderr, done.stderr)
        answer = json.loads(done.stdout)
        lacks = [f for f in answer["findings"] if f["state"] == "lack"]
        expect(len(lacks) == answer["lacks"] == 3, done.stdout)
        expect(any('resources ["deployments"] verbs ["list"]' in f["fix"] for f in lacks), lacks)


def a_wrong_token_is_told_and_never_shown():
    with cluster(token="another-secret") as config:
        done = run("doctor", "--kubeconfig", config)
        expect(done.returncode == 78, (done.returncode, done.stderr))
        expect("401" in done.stdout and "token" in done.stdout, done.stdout)
        expect("secret" not in done.stdout + done.stderr, "a secret was printed")


def without_a_cluster_there_is_one_line():
    with tempfile.TemporaryDirectory() as folder:
        done = run("doctor", env={"HOME": folder})
        expect(done.returncode == 66 and "no cluster is configured" in done.stderr, done.stderr)
        expect(done.stdout == "" and done.stderr.count("\n") == 1, done.stdout + done.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        cli_test.AWARE = os.path.abspath(sys.argv[2])
    globals()[sys.argv[1]]()
