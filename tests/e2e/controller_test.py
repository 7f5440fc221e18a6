"""controller_test.py - the controllers on a real cluster, with a real workload under load."""

import contextlib
import json
import signal
import subprocess
import time

from controller import (Controller, autoscaler, controller, events, holder, holds, pretty,
                        recommended, status, wait_recommended, webhook)
from e2e import Skipped, expect, wait_for
from shop import shop


def needs(cluster, *words):
    done = subprocess.run([cluster.aware, "controller", "--help"], capture_output=True, text=True,
                          check=False)
    for word in words:
        if done.returncode or word not in done.stdout:
            raise Skipped(f"this build has no {word}")


@contextlib.contextmanager
def recommending(cluster, **how):
    """A shop under load, the reader's rights, and a controller that only recommends."""
    needs(cluster, "recommender")
    cluster.uninstall()
    cluster.install("recommend-only")
    with shop(cluster, replicas=2, cpu="300m", memory="192Mi") as one:
        with one.load(6), controller(cluster, "recommender", **how) as process:
            yield one, process


def a_recommendation_appears_and_nothing_else_is_written(cluster):
    with recommending(cluster) as (one, _):
        before, pods = one.get(), {pod["metadata"]["uid"] for pod in one.pods()}
        cluster.apply(autoscaler(one.ns))
        found = wait_recommended(cluster, one.ns)
        expect(1 <= found["replicas"] <= 5 and "cpu" in found and "memory" in found and
               found["container"] == "server", "what is recommended", pretty(found))
        wait_for("a decision on fresh figures",
                 lambda: holds(cluster, one.ns, "ScalingActive") == "True")
        seen = status(cluster, one.ns)
        expect(seen["mode"] == "Off", "an object that says nothing is Off", pretty(seen))
        expect(seen["observedGeneration"] == 1, "generation", pretty(seen))
        row = cluster.kubectl("-n", one.ns, "get", "mpa", "shop", "--no-headers").split()
        expect("Off" in row and found["cpu"] in row, "kubectl get mpa", row)
        after = one.get()
        expect(after["spec"] == before["spec"] and
               after["metadata"]["generation"] == before["metadata"]["generation"],
               "the workload was written", pretty(after))
        expect({pod["metadata"]["uid"] for pod in one.pods()} == pods, "pods were replaced")
        wrote = {entry["manager"] for entry in after["metadata"].get("managedFields", [])}
        expect("aware" not in wrote, "managers of the Deployment", wrote)


def a_status_is_not_written_when_nothing_changes(cluster):
    with recommending(cluster) as (one, _):
        cluster.apply(autoscaler(one.ns))
        wait_recommended(cluster, one.ns)
        time.sleep(30)  # the first rounds have news; then the load is steady
        versions = set()
        until = time.monotonic() + 40
        while time.monotonic() < until:
            versions.add(cluster.get("-n", one.ns, "mpa", "shop")["metadata"]["resourceVersion"])
            time.sleep(1)
        # once a minute at most where it only recommends: 40 s see two versions, 20 rounds made them
        expect(len(versions) <= 3, f"written {len(versions)} times in 20 rounds")


def what_is_wrong_is_told_and_others_are_not_affected(cluster):
    with recommending(cluster) as (one, _):
        missing = autoscaler(one.ns, "nobody")
        odd = autoscaler(one.ns, "odd")
        odd["spec"]["goals"]["slo"]["budget"] = ["1%"]
        plain = autoscaler(one.ns, "plain")
        plain["spec"]["scaleTargetRef"] = {"apiVersion": "v1", "kind": "Service", "name": "shop"}
        cluster.apply([missing, odd, plain, autoscaler(one.ns)])
        wait_recommended(cluster, one.ns)
        for name, condition, value in (("nobody", "AbleToScale", "False"),
                                       ("odd", "ConfigInvalid", "True"),
                                       ("plain", "AbleToScale", "False")):
            wait_for(f"{name}: {condition} {value}", lambda n=name, c=condition, v=value: holds(
                cluster, one.ns, c, n) == v)
            expect(not recommended(cluster, one.ns, name), f"{name} has a recommendation")
        said = " ".join(one["message"] for one in status(cluster, one.ns, "odd")["conditions"])
        expect("budget" in said, "the field is not named", said)
        expect(events(cluster, one.ns), "no event was written")


def people_can_look_freeze_and_ask_why(cluster):
    with recommending(cluster) as (one, process):
        cluster.apply(autoscaler(one.ns))
        wait_recommended(cluster, one.ns)
        listed = json.loads(process.ask("get", "--output", "json"))
        expect(f"{one.ns}" in json.dumps(listed), "get does not list it", pretty(listed))
        process.ask("freeze", f"{one.ns}/shop", "--reason", "a test")
        wait_for("the condition Frozen", lambda: holds(cluster, one.ns, "Frozen") == "True")
        process.ask("unfreeze", f"{one.ns}/shop")
        wait_for("the end of Frozen", lambda: holds(cluster, one.ns, "Frozen") in ("False", None))
        why = process.ask("explain", f"{one.ns}/shop")
        expect(why.strip(), "no explanation")


