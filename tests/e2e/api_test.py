"""api_test.py - the objects and the rights, as a real API server sees them."""

import copy
import json
import os
import subprocess

from e2e import HERE, ROOT, Failed, expect, wait_for

GOOD = {
    "apiVersion": "autoscaling.aware.dev/v1alpha1", "kind": "MultidimPodAutoscaler",
    "metadata": {"name": "cart"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"},
        "goals": {"slo": {"latency": {"target": "200ms"}}},
        "constraints": {"global": {"minReplicas": 2, "maxReplicas": 30}}}}

# what is changed in the good one (a path, and a value; None removes), and what must be said
BAD = (
    (("scaleTargetRef",), None, "spec.scaleTargetRef"),
    (("scaleTargetRef", "name"), None, "spec.scaleTargetRef.name"),
    (("scaleTargetRef", "name"), "No Such Name!", "spec.scaleTargetRef.name"),
    (("constraints",), None, "spec.constraints"),
    (("constraints", "global", "maxReplicas"), "many", "spec.constraints.global.maxReplicas"),
    (("constraints", "global", "minReplicas"), -1, "spec.constraints.global.minReplicas"),
    (("policy",), {"updateMode": "Sometimes"}, "spec.policy.updateMode"),
    (("learning",), {"stepSeconds": "soon"}, "spec.learning.stepSeconds"),
    (("learning",), {"bootstrap": "yes"}, "spec.learning.bootstrap"),
    (("goals", "slo", "latency", "quantile"), ["p99"], "spec.goals.slo.latency.quantile"),
    (("goals", "slo", "latency", "quantile"), "p98", "spec.goals.slo.latency.quantile"),
    (("goals", "slo", "latency", "quantile"), {"p": 99}, "spec.goals.slo.latency.quantile"),
)


def sized(low, high):
    return [{"name": "app", "requests": {"minAllowed": low, "maxAllowed": high}}]


CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {
    "type": "Utilization", "averageUtilization": 60}}}

# the same by rules over several fields, which servers have since 1.28; and what is good
RULED = (
    (("constraints", "global", "minReplicas"), 31, "spec.constraints.global"),
    (("constraints", "container"), sized({"cpu": 2}, {"cpu": "1500m"}),
     "spec.constraints.container[0].requests"),
    (("constraints", "pod"), {"requests": {
        "minAllowed": {"memory": "2Gi"}, "maxAllowed": {"memory": "1Gi"}}},
     "spec.constraints.pod.requests"),
    (("constraints", "container"), [{"name": "a"}, {"name": "b"}], "spec.constraints.container"),
    (("constraints", "container"), [{"name": "a"}, {"name": "a", "mode": "Off"}],
     "spec.constraints.container"),
    (("goals", "metrics"), [{"type": "Pods", "pods": {}}], "spec.goals.metrics"),
    (("goals", "metrics"), [CPU, CPU], "spec.goals.metrics"),
    (("learning",), {"retraining": {"highStakes": True, "mode": "online"}},
     "spec.learning.retraining"),
    (("goals",), {"metrics": [CPU]}, None),
    (("constraints", "container"), sized({"cpu": "100m"}, {"cpu": 2, "memory": "1Gi"}), None),
    (("constraints", "container"), [{"name": "a"}, {"name": "*"}, {"name": "b", "mode": "Off"}],
     None),
)


def the_definition_is_taken_and_its_columns_are_shown(cluster):
    cluster.define()
    found = cluster.get("crd", "multidimpodautoscalers.autoscaling.aware.dev")
    conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    expect(conditions.get("Established") == "True", "not established", conditions)
    # a schema that breaks the rules of structural ones is taken and then ignored
    expect("NonStructuralSchema" not in conditions, "the schema is not structural", conditions)
    with cluster.namespace() as ns:
        cluster.apply(GOOD, "-n", ns)
        head = cluster.kubectl("-n", ns, "get", "mpa").splitlines()[0].split()
        for column in "NAME MODE STAGE REPLICAS CPU MEMORY SLO REASON AGE".split():
            expect(column in head, f"no column {column}", head)
        expect("TARGET" in cluster.kubectl("-n", ns, "get", "mpa", "-o", "wide"), "no target")


def changed(path, value):
    bad = copy.deepcopy(GOOD)
    at = bad["spec"]
    for key in path[:-1]:
        at = at.setdefault(key, {})
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return json.dumps(bad)


def what_fields_say_together_is_judged_when_it_is_written(cluster):
    cluster.needs(28, "rules that compare amounts")
    with cluster.namespace() as ns:
        for path, value, wanted in RULED:
            done = cluster.kubectl("-n", ns, "create", "--dry-run=server", "-f", "-",
                                   text=changed(path, value), check=False)
            expect((done.returncode == 0) == (wanted is None), f"{path} = {value!r}", done.stderr)
            expect(f"{wanted}: Invalid value" in done.stderr or not wanted,
                   f"{path} = {value!r}: the field is not named", done.stderr)


