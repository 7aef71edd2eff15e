"""An API server in trouble: it is overloaded, or has dropped the history that a watch needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dynamic_kafka.contract.kubernetes_names import STREAMS_ANNOTATION
from tests.integration.operator.stage import Stage, cluster
from tests.support.fixtures import kept_open
from tests.support.kube import KubeCluster
from tests.support.kube.front_door import Call, FrontDoor
from tests.support.kube_programs import spark_operator_crds
from tests.support.operator import CONFIG_MAPS, STREAMS, OperatorProcess

pytestmark = pytest.mark.deep("an API server in trouble")

WRITES = ("POST", "PUT", "PATCH", "DELETE")


@pytest.fixture
def door(kube: KubeCluster, namespace: str) -> Iterator[FrontDoor]:
    """Start the proxy through which the operator reaches the API server."""
    with FrontDoor(kube) as door:
        yield door


@pytest.fixture
def behind_door(request: pytest.FixtureRequest, kube: KubeCluster, namespace: str, door: FrontDoor) -> Iterator[None]:
    """Start an operator behind the proxy."""
    kube.install_crds(spark_operator_crds())
    made = OperatorProcess(kube, namespace, through=door.kubeconfig)
    with kept_open(request.config, request.node.stash, [made]):
        made.start()
        yield


def written(calls: list[Call], plural: str, *statuses: int) -> list[Call]:
    """Return the writes to a kind that had this answer."""
    return [call for call in calls if call.method in WRITES and f"/{plural}" in call.path and call.status in statuses]


@pytest.mark.parametrize("plural", ["configmaps", "kafkastreamsubscriptions"])
def test_an_overloaded_api_server_gets_the_pause_it_asks_for(
    plural: str, stage: Stage, door: FrontDoor, behind_door: None
) -> None:
    def refuse(method: str, path: str) -> int | None:
        refused = len(written(door.calls, plural, 429))
        return 2 if refused < 2 and method in WRITES and f"/{plural}" in path else None

    door.refuse = refuse
    stage.stream("orders", cluster("east"))
    stage.subscription()
    stage.wait_condition("RolledOut", "Adopted")
    stage.wait_document({"east/orders": "Active"})
    calls = written(door.settled(), plural, 200, 201, 429)
    assert [call.status for call in calls[:2]] == [429, 429]
    # A changed object is reconciled at once; only a retry waits.
    assert calls[2].at_s - calls[1].at_s >= 1.9


def test_a_watch_that_fell_behind_restarts_and_misses_nothing(stage: Stage, door: FrontDoor, behind_door: None) -> None:
    stage.stream("orders", cluster("east"))
    stage.stream("other", cluster("north"))
    stage.subscription(streams={"pattern": ".*"})
    stage.wait_document({"east/orders": "Active", "north/orders": "Active"})
    for plural in ("kafkastreams", "configmaps"):
        door.wait_watched(plural)
        door.mute(plural)
    # Unseen by the watches, one object changes, one goes, one comes, and the document is lost.
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.api.delete(STREAMS, "other", stage.namespace)
    stage.stream("new", cluster("south"))
    stage.api.delete(CONFIG_MAPS, "app-kafkastreams", stage.namespace)
    for plural in ("kafkastreams", "configmaps"):
        assert door.expire(plural) == 1
    stage.wait_document(
        {"east/orders": "Active", "west/orders": "Active", "north/orders": "Draining", "south/orders": "Active"}
    )
    assert "north/orders" in stage.wait_condition("Drained", "Draining")["message"]


def test_a_kind_installed_later_and_missed_by_kopf_is_served(stage: Stage, door: FrontDoor, behind_door: None) -> None:
    """kopf looks for a kind once, when it is installed, and may look too early: here it never sees an application."""
    door.wait_watched("sparkapplications")
    door.mute("sparkapplications")
    stage.stream("orders", cluster("east"))
    stage.application(annotations={STREAMS_ANNOTATION: "orders"})
    stage.wait_document({"east/orders": "Active"})