def deleting_the_object_leaves_the_workload(cluster):
    with recommending(cluster) as (one, process):
        cluster.apply(autoscaler(one.ns))
        wait_recommended(cluster, one.ns)
        before = one.get()
        cluster.kubectl("-n", one.ns, "delete", "mpa", "shop", "--timeout=60s")
        wait_for("the object to be forgotten", lambda: f"{one.ns}/shop" not in process.ask(
            "get", "--output", "json"))
        after = one.get()
        expect(after["spec"] == before["spec"], "the workload has changed", pretty(after["spec"]))


def one_leads_and_the_next_takes_over(cluster):
    needs(cluster, "recommender", "--lease")
    cluster.uninstall()
    cluster.install("recommend-only")
    one, two = Controller(cluster, "recommender", name="one"), None
    try:
        first = wait_for("a leader", lambda: holder(cluster))
        two = Controller(cluster, "recommender", name="two")
        time.sleep(5)
        expect(holder(cluster) == first, "two leaders")
        one.end(signal.SIGKILL)
        began = time.monotonic()
        second = wait_for("another leader", lambda: (holder(cluster) or first) != first and
                          holder(cluster))
        took_s = time.monotonic() - began
        expect(took_s < 60, f"a Lease of 15 s was taken after {took_s:.0f} s")
        three = Controller(cluster, "recommender", name="three")
        try:
            expect(two.end() == 0, "does not end in good order", two.said()[-2000:])
            wait_for("the third to lead", lambda: holder(cluster) not in (None, "", second))
        finally:
            three.end()
    finally:
        for process in (one, two):
            if process:
                process.end()


def changes_arrive_where_they_are_asked_for(cluster):
    """Auto: replicas by the scale subresource; sizes in place where the server can, else by
    eviction; the webhook sizes new pods in either case. The bounds ask for more than there is, so
    that it does not depend on how busy this machine is."""
    needs(cluster, "updater", "admission")
    cluster.uninstall()
    cluster.install("acting")
    with webhook(cluster), shop(cluster, replicas=2, cpu="300m", memory="192Mi") as one:
        old = {pod["metadata"]["uid"] for pod in one.pods()}
        wanted = autoscaler(one.ns, policy={"updateMode": "Auto"})
        wanted["spec"]["constraints"]["global"]["minReplicas"] = 3
        wanted["spec"]["constraints"]["container"][0]["requests"]["minAllowed"]["memory"] = "256Mi"
        with one.load(4), controller(cluster, "recommender,updater,admission") as process:
            cluster.apply(wanted)
            found = wait_for("a recommendation within the bounds", lambda: (
                lambda seen: seen and seen["replicas"] >= 3 and seen)(recommended(cluster, one.ns)))
            expect(found["memory"] == "256Mi", "the recommended memory", pretty(found))
            wait_for("a certificate in the webhook", lambda: cluster.get(
                "mutatingwebhookconfiguration", "aware")["webhooks"][0]["clientConfig"].get(
                    "caBundle"))
            wait_for("three replicas", lambda: one.get()["spec"]["replicas"] >= 3)

            def running():
                one.tell()
                return [pod for pod in one.pods() if pod["status"].get("phase") == "Running" and
                        pod["status"].get("containerStatuses", [{}])[0].get("ready")]

            def limits(pods):
                return [cluster.cgroup(pod, "memory/memory.limit_in_bytes") for pod in pods]

            def changed():
                pods = running()
                gone = {pod["metadata"]["uid"] for pod in pods}.isdisjoint(old)
                return (len(pods) >= 3 and (cluster.resizes or gone) and
                        set(limits(pods)) == {256 << 20} and pods)
            pods = wait_for("every pod to have the new size in the kernel", changed, 600)
            if cluster.resizes:
                kept = [pod for pod in pods if pod["metadata"]["uid"] in old]
                expect({pod["metadata"]["uid"] for pod in kept} == old, "pods were replaced")
                expect(all(pod["status"]["containerStatuses"][0]["restartCount"] == 0
                           for pod in pods), "a container was restarted", pretty(pods))
            expect(one.get()["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"][
                "memory"] == "192Mi", "the template of the Deployment was edited")
            expect(events(cluster, one.ns), "nothing was told")
            # what is frozen stays, whatever is recommended
            process.ask("freeze", f"{one.ns}/shop", "--reason", "a test")
            wait_for("Frozen", lambda: holds(cluster, one.ns, "Frozen") == "True")
            cluster.kubectl("-n", one.ns, "scale", "deployment", "shop", "--replicas=2")
            time.sleep(25)
            expect(one.get()["spec"]["replicas"] == 2, "a frozen workload was scaled")
            process.ask("unfreeze", f"{one.ns}/shop")
            wait_for("three replicas again", lambda: one.get()["spec"]["replicas"] >= 3, 600)
            before = one.get()["spec"]
            cluster.kubectl("-n", one.ns, "delete", "mpa", "shop", "--timeout=60s")
            time.sleep(5)
            expect(one.get()["spec"] == before, "deleting the object changed the workload")


