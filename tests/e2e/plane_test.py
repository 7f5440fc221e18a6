"""plane_test.py - what needs a real API server, its controllers and its scheduler, and no
containers: stock VPA objects, certificates that end, pods without a node, nodes that are drained,
clocks that are wrong. Nodes and running pods are records (pretend.py), so this runs where no
kubelet can."""

import base64
import contextlib
import signal
import subprocess
import time

import yaml

from controller import (Controller, autoscaler, controller, events, holder, holds, pretty,
                        recommended, status, wait_recommended, webhook)
from e2e import HERE, expect, wait_for
from pretend import deploy, figures, nodes, patch, pods, ready, replicas, stamp
from shop import GATEWAY

VPAS = "/apis/autoscaling.k8s.io/v1/namespaces/{ns}/verticalpodautoscalers/{name}"
DEFINITION = "verticalpodautoscalers.autoscaling.k8s.io"
ROUNDS_S = 20  # ten rounds: enough to decide, if anything were to be decided
DAY_S, SKEW_S = 86400, 3 * 3600


@contextlib.contextmanager
def scene(cluster, overlay="recommend-only", names=("pretended-a",), room=None, **what):
    """The rights of an overlay, nodes, a Deployment in a namespace, and figures of its pods."""
    cluster.uninstall()
    cluster.install(overlay)
    with nodes(cluster, *names, **(room or {})) as made, cluster.namespace() as ns:
        deploy(cluster, ns, **what)
        with figures(cluster, ns) as told:
            yield ns, told, made


def acting(ns, **more):
    return autoscaler(ns, policy={"updateMode": "Auto"}, **more)


