"""The verdict on each cluster of a stream, the word before a cluster is shut down: is it in use, draining, released?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkastream_operator.core.drain_evidence import TopicReport
from kafkastream_operator.core.subscriber import Subscriber
from kafkastream_operator.models.stream import MAX_READERS, ClusterStatus, KafkaStreamStatus
from kafkastream_operator.models.subscription import SubscriptionStatus
from tests.unit.operator.world import World, cluster, running

EAST = {"bootstrapServers": "east:9092", "topics": ["orders"]}


class Watched:
    """A stream whose status is written again after each step, as the operator does."""

    def __init__(self, world: World) -> None:
        self.world, self.status = world, KafkaStreamStatus()
        self.others: list[Subscriber] = []
        self.look()

    def look(self) -> dict[str, str]:
        """Return {cluster: state}."""
        self.status = self.world.stream_status("orders", [self.world.reader()], self.status, others=self.others)
        return {entry.id: entry.state for entry in self.status.clusters}

    def east(self) -> ClusterStatus:
        self.look()
        (east,) = [entry for entry in self.status.clusters if entry.id == "east"]
        return east

    def drains(self) -> None:
        """Let the driver take up the removal and read `east` to its end, and the operator take it out."""
        self.world.settle().driver_reports(east__orders=TopicReport(lag=0, quiet_s=400)).settle()
        self.look()
        self.world.driver_reports().settle()


def removed() -> Watched:
    """Return the stream at the moment at which `east` is taken out of it."""
    watched = Watched(running(updateStrategy="Reload"))
    watched.world.stream("orders", cluster("west"))
    return watched


def another(rendered: dict[str, Any], **more: Any) -> Subscriber:
    """Return the subscription of another application, with this document."""
    streams = {"payments": {"clusters": rendered}} if rendered else {}
    return Subscriber("sums", "sums", "Running", SubscriptionStatus(), streams, **more)


def test_a_cluster_is_in_use_then_draining_then_released() -> None:
    watched = Watched(running(updateStrategy="Reload"))
    assert watched.east() == ClusterStatus(
        id="east",
        state="InUse",
        since="2026-11-01T00:00:00.000000Z",
        bootstrap_servers="east:9092",
        readers=("app",),
    )

    # When it is taken out, at first it is in the document as before
    watched.world.later(minutes=1).stream("orders", cluster("west"))
    assert (watched.east().state, watched.east().since) == ("Draining", "2026-11-01T00:01:00.000000Z")
    assert "its document still has east/orders" in watched.east().message
    # Then it drains, and the document without it has to come into force
    watched.world.settle()
    assert "waiting for app (Running, since 2026-11-01T00:01:00Z: east/orders: driver " in watched.east().message
    watched.world.driver_reports(east__orders=TopicReport(lag=0, quiet_s=400)).settle()
    assert watched.world.rendered() == {"west/orders": "Active"}
    assert (watched.east().state, watched.east().readers) == ("Draining", ("app",))
    assert "revision 3 is not in force yet" in watched.east().message

    # Then it is released, and stays in the status for a week
    watched.world.later(minutes=6).driver_reports().settle()
    released = watched.east()
    assert (released.state, released.since, released.readers) == ("Released", "2026-11-01T00:07:00.000000Z", ())
    assert released.bootstrap_servers == "east:9092"
    assert watched.status.cluster_names == "west"
    watched.world.later(days=6)
    assert watched.look() == {"west": "InUse", "east": "Released"}
    watched.world.later(days=2)
    assert watched.look() == {"west": "InUse"}


def test_a_released_cluster_that_returns_is_in_use() -> None:
    watched = removed()
    watched.drains()
    assert watched.look()["east"] == "Released"
    watched.world.stream("orders", cluster("west"), cluster("east"))
    assert watched.look() == {"west": "InUse", "east": "InUse"}


@pytest.mark.parametrize("name", ["east", "other-id"])
def test_a_cluster_that_another_job_reads_is_not_released(name: str) -> None:
    watched = removed()
    watched.others = [another({name: EAST})]
    watched.drains()
    east = watched.east()
    assert (east.state, east.in_stream, east.readers) == ("InUse", False, ("sums",))
    assert east.message == "no longer in this stream under this id; application sums reads it for stream payments"

    # Nor while the driver of that one may still use the document with it
    watched.others = [another({}, revision="l/7")]
    assert watched.east().state == "InUse"
    assert "waiting for sums (Running, revision 7 is not in force yet)" in watched.east().message
    watched.others = [another({})]
    assert watched.look()["east"] == "Released"


def test_a_job_that_never_read_a_cluster_holds_nothing_up() -> None:
    watched = removed()
    watched.others = [another({}, revision="l/7")]
    watched.drains()
    assert watched.look()["east"] == "Released"


def test_jobs_that_the_status_has_no_room_for_count_too() -> None:
    watched = removed()
    many = [replace(another({"east": EAST}), application=f"a{number}") for number in range(MAX_READERS + 1)]
    watched.others = many
    watched.drains()
    assert watched.east().readers == tuple(f"a{number}" for number in range(MAX_READERS))
    watched.others = [replace(reader, rendered={}, revision="l/7") for reader in many[-1:]]
    assert watched.look()["east"] == "InUse"


def test_a_cluster_that_another_stream_names_is_not_released() -> None:
    watched = removed()
    watched.world.stream("payments", cluster("elsewhere", bootstrapServers="east:9093,east:9092"))
    watched.drains()
    assert watched.east().message.endswith("stream payments names it, or one of its servers")
    assert watched.east().state == "InUse"
    watched.world.stream("payments", cluster("north"))
    assert watched.look()["east"] == "Released"


def test_a_document_that_nobody_can_read_holds_all_clusters_up() -> None:
    watched = removed()
    watched.others = [another({}, unknown=True)]
    watched.drains()
    assert watched.east().state == "Draining"
    assert "neither its status nor its document can be read" in watched.east().message


def test_a_stream_that_becomes_invalid_uses_its_clusters() -> None:
    watched = Watched(running(updateStrategy="Reload"))
    watched.world.stream("orders", cluster("west", startingOffsets="sometimes")).settle()
    assert watched.look() == {"east": "InUse"}


def test_a_renamed_cluster_leaves_the_status_under_its_old_id() -> None:
    watched = Watched(running(updateStrategy="Reload"))
    watched.world.stream("orders", cluster("new", bootstrapServers="east:9092", renamedFrom="east")).settle()
    assert watched.look() == {"new": "InUse", "east": "Draining"}
    watched.world.driver_reports().settle()
    assert watched.look() == {"new": "InUse"}


def test_a_status_of_an_earlier_release_is_read() -> None:
    entries = [{"id": name, "state": state} for name, state in (("a", "Active"), ("b", "Held"), ("c", "Draining"))]
    status = KafkaStreamStatus.model_validate({"clusters": entries})
    assert [entry.state for entry in status.clusters] == ["InUse", "InUse", "Draining"]


def test_a_job_that_is_not_in_force_is_remembered_beside_others() -> None:
    # Given two other applications that read the cluster, of which the first drops it before its driver does
    watched = removed()
    behind = replace(another({}), name="first", application="first", revision="l/7")
    watched.others = [replace(behind, rendered=another({"east": EAST}).rendered), another({"east": EAST})]
    watched.drains()
    assert watched.east().readers == ("first", "sums")
    watched.others = [behind, another({"east": EAST})]
    assert watched.east().readers == ("first", "sums")
    # When the second one is done, then the first one still counts
    watched.others = [behind, another({})]
    assert watched.east().state == "InUse"
    watched.others = [replace(behind, revision=""), another({})]
    assert watched.look()["east"] == "Released"


def test_a_job_that_drains_one_cluster_may_still_read_another() -> None:
    # Given a stream that drops two clusters, of which one has drained
    watched = Watched(running(updateStrategy="Reload"))
    world = watched.world
    world.stream("orders", cluster("east"), cluster("west"), cluster("north")).settle().driver_reports().settle()
    watched.look()
    world.stream("orders", cluster("west")).settle()
    drained = {"east__orders": TopicReport(lag=0, quiet_s=400), "north__orders": TopicReport(lag=5, quiet_s=0)}
    world.driver_reports(**drained)
    watched.look()
    world.settle()
    assert world.rendered() == {"north/orders": "Draining", "west/orders": "Active"}
    # Then it is not released before the document without it is in force
    assert watched.look()["east"] == "Draining"
    world.driver_reports(north__orders=TopicReport(lag=5, quiet_s=0)).settle()
    assert watched.look() == {"west": "InUse", "north": "Draining", "east": "Released"}
