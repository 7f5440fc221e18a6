#!/usr/bin/env python3
"""deploy_test.py - what the chart and the manifests promise, without a cluster.

    deploy_test.py ROOT     77 without kubectl and PyYAML
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])
sys.path.insert(0, str(ROOT / "tests/e2e"))
try:
    from helm import Chart
except ImportError:
    sys.exit(77)
import yaml


def chart(values):
    return [one for one in Chart(ROOT / "deploy/helm/aware").template(values)[0] if one]


def manifests(overlay):
    done = subprocess.run(["kubectl", "kustomize", ROOT / "deploy/kustomize/overlays" / overlay],
                          capture_output=True, text=True, check=True)
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def plain(objects):
    """By kind and name, without the labels that helm adds and what it does not install."""
    found = {}
    for one in json.loads(json.dumps(objects)):
        if one["kind"] not in ("Namespace", "CustomResourceDefinition"):
            one["metadata"].pop("labels", None)
            found[one["kind"], one["metadata"]["name"]] = one
    return found


def only(objects, kind):
    found = [one for one in objects if one["kind"] == kind]
    assert len(found) == 1, (kind, found)
    return found[0]


def container(objects):
    return only(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]


def pods_have_probes_without_monitoring():
    for objects in chart({}), manifests("recommend-only"):
        one = container(objects)
        assert "--probes=0.0.0.0:9181" in one["args"], one["args"]
        assert not any("token" in arg or "listen" in arg for arg in one["args"]), one["args"]
        assert one["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "probes"}
        assert one["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "probes"}
        assert {"name": "probes", "containerPort": 9181} in one["ports"]


def failover_forgets_nothing_with_persistence():
    for objects in (chart({"acting": True, "persistence": {"enabled": True}}),
                    manifests("acting-persistent")):
        claim = only(objects, "PersistentVolumeClaim")
        deployment = only(objects, "Deployment")["spec"]
        assert deployment["replicas"] == 1 and deployment["strategy"] == {"type": "Recreate"}
        volumes = {one["name"]: one for one in deployment["template"]["spec"]["volumes"]}
        assert volumes["state"]["persistentVolumeClaim"] == {
            "claimName": claim["metadata"]["name"]}
    taken = chart({"persistence": {"enabled": True, "existingClaim": "mine"}})
    assert not [one for one in taken if one["kind"] == "PersistentVolumeClaim"]


def nobody_reaches_more_than_is_served():
    def ports(objects):
        spec = only(objects, "NetworkPolicy")["spec"]
        assert spec["policyTypes"] == ["Ingress"], spec
        return [rule["ports"][0]["port"] for rule in spec["ingress"]]
    assert ports(chart({})) == ports(manifests("recommend-only")) == ["probes"]
    assert ports(chart({"acting": True})) == ports(manifests("acting")) == ["probes", "webhook"]
    assert ports(chart({"metrics": {"tokenSecret": "t"}})) == ["probes", 9180]
    assert not [one for one in chart({"networkPolicy": {"enabled": False}})
                if one["kind"] == "NetworkPolicy"]


def the_webhook_right_is_for_the_ca_bundle_alone():
    for objects in chart({"acting": True}), manifests("acting"):
        policy = only(objects, "ValidatingAdmissionPolicy")["spec"]
        rule = policy["matchConstraints"]["resourceRules"][0]
        role = next(one for one in objects if one["metadata"]["name"] == "aware-webhook"
                    and one["kind"] == "ClusterRole")["rules"][0]
        assert rule["resources"] == role["resources"], (rule, role)
        assert rule["resourceNames"] == role["resourceNames"], (rule, role)
        assert policy["failurePolicy"] == "Fail"
        said = policy["validations"][0]["expression"]
        hook = only(objects, "MutatingWebhookConfiguration")["webhooks"][0]
        for field in hook:  # all that we set are compared, and of the client all but the bundle
            assert field == "clientConfig" or f"w.?{field} == o.?{field}" in said or \
                f"w.{field} == o.{field}" in said, field
        assert "caBundle" not in said
        account = only(objects, "ServiceAccount")["metadata"]
        assert f'system:serviceaccount:{account["namespace"]}:{account["name"]}"' in \
            policy["matchConditions"][0]["expression"]
        binding = only(objects, "ValidatingAdmissionPolicyBinding")["spec"]
        assert binding["validationActions"] == ["Deny"]
    assert not [one for one in chart({"acting": True, "webhook": {"guard": False}})
                if one["kind"].startswith("ValidatingAdmissionPolicy")]


def the_chart_is_the_same_as_the_manifests():
    monitored = {"tokenSecret": "aware-token", "serviceMonitor": True}
    for values, overlay in (({}, "recommend-only"), ({"acting": True}, "acting"),
                            ({"acting": True, "metrics": monitored}, "acting-monitored"),
                            ({"acting": True, "persistence": {"enabled": True}},
                             "acting-persistent")):
        made, shipped = plain(chart(values)), plain(manifests(overlay))
        assert sorted(made) == sorted(shipped), (overlay, set(made) ^ set(shipped))
        for name, one in shipped.items():
            assert made[name] == one, f"{overlay} {name}\n{made[name]}\n{one}"


if not shutil.which("kubectl"):
    sys.exit(77)
for test in (pods_have_probes_without_monitoring, failover_forgets_nothing_with_persistence,
             nobody_reaches_more_than_is_served, the_webhook_right_is_for_the_ca_bundle_alone,
             the_chart_is_the_same_as_the_manifests):
    test()
    print("ok", test.__name__)
