"""The offset changelog: a compacted topic with the offset document of each query after its last committed batch.

Driver. The application writes a record after Spark has committed a batch, in a thread of its own that nothing waits
for. `restore-offsets` reads the records when a checkpoint is lost. Key: the query's id. Value, as JSON:

    {"version": 1, "application": "shop", "sink": "lake", "source": 0, "writtenMs": 1764000000000, "document": {…}}

The checkpoint remains the truth. A record that is lost or late makes the changelog older, and never reading slower.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from dynamic_kafka.app.internal_topics.home import Home
from dynamic_kafka.driver.status import REMIND_S
from dynamic_kafka.errors import ClusterUnreachableError, RecordTooLargeError
from dynamic_kafka.kafka.background import drop_in_background, quiet_logger
from dynamic_kafka.kafka.config import consumer_config
from dynamic_kafka.kafka.errors import HARMLESS_TO_READ, client_creation_error, translate
from dynamic_kafka.kafka.newest_value import NewestValue
from dynamic_kafka.kafka.topic_producer import NewRecord, TopicProducer
from dynamic_kafka.planning.document.codec import decode, encode
from dynamic_kafka.planning.document.progress import OffsetDocument

DELIVERY_S = 30.0
"""How long the delivery of one record may take, before the next document replaces it."""
CLOSE_S = 5.0
"""How long the end of the application waits for the last record."""
POLL_S = 0.2

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChangelogRecord:
    """One record of the changelog.

    Attributes:
        source: the place of the source of ours within the sink's query; a join of the stream with itself has two.
        written_ms: when, in milliseconds since the epoch.
    """

    application: str
    sink: str
    source: int
    written_ms: int
    document: OffsetDocument

    def key(self) -> str:
        """Return the key: a later record of the same query replaces this one."""
        return self.document.query

    def value(self) -> str:
        """Return the value as JSON."""
        content = {
            "version": 1,
            "application": self.application,
            "sink": self.sink,
            "source": self.source,
            "writtenMs": self.written_ms,
            "document": encode(self.document),
        }
        return json.dumps(content, separators=(",", ":"))

    @classmethod
    def parse(cls, value: bytes) -> ChangelogRecord:
        """Parse a value.

        Raises:
            ValueError: it has another form. OffsetDocumentError, a ValueError: its document is damaged or too new.
        """
        wire: Mapping[str, Any] = json.loads(value)
        if not isinstance(wire, dict) or wire.get("version") != 1:
            raise ValueError("it is no record of version 1")
        try:
            document = decode(wire["document"])
            numbers = int(wire["source"]), int(wire["writtenMs"])
            return cls(str(wire["application"]), str(wire["sink"]), *numbers, document)
        except (KeyError, TypeError) as error:
            raise ValueError(f"it is no record of the changelog: {error}") from None


class ChangelogWriter:
    """The records of one application. A thread of its own writes the newest one of each query.

    Args:
        topic: the changelog on the home cluster.
    """

    def __init__(self, home: Home, topic: str, application: str) -> None:
        self._home, self._topic, self._application = home, topic, application
        self._written: dict[str, int] = {}
        self._producer: TopicProducer | None = None
        self._failing = False
        self._unwritten: dict[str, float] = {}  # since when a query's newest document waits, by the monotonic clock
        self._warned_at: dict[str, float] = {}
        self._thread = NewestValue("offset-changelog", self._write, self._drop_producer, _newest)

    def put(self, sink: str, *documents: OffsetDocument) -> None:
        """Queue the documents of a batch that Spark has committed, one for each source. Returns at once.

        A document that is not newer than the one that was written last is skipped.
        """
        now_ms = time.time_ns() // 1_000_000
        for document in documents:
            if document.number > self._written.get(document.query, 0):
                self._unwritten.setdefault(document.query, time.monotonic())
        self._thread.put(
            {
                document.query: ChangelogRecord(self._application, sink, place, now_ms, document)
                for place, document in enumerate(documents)
            }
        )

    def unwritten_s(self) -> float:
        """Return the age in seconds of the oldest document that should be in the changelog and is not; 0 if none."""
        return max(0.0, time.monotonic() - min(self._unwritten.copy().values(), default=time.monotonic()))

    def flush(self, timeout_s: float) -> bool:
        """Wait until each queued record was written or given up. Return False when the time runs out.

        It does not wait while the cluster fails, and no longer than `CLOSE_S`: no stop is worth the wait for evidence.
        """
        return self._thread.flush(0.0 if self._failing else min(timeout_s, CLOSE_S))

    def close(self) -> None:
        """End the thread after its present record. Returns at once."""
        self._thread.close()

    def _write(self, records: Mapping[str, ChangelogRecord]) -> None:
        # One by one: the brokers refuse a batch as a whole, so a record that is too large would take others with it.
        for query, record in records.items():
            if self._written.get(query, 0) >= record.document.number:
                self._unwritten.pop(query, None)
                continue
            try:
                self._deliver(record)
            except RecordTooLargeError as error:
                self._warn(query, f"the offsets of sink {record.sink} are not in the changelog", error)
            except Exception as error:
                # The next call of `put`, even with the same documents, tries again.
                self._warn("", f"the offset changelog {self._topic} is not written", error)
                self._failing = True
                self._drop_producer()
                return
            else:
                self._written[query] = record.document.number
                self._unwritten.pop(query, None)
                self._warned_at.pop(query, None)
                if self._failing:
                    log.info("the offset changelog is written again")
                    self._warned_at.pop("", None)
                self._failing = False

    def _warn(self, what: str, text: str, error: Exception) -> None:
        """Log a failure that lasts, once every `REMIND_S`: nobody looks at the log when it begins."""
        now = time.monotonic()
        if now - self._warned_at.get(what, -REMIND_S) >= REMIND_S:
            self._warned_at[what] = now
            log.warning("%s; reading goes on, but `restore-offsets` would find older offsets: %s", text, error)

    def _deliver(self, record: ChangelogRecord) -> None:
        if self._producer is None:
            properties = self._home.client.resolved_properties()
            self._producer = TopicProducer(self._home.name, properties, self._topic, delivery_s=DELIVERY_S)
        self._producer.deliver([NewRecord(record.key().encode(), record.value().encode())])

    def _drop_producer(self) -> None:
        if self._producer is not None:
            self._producer.close_in_background()
        self._producer = None


def _newest(
    older: Mapping[str, ChangelogRecord], newer: Mapping[str, ChangelogRecord]
) -> Mapping[str, ChangelogRecord]:
    """Return the record with the newer document of each query: two threads may put records."""
    return {
        **older,
        **{q: r for q, r in newer.items() if q not in older or older[q].document.number < r.document.number},
    }


def read_changelog(home: Home, topic: str, *, deadline_s: float) -> Iterator[ChangelogRecord]:
    """Yield all records of the changelog, up to its end at the time of the call; later ones of a query replace others.

    Records of another form are logged and skipped.

    Raises:
        ClusterError: the cluster does not answer in time, or refuses.
    """
    config = consumer_config(home.name, home.client.resolved_properties())
    try:
        consumer = Consumer({**config, "auto.offset.reset": "earliest"}, logger=quiet_logger())
    except KafkaException as raised:
        raise client_creation_error(home.name, raised) from None
    until = time.monotonic() + deadline_s
    try:
        listed = consumer.list_topics(topic, timeout=deadline_s).topics[topic]
        if listed.error is not None:
            raise KafkaException(listed.error)
        bounds = {
            partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=deadline_s)
            for partition in listed.partitions
        }
        starts = {partition: start for partition, (start, end) in bounds.items() if start < end}
        consumer.assign([TopicPartition(topic, partition, start) for partition, start in starts.items()])
        unread, ends = set(starts), {partition: end for partition, (_, end) in bounds.items()}
        while unread:
            message = consumer.poll(POLL_S)
            if message is None:
                if time.monotonic() > until:
                    raise ClusterUnreachableError(home.name, f"the changelog {topic} was not read in {deadline_s:g} s")
                continue
            yield from _parsed(message, unread, ends)
    except KafkaException as raised:
        raise translate(home.name, f"read the changelog {topic!r}", raised) from None
    finally:
        drop_in_background([consumer], "changelog-reader")


def _parsed(message: Message, unread: set[int], ends: Mapping[int, int]) -> Iterator[ChangelogRecord]:
    """Yield the record of a message, if it is one, and mark a partition as read at its end."""
    error = message.error()
    # A notice about the cluster, such as one about the consumer's group, which is not used, has no partition.
    partition, offset = message.partition() or 0, message.offset() or 0
    if error is not None:
        if error.code() == KafkaError._PARTITION_EOF:
            unread.discard(partition)
        elif error.code() not in HARMLESS_TO_READ:
            raise KafkaException(error)
        return
    if offset + 1 >= ends[partition]:
        unread.discard(partition)
    value = message.value()
    if value is None:  # someone deleted a query's record
        return
    try:
        yield ChangelogRecord.parse(value if isinstance(value, bytes) else str(value).encode())
    except ValueError as damage:
        log.warning("record %d of partition %d of the changelog is skipped: %s", offset, partition, damage)
