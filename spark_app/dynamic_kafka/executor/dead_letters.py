"""Write the records of a range that the deserialiser refuses to the dead-letter topic. Runs on executors.

The records are durable before the rows around them are emitted, so a batch that Spark commits has lost none. A repeated
task writes them again under the same keys, and compaction keeps one of each.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from confluent_kafka import Message

from dynamic_kafka.errors import ClusterError, DeadLetterError
from dynamic_kafka.executor.read_task import DeadLetterTarget, ReadTask
from dynamic_kafka.kafka.topic_producer import NewRecord, TopicProducer
from dynamic_kafka.wording import counted

MAX_CAUSE = 2000
"""Characters of the cause that are kept."""
ORIGINAL = "header."
"""The prefix of the record's own headers."""

log = logging.getLogger(__name__)


class DeadLetters:
    """The dead letters of one range. The connection is made for the first one."""

    def __init__(self, task: ReadTask, target: DeadLetterTarget) -> None:
        self._task, self._target = task, target
        self._producer: TopicProducer | None = None

    def write(self, refused: Sequence[tuple[Message, str]]) -> None:
        """Write records, each with its cause, and wait until the brokers have them.

        Raises:
            DeadLetterError: they cannot be written.
            MissingInternalTopicError: the topic is missing.
            IdentityError: another cluster answers than the one with the topic.
            SecretError, OptionError: as `ClusterClient.resolved_properties`.
        """
        topic, cluster, records = self._target.topic, self._target.client.cluster, counted(len(refused), "record")
        try:
            if self._producer is None:
                properties = self._target.client.resolved_properties()
                self._producer = TopicProducer(cluster, properties, topic, delivery_s=self._task.read_timeout_s)
                self._producer.check_topic(self._target.kafka_id)
            self._producer.deliver([dead_letter(message, cause, self._task) for message, cause in refused])
        except ClusterError as error:
            # Without the code of the cluster's error: that would be taken for one of the cluster that is read.
            raise DeadLetterError(
                f"{records} of {self._task.part} that recordDeserializer refuses cannot be written to the dead-letter"
                f" topic {topic!r} on {cluster}, so the batch is not committed: {error.message}"
            ) from None
        log.warning("recordDeserializer refuses %s of %s, now in topic %s", records, self._task.part, topic)

    def close(self) -> None:
        """Close the connection in the background."""
        if self._producer is not None:
            self._producer.close_in_background()


def dead_letter(message: Message, cause: str, task: ReadTask) -> NewRecord:
    """Return the dead letter of a record: its value, a key that names the record, and the reason in headers.

    The key has the topic's id, too: a re-created topic has other records at the same offsets.
    """
    split, offset = task.part.split, message.offset()
    key, value, stamp = message.key(), message.value(), message.timestamp()
    facts = {
        "cluster": split.cluster,
        "topic": split.topic,
        "partition": str(split.partition),
        "offset": str(offset),
        "cause": cause[:MAX_CAUSE],
        **({"topicId": task.topic_id} if task.topic_id is not None else {}),
        **({"timestamp": str(stamp[1])} if stamp[0] else {}),
    }
    headers: list[tuple[str, bytes | None]] = [(name, text.encode()) for name, text in facts.items()]
    if key is not None:
        headers.append(("key", _bytes(key)))
    try:
        own: list[tuple[str, bytes | None]] = message.headers() or []  # type: ignore[assignment]  # a wider stub
    except (SystemError, UnicodeDecodeError):  # a header's key is not UTF-8; see `columns`
        own = []
    headers += [(ORIGINAL + name, content) for name, content in own]
    identity = json.dumps([*split, offset, task.topic_id], separators=(",", ":"))
    return NewRecord(identity.encode(), _bytes(value or b""), headers)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()
