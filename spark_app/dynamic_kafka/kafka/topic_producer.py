"""A producer that waits until the brokers have its records: for the offset changelog, and for dead letters.

Runs on driver and executors; blocks the calling thread.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Producer

from dynamic_kafka.errors import ClusterError, IdentityError, MissingInternalTopicError, RecordTooLargeError
from dynamic_kafka.kafka.background import drop_in_background, quiet_logger
from dynamic_kafka.kafka.config import producer_config
from dynamic_kafka.kafka.errors import (
    TRANSIENT,
    UNKNOWN,
    ConnectionProblem,
    client_creation_error,
    kafka_error_of,
    translate,
)
from dynamic_kafka.wording import tool_command

POLL_S = 0.2
LATE_S = 5.0
"""How much later than its deadline librdkafka may report that a record was not delivered."""


@dataclass(frozen=True)
class NewRecord:
    """A record to write."""

    key: bytes
    value: bytes
    headers: Sequence[tuple[str, bytes | None]] = ()


class TopicProducer:
    """A producer for one topic, which it never creates.

    Args:
        properties: resolved client properties.
        delivery_s: seconds that the delivery of one record may take.

    Raises:
        ClusterRefusedError: no client can be made of these properties.
    """

    def __init__(self, cluster: str, properties: Mapping[str, str], topic: str, *, delivery_s: float) -> None:
        self._cluster, self._topic, self._delivery_s = cluster, topic, delivery_s
        self._problem: ConnectionProblem | None = None
        config = {
            **producer_config(cluster, properties),
            "delivery.timeout.ms": int(delivery_s * 1000),
            "error_cb": self._on_error,
        }
        try:
            self._producer: Producer | None = Producer(config, logger=quiet_logger())
        except KafkaException as raised:
            raise client_creation_error(cluster, raised) from None

    def check_topic(self, kafka_id: str | None) -> None:
        """Check that the topic is there, and on the right cluster.

        Args:
            kafka_id: the `cluster.id` that the brokers must report; None if any will do.

        Raises:
            IdentityError: another cluster answers.
            MissingInternalTopicError: the cluster has no such topic.
            ClusterError: the cluster does not answer in time.
        """
        assert self._producer is not None
        try:
            listed = self._producer.list_topics(self._topic, timeout=self._delivery_s)
            error = listed.topics[self._topic].error
            if error is not None and error.code() not in UNKNOWN | TRANSIENT:
                raise KafkaException(error)
        except KafkaException as raised:
            raise self._translated(raised) from None
        if kafka_id is not None and listed.cluster_id not in (None, kafka_id):
            home, topic, answered = self._cluster, self._topic, listed.cluster_id
            raise IdentityError(
                f"{home} has cluster.id {answered}; the topic {topic!r} was set up on {kafka_id}: correct the servers"
            )
        if error is not None and error.code() in UNKNOWN:
            raise MissingInternalTopicError(
                f"the topic {self._topic!r} is missing on {self._cluster}. To make it: {tool_command('init')}"
            )

    def deliver(self, records: Sequence[NewRecord]) -> None:
        """Write records, and wait until the brokers have all of them. After an error, they may have some of them.

        Raises:
            ClusterError: a record was refused, or not confirmed in time. The producer is of no further use.
        """
        assert self._producer is not None
        results: list[KafkaError | None] = []
        try:
            for record in records:
                self._producer.produce(
                    self._topic,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    on_delivery=lambda error, _: results.append(error),
                )
            until = time.monotonic() + self._delivery_s + LATE_S
            while len(results) < len(records) and time.monotonic() < until:
                self._producer.poll(POLL_S)
            failed = next((error for error in results if error is not None), None)
            if failed is not None:
                raise KafkaException(failed)
            if len(results) < len(records):
                raise TimeoutError("no answer in time")
        except (KafkaException, BufferError, TimeoutError) as raised:
            raise self._translated(raised) from None

    def close_in_background(self) -> None:
        """Drop the client, and what it has not delivered, in a background thread."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            drop_in_background([producer], f"close-{self._cluster}")

    def _translated(self, raised: Exception) -> ClusterError:
        error, action = kafka_error_of(raised), f"write to topic {self._topic!r}"
        if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return ClusterError(self._cluster, f"could not {action}: {error.str()}: give the user WRITE on the topic")
        if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return RecordTooLargeError(
                self._cluster,
                f"could not {action}: the record is too large: raise the topic's `max.message.bytes`, also in app.yaml",
            )
        return translate(self._cluster, action, raised, self._problem)

    def _on_error(self, error: KafkaError) -> None:
        # The cause comes first, then that no broker is left.
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self._problem is None:
            self._problem = ConnectionProblem.of(error)
