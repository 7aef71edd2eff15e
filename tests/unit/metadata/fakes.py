"""A metadata service, and a clock, that do as a test tells them."""

from __future__ import annotations

import threading
from collections.abc import Collection

from dynamic_kafka.metadata import ClusterMetadata, KafkaMetadataService, KafkaStream, Revision

PATIENCE_S = 20.0
"""How long a test waits for an event before it fails. Never reached when the code is right."""


def cluster(*topics: str, servers: str = "e1:9092", **more: object) -> ClusterMetadata:
    """A cluster with `topics`; `more` are fields of `ClusterMetadata`."""
    properties = {"bootstrap.servers": servers, **more.pop("properties", {})}  # type: ignore[dict-item]
    return ClusterMetadata(topics=topics, properties=properties, **more)  # type: ignore[arg-type]


def stream(stream_id: str = "orders", **clusters: ClusterMetadata) -> KafkaStream:
    """A stream; with no clusters given it has one, `east`, with one topic of the stream's name."""
    return KafkaStream(stream_id, clusters or {"east": cluster(stream_id)})


class FakeClock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeService(KafkaMetadataService):
    """Answers with streams, raises, or hangs, on command; records who called when."""

    def __init__(self, *streams: KafkaStream) -> None:
        self.streams = {each.stream_id: each for each in streams}
        self.error: BaseException | None = None
        self.edition: Revision | None = None
        self.dirty = False
        self.closed = threading.Event()
        self.lookups = 0
        self.most_at_once = 0
        self._inside = 0
        self._gate = threading.Event()
        self._gate.set()
        self._told = threading.Condition()

    def set(self, *streams: KafkaStream) -> None:
        self.streams = {each.stream_id: each for each in streams}

    def hang(self) -> None:
        self._gate.clear()

    def release(self) -> None:
        self._gate.set()

    def await_lookups(self, count: int) -> bool:
        """Wait until so many look-ups have begun."""
        with self._told:
            return self._told.wait_for(lambda: self.lookups >= count, PATIENCE_S)

    def get_all_streams(self) -> list[KafkaStream]:
        self._enter()
        return list(self.streams.values())

    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        self._enter()
        return {each: self.streams[each] for each in stream_ids if each in self.streams}

    @property
    def revision(self) -> Revision | None:
        return self.edition

    def changed(self) -> bool:
        return self.dirty

    def close(self) -> None:
        self.closed.set()

    def _enter(self) -> None:
        with self._told:
            self.lookups += 1
            self._inside += 1
            self.most_at_once = max(self.most_at_once, self._inside)
            self._told.notify_all()
        try:
            assert self._gate.wait(PATIENCE_S)
            if self.error is not None:
                raise self.error
        finally:
            with self._told:
                self._inside -= 1
