"""Lists of many offsets: the call of confluent-kafka's C module, on the brokers that librdkafka imitates."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from dynamic_kafka.kafka import bulk_offsets
from dynamic_kafka.kafka.background import quiet_logger
from dynamic_kafka.kafka.bulk_offsets import list_offsets
from dynamic_kafka.planning.starting import OffsetQuery

EARLIEST, LATEST = OffsetQuery("earliest"), OffsetQuery("latest")


@pytest.fixture
def client() -> Iterator[AdminClient]:
    """Yield a client of three brokers, with a topic of four partitions, the third of which has two records."""
    settings = {"bootstrap.servers": "ignored:1", "test.mock.num.brokers": 3}
    producer = Producer(settings, logger=quiet_logger())  # the brokers are threads of this producer
    for _ in range(2):
        producer.produce("orders", b"x", partition=2)
    assert producer.flush(20) == 0
    addresses = [f"{broker.host}:{broker.port}" for broker in producer.list_topics(timeout=20).brokers.values()]
    yield AdminClient({"bootstrap.servers": ",".join(addresses)}, logger=quiet_logger())


def listed(client: AdminClient, queries: dict[tuple[str, int], OffsetQuery], timeout_s: float = 20) -> dict[Any, Any]:
    return dict(list_offsets(client, queries, IsolationLevel.READ_UNCOMMITTED, timeout_s))


def test_each_partition_has_its_own_answer(client: AdminClient) -> None:
    queries = {("orders", 0): LATEST, ("orders", 2): LATEST, ("orders", 3): EARLIEST}
    assert [answer.offset for answer in listed(client, queries).values()] == [0, 2, 0]
    assert listed(client, {("orders", 2): EARLIEST})["orders", 2].offset == 0


def test_an_error_of_one_partition_leaves_the_others(client: AdminClient) -> None:
    answers = listed(client, {("orders", 2): LATEST, ("orders", 9): LATEST})
    assert answers["orders", 2].offset == 2
    assert isinstance(answers["orders", 9], KafkaException)
    assert answers["orders", 9].args[0].code() == KafkaError._UNKNOWN_PARTITION


def test_calls_are_of_limited_size(client: AdminClient, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, sent = [], bulk_offsets._sent
    monkeypatch.setattr(bulk_offsets, "PARTITIONS_PER_CALL", 3)
    monkeypatch.setattr(bulk_offsets, "_sent", lambda *args: sizes.append(len(args[1])) or sent(*args))
    queries = {("orders", partition): LATEST for partition in range(4)}
    assert [answer.offset for answer in listed(client, queries).values()] == [0, 0, 2, 0]
    assert sizes == [3, 1]


def test_a_failed_call_is_the_error_of_each_partition() -> None:
    nobody = AdminClient({"bootstrap.servers": "127.0.0.1:1"}, logger=quiet_logger())
    errors = listed(nobody, {("orders", 0): LATEST, ("orders", 1): EARLIEST}, timeout_s=0.2)
    assert [type(error) for error in errors.values()] == [KafkaException, KafkaException]
    assert {error.args[0].code() for error in errors.values()} <= {KafkaError._TIMED_OUT, KafkaError._TRANSPORT}


def test_a_partition_without_an_answer_is_an_error(client: AdminClient, monkeypatch: pytest.MonkeyPatch) -> None:
    future: Future[Any] = Future()
    future.set_result({TopicPartition("orders", 0): "its answer"})
    monkeypatch.setattr(bulk_offsets, "_sent", lambda *_: future)
    answers = listed(client, {("orders", 0): LATEST, ("orders", 1): LATEST})
    assert answers["orders", 0] == "its answer"
    assert isinstance(answers["orders", 1], KafkaException)
    assert "lacks orders[1]" in answers["orders", 1].args[0].str()


def test_a_timestamp_is_sent_as_it_is() -> None:
    queries = [OffsetQuery("timestamp", 1_700_000_000_000), OffsetQuery("timestamp", 0), EARLIEST, LATEST]
    assert [bulk_offsets._wanted(query) for query in queries] == [1_700_000_000_000, 0, -2, -1]
