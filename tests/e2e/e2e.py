#!/usr/bin/env python3
"""e2e.py - tests against the real Kubernetes that tests/e2e/cluster/up brought up.

    e2e.py FOLDER [WORD...]     with the programs of the build folder FOLDER; only tests whose names
                                contain one of the words

Each test is a function whose name is a sentence, in one of the modules named in MODULES; it gets a
Cluster and is given a namespace of its own where it asks for one. On a control plane without a
kubelet (cluster/up --control) those run that a module has in PLANE. Tests wait for conditions with
generous limits and never for a time: the machine may be busy. The exit status is 1 when one fails.
"""

import contextlib
import importlib
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODULES = ("api_test", "deploy_test", "pods_test", "resize_test", "controller_test",
           "faults_test", "plane_test")
PATIENCE_S = 180
SERVER = "https://127.0.0.1:16443"
PROMETHEUS = "http://127.0.0.1:19090"
NODE_LIMIT_BYTES = 1 << 20  # of an answer that is printed when a test fails


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def expect(condition, why, found=""):
    if not condition:
        raise Failed(f"{why}\n{str(found)[:NODE_LIMIT_BYTES]}" if found != "" else why)


def wait_for(what, condition, patience_s=PATIENCE_S):
    """Returns the first true value of condition(); a Failed inside it counts as not yet."""
    until = time.monotonic() + patience_s
    last = None
    while True:
        try:
            value = condition()
            if value:
                return value
        except Failed as failure:
            last = failure
        if time.monotonic() > until:
            raise Failed(f"{what} did not come within {patience_s} s; last: {last}")
        time.sleep(0.25)


def for_this_server(objects, minor):
    """policy/v1 came with 1.21; the fields that are used here are the same in v1beta1. Policies of
    admission came with 1.30."""
    objects = [one for one in objects
               if one and (minor >= 30 or not one["kind"].startswith("ValidatingAdmissionPolicy"))]
    for one in objects:
        if one["apiVersion"] == "policy/v1" and minor < 21:
            one["apiVersion"] = "policy/v1beta1"
    return objects


