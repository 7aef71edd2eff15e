"""Stories of the end of a drain: by evidence in the driver's report, or by a release that a user writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.application import Life
from kafkastream_operator.core.drain_evidence import TopicReport
from kafkastream_operator.models.subscription import SubscriptionStatus
from tests.unit.operator.drains import DRAINED, removed
from tests.unit.operator.world import DiedError, World, cluster, drained_of, running


@pytest.mark.parametrize("kafka_id", ["GnV1", ""])
def test_the_event_names_the_kafka_cluster_that_was_drained(kafka_id: str) -> None:
    world = removed()
    world.driver_reports(east__orders=replace(DRAINED, kafka_id=kafka_id)).settle()
    where = f" (cluster.id {kafka_id})" if kafka_id else ""
    assert ("Released", f"east/orders leaves the document: drained{where}") in world.events


@pytest.mark.parametrize("forged", [{"owned": False}, {"uid": "another pod"}])
def test_an_event_names_no_cluster_from_a_forged_report(forged: dict[str, Any]) -> None:
    world = removed()
    world.driver_reports(east__orders=replace(DRAINED, kafka_id="FORGED"))
    assert world.driver is not None
    world.driver = replace(world.driver, **forged)
    world.released = frozenset({"east/orders"})
    world.settle()
    assert ("Released", "east/orders leaves the document: released by hand") in world.events


def test_a_user_may_release_a_topic() -> None:
    world = removed()
    world.released = frozenset({"east/orders"})
    world.settle()
    assert world.rendered() == {"west/orders": "Active"}
    assert ("Released", "east/orders leaves the document: released by hand") in world.events


def unused_release_events(world: World) -> list[str]:
    """Return the texts of the Events about releases that name nothing."""
    return [text for reason, text in world.events if reason == "NothingReleased"]


def test_a_misspelt_release_is_one_event() -> None:
    world = removed()
    world.released = frozenset({"esat/orders"})
    world.settle()
    world.later(minutes=30).settle()
    (text,) = unused_release_events(world)
    assert text.startswith("the release esat/orders names nothing that drains")
    assert text.endswith("draining now: east/orders")
    world.released = frozenset({"esat/orders", "east@2"})
    world.settle()
    assert world.rendered() == {"west/orders": "Active"}
    assert len(unused_release_events(world)) == 1


def test_a_release_in_a_pause_is_no_unused_one() -> None:
    world = removed()
    world.changes(pause={"reason": "freeze"})
    world.released = frozenset({"east/orders"})
    world.settle()
    world.changes(pause=None).settle()
    assert world.rendered() == {"west/orders": "Active"}
    assert unused_release_events(world) == []


def test_a_release_counts_for_no_later_drain() -> None:
    world = removed()
    world.released = frozenset({"east/orders", "west"})
    world.settle()
    world.stream("orders", cluster("west"), cluster("east")).settle()
    world.stream("orders", cluster("north")).settle()
    assert world.rendered() == {"north/orders": "Active", "west/orders": "Draining", "east/orders": "Draining"}
    text = "The release east/orders is from before this drain and does not count: to release the topic again, write"
    assert f"{text} east/orders@2" in world.message("Drained")
    world.released = frozenset({"east/orders@2", "west"})
    world.settle()
    assert world.rendered() == {"north/orders": "Active", "west/orders": "Draining"}
    world.released = frozenset()
    world.settle()
    world.released = frozenset({"west"})
    world.settle()
    assert world.rendered() == {"north/orders": "Active"}


def test_a_release_counts_for_nothing_without_a_status() -> None:
    world = removed()
    world.released = frozenset({"east/orders"})
    world.settle()
    world.stream("orders", cluster("west"), cluster("east")).settle()
    world.stream("orders", cluster("west")).settle()
    world.status = SubscriptionStatus()
    world.settle()
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
    assert "again, write east/orders@2" in world.message("Drained")
    world.released = frozenset({"east/orders@2"})
    world.settle()
    assert world.rendered() == {"west/orders": "Active"}


def test_a_release_that_comes_with_the_removal_does_not_count() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west"))
    world.released = frozenset({"east"})
    world.settle()
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}


@pytest.mark.parametrize("writes", range(1, 4))
def test_a_release_counts_once_after_a_death(writes: int) -> None:
    world = removed()
    world.released = frozenset({"east/orders"})
    world.settle_with_deaths(writes)
    assert world.rendered() == {"west/orders": "Active"}
    world.stream("orders", cluster("west"), cluster("east")).settle()
    world.stream("orders", cluster("west"))
    world.settle_with_deaths(writes)
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}


def test_a_release_counts_if_only_the_document_was_written() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west"))
    world.dies_after = len(world.writes) + 1
    with pytest.raises(DiedError):
        world.look()
    world.released = frozenset({"east"})
    world.settle()
    assert world.rendered() == {"west/orders": "Active"}


def test_a_release_in_a_pause_counts_afterwards() -> None:
    world = removed()
    world.spec["pause"] = {"reason": "freeze"}
    world.released = frozenset({"east"})
    world.settle()
    assert world.rendered()["east/orders"] == "Draining"
    del world.spec["pause"]
    world.settle()
    assert world.rendered() == {"west/orders": "Active"}


def test_a_drain_timeout_removes_nothing_and_names_the_remedy() -> None:
    world = removed(timeout="1h")
    world.later(hours=2).settle()
    assert world.rendered()["east/orders"] == "Draining"
    assert world.condition("Drained") == ("False", "DrainTimedOut")
    assert "kafkastream.dev/release=east/orders" in world.message("Drained")


FORGED = {
    "of another pod": lambda d: replace(d, report=replace(d.report, pod="other")),
    "of another subscription": lambda d: replace(d, report=replace(d.report, subscription="other")),
    "stale": lambda d: replace(d, silent_s=31.0),
    "that may have been written at any time": lambda d: replace(d, seen_alive=False),
    "of a pod that is not the application's": lambda d: replace(d, owned=False),
    "of a driver that has ended": lambda d: replace(d, running=False),
    "from before the draining revision": lambda d: replace(
        d,
        report=replace(
            d.report, applied=Revision(lineage=d.report.applied.lineage, counter=d.report.applied.counter - 1)
        ),
    ),
    "of another lineage": lambda d: replace(
        d, report=replace(d.report, applied=Revision(lineage="other", counter=d.report.applied.counter))
    ),
    "of nothing": lambda d: replace(d, report=None),
    "with lag": lambda d: replace(d, report=replace(d.report, draining=_topic(lag=1))),
    "with a lag that is not known": lambda d: replace(d, report=replace(d.report, draining=_topic(lag=None))),
    "with an open transaction": lambda d: replace(d, report=replace(d.report, draining=_topic(open_transaction=True))),
    "that is not quiet yet": lambda d: replace(d, report=replace(d.report, draining=_topic(quiet_s=299.9))),
    "of other topics": lambda d: replace(d, report=replace(d.report, draining={})),
}


def _topic(**change: object) -> dict[object, TopicReport]:
    return {("east", "orders"): replace(DRAINED, **change)}  # type: ignore[arg-type]


@pytest.mark.parametrize("what", FORGED)
def test_a_report_is_no_evidence_if_it_is(what: str) -> None:
    world = removed()
    world.driver_reports(east__orders=DRAINED)
    world.driver = FORGED[what](world.driver)
    world.settle()
    assert world.rendered()["east/orders"] == "Draining"
    assert world.status.draining[0].message


@pytest.mark.parametrize("life", ["Starting", "Failing", "Suspended", "Completed", "Failed"])
def test_an_application_that_does_not_run_drains_nothing(life: Life) -> None:
    world = removed()
    world.application_is(life)
    world.driver_reports(east__orders=DRAINED).settle()
    assert world.rendered()["east/orders"] == "Draining"
    assert life in world.message("Drained")
    world.application_is("Running").settle()
    assert world.rendered() == {"west/orders": "Active"}


REMEDIES: dict[Life, str] = {
    "Running": "whether the Spark operator runs",
    "Starting": "kubectl describe",
    "Suspended": "set its spec.suspend to false",
    "Completed": "is Completed: start it again",
    "Failing": "is Failing, and tried again: correct the cause",
    "Failed": "and start it again",
    "Absent": "apply it",
}


@pytest.mark.parametrize("life", get_args(Life))
def test_each_state_without_a_driver_has_its_remedy(life: Life) -> None:
    world = removed()
    world.driver = None
    world.application_is(life)
    if life == "Absent":
        world.application = None
    world.settle()
    reason = world.status.draining[0].message
    assert [life_state for life_state, what in REMEDIES.items() if what in reason] == [life]
    world.later(hours=1)
    before = len(world.writes)
    world.settle()
    assert len(world.writes) == before
    assert reason in message_of_safety(world, life)


def message_of_safety(world: World, life: str) -> str:
    """Return the message of the stream's `Drained`."""
    assert world.document is not None
    status, message = drained_of(world.stream_status("orders", [world.reader(life, revision="")]))
    assert status == "False"
    return message


