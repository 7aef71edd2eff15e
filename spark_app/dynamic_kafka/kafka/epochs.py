"""The ends of leader epochs, which show where a log was truncated. Driver and executors; blocks the calling thread.

A consumer asks for the end of an epoch when it is assigned an offset of that epoch. An admin client has no such call.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from dynamic_kafka.errors import ClusterUnreachableError
from dynamic_kafka.kafka.background import drop_in_background, quiet_logger
from dynamic_kafka.kafka.errors import HARMLESS_TO_READ, client_creation_error, translate
from dynamic_kafka.planning.questions import EpochCheck

POLL_S = 0.1
_END = re.compile(r"broker end offset is (\d+) ")
_SETTINGS: Mapping[str, Any] = {
    "group.id": "dynamic-kafka-epochs",  # a consumer needs one; it neither joins a group nor commits
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
    # Each offset up to the high watermark has an answer, also behind an open transaction.
    "isolation.level": "read_uncommitted",
}


def truncated_at(error: KafkaError) -> int | None:
    """Return the offset at which a log was truncated, if this error of a consumer reports that, else None."""
    match = _END.search(error.str())
    return int(match.group(1)) if match else None


def ends_of_epochs(
    cluster: str, config: Mapping[str, Any], checks: Mapping[tuple[str, int], EpochCheck], deadline_s: float
) -> dict[tuple[str, int], int]:
    """Return the end of the saved epoch, or of the last epoch before it, of each partition in which it is known.

    A partition has no end in the result if its log is the same up to `EpochCheck.end`, or if the broker does not know
    the epochs of its log.

    Args:
        config: resolved librdkafka properties of an admin client.
        checks: by (topic, partition).
        deadline_s: the longest duration in seconds, for all partitions together.

    Raises:
        ClusterError: a partition has no answer in time, or the cluster answers with another error.
    """
    try:
        consumer = Consumer({**config, **_SETTINGS}, logger=quiet_logger())
    except KafkaException as raised:
        raise client_creation_error(cluster, raised) from None
    ends: dict[tuple[str, int], int | None] = {}
    deadline = time.monotonic() + deadline_s
    try:
        # The client validates an offset with its epoch before it fetches. At the log's end there is nothing to fetch:
        # it reports a truncation, with the end of the epoch, or the end of the partition.
        consumer.assign([TopicPartition(*key, check.end, "", check.saved) for key, check in checks.items()])
        while len(ends) < len(checks):
            if time.monotonic() > deadline:
                waiting = next(f"{topic}[{partition}]" for topic, partition in checks if (topic, partition) not in ends)
                raise ClusterUnreachableError(cluster, f"could not ask {waiting} for the end of a leader epoch in time")
            message = consumer.poll(POLL_S)
            if message is None:
                continue
            key, error = (str(message.topic()), int(message.partition() or 0)), message.error()
            if key not in checks:
                continue
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                ends.setdefault(key, None)
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION):
                # Without a number, the broker does not know its log's epochs, which shows nothing.
                ends.setdefault(key, truncated_at(error))
            elif error.code() not in HARMLESS_TO_READ:
                raise translate(cluster, f"ask {key[0]}[{key[1]}] for the end of a leader epoch", KafkaException(error))
    finally:
        drop_in_background([consumer], f"close-{cluster}")
    return {key: end for key, end in ends.items() if end is not None}
