"""The dead letters of a topic, as a consumer finds them before and after compaction."""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.kafka.cluster import KafkaCluster

DEADLINE_S = 60.0


class Letter(NamedTuple):
    """One dead letter: the record that it names, its value, and the cause without the place in the code."""

    cluster: str
    topic: str
    partition: int
    offset: int
    value: str
    cause: str


def dead_letters(at: KafkaCluster, topic: str) -> list[Letter]:
    """Return all dead letters of a topic with one partition, also repeated ones that are not compacted yet."""
    consumer = Consumer({"bootstrap.servers": at.bootstrap, "group.id": "dead-letters", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    letters: list[Letter] = []
    deadline, at_end = time.monotonic() + DEADLINE_S, False
    try:
        while not at_end:
            assert time.monotonic() < deadline, f"{len(letters)} dead letters arrived, and not the end of the topic"
            message = consumer.poll(1.0)
            error = message.error() if message is not None else None
            at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            if message is not None and error is None:
                letters.append(_letter(message))
    finally:
        consumer.close()
    return letters


def _letter(message: Any) -> Letter:
    headers = {name: value.decode() for name, value in message.headers()}
    cluster, topic, partition, offset, topic_id = json.loads(message.key())
    named = (headers["cluster"], headers["topic"], int(headers["partition"]), int(headers["offset"]))
    assert named == (cluster, topic, partition, offset) and headers["topicId"] == topic_id
    return Letter(*named, message.value().decode(), headers["cause"].partition(" (")[0])
