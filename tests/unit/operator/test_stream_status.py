"""The status of a stream: a cluster may be shut down once no document in force has it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from kafkastream_operator.core.application import Life
from kafkastream_operator.core.drain_evidence import TopicReport
from kafkastream_operator.core.everybody import Everybody
from kafkastream_operator.core.stream_status import stream_status
from kafkastream_operator.core.subscriber import Subscriber
from kafkastream_operator.models.stream import MAX_SUBSCRIBERS, KafkaStreamStatus
from kafkastream_operator.models.subscription import SubscriptionStatus
from tests.unit.operator.world import World, cluster, drained_of, make_catalog, running


def status_of(
    world: World, before: KafkaStreamStatus | None = None, life: Life = "Running", stream: str = "orders"
) -> KafkaStreamStatus:
    """Return the stream's status, as its own reconcile would write it now."""
    assert world.document is not None
    asks = stream in (world.spec["streams"].get("ids") or ())
    streams = json.loads(world.document.text())["streams"]
    return world.stream_status(stream, [world.reader(life, rendered=streams, asks=asks)], before, generation=2)


def safe(world: World, before: KafkaStreamStatus | None = None, life: Life = "Running") -> tuple[str, str]:
    """Return status and message of `Drained`."""
    return drained_of(status_of(world, before, life))


def test_a_removal_before_any_reconcile_is_not_safe() -> None:
    world = running(updateStrategy="Reload")
    assert safe(world)[0] == "True"
    world.stream("orders", cluster("west"))
    status, message = safe(world)
    assert status == "False"
    assert "its document still has east/orders" in message
    assert [(row.id, row.state) for row in status_of(world).clusters] == [("west", "InUse"), ("east", "Draining")]


def test_a_removal_that_a_pause_holds_back_is_not_safe() -> None:
    world = running(updateStrategy="Reload", pause={"reason": "freeze"})
    world.stream("orders", cluster("west")).settle()
    assert world.rendered() == {"east/orders": "Active"}
    assert safe(world)[0] == "False"


def test_it_is_safe_once_it_is_drained() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west")).settle()
    status, message = safe(world)
    assert status == "False"
    assert re.search(r"0 of 1 drained; .*app \(Running, since 2026-11-01T00:00:00Z: east/orders: driver ", message)
    assert message.endswith(". For the remedy: kubectl describe kss app")
    world.driver_reports(east__orders=TopicReport(lag=0, quiet_s=400)).settle()
    world.driver_reports().settle()
    assert safe(world)[0] == "True"


def test_a_topic_that_was_removed_is_not_safe_either() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east", "orders", "retry")).settle()
    world.stream("orders", cluster("east", "orders"))
    assert safe(world)[0] == "False"


def test_the_message_names_one_topic_and_counts_the_rest() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east", "orders", "retry", "dead")).settle()
    world.stream("orders", cluster("west"))
    assert "still has east/dead (and 2 more)" in safe(world)[1]
    world.settle()
    assert re.search(r"east/dead: driver driver-1 .*not applied revision 3 .*RolledOut \(and 2 more\)", safe(world)[1])


def test_a_cluster_that_was_renamed_needs_no_drain() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("new-east", renamedFrom="east"))
    assert safe(world)[0] == "True"


def test_a_topic_that_is_left_out_of_a_rename_is_not_safe() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east", "orders", "retry")).settle()
    world.stream("orders", cluster("new-east", renamedFrom="east"))
    assert "its document still has new-east/retry" in safe(world)[1]


def test_a_topic_dropped_with_a_rename_is_not_safe() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east", "orders", "retry")).settle()
    world.stream("orders", cluster("new-east", "orders", renamedFrom="east"))
    status, message = safe(world)
    assert status == "False"
    assert "its document still has new-east/retry" in message


def test_nothing_is_safe_while_the_stream_is_invalid() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west", startingOffsets="sometimes")).settle()
    assert safe(world)[0] == "False"


def east_let_go(**spec: Any) -> tuple[World, KafkaStreamStatus]:
    """Return a world in which east has left the document, before the driver has that; and the status before."""
    world = running(**spec)
    world.stream("orders", cluster("west")).settle()
    if world.status.rollout is not None and world.status.rollout.method == "Restart":
        world.driver_starts()
    world.driver_reports(east__orders=TopicReport(lag=0, quiet_s=400))
    before = status_of(world)
    world.settle()
    assert world.rendered() == {"west/orders": "Active"}
    return world, before


