"""Ids of topics on which brokers disagree: which broker is asked, how often, and what a missing answer means."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection

from dynamic_kafka.errors import ClusterUnreachableError
from dynamic_kafka.kafka import admin
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.disputed_ids import SMALL_REQUESTS, disputed_ids

SILENT, WITHOUT = "silent", "without the topic"


class Cluster:
    """Brokers, each with its own metadata.

    Attributes:
        ids: by broker: the id of every topic.
        controllers: the brokers that the answers name as the controller.
        listed, described: number of small requests, and the brokers that were asked for ids.
    """

    def __init__(self, ids: dict[int, str], controllers: Iterator[int]) -> None:
        self.ids, self.controllers = ids, controllers
        self.controller, self.listed = 0, 0
        self.described: list[int] = []

    def client(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(list_topics=self.list, describe_topics=self.describe, poll=lambda _: None)

    def list(self, topic: str = "", *, timeout: float) -> Any:
        assert timeout > 0
        self.listed += bool(topic)
        self.controller = next(self.controllers) if topic else self.controller
        return SimpleNamespace(controller_id=self.controller, brokers=self.ids, topics={})

    def describe(self, names: TopicCollection, *, request_timeout: float) -> dict[str, Future[Any]]:
        assert request_timeout > 0
        self.described.append(self.controller)
        topic_id = self.ids[self.controller]
        answer: Future[Any] = Future()
        if topic_id == SILENT:
            answer.set_exception(KafkaException(KafkaError(KafkaError._TRANSPORT)))
        elif topic_id == WITHOUT:
            answer.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        else:
            answer.set_result(SimpleNamespace(topic_id=topic_id, partitions=[]))
        return {"t": answer}

    def disputed(self, patch: pytest.MonkeyPatch, found: str) -> frozenset[str]:
        """Return the disputed topics of one whose id is `found` for some broker."""
        patch.setattr(admin, "AdminClient", self.client)
        return disputed_ids(ClusterAdmin("east", {}, read_committed=False, deadline_s=5), {"t": found})


def test_brokers_that_agree_dispute_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(dict.fromkeys((1, 2, 3), "new"), iter([2, 2, 1, 2, 3]))
    assert cluster.disputed(monkeypatch, "new") == frozenset()
    # Each broker describes the topic once, however often it is named as the controller
    assert cluster.described == [2, 1, 3]


@pytest.mark.parametrize("other", ["newer", WITHOUT])
def test_one_broker_that_disagrees_disputes_an_id(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    cluster = Cluster({1: "old", 2: other, 3: "old"}, cycle([1, 2, 3]))
    assert cluster.disputed(monkeypatch, "old") == {"t"}


def test_at_most_four_brokers_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(dict.fromkeys(range(9), "new"), cycle(range(9)))
    assert cluster.disputed(monkeypatch, "new") == frozenset()
    assert (cluster.described, cluster.listed) == ([0, 1, 2, 3], 4)


def test_a_controller_that_never_changes_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # As with ZooKeeper
    cluster = Cluster({1: "old", 2: "new", 3: "old"}, cycle([2]))
    assert cluster.disputed(monkeypatch, "new") == frozenset()
    assert (cluster.described, cluster.listed) == ([2], SMALL_REQUESTS)


def test_a_silent_broker_has_no_opinion(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster({1: SILENT, 2: "new", 3: "new"}, cycle([1, 2, 3]))
    assert cluster.disputed(monkeypatch, "new") == frozenset()
    # One broker is not enough where there are others
    assert Cluster({1: SILENT, 2: "new"}, cycle([1, 2])).disputed(monkeypatch, "new") == {"t"}
    assert Cluster({1: "new", 2: SILENT, 3: SILENT}, cycle([1, 2, 3])).disputed(monkeypatch, "new") == {"t"}
    assert Cluster({1: "new"}, cycle([1])).disputed(monkeypatch, "new") == frozenset()
    with pytest.raises(ClusterUnreachableError, match=r"topics t another id.* no other"):
        Cluster({1: SILENT}, cycle([1])).disputed(monkeypatch, "new")
