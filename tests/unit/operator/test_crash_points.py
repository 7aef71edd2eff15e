"""Deaths of the operator right after a write: at least one for each row of docs/contributing/decisions/013."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dynamic_kafka.contract.kubernetes_names import REFRESH_ANNOTATION, STREAMS_ANNOTATION
from kafkastream_operator.handlers import subscription_view
from kafkastream_operator.kube.api import APACHE_APPLICATIONS, KUBEFLOW_APPLICATIONS, Api
from kafkastream_operator.kube.lease import Lease
from tests.unit.operator.server import Server, Write, rest
from tests.unit.operator.world import DiedError, cluster

EAST, WEST = cluster("east"), cluster("west")
ANNOTATED = {STREAMS_ANNOTATION: "orders"}
TOLERATIONS = {"restartConfig": {"restartPolicy": "Always", "maxRestartAttempts": 10}}


@pytest.fixture(autouse=True)
def one_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fix the lineage, so that two runs of one story can be compared."""
    monkeypatch.setattr(subscription_view, "uuid", SimpleNamespace(uuid4=lambda: SimpleNamespace(hex="l" * 32)))


# -- the objects, and the change that follows------------------------------------------------------------------------


def first_document(server: Server) -> None:
    server.stream(EAST)
    server.put(KUBEFLOW_APPLICATIONS, "app", {})
    server.subscription(updateStrategy="Restart")


def refused_document(server: Server) -> None:
    first_document(server)
    server.refuses = lambda write: 403 * (write.plural == "configmaps")


def restart(server: Server) -> None:
    first_document(server)
    rest(server)
    server.stream(EAST, WEST)


def refused_patch(server: Server) -> None:
    restart(server)
    server.refuses = lambda write: 403 * (write.plural == "sparkapplications")


def newer_spec(server: Server) -> None:
    first_document(server)
    rest(server)
    server.subscription(updateStrategy="Canary")


def restart_of_apaches(server: Server) -> None:
    server.stream(EAST)
    server.put(APACHE_APPLICATIONS, "app", {"applicationTolerations": TOLERATIONS})
    ref = {"name": "app", "apiVersion": APACHE_APPLICATIONS.api_version}
    server.subscription(updateStrategy="Restart", applicationRef=ref)
    rest(server)
    server.stream(EAST, WEST)


def live_change(server: Server) -> None:
    server.stream(EAST)
    server.put(KUBEFLOW_APPLICATIONS, "app", {})
    server.subscription(updateStrategy="Reload")
    rest(server)
    server.report()
    rest(server)
    server.stream(EAST, WEST)


def annotated(server: Server) -> None:
    server.stream(EAST)
    server.put(KUBEFLOW_APPLICATIONS, "app", {}, annotations=ANNOTATED)


def annotations_taken_out(server: Server) -> None:
    annotated(server)
    rest(server)
    server.put(KUBEFLOW_APPLICATIONS, "app", {})


def outlived(server: Server) -> None:
    annotated(server)
    rest(server)
    server.remove(KUBEFLOW_APPLICATIONS, "app")
    rest(server)
    server.now += timedelta(days=8)


# -- after which write the operator dies ------------------------------------------------------------------------------


def made(method: str, plural: str) -> Callable[[Write], bool]:
    return lambda write: (write.method, write.plural) == (method, plural)


def resolved_as(reason: str) -> Callable[[Write], bool]:
    """Return a check for a status with this reason of `StreamsResolved`."""

    def is_it(write: Write) -> bool:
        conditions = write.body.get("status", {}).get("conditions", [])
        resolved = [condition["reason"] for condition in conditions if condition["type"] == "StreamsResolved"]
        return made("PUT", "kafkastreamsubscriptions")(write) and resolved == [reason]

    return is_it


def rolled_out(phase: str) -> Callable[[Write], bool]:
    """Return a check for a status with this phase of a roll-out."""

    def is_it(write: Write) -> bool:
        rollout = write.body.get("status", {}).get("rollout") or {}
        return made("PUT", "kafkastreamsubscriptions")(write) and rollout.get("phase") == phase

    return is_it