@pytest.mark.parametrize("strategy", ["Reload", "Restart"])
def test_it_is_not_safe_before_the_revision_is_in_force(strategy: str) -> None:
    world, before = east_let_go(updateStrategy=strategy)
    status, message = safe(world, before)
    assert status == "False"
    assert "for app (Running, revision 3 is not in" in message
    # Further reconciles, also by another operator, change nothing until the driver has the revision.
    held = status_of(world, before)
    assert status_of(world, held) == held
    assert [(entry.id, entry.state) for entry in held.clusters] == [("west", "InUse"), ("east", "Draining")]

    if strategy == "Restart":
        world.later(minutes=5).settle()
        world.driver_starts()
    world.driver_reports().settle()
    assert safe(world, held)[0] == "True"
    released = status_of(world, held)
    assert [(entry.id, entry.state) for entry in released.clusters] == [("west", "InUse"), ("east", "Released")]


def test_it_is_not_safe_when_the_streams_status_is_lost() -> None:
    world, _ = east_let_go(updateStrategy="Reload")
    assert safe(world)[0] == "False"


def test_it_is_not_safe_when_the_subscriptions_status_is_lost() -> None:
    world, before = east_let_go(updateStrategy="Reload")
    world.status = SubscriptionStatus()
    assert safe(world, before)[0] == "False"


def test_a_pod_that_looks_like_the_driver_confirms_nothing() -> None:
    world, before = east_let_go(updateStrategy="Reload")
    world.driver_reports()
    driver = world.driver
    assert driver is not None
    assert driver.report is not None
    for forged in (replace(driver, owned=False), replace(driver, report=replace(driver.report, pod="other"))):
        world.driver = forged
        world.settle()
        assert safe(world, before)[0] == "False"


@pytest.mark.parametrize("life", ["Suspended", "Completed", "Absent"])
def test_an_application_that_does_not_run_holds_nothing_up(life: Life) -> None:
    world, before = east_let_go(updateStrategy="Reload")
    assert safe(world, before, life)[0] == "True"


def test_an_addition_that_is_under_way_makes_nothing_unsafe() -> None:
    world = running(updateStrategy="Reload")
    before = status_of(world)
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.status.rollout is not None and world.status.rollout.phase == "Patched"
    assert safe(world, before)[0] == "True"


def test_subscribers_beyond_the_status_limit_are_counted() -> None:
    """Without the limit the API server would refuse the status, and the last one would stay safe."""
    world = running(updateStrategy="Reload")
    assert world.document is not None
    world.stream("orders", cluster("west"))
    streams, revision = world.document.streams, world.document.revision.token
    readers = [
        Subscriber(f"app-{n:04d}", f"app-{n:04d}", "Running", world.status, streams, revision=revision)
        for n in range(MAX_SUBSCRIBERS + 1)
    ]
    status = world.stream_status("orders", readers, generation=2)
    safe_status, message = drained_of(status)
    assert safe_status == "False" and message.startswith("0 of 1025 drained")
    assert len(status.subscribers) == MAX_SUBSCRIBERS


@pytest.mark.parametrize("stream", ["a", "b"])
def test_a_shared_cluster_is_safe_for_neither_stream(stream: str) -> None:
    world = World(spec={"streams": {"ids": ["a", "b"]}, "updateStrategy": "Reload"})
    for name in "ab":
        world.stream(name, cluster("east"), cluster("west", "other"))
    world.application_is("Starting").settle()
    world.driver_starts().settle()
    for name in "ab":
        world.stream(name, cluster("west", "other"))
    world.settle()
    world.driver_reports().settle()
    assert world.rendered()["east/orders"] == "Draining"
    status, message = drained_of(status_of(world, stream=stream))
    assert status == "False"
    assert re.search("east/orders: driver driver-1 .*nothing about east/orders", message)
    world.driver_reports(east__orders=TopicReport(lag=0, quiet_s=400)).settle()
    world.driver_reports().settle()
    status, _ = drained_of(status_of(world, stream=stream))
    assert status == "True"


def kstatus(world: World, before: KafkaStreamStatus | None = None) -> dict[str, tuple[str, str]]:
    """Return status and reason of the conditions that GitOps tools read."""
    conditions = status_of(world, before).conditions
    return {
        condition.type: (condition.status, condition.reason) for condition in conditions if condition.type in SETTLED
    }


