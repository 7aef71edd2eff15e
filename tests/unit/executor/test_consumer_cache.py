"""The consumers that a worker keeps: whose tasks keep them, and when they are closed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from dynamic_kafka.executor.reading import native_connection
from dynamic_kafka.executor.reading.consumer_cache import IDLE_S, MAX_CONSUMERS, ConsumerCache
from tests.support.waiting import wait_until


class Client:
    """A consumer that counts how many were made, and which are open."""

    made: list[Client]

    def __init__(self, config: dict[str, Any], logger: object) -> None:
        self.name, self.closed = config["name"], False
        Client.made.append(self)

    def unassign(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class Worker:
    """A Python worker with a cache, which reads ranges of several sources."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cache = ConsumerCache()
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def read(self, source: str, cluster: str, digest: str = "d", *, active: tuple[str, ...] = ()) -> None:
        self.now += 0.001
        plan = frozenset({cluster, *active})
        with self.cache.lend(cluster, digest, lambda: {"name": f"{cluster}/{digest}"}, source, plan):
            pass

    def open(self) -> list[str]:
        return [cached.connection.consumer.name for cached in self.cache._by_key.values()]  # type: ignore[attr-defined]


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    Client.made = []
    monkeypatch.setattr(native_connection, "Consumer", Client)
    yield Worker(monkeypatch)


def test_a_consumer_that_cannot_be_returned_is_closed(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Client) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    monkeypatch.setattr(Client, "unassign", fail)
    with pytest.raises(KafkaException):
        worker.read("sink-1", "east")
    assert worker.open() == []


def test_sources_with_groups_of_their_own_keep_their_consumers(worker: Worker) -> None:
    for _ in range(20):
        worker.read("sink-1", "east", "group-1")
        worker.read("sink-2", "east", "group-2")

    assert [client.name for client in Client.made] == ["east/group-1", "east/group-2"]


def test_sources_of_other_clusters_keep_their_consumers(worker: Worker) -> None:
    for _ in range(20):
        worker.read("sink-1", "east")
        worker.read("sink-2", "west")

    assert len(Client.made) == 2


def test_sources_with_one_configuration_share_a_consumer(worker: Worker) -> None:
    for source in ("sink-1", "sink-2"):
        worker.read(source, "east")

    assert len(Client.made) == 1


def test_an_old_configuration_goes_with_its_last_source(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given two sources that share a consumer
    for source in ("sink-1", "sink-2"):
        worker.read(source, "east", "before")

    # When the secret is rotated, then the old consumer stays until both sources have the new one
    worker.read("sink-1", "east", "after")
    assert worker.open() == ["east/before", "east/after"]
    worker.read("sink-2", "east", "after")
    assert worker.open() == ["east/after"]

    # And the old one is closed
    monkeypatch.undo()
    wait_until(lambda: Client.made[0].closed, "the old consumer to be closed", timeout_s=10)


def test_a_removed_cluster_goes_with_its_last_source(worker: Worker) -> None:
    for source in ("sink-1", "sink-2"):
        worker.read(source, "west", active=("east",))

    worker.read("sink-1", "east")
    assert worker.open() == ["west/d", "east/d"]
    worker.read("sink-2", "east")
    assert worker.open() == ["east/d"]


def test_consumers_of_a_query_that_ended_are_closed(worker: Worker) -> None:
    worker.read("ended", "west")
    worker.now += IDLE_S / 2
    worker.read("running", "east")
    worker.now += IDLE_S / 2 + 1

    worker.read("running", "east")

    assert worker.open() == ["east/d"]


def test_the_least_recently_used_consumers_make_room(worker: Worker) -> None:
    clusters = [f"c{number}" for number in range(MAX_CONSUMERS)]
    for name in clusters:
        worker.read("sink", name, active=tuple(clusters))
    worker.read("sink", "c0", active=tuple(clusters))

    worker.read("other", "one-more")

    assert len(worker.cache) == MAX_CONSUMERS
    assert "c1/d" not in worker.open()
    assert {"c0/d", "c2/d", "one-more/d"} <= set(worker.open())