def an_object_that_is_wrong_is_refused_and_the_field_is_named(cluster):
    with cluster.namespace() as ns:
        for path, value, wanted in BAD:
            done = cluster.kubectl("-n", ns, "create", "--validate=false", "-f", "-",
                                   text=changed(path, value), check=False)
            expect(done.returncode != 0, f"{path} = {value!r} was taken", done.stdout)
            expect(wanted in done.stderr, f"{path} = {value!r}: the field is not named",
                   done.stderr)
        expect(not cluster.get("-n", ns, "mpa")["items"], "something was stored")


def a_field_that_nobody_knows_is_not_kept(cluster):
    with cluster.namespace() as ns:
        odd = copy.deepcopy(GOOD)
        odd["spec"]["learning"] = {"stepSeconds": 15, "speling": True}
        cluster.kubectl("-n", ns, "create", "--validate=false", "-f", "-", text=json.dumps(odd))
        kept = cluster.get("-n", ns, "mpa", "cart")["spec"]["learning"]
        expect(kept == {"stepSeconds": 15}, "an unknown field was kept", kept)


def the_objects_of_the_examples_and_samples_are_taken(cluster):
    with cluster.namespace() as ns:
        files = [ROOT / "examples/ten-lines.yaml", ROOT / "examples/full.yaml",
                 *sorted((ROOT / "deploy/samples").glob("*.yaml"))]
        for file in files:
            text = file.read_text(encoding="utf-8").replace("namespace: shop", f"namespace: {ns}")
            try:
                cluster.kubectl("-n", ns, "apply", "--dry-run=server", "-f", "-", text=text)
            except Failed as why:
                raise Failed(f"{file.name}: {why}") from why


def a_status_is_written_apart_from_what_is_wanted(cluster):
    with cluster.namespace() as ns:
        cluster.apply(GOOD, "-n", ns)
        before = cluster.get("-n", ns, "mpa", "cart")
        # to the object itself: the status is dropped
        cluster.kubectl("-n", ns, "patch", "mpa", "cart", "--type=merge", "-p",
                        '{"status": {"mode": "Auto"}}')
        expect("mode" not in cluster.get("-n", ns, "mpa", "cart").get("status", {}),
               "a status came in by the front door")
        # to the subresource: all but the status is dropped, and the generation stays
        cluster.kubectl("-n", ns, "patch", "mpa", "cart", "--subresource=status", "--type=merge",
                        "-p", json.dumps({
                            "status": {"mode": "Off", "stage": "OFFLINE", "recommendation": {
                                "replicas": 3, "cpu": "250m", "memory": "512Mi"}},
                            "spec": {"constraints": {"global": {"maxReplicas": 99}}}}))
        after = cluster.get("-n", ns, "mpa", "cart")
        expect(after["status"]["recommendation"]["replicas"] == 3, "no status", after)
        expect(after["spec"] == before["spec"], "the spec has changed", after["spec"])
        expect(after["metadata"]["generation"] == before["metadata"]["generation"],
               "the generation has changed")
        row = cluster.kubectl("-n", ns, "get", "mpa", "cart", "--no-headers").split()
        for word in ("Off", "OFFLINE", "3", "250m", "512Mi"):
            expect(word in row, f"{word} is not shown", row)


def the_doctor_finds_what_there_is(cluster):
    done = cluster.run("doctor", "--output", "json", check=False)
    report = json.loads(done.stdout)
    said = {one["check"]: one for one in report["findings"]}
    expect(f"1.{cluster.minor}" in said["server"]["found"], "which server?", report)
    expect(("policy/v1beta1" in said["eviction"]["found"]) == (cluster.minor < 21),
           "which evictions?", report)
    expect((said["resize"]["state"] == "note") != cluster.resizes, "does it resize in place?",
           report)
    expect(any("secrets" in one["found"] for one in report["findings"]),
           "an administrator may read secrets, and it is not said", report)
    expect(done.returncode == (1 if report["lacks"] else 0), "the exit status does not tell")


def the_reader_may_look_and_the_doctor_says_so(cluster):
    cluster.install("recommend-only")
    account = cluster.account()
    report = json.loads(cluster.run("doctor", "--output", "json", kubeconfig=account,
                                    check=False).stdout)
    wrong = [one for one in report["findings"] if one["check"] == "rights" and
             one["state"] != "ok"]
    expect(not wrong, "the reader lacks something, or has too much", wrong)
    report = json.loads(cluster.run("doctor", "--act", "--output", "json", kubeconfig=account,
                                    check=False).stdout)
    lacks = [one for one in report["findings"] if one["state"] == "lack"]
    for verb in ("deployments/scale", "pods/eviction"):
        expect(any(verb in one["found"] for one in lacks), f"a reader may change {verb}", lacks)