SETTLED = {"Ready": ("True", "Valid"), "Reconciling": ("False", "Settled"), "Stalled": ("False", "Settled")}


@pytest.mark.parametrize(
    "changed",
    [cluster("east", "orders", "retry"), cluster("east", bootstrapServers="elsewhere:9092")],
    ids=["topic", "servers"],
)
def test_a_change_is_reconciling_until_it_is_in_force(changed: dict[str, Any]) -> None:
    world = running(updateStrategy="Restart")
    assert kstatus(world) == SETTLED
    world.stream("orders", changed)
    assert kstatus(world) == {**SETTLED, "Reconciling": ("True", "RollingOut")}
    world.settle()
    assert kstatus(world) == {**SETTLED, "Reconciling": ("True", "RollingOut")}
    (condition,) = [candidate for candidate in status_of(world).conditions if candidate.type == "Reconciling"]
    assert "way to app. kubectl get kss" in condition.message
    world.driver_starts().settle()
    assert kstatus(world) == SETTLED


def test_a_cluster_added_in_a_pause_is_reconciling() -> None:
    world = running(updateStrategy="Reload", pause={"reason": "freeze"})
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert kstatus(world)["Reconciling"] == ("True", "RollingOut")
    world.changes(pause=None).settle()
    world.driver_reports().settle()
    assert kstatus(world) == SETTLED


def test_a_mistake_is_stalled_and_not_under_way() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west", startingOffsets="sometimes"))
    assert kstatus(world) == {
        "Ready": ("False", "InvalidStream"), "Reconciling": ("False", "Settled"), "Stalled": ("True", "InvalidStream")
    }  # fmt: skip


def test_a_stream_does_not_wait_for_a_silent_driver() -> None:
    world = World(spec={"updateStrategy": "Auto"})
    world.stream("orders", cluster("east"))
    world.application_is("Starting").settle()
    world.driver_starts(reports=False).settle()
    world.stream("orders", cluster("east"), cluster("west"))
    for _ in range(3):
        world.later(minutes=30).settle()
    assert world.condition("RolledOut") == ("Unknown", "Waiting")
    assert kstatus(world) == SETTLED


def test_a_stream_does_not_wait_for_a_stalled_subscription() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "west"})).settle()
    assert {condition.type: condition.status for condition in world.status.conditions}["Stalled"] == "True"
    assert kstatus(world) == SETTLED


def reconciling(world: World) -> tuple[str, str]:
    """Return status and message of `Reconciling`."""
    (condition,) = [candidate for candidate in status_of(world).conditions if candidate.type == "Reconciling"]
    return condition.status, condition.message


def test_a_stream_does_not_wait_for_an_unsubscribed_reader() -> None:
    """The subscription only drains what it had, and gets no change of the stream."""
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east", "orders", "retry"))
    world.stream("other", cluster("west")).settle()
    world.changes(streams={"ids": ["other"]}).settle()
    world.driver_reports().settle()
    assert world.rendered() == {"east/orders": "Draining", "east/retry": "Draining", "west/orders": "Active"}
    assert reconciling(world) == ("False", "")
    # One topic has drained and leaves the document. The other still has a producer.
    world.driver_reports(east__orders=TopicReport(lag=0, quiet_s=400)).settle()
    world.driver_reports(east__retry=TopicReport(lag=5, quiet_s=0)).settle()
    assert world.rendered() == {"east/retry": "Draining", "west/orders": "Active"}
    assert world.condition("Reconciling") == ("False", "Settled")
    assert reconciling(world) == ("False", "")


@pytest.mark.parametrize(
    "changed",
    [[cluster("east"), cluster("north")], [cluster("east", bootstrapServers="elsewhere:9092")]],
    ids=["cluster", "servers"],
)
def test_a_changed_stream_does_not_wait_for_its_drains(changed: list[dict[str, Any]]) -> None:
    world = running(updateStrategy="Reload")
    world.stream("other", cluster("west"))
    world.changes(streams={"ids": ["other"]}).settle()
    world.driver_reports().settle()
    world.stream("orders", *changed).settle()
    world.driver_reports().settle()
    assert world.condition("Reconciling") == ("False", "Settled")
    assert reconciling(world) == ("False", "")


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize(
    "changed",
    [
        cluster("east", properties={"fetch.max.bytes": "1000000"}),
        cluster("east", stoppingOffsets="latest"),
        cluster("east", startingOffsets="earliest"),
    ],
    ids=["properties", "stop", "start"],
)
def test_every_change_is_reconciling_at_once(changed: dict[str, Any], paused: bool) -> None:
    world = running(updateStrategy="Restart", **({"pause": {"reason": "freeze"}} if paused else {}))
    world.stream("orders", changed)
    if paused:
        world.settle()
    assert reconciling(world)[0] == "True"


