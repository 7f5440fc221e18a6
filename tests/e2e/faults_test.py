"""faults_test.py - the controllers when what they depend on fails: nothing shrinks, nothing is
lost, and they go on by themselves."""

import time

from controller import controller, holder, holds, pretty, recommended, wait_recommended, autoscaler
from controller_test import recommending
from e2e import expect, wait_for
from shop import GATEWAY, shop

NOBODY = f"http://{GATEWAY}:9"  # discard: nothing listens there


def an_api_server_that_was_killed_is_found_again(cluster):
    with recommending(cluster) as (one, process):
        cluster.apply(autoscaler(one.ns))
        wait_recommended(cluster, one.ns)
        before = one.get()["spec"]
        leader = holder(cluster)
        cluster.script("again", "--end", "apiserver")
        time.sleep(5)
        expect(process.alive(), "it ended with the server", process.said()[-3000:])
        cluster.script("again", "--wait", "apiserver")
        # a change after the server is back must be seen: the copies follow it again
        cluster.apply(autoscaler(one.ns, learning={"stepSeconds": 3}))
        wait_for("the new generation", lambda: cluster.get(
            "-n", one.ns, "mpa", "shop")["status"].get("observedGeneration") == 2, 600)
        wait_for("the leader", lambda: (holder(cluster) or "") == leader, 600)
        expect(one.get()["spec"] == before, "the workload was written")


def without_metrics_nothing_is_decided(cluster):
    with recommending(cluster, prometheus=NOBODY) as (one, process):
        cluster.apply(autoscaler(one.ns))
        wait_for("ScalingActive False",
                 lambda: holds(cluster, one.ns, "ScalingActive") == "False")
        found = recommended(cluster, one.ns)
        running = one.get()["spec"]["replicas"]
        expect(not found or found["replicas"] >= running, "it would shrink on nothing",
               pretty(found))
        expect(process.alive(), "it ended", process.said()[-3000:])


def a_prometheus_that_comes_back_is_used_again(cluster):
    with recommending(cluster) as (one, _):
        cluster.apply(autoscaler(one.ns))
        wait_recommended(cluster, one.ns)
        wait_for("ScalingActive", lambda: holds(cluster, one.ns, "ScalingActive") == "True")
        cluster.script("again", "--end", "prometheus")
        try:
            wait_for("ScalingActive False",
                     lambda: holds(cluster, one.ns, "ScalingActive") == "False", 600)
            found = recommended(cluster, one.ns)
            expect(found["replicas"] >= 1, "what was recommended is gone", pretty(found))
        finally:
            cluster.script("again", "prometheus")
        wait_for("ScalingActive True again",
                 lambda: holds(cluster, one.ns, "ScalingActive") == "True", 600)


def a_restart_decides_nothing(cluster):
    cluster.uninstall()
    cluster.install("recommend-only")
    with shop(cluster, replicas=2, cpu="300m", memory="192Mi") as one, one.load(6):
        cluster.apply(autoscaler(one.ns))
        with controller(cluster, "recommender"):
            first = wait_recommended(cluster, one.ns)
        with controller(cluster, "recommender", name="two"):
            time.sleep(10)
            second = recommended(cluster, one.ns)
        expect(second["replicas"] >= min(first["replicas"], 2), "a restart has shrunk it",
               pretty([first, second]))


TESTS = (
    an_api_server_that_was_killed_is_found_again,
    without_metrics_nothing_is_decided,
    a_prometheus_that_comes_back_is_used_again,
    a_restart_decides_nothing,
)
