"""Things break while records flow: pods, the leading operator, a document, the spark-operator. No record is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial

from demo.producers import COUNT
from tests.e2e.application import Application
from tests.e2e.install import NAMESPACE, OPERATOR_NAMESPACE, SPARK_OPERATOR_NAMESPACE
from tests.e2e.shop import Shop
from tests.e2e.stream import QUIET_S
from tests.support.kube import PODS, Json
from tests.support.node.pod_node import PodNode

_BURST = 6000
_CONTROLLER = "deployment/spark-operator-controller"


def test_a_deleted_driver_pod_comes_back(shop: Shop) -> None:
    with shop.play("driver-deleted", "The driver pod of each application is deleted"):
        for application in shop.applications:
            pod = shop.timeline.drivers[application.name][-1].name
            shop.cluster.api.delete(PODS, pod, NAMESPACE)
            shop.mark(f"driver pod {pod} is deleted")
            shop.wait_driver(application)
            shop.wait_batch(application)


def test_a_deleted_executor_repeats_its_range(shop: Shop) -> None:
    with shop.play("executor-deleted", "An executor pod is deleted in the middle of a range, with no grace"):
        for application in shop.applications:
            executors = shop.objects.pods(application, "executor")
            known = application.parquet.planned()
            shop.producers.burst(shop.stream.home, _BURST)
            shop.wait(f"the next batch of {application.name} to run", partial(_runs_after, known, application))
            batch = application.parquet.planned()
            shop.cluster.api.delete(PODS, executors[0], NAMESPACE, gracePeriodSeconds=0)
            assert application.parquet.committed() < batch, f"batch {batch} ended before the executor was deleted"
            shop.mark(f"executor pod {executors[0]} is deleted")
            shop.wait(f"two executors of {application.name}", partial(_has_others, shop, application, executors[0]))


def test_the_other_replica_leads_on(shop: Shop, node: PodNode) -> None:
    with shop.play("leader-killed", "Our leading operator dies of kill -9 during a change, and during a drain"):
        at = shop.stream.add("C")
        _kill_leader(shop, node, under_way=lambda: not _is_in_force(shop, at))
        shop.wait_in_force("C is added", at, added="C", disturbed=True)

        at = shop.stream.remove("C")
        shop.wait("C to drain", lambda: shop.is_draining("C"))
        _kill_leader(shop, node, under_way=lambda: shop.is_draining("C"))
        shop.wait_in_force("C is removed, and drains", at)
        shop.wait_drained("C")


def test_a_silent_broker_ends_no_drain(shop: Shop) -> None:
    with shop.play("broker-paused", "The broker of a removed cluster is paused in mid-drain, with records unread"):
        at = shop.stream.add("C")
        shop.wait_in_force("C is added", at, added="C")

        # A producer still writes to C: the drain can't end before the broker is paused.
        left = [cluster for cluster in shop.stream.clusters if cluster != "C"]
        at = shop.stream.commit("Remove cluster C from the stream", left, shop.stream.home)
        shop.wait_in_force("C is removed, and drains", at)
        shop.producers.burst("C", _BURST)
        shop.producers.move(COUNT, shop.stream.home)
        shop.producers.finish("C")
        shop.brokers["C"].pause()
        paused = time.time()
        shop.mark("the broker of C is paused")
        try:
            # Two reports are ten seconds apart, more than the quiet period: a silence that counts ends the drain.
            for application in shop.applications:
                shop.wait(
                    f"reports of {application.name} in the silence", partial(_has_reported, shop, application, paused)
                )
            assert shop.is_draining("C")
            assert not shop.objects.is_safe()
            later = [
                report
                for application in shop.applications
                for report in shop.timeline.reports_since(application.name, paused)
            ]
            assert not [report for report in later if report.drained("C", QUIET_S)]
        finally:
            shop.brokers["C"].resume()
        shop.mark("the broker of C goes on")
        shop.wait_drained("C")


def test_a_document_edited_by_hand_is_restored(shop: Shop) -> None:
    with shop.play("document-edited", "The document of each application is edited to garbage by hand"):
        for application in shop.applications:
            name = f"{application.name}-kafkastreams"
            before = shop.cluster.api.get("v1/configmaps", name, NAMESPACE)["data"]
            patch = {"data": {key: "{ garbage" for key in before}}
            shop.cluster.api.patch("v1/configmaps", name, NAMESPACE, patch)
            shop.mark(f"{name} is garbage")
            shop.cluster.api.wait("v1/configmaps", name, NAMESPACE, until=partial(_has_data, before))
            shop.mark(f"{name} is restored")
            shop.wait_batch(application)
    assert [result.restarts for result in shop.story.results] == [0, 0]


def test_a_restart_survives_a_lost_patch(shop: Shop) -> None:
    with shop.play("spark-operator-down", "Kubeflow's spark-operator is down during a change that needs a restart"):
        shop.scale(SPARK_OPERATOR_NAMESPACE, _CONTROLLER, 0)
        at = shop.stream.add("C")
        shop.wait(
            "both documents",
            lambda: all(shop.timeline.documents_since(application.name, at) for application in shop.applications),
        )
        shop.scale(SPARK_OPERATOR_NAMESPACE, _CONTROLLER, 1)
        shop.wait_in_force("C is added", at, added="C", disturbed=True)

        at = shop.stream.remove("C")
        shop.wait_in_force("C is removed, and drains", at)
        shop.wait_drained("C")


def _runs_after(known: int, application: Application) -> bool:
    return application.parquet.planned() > known and application.runs_a_batch()


def _has_others(shop: Shop, application: Application, gone: str) -> bool:
    return len(set(shop.objects.pods(application, "executor")) - {gone}) == 2


def _has_reported(shop: Shop, application: Application, since: float) -> bool:
    return len(shop.timeline.reports_since(application.name, since)) >= 2


def _is_in_force(shop: Shop, at: float) -> bool:
    return all(shop.timeline.applied_since(application, at) for application in shop.applications)


def _has_data(data: Json, config_map: Json | None) -> bool:
    return config_map is not None and config_map["data"] == data


def _kill_leader(shop: Shop, node: PodNode, under_way: Callable[[], bool]) -> None:
    """Send SIGKILL to the container of the replica that holds the Lease, and wait until another process holds it.

    Args:
        under_way: whether the change that the kill has to interrupt is not over yet.
    """
    leader = shop.objects.leader()
    holder = leader.rpartition("-")[0]
    pod = shop.cluster.api.get(PODS, holder, OPERATOR_NAMESPACE)
    os.kill(node.process(pod), signal.SIGKILL)
    assert under_way(), "the change was over before the leading operator was killed"
    shop.mark(f"kill -9 to the leading operator, {holder}")
    shop.wait("another leading operator", lambda: shop.objects.leader() not in ("", leader))
    shop.mark(f"{shop.objects.leader()} leads")
