"""A cache of connections, one Kafka consumer for each cluster and set of resolved properties. Runs on executors.

Spark keeps Python workers between tasks, so this module-level cache outlives a task. The key contains a digest of the
resolved properties: a rotated Secret leads to a new consumer, and a background thread closes the old one. A worker runs
one task at a time, but a task may hold several generators. The cache never lends a consumer that is in use.

A worker may serve several sources, such as two sinks with a consumer group each. A consumer stays as long as one of
them plans with its cluster and configuration.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from dynamic_kafka.executor.client_statistics import STATISTICS, ClientCounts
from dynamic_kafka.executor.reading.connection import Connection
from dynamic_kafka.executor.reading.native_connection import connect
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.background import quiet_logger
from dynamic_kafka.kafka.errors import ConnectionProblem, client_creation_error

IDLE_S = 300.0
"""Seconds after which an unused consumer is closed, and a source without tasks is forgotten: its query may be over."""
MAX_CONSUMERS = 64
"""Number of consumers above which the least recently used ones are closed: each has a thread per broker."""

log = logging.getLogger(__name__)


@dataclass
class CachedConsumer:
    """A connection, with what is known about its cluster.

    Attributes:
        used: whether it has read a range.
        used_at: the time, of `time.monotonic`, at which the last range was done.
        identified_at: the time at which the brokers last confirmed their `cluster.id`, for each topic asked about.
        admin: an admin client with the same properties, made when it is first needed (`topic_identity`).
        topic_ids: the last answer about each topic: its id, or None without one, and the time of the question.
    """

    cluster: str
    connection: Connection
    used: bool = False
    used_at: float = field(default_factory=time.monotonic)
    identified_at: dict[str, float] = field(default_factory=dict)
    in_use: bool = False
    admin: ClusterAdmin | None = None
    topic_ids: dict[str, tuple[str | None, float]] = field(default_factory=dict)

    def close_admin(self) -> None:
        """Drop the admin client in a background thread; the next use makes a new one."""
        if self.admin is not None:
            self.admin.close_in_background()
            self.admin = None

    def close_in_background(self) -> None:
        """Close the clients in background threads."""
        self.connection.close_in_background()
        self.close_admin()


@dataclass
class _Needs:
    """The configuration of each cluster that one source used last, by digest, and the time of its last range."""

    digests: dict[str, str] = field(default_factory=dict)
    used_at: float = 0.0


class ConsumerCache:
    """All consumers of this process."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, str], CachedConsumer] = {}
        self._needs: dict[str, _Needs] = {}
        self._lock = threading.Lock()

    @contextmanager
    def lend(
        self,
        cluster: str,
        digest: str,
        make_config: Callable[[], Mapping[str, Any]],
        source: str,
        active: frozenset[str],
    ) -> Iterator[CachedConsumer]:
        """Lend a consumer for one range.

        After an error the consumer is not used again: its connections are in an unknown state.

        Args:
            digest: digest of the resolved configuration; kept in memory only.
            make_config: returns the resolved configuration; called only when a consumer has to be made.
            source: identifies the source whose range it is.
            active: clusters that this source's plan names. It needs no consumer of another cluster, nor of another
                configuration of this one: those that no other source needs are closed.
        """
        key = (cluster, digest)
        with self._lock:
            known = self._needs.get(source, _Needs()).digests
            kept = {name: used for name, used in known.items() if name in active}
            self._needs[source] = _Needs({**kept, cluster: digest}, time.monotonic())
            self._evict(key)
            cached = self._by_key.get(key)
            if cached is not None and cached.in_use:
                cached = None
                key = (cluster, f"{digest}/{threading.get_ident()}/{time.monotonic_ns()}")
        if cached is None:
            cached = _make(cluster, make_config())
        with self._lock:
            self._by_key[key] = cached
            cached.in_use = True
        try:
            yield cached
            cached.connection.unassign()
        except BaseException:
            with self._lock:
                self._by_key.pop(key, None)
            cached.close_in_background()
            raise
        else:
            with self._lock:
                cached.in_use, cached.used = False, True
                cached.used_at = time.monotonic()
                if key[1] != digest:
                    del self._by_key[key]
                    cached.close_in_background()

    def close(self) -> None:
        """Close every consumer that is not in use, in background threads."""
        with self._lock:
            self._needs.clear()
            self._evict(None)

    def __len__(self) -> int:
        return len(self._by_key)

    def _evict(self, wanted: tuple[str, str] | None) -> None:
        """Close the consumers that no source needs, that are idle too long, or that are too many."""
        now = time.monotonic()
        self._needs = {source: need for source, need in self._needs.items() if now - need.used_at <= IDLE_S}
        needed = {key for need in self._needs.values() for key in need.digests.items()}
        unused = [key for key, cached in self._by_key.items() if not cached.in_use and key != wanted]
        surplus = len(self._by_key) + (wanted not in self._by_key) - MAX_CONSUMERS
        for number, key in enumerate(sorted(unused, key=lambda key: self._by_key[key].used_at)):
            if number < surplus or key not in needed or now - self._by_key[key].used_at > IDLE_S:
                self._by_key.pop(key).close_in_background()


def _make(cluster: str, config: Mapping[str, Any]) -> CachedConsumer:
    problems: list[ConnectionProblem] = []

    def on_error(error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            problems[:] = [ConnectionProblem.of(error)]
            STATISTICS.add(cluster, ClientCounts(errors=1))

    log.debug("opening a consumer of cluster %s", cluster)
    try:
        callbacks = {"error_cb": on_error, "stats_cb": STATISTICS.callback(cluster)}
        connection = connect(cluster, {**config, **callbacks}, problems, logger=quiet_logger())
    except KafkaException as raised:
        raise client_creation_error(cluster, raised) from None
    return CachedConsumer(cluster, connection)


CONSUMERS = ConsumerCache()
"""The cache of this process."""