def with_homes(world: World, *homes: str) -> World:
    """Let the driver report the clusters that hold its internal topics, with east drained."""
    world.driver_reports(east__orders=DRAINED)
    driver = world.driver
    assert driver is not None and driver.report is not None
    world.driver = replace(driver, report=replace(driver.report, homes=frozenset(homes)))
    return world.settle()


@pytest.mark.parametrize("policy", ["WhenDrained", "Immediate"])
def test_the_home_of_internal_topics_stays_until_they_have_moved(policy: str) -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west"), policy=policy).settle()
    with_homes(world, "east")
    world.stream("orders", cluster("west"), policy=policy).settle()
    with_homes(world, "east")
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
    assert "east/orders: it holds internal topics of the application: move them" in world.message("Drained")
    # A driver that starts anew has not reported, and needs them to start
    reporting, world.driver = world.driver, None
    assert world.settle().rendered() == {"east/orders": "Draining", "west/orders": "Active"}
    world.driver = reporting
    assert with_homes(world, "west").rendered() == {"west/orders": "Active"}


def test_a_renamed_home_stays() -> None:
    world = with_homes(running(updateStrategy="Reload"), "east")
    world.stream("orders", cluster("new", bootstrapServers="east:9092", renamedFrom="east"), cluster("west")).settle()
    world.driver_reports().settle()
    world.stream("orders", cluster("west")).settle()
    world.driver_reports(new__orders=DRAINED)
    assert with_homes(world, "east").rendered()["new/orders"] == "Draining"


def test_a_topic_of_a_home_that_stays_drains() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east", "orders", "retry")).settle()
    world.driver_reports().settle()
    world.stream("orders", cluster("east", "retry")).settle()
    assert with_homes(world, "east").rendered() == {"east/retry": "Active"}