def refused_status(server: Server) -> None:
    restart(server)
    is_pending = rolled_out("Pending")
    server.refuses = lambda write: 413 * is_pending(write)


Arrange = Callable[[Server], None]
POINTS: list[tuple[str, Arrange, Callable[[Write], bool]]] = [
    ("1", first_document, made("POST", "configmaps")),
    ("2", restart, made("PUT", "configmaps")),
    ("2'", refused_document, resolved_as("DocumentRefused")),
    ("3", restart, rolled_out("Pending")),
    ("3", live_change, rolled_out("Patched")),
    ("3'", newer_spec, resolved_as("InvalidSubscription")),
    ("3''", refused_status, resolved_as("StatusRefused")),
    ("4", restart, made("PATCH", "sparkapplications")),
    ("4", restart_of_apaches, made("PATCH", "sparkapplications")),
    ("4'", restart_of_apaches, made("DELETE", "pods")),
    ("5", live_change, made("PATCH", "pods")),
    ("6", restart, rolled_out("Patched")),
    ("6'", refused_patch, rolled_out("Failed")),
    ("7", restart, made("PUT", "kafkastreams")),
    ("8", annotated, made("PATCH", "kafkastreamsubscriptions")),
    ("9", annotations_taken_out, made("DELETE", "kafkastreamsubscriptions")),
    ("10", outlived, made("DELETE", "configmaps")),
    ("10", outlived, made("DELETE", "kafkastreamsubscriptions")),
    ("11", restart, made("POST", "events")),
    ("11", refused_patch, made("POST", "events")),
    ("11", refused_document, made("POST", "events")),
]
"""The rows of the table, each with a story that makes its write. The row of the Lease has a test of its own."""
LEASE = "12"


def picture(server: Server) -> list[Mapping[str, Any]]:
    """Return all objects without resourceVersions, and without the annotation that only wakes the kubelet."""
    objects = copy.deepcopy(list(server.objects.values()))
    for manifest in objects:
        del manifest["metadata"]["resourceVersion"]
        manifest["metadata"].get("annotations", {}).pop(REFRESH_ANNOTATION, None)
    return sorted(objects, key=lambda manifest: manifest["metadata"]["uid"])


@pytest.mark.parametrize(
    ("arrange", "is_it"),
    [(arrange, is_it) for _, arrange, is_it in POINTS],
    ids=[f"{row}-{arrange.__name__}-{place}" for place, (row, arrange, _) in enumerate(POINTS)],
)
def test_a_death_after_any_write_leaves_no_difference(arrange: Arrange, is_it: Callable[[Write], bool]) -> None:
    undisturbed, server = Server(), Server()
    arrange(undisturbed)
    rest(undisturbed)
    arrange(server)
    server.dies_after = is_it
    with pytest.raises(DiedError):
        rest(server)
    rest(server)
    assert picture(server) == picture(undisturbed)
    assert server.submissions == undisturbed.submissions


@pytest.mark.parametrize("method", ["POST", "PUT"], ids=lambda method: f"{LEASE}-{method}")
def test_the_lease_of_a_dead_holder_expires_after_its_duration(method: str) -> None:
    server, lost = Server(), list[str]()

    def lease(identity: str) -> Lease:
        gone = lambda: lost.append(identity)  # noqa: E731
        clock = lambda: server.seconds  # noqa: E731
        return Lease(cast(Api, server), "ns", "it", identity=identity, duration_s=15, on_loss=gone, clock=clock)

    first, second = lease("first"), lease("second")
    if method == "PUT":
        assert lease("before").try_once()
        assert not first.try_once()
        server.now += timedelta(seconds=16)
    server.dies_after = made(method, "leases")
    with pytest.raises(DiedError):
        first.try_once()
    assert not second.try_once()
    server.now += timedelta(seconds=14)
    assert not second.try_once()
    server.now += timedelta(seconds=2)
    assert second.try_once()
    assert not first.try_once()
