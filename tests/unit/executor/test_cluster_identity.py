"""The question for a cluster's identity: an answer is good for one topic, and for a short time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading.cluster_identity import IDENTITY_VALID_S, check_identity
from dynamic_kafka.executor.reading.consumer_cache import CachedConsumer
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.planning.splits import Split, SplitRange


class Brokers:
    """The connection to a cluster; it notes the topics that it is asked about."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def identify(self, topic: str, timeout_s: float) -> tuple[str, bool]:
        self.asked.append(topic)
        return "the-cluster", True

    def forget_problem(self) -> None:
        pass


def check(cached: CachedConsumer, topic: str) -> None:
    part = SplitRange(Split("east", topic, 0), 0, 5)
    client = ClusterClient("east", {"bootstrap.servers": "east:9092"}, {})
    task = ReadTask(part, "orders", "the-cluster", client, frozenset({"east"}), 10.0, False, True)
    check_identity(task, cached, time.monotonic() + 10)


def test_each_topic_is_asked_about_before_its_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    # The client looks for the leader of a topic that it was not asked about once a second only.
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    brokers: Any = Brokers()
    cached = CachedConsumer("east", brokers)
    for topic in ("orders", "orders", "refunds", "orders"):
        check(cached, topic)
    assert brokers.asked == ["orders", "refunds"]

    now[0] += IDENTITY_VALID_S
    check(cached, "orders")
    assert brokers.asked == ["orders", "refunds", "orders"]