def stays(what, condition, seconds=ROUNDS_S):
    """Fails as soon as condition() does not hold; for what must not happen."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        expect(condition(), what)
        time.sleep(0.5)


def reason(cluster, ns, condition, name="shop"):
    for one in status(cluster, ns, name).get("conditions", []):
        if one["type"] == condition:
            return one["status"], one["reason"]
    return None, None


# --- stock VPA objects


def vpa(ns, name="shop", recommender="aware", mode="Off", **policy):
    spec = {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
            "updatePolicy": {"updateMode": mode}}
    if recommender:
        spec["recommenders"] = [{"name": recommender}]
    if policy:
        spec["resourcePolicy"] = {"containerPolicies": [{"containerName": "*", **policy}]}
    return {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"name": name, "namespace": ns}, "spec": spec}


@contextlib.contextmanager
def vpa_kind(cluster):
    text = (HERE / "vpa_crd.yaml").read_text(encoding="utf-8")
    try:
        cluster.apply([yaml.safe_load(text)])
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s",
                        f"crd/{DEFINITION}")
        wait_for("the kind", lambda: cluster.read(
            "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"))
        yield
    finally:
        cluster.kubectl("delete", "crd", DEFINITION, "--ignore-not-found", check=False)


def told(cluster, ns, name="shop"):
    """The recommendation in a VPA object for its one container."""
    found = cluster.read(VPAS.format(ns=ns, name=name)) or {}
    rows = found.get("status", {}).get("recommendation", {}).get("containerRecommendations", [])
    return rows[0] if rows else None


def a_stock_vpa_that_names_us_gets_its_recommendation(cluster):
    with scene(cluster) as (ns, told_by, _), \
            controller(cluster, "recommender", prometheus=told_by.url) as process:
        told_by.cores, told_by.memory = 0.4, 300 << 20
        # the kind comes after the controller, as where VPA is installed later
        with vpa_kind(cluster):
            cluster.apply([vpa(ns, maxAllowed={"memory": "1Gi"}), vpa(ns, "stock", None),
                           vpa(ns, "theirs", "theirs")])
            found = wait_for("a recommendation", lambda: told(cluster, ns), 300)
            expect(found["containerName"] == "server", "container", pretty(found))
            cpu = found["target"]["cpu"]
            expect(cpu.endswith("m") and 400 <= int(cpu[:-1]) <= 520, "CPU", pretty(found))
            expect(300 << 20 <= int(found["target"]["memory"]) <= 450 << 20, "memory",
                   pretty(found))
            expect(int(found["upperBound"]["memory"]) == 1 << 30, "maxAllowed", pretty(found))
            whole = cluster.read(VPAS.format(ns=ns, name="shop"))
            kinds = {one["type"]: one["status"] for one in whole["status"]["conditions"]}
            expect(kinds.get("RecommendationProvided") == "True" and
                   kinds.get("LowConfidence") == "True" and "NoPodsMatched" not in kinds,
                   "conditions", pretty(kinds))
            expect(whole["metadata"]["generation"] == 1, "more than its status was written")
            for other in ("stock", "theirs"):
                left = cluster.read(VPAS.format(ns=ns, name=other))
                expect("status" not in left, f"{other} is not ours", pretty(left))
            expect(replicas(cluster, ns) == 2, "something acted")
        expect(process.alive(), "it ended with the kind", process.said()[-3000:])


def a_vpa_on_the_same_target_keeps_us_from_acting(cluster):
    with vpa_kind(cluster), scene(cluster, "acting") as (ns, told_by, _):
        told_by.cores = 0.29  # of 0.3: more replicas are wanted
        cluster.apply([vpa(ns, mode="Auto"), acting(ns)])
        with controller(cluster, "recommender,updater", prometheus=told_by.url):
            wait_for("more replicas recommended", lambda: (
                recommended(cluster, ns) or {"replicas": 0})["replicas"] > 2, 300)
            wait_for("the conflict in a condition", lambda: holds(
                cluster, ns, "AbleToScale") == "False", 300)
            stays("it fought the VPA", lambda: replicas(cluster, ns) == 2)
            wait_for("the VPA's own recommendation", lambda: told(cluster, ns), 300)
            cluster.kubectl("-n", ns, "delete", "vpa", "shop")
            wait_for("more replicas, once it is gone", lambda: replicas(cluster, ns) > 2, 300)


# --- certificates


def serial(cluster):
    """Of the certificate that the webhook serves now, checked as the API server does."""
    hook = cluster.get("mutatingwebhookconfiguration", "aware")
    bundle = base64.b64decode(hook["webhooks"][0]["clientConfig"].get("caBundle", "")).decode()
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"{GATEWAY}:9443", "-servername",
         "aware.aware-system.svc"], input="", capture_output=True, text=True, check=False)
    expect("BEGIN CERTIFICATE" in done.stdout and bundle, "nobody serves yet", done.stderr)
    leaf = done.stdout[done.stdout.index("-----BEGIN"):done.stdout.index("-----END")] + \
        "-----END CERTIFICATE-----\n"
    folder = cluster.scratch / "served"
    folder.mkdir(exist_ok=True)
    (folder / "leaf.pem").write_text(leaf, encoding="ascii")
    (folder / "bundle.pem").write_text(bundle, encoding="ascii")
    good = subprocess.run(["openssl", "verify", "-CAfile", folder / "bundle.pem",
                           folder / "leaf.pem"], capture_output=True, text=True, check=False)
    said = subprocess.run(["openssl", "x509", "-in", folder / "leaf.pem", "-noout", "-serial"],
                          capture_output=True, text=True, check=False)
    return said.stdout.strip(), good.returncode == 0, good.stdout + good.stderr


def recommend(cluster, ns, cpu="450m", memory="256Mi"):
    """As the recommender would; here nobody else writes this status."""
    path = f"/apis/autoscaling.aware.dev/v1alpha1/namespaces/{ns}/multidimpodautoscalers/shop"
    generation = cluster.read(path)["metadata"]["generation"]
    patch(cluster, f"{path}/status", {"status": {
        "observedGeneration": generation, "mode": "Auto", "recommendation": {
            "replicas": 2, "cpu": cpu, "memory": memory, "container": "server", "decision": "1",
            "time": stamp()}}})


def created(cluster, ns):
    """The CPU request of a pod that is created now."""
    before = {pod["metadata"]["uid"] for pod in pods(cluster, ns)}
    victim = pods(cluster, ns)[0]["metadata"]["name"]
    cluster.kubectl("-n", ns, "delete", "pod", victim, "--wait=false")
    fresh = wait_for("a new pod", lambda: [pod for pod in pods(cluster, ns)
                                           if pod["metadata"]["uid"] not in before])
    return fresh[0]["spec"]["containers"][0]["resources"]["requests"]["cpu"]


def a_certificate_is_renewed_while_it_serves(cluster):
    with scene(cluster, "acting") as (ns, _, _), webhook(cluster):
        cluster.apply(acting(ns))
        recommend(cluster, ns)
        state = cluster.scratch / "renewed"
        # seventy days ago: what it makes has twenty left, and is due
        with controller(cluster, "admission", prometheus=None, clock=-70 * DAY_S, state=state):
            old, good, why = wait_for("a certificate", lambda: serial(cluster))
            wait_for("it in the bundle", lambda: serial(cluster)[1])
        with controller(cluster, "admission", prometheus=None, state=state, name="two"):
            wait_for("another certificate", lambda: serial(cluster)[0] != old)
            _, good, why = serial(cluster)
            expect(good, "the bundle does not have its authority", why)
            wait_for("a pod that was sized", lambda: created(cluster, ns) == "450m")


def an_expired_certificate_is_replaced_and_keeps_no_pod_from_being_created(cluster):
    with scene(cluster, "acting") as (ns, _, _), webhook(cluster):
        cluster.apply(acting(ns))
        recommend(cluster, ns)
        state = cluster.scratch / "expired"
        with controller(cluster, "admission", prometheus=None, clock=-100 * DAY_S, state=state):
            old, _, _ = wait_for("a certificate", lambda: serial(cluster))
            wait_for("the authority in the bundle", lambda: "expired" in serial(cluster)[2])
            # the API server does not trust it, and failurePolicy is Ignore
            expect(created(cluster, ns) == "300m", "an expired certificate was trusted")
        with controller(cluster, "admission", prometheus=None, state=state, name="two"):
            wait_for("another certificate", lambda: serial(cluster)[0] != old)
            wait_for("a pod that was sized", lambda: created(cluster, ns) == "450m")


# --- pods and nodes


def pods_that_wait_for_a_node_neither_shrink_nor_multiply_a_workload(cluster):
    with scene(cluster, "acting", room={"cpu": "1", "memory": "4Gi"}) as (ns, told_by, _):
        told_by.cores = 0.29  # of 0.3; three fit on the node
        wanted = acting(ns)
        wanted["spec"]["constraints"]["global"]["maxReplicas"] = 20
        cluster.apply(wanted)
        with controller(cluster, "recommender,updater", prometheus=told_by.url):
            wait_for("a condition that says so", lambda: reason(
                cluster, ns, "ScalingLimited") == ("True", "PodsPending"), 600)
            before = replicas(cluster, ns)
            running = {pod["metadata"]["uid"] for pod in ready(cluster, ns, 1)}
            # those that run have enough to do for twice as many, and for no more than that
            stays("it shrank, or grew on and on",
                  lambda: before <= replicas(cluster, ns) <= 2 * len(running) + 1, 40)
            left = {pod["metadata"]["uid"] for pod in ready(cluster, ns, 1)}
            expect(running <= left, "those that run were disturbed", pretty(pods(cluster, ns)))


def a_node_that_is_drained_decides_nothing(cluster):
    policy = "policy/v1" if cluster.minor >= 21 else "policy/v1beta1"
    budget = {"apiVersion": policy, "kind": "PodDisruptionBudget",
              "metadata": {"name": "shop"}, "spec": {
                  "minAvailable": 3, "selector": {"matchLabels": {"app": "shop"}}}}
    with scene(cluster, "acting", names=("pretended-a", "pretended-b"), replicas=4) as (
            ns, told_by, (first, _)):
        told_by.cores = 0.18  # 60 % of what they have: neither more nor less is wanted
        cluster.apply({**budget, "metadata": {"name": "shop", "namespace": ns}})
        cluster.apply(acting(ns))
        with controller(cluster, "recommender,updater", prometheus=told_by.url):
            wait_recommended(cluster, ns)
            wait_for("ScalingActive", lambda: holds(cluster, ns, "ScalingActive") == "True")
            wait_for("the budget", lambda: cluster.get("-n", ns, "pdb", "shop")["status"].get(
                "disruptionsAllowed") == 1)
            least = []
            drain = subprocess.Popen(
                ["kubectl", f"--kubeconfig={cluster.kubeconfig}", "drain", first.name,
                 "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=200s"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while drain.poll() is None:
                found = ready(cluster, ns, 0) or []
                least.append(len(found))
                expect(replicas(cluster, ns) >= 4, "it shrank during the drain")
                time.sleep(0.3)
            expect(drain.returncode == 0, "the drain failed")
            expect(min(least or [4]) >= 3, "fewer than the budget allows", least)
            wait_for("four pods on the other node", lambda: [
                pod["spec"].get("nodeName") for pod in ready(cluster, ns, 4) or []] ==
                ["pretended-b"] * 4)
            stays("it decided something by it", lambda: replicas(cluster, ns) == 4)
            said = [one for one in events(cluster, ns) if "vict" in one.get("reason", "")]
            expect(not said, "it evicted", pretty(said))


# --- clocks


def a_clock_that_is_wrong_by_hours_shrinks_nothing_and_still_grows(cluster):
    for clock in (SKEW_S, -SKEW_S):
        with scene(cluster, "acting", replicas=3) as (ns, told_by, _):
            told_by.cores = 0.18
            cluster.apply(acting(ns))
            with controller(cluster, "recommender,updater", prometheus=told_by.url, clock=clock):
                wait_recommended(cluster, ns)
                # figures are not taken for three hours old, nor for news of the future
                wait_for(f"{clock}: ScalingActive",
                         lambda ns=ns: holds(cluster, ns, "ScalingActive") == "True")
                stays(f"{clock}: it shrank", lambda ns=ns: replicas(cluster, ns) >= 3)
                told_by.cores = 0.29
                wait_for(f"{clock}: more replicas", lambda ns=ns: replicas(cluster, ns) > 3, 300)


def a_recommendation_of_another_time_is_not_acted_on(cluster):
    """Recommender and updater as processes of different machines, whose clocks disagree."""
    for clock, word in ((SKEW_S, "ClockSkew"), (-SKEW_S, None)):
        with scene(cluster, "acting") as (ns, told_by, _):
            told_by.cores = 0.29
            cluster.apply(acting(ns))
            with controller(cluster, "recommender", "--lease=aware-recommender",
                            prometheus=told_by.url, clock=clock), \
                    controller(cluster, "updater", prometheus=None, name="two"):
                wait_for("more replicas recommended", lambda ns=ns: (
                    recommended(cluster, ns) or {"replicas": 0})["replicas"] > 2, 300)
                stays(f"{clock}: it was acted on", lambda ns=ns: replicas(cluster, ns) == 2, 30)
                if word:
                    wait_for("a condition that says so", lambda ns=ns, word=word: reason(
                        cluster, ns, "AbleToScale") == ("False", word), 120)


def a_lease_is_not_taken_by_a_clock_that_is_ahead(cluster):
    with scene(cluster) as (ns, told_by, _):
        cluster.apply(autoscaler(ns))
        first = Controller(cluster, "recommender", prometheus=told_by.url, name="one")
        try:
            leader = wait_for("a leader", lambda: holder(cluster))
            with controller(cluster, "recommender", prometheus=told_by.url, name="two",
                            clock=SKEW_S):
                # by its own clock the Lease ended hours ago
                stays("the Lease was taken", lambda: holder(cluster) == leader, 25)
                first.end(signal.SIGKILL)
                wait_for("the other one", lambda: (holder(cluster) or leader) != leader, 120)
                wait_recommended(cluster, ns)
        finally:
            if first.alive():
                first.end()


PLANE = (
    a_stock_vpa_that_names_us_gets_its_recommendation,
    a_vpa_on_the_same_target_keeps_us_from_acting,
    a_certificate_is_renewed_while_it_serves,
    an_expired_certificate_is_replaced_and_keeps_no_pod_from_being_created,
    pods_that_wait_for_a_node_neither_shrink_nor_multiply_a_workload,
    a_node_that_is_drained_decides_nothing,
    a_clock_that_is_wrong_by_hours_shrinks_nothing_and_still_grows,
    a_recommendation_of_another_time_is_not_acted_on,
    a_lease_is_not_taken_by_a_clock_that_is_ahead,
)
TESTS = PLANE
