"""A metadata service and a clock that tests control, and the discoveries of a test."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from typing import Any

import pytest

from dynamic_kafka.metadata import (
    ClusterMetadata,
    KafkaMetadataService,
    KafkaStream,
    MetadataDiscovery,
    Revision,
    StreamIdsSubscriber,
)
from dynamic_kafka.metadata.model import Rendering

PATIENCE_S = 20.0
"""How long a test waits for an event before it fails. Never reached when the code is right."""
INTERVAL_S = 10.0
"""The interval of a discovery, unless a test gives another."""

OPERATOR_REVISION = Revision("sha256:x", 16, "6f1c", Rendering("uid"))
"""The revision of a document that the operator has written."""


def cluster(*topics: str, servers: str = "e1:9092", **more: object) -> ClusterMetadata:
    """A cluster with `topics`; `more` are fields of `ClusterMetadata`."""
    properties = {"bootstrap.servers": servers, **more.pop("properties", {})}  # type: ignore[dict-item]
    return ClusterMetadata(topics=topics, properties=properties, **more)  # type: ignore[arg-type]


def stream(stream_id: str = "orders", **clusters: ClusterMetadata) -> KafkaStream:
    """A stream; with no clusters given it has one, `east`, with one topic of the stream's name."""
    return KafkaStream(stream_id, clusters or {"east": cluster(stream_id)})


class FakeClock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeService(KafkaMetadataService):
    """A service that answers with streams, raises, or hangs, as the test wants. It counts its lookups."""

    def __init__(self, *streams: KafkaStream) -> None:
        self.streams = {kafka_stream.stream_id: kafka_stream for kafka_stream in streams}
        self.error: BaseException | None = None
        self.next_revision: Revision | None = None
        self.is_changed = False
        self.closed = threading.Event()
        self.lookups = 0
        self.most_at_once = 0
        self.threads: set[int] = set()
        self._inside = 0
        self._gate = threading.Event()
        self._gate.set()
        self._condition = threading.Condition()

    def set(self, *streams: KafkaStream) -> None:
        self.streams = {kafka_stream.stream_id: kafka_stream for kafka_stream in streams}

    def hang(self) -> None:
        self._gate.clear()

    def release(self) -> None:
        self._gate.set()

    def await_lookups(self, count: int) -> bool:
        """Wait until so many lookups have begun."""
        with self._condition:
            return self._condition.wait_for(lambda: self.lookups >= count, PATIENCE_S)

    def get_all_streams(self) -> list[KafkaStream]:
        self._enter()
        return list(self.streams.values())

    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        self._enter()
        return {stream_id: self.streams[stream_id] for stream_id in stream_ids if stream_id in self.streams}

    @property
    def revision(self) -> Revision | None:
        return self.next_revision

    def changed(self) -> bool:
        return self.is_changed

    def close(self) -> None:
        self.closed.set()

    def _enter(self) -> None:
        with self._condition:
            self.lookups += 1
            self.threads.add(threading.get_ident())
            self._inside += 1
            self.most_at_once = max(self.most_at_once, self._inside)
            self._condition.notify_all()
        try:
            assert self._gate.wait(PATIENCE_S)
            if self.error is not None:
                raise self.error
        finally:
            with self._condition:
                self._inside -= 1


class Discoveries:
    """The discoveries of one test, stopped at its end. Their threads look at the fake clock every 5 ms."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self._made: list[MetadataDiscovery] = []

    def make(self, service: KafkaMetadataService, *ids: str, **settings: Any) -> MetadataDiscovery:
        subscriber = settings.pop("subscriber", None) or StreamIdsSubscriber(ids or ("orders",))
        settings = {
            "interval_s": INTERVAL_S,
            "failure_threshold": 1,
            "probe_interval_s": 0.005,
            "clock": self.clock,
            **settings,
        }
        discovery = MetadataDiscovery(service, subscriber, **settings)
        self._made.append(discovery)
        return discovery

    def start(self, service: KafkaMetadataService, *ids: str, **settings: Any) -> MetadataDiscovery:
        discovery = self.make(service, *ids, **settings)
        discovery.start()
        return discovery

    def stop(self) -> None:
        for discovery in self._made:
            discovery.stop()


def in_background(call: Any) -> tuple[threading.Thread, list[Any]]:
    """Run `call` in another thread. The list gets its result, or the exception that it raised."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings that were logged."""
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
