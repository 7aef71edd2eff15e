"""A producer that waits for its records, with librdkafka's producer replaced."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from dynamic_kafka.errors import ClusterError, ClusterUnreachableError
from dynamic_kafka.kafka import topic_producer
from dynamic_kafka.kafka.topic_producer import NewRecord, TopicProducer


class Client:
    """librdkafka's producer: each record has the next result, and none without one is ever answered."""

    def __init__(self, *results: KafkaError | None) -> None:
        self.results = list(results)
        self.config: dict[str, Any] = {}
        self.produced: list[tuple[str, bytes, bytes, Any]] = []
        self._waiting: list[Any] = []

    def __call__(self, config: dict[str, Any], logger: Any) -> Client:
        self.config = config
        return self

    def produce(self, topic: str, value: bytes, key: bytes, headers: Any, on_delivery: Any) -> None:
        self.produced.append((topic, value, key, headers))
        self._waiting.append(on_delivery)

    def poll(self, timeout: float) -> None:
        while self._waiting and self.results:
            self._waiting.pop(0)(self.results.pop(0), None)


def deliver(client: Client, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(topic_producer, "Producer", client)
    monkeypatch.setattr(topic_producer, "LATE_S", 0.0)
    producer = TopicProducer("east", {"bootstrap.servers": "h:9092"}, "dead", delivery_s=0.05)
    producer.deliver([NewRecord(b"k", b"v", [("cause", b"c")])] * count)


def test_it_returns_once_all_records_are_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(None, None)
    deliver(client, monkeypatch, 2)
    assert client.produced == [("dead", b"v", b"k", [("cause", b"c")])] * 2
    assert client.results == []
    expected = {"enable.idempotence": "true", "allow.auto.create.topics": "false", "delivery.timeout.ms": 50}
    assert expected.items() <= client.config.items()


@pytest.mark.parametrize(
    ("results", "kind", "words"),
    [
        ([None, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)], ClusterError, "could not write to topic 'dead': .*large"),
        ([None, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)], ClusterError, "give the user WRITE on the topic"),
        ([KafkaError(KafkaError._MSG_TIMED_OUT), None], ClusterUnreachableError, "timed out"),
        ([None], ClusterUnreachableError, "no answer in time"),
    ],
)
def test_one_record_without_a_confirmation_fails_all(
    results: list[KafkaError | None], kind: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(kind, match=words):
        deliver(Client(*results), monkeypatch, 2)
