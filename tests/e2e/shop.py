"""shop.py - a real workload in the cluster: aware-workload as pods with limits, its metrics in
Prometheus, load from this machine, and metrics.k8s.io from the kubelet."""

import contextlib
import datetime
import http.server
import json
import ssl
import subprocess
import threading
import urllib.parse
import urllib.request

from e2e import PROMETHEUS, expect, wait_for

IMAGE = "aware.local/workload:e2e"
GATEWAY = "10.213.0.1"  # this machine, as pods and the API server reach it
METRICS_PORT = 24443


def query(question):
    url = f"{PROMETHEUS}/api/v1/query?" + urllib.parse.urlencode({"query": question})
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)["data"]["result"]


class Shop:
    """A Deployment of aware-workload in a namespace."""

    def __init__(self, cluster, ns, name="shop"):
        self.cluster, self.ns, self.name = cluster, ns, name
        self.targets = cluster.state / "targets" / f"{ns}-{name}.json"

    def deploy(self, replicas=2, cpu="500m", memory="256Mi", app="1:39"):
        make_image(self.cluster)
        size = {"cpu": cpu, "memory": memory}
        self.cluster.apply({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": self.ns},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": self.name}},
                "template": {
                    "metadata": {"labels": {"app": self.name}},
                    "spec": {
                        "terminationGracePeriodSeconds": 5,
                        "automountServiceAccountToken": False,
                        "containers": [{
                            "name": "server", "image": IMAGE, "imagePullPolicy": "Never",
                            "args": ["--app", app, "--listen", "0.0.0.0:8080", "--start", "0s",
                                     "--drain", "2s"],
                            "ports": [{"containerPort": 8080}],
                            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080},
                                               "periodSeconds": 1},
                            "resources": {"requests": size, "limits": size}}]}}}})
        self.settled(replicas)

    def get(self):
        return self.cluster.read(f"/apis/apps/v1/namespaces/{self.ns}/deployments/{self.name}")

    def settled(self, replicas=None):
        """Waits until the pods are those that are wanted, ready, and told to Prometheus."""
        def done():
            found = self.get()
            wanted = found["spec"]["replicas"]
            status = found["status"]
            pods = self.pods()
            return (wanted == (replicas or wanted) and len(pods) == wanted and
                    status.get("readyReplicas", 0) == wanted and
                    status.get("observedGeneration") == found["metadata"]["generation"])
        wait_for(f"{self.name} with {replicas} replicas", done)
        self.tell()

    def pods(self):
        items = self.cluster.read(
            f"/api/v1/namespaces/{self.ns}/pods?labelSelector=app%3D{self.name}")["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def addresses(self):
        return [pod["status"]["podIP"] for pod in self.pods() if pod["status"].get("podIP")]

    def tell(self):
        """Debian's Prometheus does not find pods by itself."""
        rows = [{"targets": [f"{pod['status']['podIP']}:8080"],
                 "labels": {"namespace": self.ns, "pod": pod["metadata"]["name"],
                            "container": "server"}}
                for pod in self.pods() if pod["status"].get("podIP")]
        new = self.targets.with_suffix(".new")
        new.write_text(json.dumps(rows), encoding="utf-8")
        new.rename(self.targets)

    def close(self):
        self.targets.unlink(missing_ok=True)

    @contextlib.contextmanager
    def load(self, rate, duration="10m"):
        """Requests to the pods that are there now, each an equal share, from this machine."""
        running = []
        where = self.addresses()
        expect(where, "nobody to send requests to")
        for address in where:
            running.append(subprocess.Popen(
                [self.cluster.aware, "load", f"http://{address}:8080/", "--allow-remote",
                 "--rate", f"{rate / len(where):g}/s", "--duration", duration],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        try:
            yield
        finally:
            for one in running:
                one.terminate()
            for one in running:
                one.wait()


def make_image(cluster):
    archive = cluster.scratch / "workload.tar"
    if not archive.exists():
        cluster.script("program-image", archive, IMAGE, cluster.workload)
        cluster.script("load-image", archive)


class Summary:
    """metrics.k8s.io for one node, out of the kubelet's own summary."""

    def __init__(self, cluster):
        pki = cluster.state / "pki"
        self.cluster = cluster
        self.context = ssl.create_default_context(cafile=pki / "ca.crt")
        self.context.load_cert_chain(pki / "prometheus.crt", pki / "prometheus.key")
        self.silent = False

    def pods(self, ns):
        url = "https://127.0.0.1:10250/stats/summary"
        with urllib.request.urlopen(url, context=self.context, timeout=30) as answer:
            summary = json.load(answer)
        items = []
        for pod in [] if self.silent else summary["pods"]:
            parts = [part for part in pod.get("containers", []) if "cpu" in part]
            if (ns and pod["podRef"]["namespace"] != ns) or not parts:
                continue
            items.append({
                "metadata": {"name": pod["podRef"]["name"],
                             "namespace": pod["podRef"]["namespace"]},
                "timestamp": max(part["cpu"]["time"] for part in parts), "window": "10s",
                "containers": [{"name": part["name"], "usage": {
                    "cpu": f"{part['cpu'].get('usageNanoCores', 0)}n",
                    "memory": f"{part['memory'].get('workingSetBytes', 0) // 1024}Ki"}}
                               for part in parts]})
        return {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
                "items": items}

    def nodes(self):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
                "items": [{"metadata": {"name": "127.0.0.1"}, "timestamp": now, "window": "10s",
                           "usage": {"cpu": "0", "memory": "0"}}]}

    def answer(self, path):
        words = path.split("?")[0].strip("/").split("/")
        if words == ["apis", "metrics.k8s.io", "v1beta1"]:
            return {"kind": "APIResourceList", "apiVersion": "v1",
                    "groupVersion": "metrics.k8s.io/v1beta1", "resources": [
                        {"name": "pods", "singularName": "", "namespaced": True,
                         "kind": "PodMetrics", "verbs": ["get", "list"]},
                        {"name": "nodes", "singularName": "", "namespaced": False,
                         "kind": "NodeMetrics", "verbs": ["get", "list"]}]}
        if words[-1] == "pods":
            return self.pods(words[4] if words[3:4] == ["namespaces"] else None)
        return self.nodes() if words[-1] == "nodes" else None


@contextlib.contextmanager
def metrics_api(cluster, source=Summary):
    """An aggregated API without kube-proxy: a Service without pods, with us as its endpoint."""
    summary = source(cluster)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            found = summary.answer(self.path)
            body = json.dumps(found or {}).encode()
            with contextlib.suppress(OSError):  # whoever asked may not have waited
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    pki = cluster.state / "pki"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
    server = http.server.ThreadingHTTPServer((GATEWAY, METRICS_PORT), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    name = {"name": "metrics", "namespace": "kube-system"}
    port = {"port": 443, "targetPort": METRICS_PORT, "name": "https"}
    objects = [
        {"apiVersion": "v1", "kind": "Service", "metadata": name, "spec": {"ports": [port]}},
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": name, "subsets": [
            {"addresses": [{"ip": GATEWAY}], "ports": [{"port": METRICS_PORT, "name": "https"}]}]},
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
         "metadata": {"name": "v1beta1.metrics.k8s.io"},
         "spec": {"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100,
                  "versionPriority": 100, "insecureSkipTLSVerify": True, "service": name}}]
    try:
        cluster.apply(objects)
        wait_for("metrics.k8s.io", lambda: cluster.kubectl(
            "get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes"))
        yield summary
    finally:
        cluster.kubectl("delete", "apiservice", "v1beta1.metrics.k8s.io", "--ignore-not-found",
                        check=False)
        cluster.kubectl("-n", "kube-system", "delete", "service,endpoints", "metrics",
                        "--ignore-not-found", check=False)
        server.shutdown()


@contextlib.contextmanager
def shop(cluster, **how):
    with cluster.namespace() as ns:
        one = Shop(cluster, ns)
        try:
            one.deploy(**how)
            yield one
        finally:
            one.close()


