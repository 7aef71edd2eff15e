"""Waits after a change of a cluster's content."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from tests.support.kafka.content import Content


class Controller(Content):
    """A controller that answers requests for topics with these codes, one after another."""

    name, bootstrap, folder = "east", "127.0.0.1:1", Path("logs")

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)

    @property
    def admin(self) -> Any:
        return self

    def create_topics(self, wanted: list[NewTopic]) -> dict[str, Future[None]]:
        code, future = self.answers.pop(0), Future[None]()
        if code == KafkaError.NO_ERROR:
            future.set_result(None)
        else:
            future.set_exception(KafkaException(KafkaError(code)))
        return {wanted[0].topic: future}

    def _leaders(self, topic: str) -> int:
        return 1

    def end_offsets(self, topic: str, **_: Any) -> dict[Any, int]:
        return {}


def test_creating_a_topic_waits_for_a_fenced_broker() -> None:
    controller = Controller(KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.INVALID_REPLICATION_FACTOR, 0)
    assert controller.create_topic("orders") == "orders"
    assert controller.answers == []


def test_creating_an_existing_topic_is_an_error() -> None:
    controller = Controller(KafkaError.TOPIC_ALREADY_EXISTS, 0)
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        controller.create_topic("orders")
    assert controller.answers == [0]
