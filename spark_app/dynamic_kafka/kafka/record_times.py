"""The timestamps of single records. Tools; blocks the calling thread.

The record at a saved offset shows whether a log is still the one that the offset was saved of.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from dynamic_kafka.errors import ClusterUnreachableError
from dynamic_kafka.kafka.background import drop_in_background, quiet_logger
from dynamic_kafka.kafka.errors import HARMLESS_TO_READ, client_creation_error, translate
from dynamic_kafka.wording import first_few

POLL_S = 0.1


def record_times(
    cluster: str, config: Mapping[str, str], offsets: Mapping[tuple[str, int], int], deadline_s: float
) -> dict[tuple[str, int], int]:
    """Return the timestamp, in ms since the epoch, of the record at the given offset of each partition.

    A partition is absent if it has no record at its offset any more. A record without a timestamp has -1, as in rows.

    Args:
        config: a consumer's configuration.
        deadline_s: the longest duration in seconds, for all partitions together.

    Raises:
        ClusterError: a partition has no answer in time, or the cluster answers with an error.
    """
    try:
        consumer = Consumer({**config, "isolation.level": "read_uncommitted"}, logger=quiet_logger())
    except KafkaException as raised:
        raise client_creation_error(cluster, raised) from None
    times: dict[tuple[str, int], int] = {}
    waiting, until = set(offsets), time.monotonic() + deadline_s
    try:
        consumer.assign([TopicPartition(*key, offset) for key, offset in offsets.items()])
        while waiting:
            if time.monotonic() > until:
                late = first_few(f"{topic}[{partition}]" for topic, partition in sorted(waiting))
                raise ClusterUnreachableError(cluster, f"could not read a record of {late} in {deadline_s:g} s")
            message = consumer.poll(POLL_S)
            if message is None:
                continue
            key, error = (str(message.topic()), int(message.partition() or 0)), message.error()
            if error is None and key in waiting and message.offset() == offsets[key]:
                kind, at_ms = message.timestamp()
                times[key] = at_ms if kind else -1
            elif error is not None and error.code() in HARMLESS_TO_READ:
                continue
            elif error is not None and error.code() not in (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET):
                raise translate(cluster, f"read a record of {key[0]}[{key[1]}]", KafkaException(error))
            if key in waiting:
                waiting.discard(key)
                consumer.incremental_unassign([TopicPartition(*key)])
    except KafkaException as raised:
        raise translate(cluster, "read single records", raised) from None
    finally:
        drop_in_background([consumer], f"close-{cluster}")
    return times
