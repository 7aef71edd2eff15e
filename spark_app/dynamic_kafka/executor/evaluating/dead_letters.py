"""Write the records of a range that are refused, or late, to the dead-letter topic. Runs on executors.

The records are durable before the rows around them are emitted, so a batch that Spark commits has lost none. A repeated
task writes them again under the same keys, and compaction keeps one of each.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from dynamic_kafka.errors import ClusterError, DeadLetterError
from dynamic_kafka.executor.client_statistics import STATISTICS, ClientCounts
from dynamic_kafka.executor.read_task import DeadLetterTarget, ReadTask
from dynamic_kafka.executor.reading.rows import Record, Rows, UnreadableHeadersError
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

    def write(self, rows: Rows, refused: Mapping[int, str]) -> None:
        """Write some of the records, {index: cause}, and wait until the brokers have them.

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
            self._producer.deliver([dead_letter(_record(rows, at), cause, self._task) for at, cause in refused.items()])
        except ClusterError as error:
            # Without the code of the cluster's error: that would be taken for one of the cluster that is read.
            part, why = self._task.part, error.message
            raise DeadLetterError(
                f"cannot write {records} of {part} to dead letters {topic!r} on {cluster}, batch not committed: {why}"
            ) from None
        STATISTICS.add(self._task.part.split.cluster, ClientCounts(dead_letters=len(refused)))
        log.warning("%s of %s left out, now in topic %s", records, self._task.part, topic)

    def close(self) -> None:
        """Close the connection in the background."""
        if self._producer is not None:
            self._producer.close_in_background()


def dead_letter(record: Record, cause: str, task: ReadTask) -> NewRecord:
    """Return the dead letter of a record: its value, a key that names the record, and the reason in headers.

    The key has the topic's id, too: a re-created topic has other records at the same offsets.
    """
    split = task.part.split
    facts = {
        "cluster": split.cluster,
        "topic": split.topic,
        "partition": str(split.partition),
        "offset": str(record.offset),
        "cause": cause[:MAX_CAUSE],
        **({"tombstone": "true"} if record.value is None else {}),
        **({"topicId": task.topic_id} if task.topic_id is not None else {}),
        **({"timestamp": str(record.timestamp)} if record.timestamp != -1 else {}),
    }
    headers: list[tuple[str, bytes | None]] = [(name, text.encode()) for name, text in facts.items()]
    if record.key is not None:
        headers.append(("key", record.key))
    headers += [(ORIGINAL + name, content) for name, content in record.headers]
    identity = json.dumps([*split, record.offset, task.topic_id], separators=(",", ":"))
    return NewRecord(identity.encode(), record.value or b"", headers)


def _record(rows: Rows, at: int) -> Record:
    try:
        return rows.record(at)
    except UnreadableHeadersError:
        return rows.record(at, headers=False)
