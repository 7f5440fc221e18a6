"""deploy_test.py - what we ship to be installed: a real server takes it, and the chart is the same
as the manifests."""

import json

from e2e import ROOT, Failed, expect, for_this_server
from helm import Chart, Unknown

CHART = ROOT / "deploy/helm/aware"


def key(one):
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


def plain(objects):
    """By kind and name, without the labels that helm adds and what it does not install."""
    found = {}
    for one in json.loads(json.dumps(objects)):
        if one["kind"] in ("Namespace", "CustomResourceDefinition"):
            continue
        labels = one["metadata"].pop("labels", {})
        if one["kind"] == "ClusterRole":  # what is aggregated is part of what it does
            one["metadata"]["labels"] = {name: value for name, value in labels.items()
                                         if "aggregate" in name}
        found[key(one)] = one
    return found


def the_chart_is_the_same_as_the_manifests(cluster):
    monitored = {"tokenSecret": "aware-token", "serviceMonitor": True}
    for values, overlay in (({}, "recommend-only"), ({"acting": True}, "acting"),
                            ({"acting": True, "metrics": monitored}, "acting-monitored"),
                            ({"acting": True, "persistence": {"enabled": True}},
                             "acting-persistent"),
                            ({"acting": True, "prometheus": {"service": {"name": "prometheus"}}},
                             "acting-proxied")):
        chart = plain(for_this_server(Chart(CHART).template(values)[0], cluster.minor))
        shipped = plain(cluster.kustomize(overlay))
        expect(sorted(chart) == sorted(shipped), f"{overlay}: other objects",
               sorted(set(chart) ^ set(shipped)))
        for name, one in shipped.items():
            expect(chart[name] == one, f"{overlay}: {name} differs",
                   f"{json.dumps(chart[name])}\n{json.dumps(one)}")


def the_chart_is_taken_by_the_server_with_every_option(cluster):
    # a namespace that is there, since nothing is created
    for values in ({}, {"acting": True}, {
            "acting": True, "watchNamespace": "shop", "image": {"tag": "1"},
            "prometheus": {"url": "", "service": {"name": "prometheus", "port": 80}},
            "metrics": {"tokenSecret": "aware-token"}, "extraArgs": ["--log-level=debug"],
            "podAnnotations": {"a": "b"}, "priorityClassName": "system-node-critical",
            "serviceAccount": {"annotations": {"c": "d"}},
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "x", "operator": "Exists"}]}):
        objects, notes = Chart(CHART).template(values, namespace="default")
        expect("kubectl" in notes, "no notes", notes)
        for one in for_this_server(objects, cluster.minor):
            if one["metadata"].get("namespace") in ("shop", "monitoring"):
                one["metadata"]["namespace"] = "default"
            try:
                cluster.kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(one))
            except Failed as why:
                expect("already exists" in str(why), f"{key(one)}: {why}")


def a_namespaced_install_has_no_right_elsewhere(_cluster):
    objects, _ = Chart(CHART).template({"acting": True, "watchNamespace": "shop"})
    bound = [key(one) for one in objects if one["kind"] == "ClusterRoleBinding"]
    expect(bound == [("ClusterRoleBinding", "", "aware-webhook")], "bound everywhere", bound)
    expect(("RoleBinding", "shop", "aware-actor") in map(key, objects), "not bound in shop")


def values_that_make_no_sense_are_refused(_cluster):
    for values in ({"actng": True}, {"acting": "yes"}, {"replicas": -1}, {"image": {"tag": 1}},
                   {"watchNamespace": "No"}, {"prometheus": {"url": "prometheus:9090"}},
                   {"extraArgs": ["rm"]}):
        try:
            Chart(CHART).template(values)
        except Unknown:
            continue
        raise Failed(f"{values} was taken")


def no_rule_anywhere_names_a_secret_or_a_star(cluster):
    for one in cluster.kustomize("acting") + Chart(CHART).template({"acting": True})[0]:
        for rule in one.get("rules", []) if "Role" in one["kind"] else []:
            words = rule["apiGroups"] + rule["resources"] + rule["verbs"]
            expect("*" not in words and "secrets" not in words, f"{key(one)}", rule)


TESTS = (
    the_chart_is_the_same_as_the_manifests,
    the_chart_is_taken_by_the_server_with_every_option,
    a_namespaced_install_has_no_right_elsewhere,
    values_that_make_no_sense_are_refused,
    no_rule_anywhere_names_a_secret_or_a_star,
)

PLANE = TESTS
