"""Observations of a cluster whose topics are deleted and re-created at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.kafka import probe
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.errors import UnknownTopicError
from dynamic_kafka.kafka.probe import ClusterProbe, ObservationRequest
from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.planning.starting import OffsetQuery

ORDERS = ObservationRequest(topics=("orders",), describe=False)
IDLE = replace(ORDERS, idle=True)

Observe = Callable[..., ClusterObservation]


class Cluster:
    """A fake admin client. A topic is its id and the ends of its partitions.

    Attributes:
        asked: the names of the calls, in order.
        named: the topics in the requests for the cluster's id.
        before: called before each answer, with the name of the call; tests change topics here.
    """

    read_committed = False

    def __init__(self) -> None:
        self.topics: dict[str, tuple[str, list[int]]] = {"orders": ("old", [9])}
        self.asked: list[str] = []
        self.named: list[str] = []
        self.before: Callable[[str], None] = lambda call: None

    def kafka_id(self, topic: str, instead: str | None = None) -> str:
        self.named.append(instead or topic)
        return "kafka"

    def describe_topics(self, names: Iterable[str]) -> tuple[dict[str, tuple[str, list[int]]], frozenset[str]]:
        self._record("describe")
        known = {name: self.topics[name] for name in names if name in self.topics}
        described = {name: (topic_id, list(range(len(ends)))) for name, (topic_id, ends) in known.items()}
        return described, frozenset(names) - known.keys()

    def offsets(
        self, queries: Mapping[tuple[str, int], OffsetQuery], *, uncommitted: bool = False
    ) -> dict[tuple[str, int], tuple[int, int | None]]:
        self._record("offsets")
        answers: dict[tuple[str, int], tuple[int, int | None]] = {}
        for topic, partition in queries:
            if topic not in self.topics or partition >= len(self.topics[topic][1]):
                raise UnknownTopicError("east", f"{topic}[{partition}] is not there")
            answers[topic, partition] = (self.topics[topic][1][partition], 0)
        return answers

    def close_in_background(self) -> None:
        pass

    def _record(self, call: str) -> None:
        self.asked.append(call)
        self.before(call)


@pytest.fixture
def east(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(probe, "PAUSE_S", 0)
    return Cluster()


@pytest.fixture
def observe(east: Cluster) -> Iterator[Observe]:
    probing = ClusterProbe("east", lambda: cast_admin(east))

    def once(request: ObservationRequest = ORDERS) -> ClusterObservation:
        try:
            return probing.observe(lambda: request).result(10)
        finally:
            probing.mark_used()

    yield once
    probing.close()


def cast_admin(cluster: Cluster) -> ClusterAdmin:
    admin: Any = cluster
    return admin


def seen(observation: ClusterObservation) -> dict[str, tuple[str | None, dict[int, int]]]:
    return {name: (topic.topic_id, dict(topic.latest)) for name, topic in observation.topics.items()}


def test_a_recreated_topic_has_its_new_id(east: Cluster, observe: Observe) -> None:
    assert seen(observe()) == {"orders": ("old", {0: 9})}
    east.topics["orders"] = ("new", [12])
    assert seen(observe()) == {"orders": ("new", {0: 12})}


@pytest.mark.parametrize("ends", [[4], [12], [12, 3]], ids=["shorter", "longer", "wider"])
def test_a_topic_recreated_between_the_calls_has_its_new_id(east: Cluster, observe: Observe, ends: list[int]) -> None:
    observe()

    def recreate(call: str) -> None:
        if call == "offsets":
            east.topics["orders"] = ("new", ends)

    east.before = recreate
    assert seen(observe()) == {"orders": ("new", dict(enumerate(ends)))}


def test_a_recreated_topic_with_fewer_partitions(east: Cluster, observe: Observe) -> None:
    east.topics["orders"] = ("old", [9, 9])
    observe()
    east.topics["orders"] = ("new", [5])
    assert seen(observe()) == {"orders": ("new", {0: 5})}


def test_a_topic_deleted_between_the_calls_is_missing(east: Cluster, observe: Observe) -> None:
    observe()
    east.before = lambda call: east.topics.clear() if east.asked[-2:] == ["offsets", "describe"] else None
    observation = observe()
    assert (seen(observation), observation.missing) == ({}, {"orders"})


def test_an_always_recreated_topic_is_an_error(east: Cluster, observe: Observe) -> None:
    lives = iter(range(1000))

    def recreate(call: str) -> None:
        if call == "offsets":
            east.topics["orders"] = (f"life-{next(lives)}", [1])

    east.before = recreate
    with pytest.raises(UnknownTopicError, match=r"'orders' was re-created.* observed"):
        observe()


def test_new_partitions_are_found_only_by_a_due_description(east: Cluster, observe: Observe) -> None:
    observe()
    east.topics["orders"] = ("old", [9, 2])
    east.asked.clear()
    assert seen(observe()) == {"orders": ("old", {0: 9})}
    assert east.asked == ["offsets", "describe"]
    assert seen(observe(ObservationRequest(topics=("orders",), describe=True))) == {"orders": ("old", {0: 9, 1: 2})}


def test_an_idle_cluster_is_asked_for_its_ends_alone(east: Cluster, observe: Observe) -> None:
    first = observe()
    east.asked.clear()
    assert (observe(IDLE), observe(IDLE)) == (first, first)
    assert east.asked == ["offsets", "offsets"]


@pytest.mark.parametrize(
    "request_now",
    [ORDERS, replace(IDLE, earliest=True), replace(IDLE, topics=("orders", "returns")), replace(IDLE, describe=True)],
    ids=["not idle", "opened", "other topics", "due"],
)
def test_ids_are_checked_unless_nothing_is_new(
    east: Cluster, observe: Observe, request_now: ObservationRequest
) -> None:
    observe()
    east.asked.clear()
    observe(request_now)
    assert east.asked[-2:] == ["offsets", "describe"]


def test_ids_are_checked_when_an_end_has_moved(east: Cluster, observe: Observe) -> None:
    observe()
    east.topics["orders"] = ("new", [12])
    assert seen(observe(IDLE)) == {"orders": ("new", {0: 12})}


def test_ids_of_an_idle_cluster_are_checked_after_a_time(
    east: Cluster, observe: Observe, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe()
    east.topics["orders"] = ("new", [9])
    assert seen(observe(IDLE)) == {"orders": ("old", {0: 9})}
    monkeypatch.setattr(probe, "RECHECK_S", 0.0)
    assert seen(observe(IDLE)) == {"orders": ("new", {0: 9})}


def test_a_topic_recreated_during_a_check_is_checked_again(east: Cluster, observe: Observe) -> None:
    observe()
    east.topics["orders"] = ("old", [10])

    def recreate(call: str) -> None:
        if east.asked[-2:] == ["offsets", "describe"]:
            east.topics["orders"], east.before = ("new", [10]), lambda call: None

    east.before = recreate
    assert seen(observe(IDLE)) == {"orders": ("new", {0: 10})}


def test_the_cluster_id_is_asked_for_with_a_small_topic(east: Cluster, observe: Observe) -> None:
    both = replace(ORDERS, topics=("orders", "returns"))
    east.topics = {"orders": ("a", [0] * 200), "returns": ("b", [0] * 50)}
    observe(both)
    observe(both)
    east.topics["returns"] = ("b", [0] * 51)
    observe(replace(both, describe=True))
    observe(both)
    assert east.named == ["orders", "returns", "returns", probe.NO_TOPIC]
