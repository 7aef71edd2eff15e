"""One look at a cluster whose topics are deleted and created again while they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from dynamic_kafka.kafka import probe
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.errors import UnknownTopicError
from dynamic_kafka.kafka.probe import ClusterProbe, Question
from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.planning.starting import OffsetQuery

ORDERS = Question(topics=("orders",), describe=False)


class Cluster:
    """Answers as an admin client does. A topic is its id and the ends of its partitions.

    Attributes:
        asked: what was asked, in order.
        before: called before an answer, with the question; here topics come and go.
    """

    read_committed = False

    def __init__(self) -> None:
        self.topics: dict[str, tuple[str, list[int]]] = {"orders": ("old", [9])}
        self.asked: list[str] = []
        self.before: Callable[[str], None] = lambda question: None

    def kafka_id(self, topic: str) -> str:
        return "kafka"

    def describe_topics(self, names: Iterable[str]) -> tuple[dict[str, tuple[str, list[int]]], frozenset[str]]:
        self._say("describe")
        found = {name: self.topics[name] for name in names if name in self.topics}
        described = {name: (topic_id, list(range(len(ends)))) for name, (topic_id, ends) in found.items()}
        return described, frozenset(names) - found.keys()

    def offsets(
        self, queries: Mapping[tuple[str, int], OffsetQuery], *, uncommitted: bool = False
    ) -> dict[tuple[str, int], tuple[int, int | None]]:
        self._say("offsets")
        answers: dict[tuple[str, int], tuple[int, int | None]] = {}
        for topic, partition in queries:
            if topic not in self.topics or partition >= len(self.topics[topic][1]):
                raise UnknownTopicError("east", f"{topic}[{partition}] is not there")
            answers[topic, partition] = (self.topics[topic][1][partition], 0)
        return answers

    def close_in_background(self) -> None:
        pass

    def _say(self, question: str) -> None:
        self.asked.append(question)
        self.before(question)


@pytest.fixture
def east(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(probe, "PAUSE_S", 0)
    return Cluster()


@pytest.fixture
def look(east: Cluster) -> Iterator[Callable[..., ClusterObservation]]:
    probing = ClusterProbe("east", lambda: cast_admin(east))

    def once(question: Question = ORDERS) -> ClusterObservation:
        try:
            return probing.observe(lambda: question).result(10)
        finally:
            probing.mark_used()

    yield once
    probing.close()


def cast_admin(cluster: Cluster) -> ClusterAdmin:
    admin: Any = cluster
    return admin


def seen(found: ClusterObservation) -> dict[str, tuple[str | None, dict[int, int]]]:
    return {name: (topic.topic_id, dict(topic.latest)) for name, topic in found.topics.items()}


def test_offsets_of_a_topic_that_was_created_anew_are_never_given_out_under_the_old_id(
    east: Cluster, look: Callable[..., ClusterObservation]
) -> None:
    assert seen(look()) == {"orders": ("old", {0: 9})}
    east.topics["orders"] = ("new", [12])
    assert seen(look()) == {"orders": ("new", {0: 12})}


@pytest.mark.parametrize("ends", [[4], [12], [12, 3]], ids=["shorter", "longer", "wider"])
def test_nor_when_it_is_created_anew_between_the_questions(
    east: Cluster, look: Callable[..., ClusterObservation], ends: list[int]
) -> None:
    look()

    def anew(question: str) -> None:
        if question == "offsets":
            east.topics["orders"] = ("new", ends)

    east.before = anew
    assert seen(look()) == {"orders": ("new", dict(enumerate(ends)))}


def test_a_topic_created_anew_with_fewer_partitions_is_described_again(
    east: Cluster, look: Callable[..., ClusterObservation]
) -> None:
    east.topics["orders"] = ("old", [9, 9])
    look()
    east.topics["orders"] = ("new", [5])
    assert seen(look()) == {"orders": ("new", {0: 5})}


def test_a_topic_that_is_deleted_between_the_questions_is_missing(
    east: Cluster, look: Callable[..., ClusterObservation]
) -> None:
    look()
    east.before = lambda question: east.topics.clear() if east.asked[-2:] == ["offsets", "describe"] else None
    found = look()
    assert (seen(found), found.missing) == ({}, {"orders"})


def test_a_topic_that_never_stays_the_same_is_an_error(east: Cluster, look: Callable[..., ClusterObservation]) -> None:
    lives = iter(range(1000))

    def anew(question: str) -> None:
        if question == "offsets":
            east.topics["orders"] = (f"life-{next(lives)}", [1])

    east.before = anew
    with pytest.raises(UnknownTopicError, match="'orders' was re-created while it was observed"):
        look()


def test_a_look_costs_one_description_and_takes_up_new_partitions_when_they_are_due(
    east: Cluster, look: Callable[..., ClusterObservation]
) -> None:
    look()
    east.topics["orders"] = ("old", [9, 2])
    east.asked.clear()
    assert seen(look()) == {"orders": ("old", {0: 9})}
    assert east.asked == ["offsets", "describe"]
    assert seen(look(Question(topics=("orders",), describe=True))) == {"orders": ("old", {0: 9, 1: 2})}
