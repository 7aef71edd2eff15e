"""Counts per cluster in this process: librdkafka's statistics, and dead letters. Runs on executors, for metrics only.

librdkafka emits the statistics of a client every `INTERVAL_MS`, and the client takes them when it is polled. Its bytes
are totals of the client, of which the growth counts; its round trips and throttling are those of one interval.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import astuple, dataclass
from typing import Any

INTERVAL_MS = 10_000
"""Milliseconds between the statistics of a client. Each takes some kilobytes until the client is polled again."""


@dataclass(frozen=True)
class ClientCounts:
    """The activity of the consumers of one cluster in some time.

    Attributes:
        received, sent: bytes on the wire, compressed and with the protocol's own.
        round_trips, round_trip_us: answered requests, and the sum of their round-trip times in microseconds.
        throttled_ms: the sum of the pauses that brokers have asked for.
        errors: connections that failed or broke.
        dead_letters: records of the cluster, refused or late, that were written to the dead-letter topic.
        dropped: malformed records of the cluster that `mode=dropmalformed` has left out.
        late: rows that were older than the stream's clock.
        native, python: ranges read by the native reader, and by the one in Python.
    """

    received: int = 0
    sent: int = 0
    round_trips: int = 0
    round_trip_us: int = 0
    throttled_ms: int = 0
    errors: int = 0
    dead_letters: int = 0
    dropped: int = 0
    late: int = 0
    native: int = 0
    python: int = 0

    def __add__(self, other: ClientCounts) -> ClientCounts:
        return ClientCounts(*map(sum, zip(astuple(self), astuple(other), strict=True)))


class ClientStatistics:
    """The counts of all clusters that this process has not reported yet. Any thread may call its methods."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, ClientCounts] = {}

    def add(self, cluster: str, counts: ClientCounts) -> None:
        """Add counts of a cluster."""
        with self._lock:
            self._counts[cluster] = self._counts.get(cluster, ClientCounts()) + counts

    def callback(self, cluster: str) -> Callable[[str], None]:
        """Return the `stats_cb` of a new consumer of the cluster."""
        received = sent = 0

        def on_statistics(text: str) -> None:
            nonlocal received, sent
            emitted = json.loads(text)
            before, (received, sent) = (received, sent), (emitted["rx_bytes"], emitted["tx_bytes"])
            brokers = emitted["brokers"].values()
            trips, microseconds = _window(brokers, "rtt")
            _, paused = _window(brokers, "throttle")
            counts = ClientCounts(received - before[0], sent - before[1], trips, microseconds, paused)
            if counts != ClientCounts():
                self.add(cluster, counts)

        return on_statistics

    def take(self) -> Mapping[str, ClientCounts]:
        """Return the counts since the last call."""
        with self._lock:
            taken, self._counts = self._counts, {}
        return taken


def _window(brokers: Collection[Mapping[str, Any]], name: str) -> tuple[int, int]:
    """Return the count and the sum of the values of one interval over all brokers."""
    windows = [broker[name] for broker in brokers]
    return sum(window["cnt"] for window in windows), sum(window["sum"] for window in windows)


STATISTICS = ClientStatistics()
"""The statistics of this process."""