def initial_sizes_new_pods_and_leaves_the_others(cluster):
    needs(cluster, "updater", "admission")
    cluster.uninstall()
    cluster.install("acting")
    with webhook(cluster), shop(cluster, replicas=2, cpu="300m", memory="192Mi") as one:
        old = {pod["metadata"]["uid"] for pod in one.pods()}
        wanted = autoscaler(one.ns, policy={"updateMode": "Initial"})
        wanted["spec"]["constraints"]["global"]["minReplicas"] = 2
        wanted["spec"]["constraints"]["container"][0]["requests"]["minAllowed"]["memory"] = "256Mi"
        with controller(cluster, "recommender,updater,admission"):
            cluster.apply(wanted)
            wait_for("a recommendation of 256Mi", lambda: (recommended(
                cluster, one.ns) or {}).get("memory") == "256Mi")
            wait_for("a certificate in the webhook", lambda: cluster.get(
                "mutatingwebhookconfiguration", "aware")["webhooks"][0]["clientConfig"].get(
                    "caBundle"))
            time.sleep(20)  # two rounds of the updater
            expect({pod["metadata"]["uid"] for pod in one.pods()} == old, "pods were replaced")
            expect(one.get()["spec"]["replicas"] == 2, "it was scaled")
            cluster.kubectl("-n", one.ns, "scale", "deployment", "shop", "--replicas=3")
            one.settled(3)
            new = [pod for pod in one.pods() if pod["metadata"]["uid"] not in old]
            sizes = [pod["spec"]["containers"][0]["resources"] for pod in new]
            expect([size["limits"]["memory"] for size in sizes] == ["256Mi"], "the new pod", sizes)
            expect(cluster.cgroup(new[0], "memory/memory.limit_in_bytes") == 256 << 20,
                   "the kernel's limit")


def an_undo_is_told_and_goes_through_the_rails(cluster):
    needs(cluster, "updater")
    cluster.uninstall()
    cluster.install("acting")
    with shop(cluster, replicas=2, cpu="300m", memory="192Mi") as one:
        wanted = autoscaler(one.ns, policy={"updateMode": "Auto"})
        wanted["spec"]["constraints"]["global"]["minReplicas"] = 3
        with controller(cluster, "recommender,updater") as process:
            cluster.apply(wanted)
            wait_for("three replicas", lambda: one.get()["spec"]["replicas"] == 3)
            one.settled(3)
            wanted["spec"]["constraints"]["global"]["minReplicas"] = 1
            cluster.apply(wanted)
            wait_for("the new bounds", lambda: status(cluster, one.ns)["observedGeneration"] == 2)
            entries = json.loads(process.ask("history", f"{one.ns}/shop", "--output", "json"))[
                "entries"]
            changed = [entry["seq"] for entry in entries
                       if entry["kind"] == "decision" and entry["changed"]]
            expect(changed, "nothing in the history", pretty(entries))
            process.ask("undo", str(changed[0]), "--reason", "a test")
            last = wait_for("the order in the status", lambda: (lambda found: found if found.get(
                "actor") == "person" else None)(status(cluster, one.ns).get("lastDecision", {})))
            expect("undo" in last["message"], "what was ordered", pretty(last))
            # so young a workload has no known peaks: the rail that holds for all holds for people
            expect("peaks" in last["message"], "the rail is not named", pretty(last))
            expect(one.get()["spec"]["replicas"] == 3, "it was shrunk all the same")


def another_autoscaler_of_the_same_target_is_left_alone(cluster):
    needs(cluster, "updater")
    cluster.uninstall()
    cluster.install("acting")
    with shop(cluster, replicas=2, cpu="300m", memory="192Mi") as one:
        cluster.apply({
            "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "shop", "namespace": one.ns},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment",
                                        "name": "shop"},
                     "minReplicas": 2, "maxReplicas": 2, "targetCPUUtilizationPercentage": 50}})
        with controller(cluster, "recommender,updater"):
            wanted = autoscaler(one.ns, policy={"updateMode": "Auto"})
            wanted["spec"]["constraints"]["global"]["minReplicas"] = 3
            cluster.apply(wanted)
            wait_for("AbleToScale False", lambda: holds(cluster, one.ns, "AbleToScale") == "False")
            after = one.get()
            expect(after["spec"]["replicas"] == 2, "it was scaled all the same", after["spec"])


TESTS = (
    a_recommendation_appears_and_nothing_else_is_written,
    a_status_is_not_written_when_nothing_changes,
    what_is_wrong_is_told_and_others_are_not_affected,
    people_can_look_freeze_and_ask_why,
    deleting_the_object_leaves_the_workload,
    one_leads_and_the_next_takes_over,
    changes_arrive_where_they_are_asked_for,
    initial_sizes_new_pods_and_leaves_the_others,
    an_undo_is_told_and_goes_through_the_rails,
    another_autoscaler_of_the_same_target_is_left_alone,
)