@pytest.mark.parametrize("paused", [False, True])
def test_a_cluster_that_comes_back_is_reconciling(paused: bool) -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("west")).settle()
    world.driver_starts().settle()
    if paused:
        world.changes(pause={"reason": "freeze"}).settle()
    assert reconciling(world)[0] == "False"
    world.stream("orders", cluster("west"), cluster("east"))
    if paused:
        world.settle()
    assert world.rendered()["east/orders"] == "Draining"
    assert reconciling(world)[0] == "True"


def test_a_removal_is_reconciling_at_once() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    world.driver_starts().settle()
    world.later(minutes=5)
    world.stream("orders", cluster("east"))
    assert reconciling(world)[0] == "True"


def test_a_revision_rendered_before_a_pause_is_reconciling() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    world.driver_starts().settle()
    world.stream("orders", cluster("east", "orders", "retry"), cluster("west"))  # too early for a second restart
    world.settle()
    assert world.condition("RolledOut") == ("False", "Coalescing")
    assert reconciling(world)[0] == "True"
    world.changes(pause={"reason": "freeze"}).settle()
    assert world.condition("RolledOut") == ("False", "Paused")
    assert world.condition("Ready")[0] == "False"
    assert reconciling(world)[0] == "True"


def test_the_column_marks_clusters_that_drain() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west"), cluster("north")).settle()
    assert status_of(world).cluster_names == "west, north, east (draining)"


@pytest.mark.parametrize(
    ("ids", "line"),
    [
        ((), ""),
        ([f"c{n}" for n in range(64)], ", ".join(f"c{n}" for n in range(56)) + " and 8 more"),
        ([f"{n:063}" for n in range(64)], ", ".join(f"{n:063}" for n in range(4)) + " and 60 more"),
    ],
    ids=["none", "many", "long"],
)
def test_a_column_names_as_many_clusters_as_fit(ids: list[str], line: str) -> None:
    catalog = make_catalog({"orders": {"clusters": [cluster(cluster_id) for cluster_id in ids]}}, [])
    now = "2026-11-01T00:00:00Z"
    status = stream_status("orders", catalog, [], KafkaStreamStatus(), everybody=Everybody(), generation=1, now=now)
    assert status.cluster_names == line


def in_force(world: World, life: Life = "Running", **reader: Any) -> tuple[str, str, tuple[int, int, int]]:
    """Return status and message of `InForce`, and the numbers of `status.inForce`."""
    status = world.stream_status("orders", [world.reader(life, **reader)], generation=2)
    (condition,) = [candidate for candidate in status.conditions if candidate.type == "InForce"]
    assert status.in_force is not None
    assert condition.observed_generation == status.in_force.generation == 2
    return condition.status, condition.message, (2, status.in_force.applications, status.in_force.of)


ALL, NONE = (2, 1, 1), (2, 0, 1)


@pytest.mark.parametrize("strategy", ["Reload", "Restart"])
def test_a_change_is_in_force_once_the_driver_shows_it(strategy: str) -> None:
    world = running(updateStrategy=strategy)
    assert in_force(world) == ("True", "in 1 of 1 application", ALL)
    world.stream("orders", cluster("east"), cluster("west"))  # the operator has not looked at the subscription yet
    assert in_force(world)[1].startswith("in 0 of 1 application; not in app (its document is older)")
    world.settle()
    assert in_force(world)[1].startswith("in 0 of 1 application; not in app (revision 2 is not in force yet)")
    if strategy == "Restart":
        world.driver_starts(reports=False).settle()
        assert in_force(world)[1].startswith("in 0 of 1 application; not in app (its driver has yet to report)")
    world.driver_reports().settle()
    assert in_force(world) == ("True", "in 1 of 1 application", ALL)