class Cluster:
    def __init__(self, folder):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aware-kube"
        self.state = Path(os.environ.get("AWARE_KUBE_STATE") or cache / "state")
        self.kubeconfig = self.state / "admin.kubeconfig"
        self.folder = Path(folder).resolve()
        self.aware = self.folder / "aware"
        self.workload = self.folder / "aware-workload"
        self.scratch = Path(tempfile.mkdtemp(prefix="aware-e2e-"))
        self.count = 0
        self.plane = not (self.state / "run" / "unshare").exists()  # there is no kubelet
        expect(self.kubeconfig.exists(), f"no cluster: {self.kubeconfig} is not there")
        pki = self.state / "pki"
        self.tls = ssl.create_default_context(cafile=pki / "ca.crt")
        self.tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        # clients of the server's own version, where there are such
        os.environ["PATH"] = f"{self.state / 'bin'}{os.pathsep}{os.environ['PATH']}"
        found = wait_for("an answer of the server", lambda: self.read("/version"))
        self.version = found["gitVersion"]
        self.minor = int(found["minor"].rstrip("+"))

    def needs(self, minor, what):
        if self.minor < minor:
            raise Skipped(f"{what} came with 1.{minor}, and this is {self.version}")

    @property
    def resizes(self):
        """Whether pods are resized in place, without a feature gate."""
        return self.minor >= 33

    # --- kubectl

    def kubectl(self, *words, text=None, check=True, kubeconfig=None):
        """Runs kubectl and returns what it printed; with check=False also when it failed."""
        done = subprocess.run(
            ["kubectl", f"--kubeconfig={kubeconfig or self.kubeconfig}", "--request-timeout=60s",
             *map(str, words)],
            input=text, capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise Failed(f"kubectl {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout if check else done

    def get(self, *words, **more):
        return json.loads(self.kubectl("get", *words, "-o", "json", **more))

    def read(self, path, body=None):
        """One GET, or the POST of a question; quicker than kubectl. None: no such thing."""
        request = urllib.request.Request(
            f"{SERVER}{path}", data=json.dumps(body).encode() if body else None,
            headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, context=self.tls, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            if refusal.code == 404:
                return None
            raise Failed(f"GET {path}: {refusal.code} {refusal.read()!r}") from refusal
        except (OSError, ValueError) as why:
            raise Failed(f"GET {path}: {why}") from why

    def may(self, user, verb, group, resource, ns="", sub="", name=""):
        """What `kubectl auth can-i` asks."""
        answer = self.read("/apis/authorization.k8s.io/v1/subjectaccessreviews", {
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": ["system:authenticated", "system:serviceaccounts"],
                     "resourceAttributes": {
                         "verb": verb, "group": group, "resource": resource, "subresource": sub,
                         "namespace": ns, "name": name}}})
        return answer["status"]["allowed"]

    def apply(self, objects, *words):
        """Applies objects (a dict, a list of them, or YAML text), as they are."""
        if isinstance(objects, dict):
            objects = [objects]
        text = objects if isinstance(objects, str) else json.dumps(
            {"apiVersion": "v1", "kind": "List", "items": objects})
        return self.kubectl("apply", "-f", "-", *words, text=text)

    @contextlib.contextmanager
    def namespace(self, name=None):
        self.count += 1
        name = name or f"e2e-{os.getpid()}-{self.count}"
        self.kubectl("create", "namespace", name)
        self.kubectl("label", "namespace", name, f"kubernetes.io/metadata.name={name}")
        wait_for("the service account of a namespace",
                 lambda: self.read(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
        try:
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found",
                         check=False)

    # --- what the product ships

    def kustomize(self, overlay):
        """The objects of an overlay of deploy/, as this server takes them."""
        text = self.kubectl("kustomize", ROOT / "deploy/kustomize/overlays" / overlay)
        return for_this_server(yaml.safe_load_all(text), self.minor)

    def define(self):
        """The CustomResourceDefinition, established."""
        folder = ROOT / "deploy/crd" / ("before-1.28" if self.minor < 28 else ".")
        self.kubectl("apply", "-f", folder / "multidimpodautoscalers.yaml")
        # again and again: a definition that has no conditions yet is an error to kubectl
        wait_for("the definition", lambda: self.kubectl(
            "wait", "--for=condition=Established", "--timeout=60s",
            "crd/multidimpodautoscalers.autoscaling.aware.dev"))
        wait_for("the new kind", lambda: self.read(
            "/apis/autoscaling.aware.dev/v1alpha1/multidimpodautoscalers"))

    def install(self, overlay):
        """Everything of an overlay but the pods: controllers run beside the cluster here, because
        pods of this cluster cannot reach its API (no kube-proxy). The rights are those of the
        service account all the same: see account."""
        self.define()
        kept = [one for one in self.kustomize(overlay)
                if one["kind"] not in ("Deployment", "CustomResourceDefinition",
                                       "MutatingWebhookConfiguration")]
        kept.sort(key=lambda one: one["kind"] != "Namespace")
        self.apply(kept)
        return kept

    def uninstall(self):
        """All of it but the definition of the kind: with that every object would go."""
        objects = [one for one in self.kustomize("acting")
                   if one["kind"] != "CustomResourceDefinition"]
        self.kubectl("delete", "-f", "-", "--ignore-not-found", "--wait=false",
                     text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
                     check=False)
        wait_for("the end of aware-system",
                 lambda: self.read("/api/v1/namespaces/aware-system") is None)

    def account(self, name="aware", namespace="aware-system"):
        """A kubeconfig with nothing in it but the token of a service account."""
        token = wait_for("a token", lambda: self.kubectl(
            "-n", namespace, "create", "token", name, "--duration=2h").strip())
        path = self.scratch / f"{namespace}-{name}.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {
                "server": SERVER,
                "certificate-authority": str(self.state / "pki/ca.crt")}}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {
                "cluster": "it", "user": "it", "namespace": namespace}}]}),
            encoding="utf-8")
        path.chmod(0o600)
        return path

    # --- faults, pods

    def script(self, name, *words):
        done = subprocess.run([HERE / "cluster" / name, *map(str, words)], capture_output=True,
                              text=True, check=False)
        expect(done.returncode == 0, f"{name} failed", done.stderr)
        return done.stdout

    def cgroup(self, pod, file, container=0):
        """What the kernel was told: cgroup(pod, "cpu/cpu.cfs_quota_us")."""
        kind = {"Burstable": "burstable/", "BestEffort": "besteffort/"}.get(
            pod["status"]["qosClass"], "")
        name = pod["status"]["containerStatuses"][container]["containerID"].split("//")[1]
        controller, file = file.split("/")
        path = Path("/sys/fs/cgroup", controller, "kubepods",
                    f"{kind}pod{pod['metadata']['uid']}", name, file)
        return int(path.read_text(encoding="ascii"))

    def run(self, *words, kubeconfig=None, check=True, env=None):
        """Runs the program under test."""
        done = subprocess.run(
            [self.aware, *map(str, words)], capture_output=True, text=True, check=False,
            env={**os.environ, "KUBECONFIG": str(kubeconfig or self.kubeconfig),
                 "OPENBLAS_NUM_THREADS": "1", **(env or {})})
        if check:
            expect(done.returncode == 0, f"aware {' '.join(map(str, words))}", done.stderr)
        return done


def tests(words, plane):
    sys.path.insert(0, str(HERE))
    sys.dont_write_bytecode = True
    for name in MODULES:
        if not (HERE / f"{name}.py").exists():
            continue
        module = importlib.import_module(name)
        kept = getattr(module, "PLANE", ()) if plane else module.TESTS
        for test in kept:
            if not words or any(word in f"{name} {test.__name__}" for word in words):
                yield name, test


def main():
    if len(sys.argv) < 2:
        print(__doc__.strip(), file=sys.stderr)
        return 64
    # as a module, so that its classes are the same ones in every test
    this = importlib.import_module("e2e")
    cluster = this.Cluster(sys.argv[1])
    print(f"e2e: on Kubernetes {cluster.version}", flush=True)
    failed = skipped = passed = 0
    for module, test in tests(sys.argv[2:], cluster.plane):
        began = time.monotonic()
        name = f"{module}: {test.__name__}"
        try:
            test(cluster)
            passed += 1
            print(f"ok    {name} ({time.monotonic() - began:.1f} s)", flush=True)
        except this.Skipped as why:
            skipped += 1
            print(f"skip  {name}: {why}", flush=True)
        except Exception as why:  # pylint: disable=broad-except # the next test may still tell
            failed += 1
            detail = str(why) if isinstance(why, this.Failed) else traceback.format_exc()
            print(f"FAIL  {name}\n      " + detail.replace("\n", "\n      "), flush=True)
    print(f"e2e: {passed} passed, {failed} failed, {skipped} skipped on Kubernetes "
          f"{cluster.version}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