def the_actor_may_act_and_the_doctor_says_so(cluster):
    cluster.install("acting")
    report = json.loads(cluster.run("doctor", "--act", "-n", "aware-system", "--output", "json",
                                    kubeconfig=cluster.account(), check=False).stdout)
    wrong = [one for one in report["findings"] if one["check"] == "rights" and
             one["state"] != "ok"]
    expect(not wrong, "the actor lacks something, or has too much", wrong)


ACCOUNT = "system:serviceaccount:aware-system:aware"
OURS, WEBHOOKS = "autoscaling.aware.dev", "admissionregistration.k8s.io"

# verb, group, resource, subresource, whether the reader may, whether the actor may
RIGHTS = (
    ("list", "", "pods", "", True, True),
    ("watch", OURS, "multidimpodautoscalers", "", True, True),
    ("patch", OURS, "multidimpodautoscalers", "status", True, True),
    ("create", "events.k8s.io", "events", "", True, True),
    ("patch", "apps", "deployments", "scale", False, True),
    ("create", "", "pods", "eviction", False, True),
    ("get", "", "secrets", "", False, False),
    ("list", "", "secrets", "", False, False),
    ("watch", "", "secrets", "", False, False),
    ("get", "", "configmaps", "", False, False),
    ("create", "", "pods", "", False, False),
    ("delete", "", "pods", "", False, False),
    ("create", "", "pods", "exec", False, False),
    ("patch", "", "pods", "", False, False),
    ("patch", "apps", "deployments", "", False, False),
    ("delete", "apps", "deployments", "", False, False),
    ("patch", OURS, "multidimpodautoscalers", "", False, False),
    ("delete", OURS, "multidimpodautoscalers", "", False, False),
    ("create", "", "serviceaccounts", "token", False, False),
    ("update", "rbac.authorization.k8s.io", "clusterroles", "", False, False),
    ("create", WEBHOOKS, "mutatingwebhookconfigurations", "", False, False),
    ("impersonate", "", "users", "", False, False),
)


def neither_profile_may_do_what_it_does_not_need(cluster):
    for acts, overlay in ((0, "recommend-only"), (1, "acting")):
        cluster.uninstall()
        cluster.install(overlay)
        # as a person would ask
        said = cluster.kubectl("auth", "can-i", "get", "secrets", "-A", f"--as={ACCOUNT}",
                               check=False).stdout.strip()
        expect(said == "no", f"{overlay}: kubectl auth can-i get secrets", said)
        wait_for("the rights to be known", lambda: cluster.may(ACCOUNT, "list", "", "pods"))
        for verb, group, resource, sub, *may in RIGHTS:
            for ns in ("", "default", "kube-system", "aware-system"):
                said = cluster.may(ACCOUNT, verb, group, resource, ns, sub)
                expect(said == may[acts], f"{overlay}: {verb} {resource}/{sub} in '{ns}': {said}")
    # of its own webhook it may renew the certificate, of others nothing
    for name, may in (("aware", True), ("other", False)):
        said = cluster.may(ACCOUNT, "patch", WEBHOOKS, "mutatingwebhookconfigurations", name=name)
        expect(said == may, f"the webhook {name} may be patched: {said}")


def people_who_may_edit_a_namespace_may_edit_its_autoscalers(cluster):
    with cluster.namespace() as ns:
        for role, verb, may in (("view", "list", True), ("view", "create", False),
                                ("edit", "create", True), ("edit", "delete", True)):
            cluster.kubectl("-n", ns, "create", "rolebinding", f"{role}-{verb}",
                            f"--clusterrole={role}", f"--user=person-{role}-{verb}")
            # aggregated by a controller, and so a moment later
            wait_for(f"{role} to {verb}: {may}", lambda r=role, v=verb, m=may: cluster.may(
                f"person-{r}-{v}", v, OURS, "multidimpodautoscalers", ns) == m)


def the_client_stands_what_a_real_server_does(cluster):
    with cluster.namespace() as ns:
        done = subprocess.run(
            [cluster.folder / "tests/e2e/client_test"], capture_output=True, text=True, check=False,
            env={**os.environ, "AWARE_E2E_KUBECONFIG": str(cluster.kubeconfig),
                 "AWARE_E2E_NAMESPACE": ns, "AWARE_E2E_CLUSTER": str(HERE / "cluster")})
        expect(done.returncode == 0, "client_test failed", done.stdout + done.stderr)


TESTS = (
    the_definition_is_taken_and_its_columns_are_shown,
    an_object_that_is_wrong_is_refused_and_the_field_is_named,
    what_fields_say_together_is_judged_when_it_is_written,
    a_field_that_nobody_knows_is_not_kept,
    the_objects_of_the_examples_and_samples_are_taken,
    a_status_is_written_apart_from_what_is_wanted,
    the_doctor_finds_what_there_is,
    the_reader_may_look_and_the_doctor_says_so,
    the_actor_may_act_and_the_doctor_says_so,
    neither_profile_may_do_what_it_does_not_need,
    people_who_may_edit_a_namespace_may_edit_its_autoscalers,
    the_client_stands_what_a_real_server_does,
)

PLANE = TESTS[:6]