def test_a_first_document_is_in_force_when_the_driver_reports() -> None:
    world = World().stream("orders", cluster("east")).application_is("Starting").settle()
    assert world.condition("RolledOut") == ("True", "Adopted")
    assert in_force(world, "Starting")[0] == "False"
    world.driver_starts(reports=False).settle()
    assert in_force(world)[0] == "False"
    world.driver_reports().settle()
    assert in_force(world)[0] == "True"


@pytest.mark.parametrize("life", ["Suspended", "Completed", "Absent"])
def test_an_application_that_does_not_run_counts(life: Life) -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west"))
    assert in_force(world, life)[::2] == ("False", NONE)  # its document is not written yet
    world.settle()
    assert in_force(world, life)[::2] == ("True", ALL)


@pytest.mark.parametrize("life", ["Failing", "Failed"])
def test_a_change_is_not_in_force_where_an_application_failed(life: Life) -> None:
    world = running()
    assert in_force(world, life)[:2] == (
        "False", "in 0 of 1 application; not in app (it has failed). For the remedy: kubectl describe kss"
    )  # fmt: skip


def test_a_driver_without_the_mount_has_nothing_in_force() -> None:
    world = running(updateStrategy="Reload")
    assert world.driver is not None
    world.driver = replace(world.driver, mounted=False)
    assert "app (its driver lacks a mount)" in in_force(world.settle())[1]


def test_a_document_that_nobody_can_read_is_not_in_force() -> None:
    assert in_force(running(), unknown=True)[::2] == ("False", NONE)


def test_a_manifest_from_elsewhere_is_not_in_force() -> None:
    world = World().stream("orders", cluster("east")).settle().application_is("Starting", token="other/57").settle()
    assert world.status.rollout is not None and world.status.rollout.phase == "Confirmed"
    assert in_force(world, "Starting")[0] == "False"


def test_a_reader_that_leaves_the_stream_does_not_count() -> None:
    world = running(updateStrategy="Reload")
    world.stream("other", cluster("west"))
    assert in_force(world, asks=False)[::2] == ("True", ALL)  # it reads the stream until its document changes
    world.changes(streams={"ids": ["other"]}).settle()
    assert world.rendered()["east/orders"] == "Draining"
    assert in_force(world, asks=False) == ("Unknown", "no subscription asks for the stream", (2, 0, 0))


def test_an_invalid_stream_is_in_force_nowhere() -> None:
    world = running()
    world.stream("orders", cluster("west", startingOffsets="sometimes")).settle()
    status, message, numbers = in_force(world)
    assert (status, numbers) == ("False", NONE)
    assert "startingOffsets" in message


def test_a_status_of_a_newer_operator_stays_readable() -> None:
    """Otherwise it counts as lost, and what the last one has shown is forgotten."""
    world = running()
    for model, status in ((KafkaStreamStatus, status_of(world)), (SubscriptionStatus, world.status)):
        newer = status.model_dump(by_alias=True, mode="json")
        newer["fleet"] = newer["conditions"][0]["fleet"] = {"of": "a later version"}
        assert model.model_validate(newer) == status


def test_a_cluster_with_other_brokers_under_its_id_is_not_ready() -> None:
    # Given a driver that reads the cluster on as it was, since the new brokers are another Kafka cluster
    world = running(updateStrategy="Reload").driver_reports()
    world.stream("orders", cluster("east", bootstrapServers="new:9092")).settle()
    driver, document = world.driver, world.document
    assert driver is not None and driver.report is not None and document is not None
    why = "east is another Kafka cluster"
    world.driver = replace(driver, report=replace(driver.report, rejected=(document.revision.token, why)))
    world.settle()

    # Then neither a person nor a GitOps tool takes the stream for ready
    conditions = {condition.type: condition for condition in status_of(world).conditions}
    assert (conditions["Ready"].status, conditions["Ready"].reason) == ("False", "Rejected")
    assert conditions["Ready"].message.startswith(
        "app: the driver rejects revision 2 and keeps the one before: east is"
    )
    assert {kind: conditions[kind].status for kind in ("Stalled", "Reconciling", "InForce")} == {
        "Stalled": "True",
        "Reconciling": "False",
        "InForce": "False",
    }

    # And with the old brokers it is in force again
    world.stream("orders", cluster("east")).settle().driver_reports().settle()
    assert status_of(world).conditions[2].reason == "Valid"
