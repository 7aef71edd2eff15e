"""The tasks of a batch that an earlier process has planned: they follow the observation that decided the replay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.driver.enumerator import Enumerator
from dynamic_kafka.driver.observer import Observer
from dynamic_kafka.errors import PendingRangesError
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.document.codec import encode, fingerprint
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.observation import ClusterObservation, Observation

OPTIONS = {"streamIds": "s", "metadataPath": "/streams.yaml"}
START = OffsetDocument("q", 1, clusters={"west": ClusterProgress({"t": TopicProgress("s", {0: 5})}, "Qx")})
END = replace(
    START,
    number=2,
    previous=fingerprint(START),
    clusters={"west": ClusterProgress({"t": TopicProgress("s", {0: 9})}, "Qx")},
)


def found(kafka_id: str | None, **clusters: str | None) -> Observation:
    """Return metadata, {cluster id: `renamedFrom`}. Its clusters answer with this `cluster.id`, or not (None)."""
    named = {
        name: SubscribedCluster({"t": "s"}, {"bootstrap.servers": f"{name}:1"}, renamed_from=former)
        for name, former in clusters.items()
    }
    answers = {name: ClusterObservation({}, kafka_id) for name in named if kafka_id}
    return Observation(Subscription(named, ("s",)), answers)


class World:
    """The metadata and the answers that the observer finds."""

    def __init__(self, now: Observation) -> None:
        self.now = now


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world where `west` is named as when the batch was planned."""
    made = World(found("Qx", west=None))
    monkeypatch.setattr(Observer, "observe", lambda *_: made.now)
    monkeypatch.setattr(Observer, "in_force", lambda _: made.now)
    return made


def tasks(enumerator: Enumerator, end: OffsetDocument = END) -> list[ReadTask]:
    start = replace(START, parked=end.parked)
    return enumerator.tasks(encode(start), encode(replace(end, previous=fingerprint(start))))


def servers(made: list[ReadTask]) -> list[Any]:
    return [(str(task.part), task.client.own["bootstrap.servers"]) for task in made]


@pytest.fixture
def enumerator() -> Enumerator:
    """The planner of a process that has planned nothing."""
    return Enumerator(parse_options(OPTIONS, mode="streaming"))


def test_a_replay_keeps_the_metadata_that_decided_it(world: World, enumerator: Enumerator) -> None:
    # Given a replay after a rename
    world.now = found("Qx", occident="west")
    first = servers(tasks(enumerator))

    # When metadata removes the cluster, and Spark asks for the batch again
    world.now = found("Qx", other=None)

    # Then its tasks are the same
    assert servers(tasks(enumerator)) == first == [("west/t[0] 5..9", "occident:1")]


@pytest.mark.parametrize("answered", ["Qx", "Zz", None])
def test_a_rename_to_an_id_of_another_cluster_needs_its_answer(
    world: World, enumerator: Enumerator, answered: str | None
) -> None:
    # Given a rename to an id under which another cluster is parked
    parked = {"occident": ParkedCluster({"t": ParkedTopic(TopicProgress("s", {0: 1}), 1 << 60)}, "Zz")}
    world.now = found(answered, occident="west")
    pending = replace(END, parked=parked)

    # Then the batch is read only if the saved cluster answers there
    if answered == "Qx":
        assert servers(tasks(enumerator, pending)) == [("west/t[0] 5..9", "occident:1")]
    else:
        with pytest.raises(PendingRangesError, match=r"west/t\[0\] 5\.\.9"):
            tasks(enumerator, pending)


def test_a_batch_planned_after_a_replay_has_newer_metadata(world: World, enumerator: Enumerator) -> None:
    tasks(enumerator)
    later = replace(END, number=3, previous=fingerprint(END), clusters=START.clusters)
    world.now = found("Qx", east=None)
    later = replace(later, clusters={"east": ClusterProgress({"t": TopicProgress("s", {0: 3}, starts={0: 0})}, "Qx")})
    enumerator.replays.planned(END, later)
    assert servers(enumerator.tasks(encode(END), encode(later))) == [("east/t[0] 0..3", "east:1")]
