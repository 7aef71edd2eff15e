"""The client for the offsets of one consumer group on one cluster. Runs on the driver and blocks the calling thread.

It uses a consumer that never joins its group instead of the admin client. Librdkafka's admin calls for offsets end the
process with a segmentation fault when a broker is not the group's coordinator (librdkafka issue 5040; still in 2.16).
That answer is usual in a new cluster and whenever a coordinator moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from dynamic_kafka.errors import ClusterError, ClusterUnreachableError
from dynamic_kafka.kafka.background import drop_in_background, quiet_logger
from dynamic_kafka.kafka.errors import client_creation_error, translate
from dynamic_kafka.kafka.retries import retry_while_transient

Commits = Mapping[tuple[str, int], tuple[int, str]]
"""{(topic, partition): (offset, metadata)}."""

POLL_S = 0.02
REFUSAL_S = 2.0
"""Seconds without an answer after which the client asks whether the cluster refuses the group."""
_TIMEOUT_MS = range(10, 300_001)
"""The range of librdkafka's `socket.timeout.ms`. A deadline may be outside it."""


class GroupClient:
    """A client for the offsets of one group.

    Args:
        config: resolved librdkafka properties of an admin client.
        deadline_s: the longest duration of one call in seconds.

    Raises:
        ClusterRefusedError: no client can be made with this configuration.
    """

    def __init__(self, cluster: str, group: str, config: Mapping[str, Any], *, deadline_s: float) -> None:
        self._cluster, self._group, self._deadline_s = cluster, group, deadline_s
        self._answers: list[tuple[KafkaError | None, list[TopicPartition]]] = []
        self._refusal: KafkaError | None = None
        settings: dict[str, Any] = {
            **config,
            "group.id": group,
            "enable.auto.commit": False,
            "on_commit": self._on_commit,
            "socket.timeout.ms": min(max(int(deadline_s * 1000), _TIMEOUT_MS[0]), _TIMEOUT_MS[-1]),
        }
        try:
            self._consumer: Consumer | None = Consumer(settings, logger=quiet_logger())
        except KafkaException as raised:
            raise client_creation_error(cluster, raised) from None

    def committed(self, partitions: Iterable[tuple[str, int]]) -> Commits:
        """Return the commits of the group; partitions without a commit are absent. Raises ClusterError."""
        asked = [TopicPartition(*key) for key in partitions]
        if not asked:
            return {}
        commits = self._ask(
            f"list the offsets of group {self._group!r}", lambda client, left_s: self._committed(client, asked, left_s)
        )
        return {
            (f.topic, f.partition): (f.offset, f.metadata or "") for f in commits if f.error is None and f.offset >= 0
        }

    def commit(self, offsets: Mapping[tuple[str, int], int], metadata: str) -> None:
        """Commit offsets, with a metadata text of at most 4 KiB. Raises ClusterError."""
        asked = [TopicPartition(topic, p, offset, metadata) for (topic, p), offset in offsets.items()]
        action = f"commit offsets to group {self._group!r}"
        results = self._ask(action, lambda client, left_s: self._commit(client, asked, left_s))
        failed = [result for result in results if result.error is not None]
        if failed:
            raise ClusterError(self._cluster, f"could not {action}: {failed[0].error}")

    def _committed(self, client: Consumer, asked: list[TopicPartition], left_s: float) -> list[TopicPartition]:
        """Ask twice: without a right to the group, the client looks for the coordinator until the time is over."""
        try:
            commits = client.committed(asked, timeout=min(left_s, REFUSAL_S))
        except KafkaException as raised:
            self._raise_refusal(client)
            if raised.args[0].code() != KafkaError._TIMED_OUT or left_s <= REFUSAL_S:
                raise
            commits = client.committed(asked, timeout=left_s - REFUSAL_S)
        self._refusal = None
        return commits

    def _raise_refusal(self, client: Consumer) -> None:
        """Raise the refusal of the group, if there is one. The client reports it once, as a message."""
        while (message := client.poll(0)) is not None:
            error = message.error()
            if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                self._refusal = error
        if self._refusal is not None:
            raise KafkaException(self._refusal)

    def _commit(self, client: Consumer, asked: list[TopicPartition], left_s: float) -> list[TopicPartition]:
        # A synchronous commit has no deadline: with a hung broker it never returns.
        client.commit(offsets=asked, asynchronous=True)
        deadline = time.monotonic() + left_s
        wanted = {(partition.topic, partition.partition, partition.offset) for partition in asked}
        while time.monotonic() < deadline:
            client.poll(min(POLL_S, max(0.0, deadline - time.monotonic())))
            for error, results in self._answers:
                # Skip late answers to earlier commits that missed their deadline.
                if {(result.topic, result.partition, result.offset) for result in results} == wanted:
                    self._answers.clear()
                    if error is not None:
                        raise KafkaException(error)
                    return results
        raise ClusterUnreachableError(
            self._cluster, f"no answer to a commit to group {self._group!r} within {left_s:.0f} s"
        )

    def _on_commit(self, error: KafkaError | None, results: list[TopicPartition]) -> None:
        self._answers.append((error, results))

    def close_in_background(self) -> None:
        """Drop the client in a background thread, because a hung cluster may delay its destruction."""
        consumer, self._consumer = self._consumer, None
        drop_in_background([consumer], f"close-{self._cluster}")

    def _ask(self, action: str, ask: Callable[[Consumer, float], list[TopicPartition]]) -> list[TopicPartition]:
        assert self._consumer is not None
        try:
            return retry_while_transient(partial(ask, self._consumer), self._deadline_s)
        except KafkaException as raised:
            raise translate(self._cluster, action, raised) from None
