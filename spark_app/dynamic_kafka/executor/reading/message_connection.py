"""The reader in Python: confluent's `Consumer` as a connection, and its messages as rows. Runs on executors.

`consumer_cache` makes the connections. Building column by column costs half the time of one tuple per record.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import methodcaller
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition

from dynamic_kafka.errors import OptionError
from dynamic_kafka.executor.reading.columns import SIZE, arrow_schema, shown_times, sizes
from dynamic_kafka.executor.reading.connection import Fetched, Notice, Wanted
from dynamic_kafka.executor.reading.rows import Headers, Record, UnreadableHeadersError
from dynamic_kafka.kafka.background import drop_in_background
from dynamic_kafka.kafka.errors import ConnectionProblem
from dynamic_kafka.planning.splits import Split

_COLLECTOR = threading.Lock()
"""Held where the garbage collector of the process is off."""
_CLIENTS_HEADERS = methodcaller("headers")
"""The call checks for an error that is left set. A plain call that Python has optimised does not."""
_TIMES = {"timestamp", "timestampType"}


class ConsumerConnection:
    """Confluent's consumer without a way to fetch: assignments, and questions to the cluster.

    Attributes:
        problems: the last connection problem, or nothing; `error_cb` of the consumer replaces it.
    """

    def __init__(self, cluster: str, consumer: Consumer, problems: list[ConnectionProblem]) -> None:
        self.cluster, self.consumer, self.problems = cluster, consumer, problems

    def assign(self, split: Split, offset: int, epoch: int) -> None:
        """Begin to read at an offset."""
        self.consumer.assign([_start(split, offset, epoch)])

    def seek(self, split: Split, offset: int, epoch: int) -> None:
        """Read on at another offset."""
        self.consumer.seek(_start(split, offset, epoch))

    def unassign(self) -> None:
        """Stop reading: an assigned consumer would continue to fetch records that nobody reads."""
        self.consumer.unassign()

    def position(self, split: Split) -> int:
        """Return the consumer's own position."""
        [current] = self.consumer.position([TopicPartition(split.topic, split.partition)])
        return int(current.offset)

    def identify(self, topic: str, timeout_s: float) -> tuple[str | None, bool]:
        """Return the `cluster.id` that the brokers report, and whether they report any broker."""
        answer = self.consumer.list_topics(topic, timeout=timeout_s)
        return answer.cluster_id, bool(answer.brokers)

    def lists(self, split: Split, timeout_s: float) -> bool:
        """Return whether the cluster's own list has the partition, or an error about the topic."""
        listed = self.consumer.list_topics(timeout=timeout_s).topics.get(split.topic)
        return listed is not None and (listed.error is not None or split.partition in listed.partitions)

    def first_offset(self, split: Split, timeout_s: float) -> int:
        """Return the first offset that the log still holds."""
        partition = TopicPartition(split.topic, split.partition)
        low, _ = self.consumer.get_watermark_offsets(partition, timeout=timeout_s)
        return int(low)

    @property
    def problem(self) -> ConnectionProblem | None:
        """Return the last problem with a connection."""
        self.consumer.poll(0)  # calls error_cb, which calls that wait for an answer do not do
        return self.problems[-1] if self.problems else None

    def forget_problem(self) -> None:
        """Drop the problem."""
        self.problems.clear()

    def close_in_background(self) -> None:
        """Close the consumer in a background thread."""
        drop_in_background([self.consumer], f"close-{self.cluster}")


class MessageConnection(ConsumerConnection):
    """A connection that takes records as messages, one Python object for each."""

    def __init__(self, cluster: str, consumer: Consumer, problems: list[ConnectionProblem]) -> None:
        super().__init__(cluster, consumer, problems)
        self._arrived: list[Message] = []  # behind a notice
        self._taken: list[Message] = []
        self._size = 0
        self._unreadable: set[int] = set()

    def assign(self, split: Split, offset: int, epoch: int) -> None:
        """Begin to read at an offset. All records from there on arrive anew."""
        self._arrived = []
        super().assign(split, offset, epoch)

    def unassign(self) -> None:
        """Stop reading."""
        self._arrived, self._taken, self._size, self._unreadable = [], [], 0, set()
        super().unassign()

    def fetch(self, wanted: Wanted, timeout_s: float) -> Fetched:
        """Wait for one message, then add the records that have arrived already, up to the next notice."""
        messages, self._arrived = self._arrived or self._arriving(wanted, timeout_s), []
        position, end, last_epoch = wanted[:3]
        first: int | None = None
        notice: Notice | None = None
        accepted: list[Message] = []
        for at, message in enumerate(messages):
            error, offset = message.error(), message.offset() or 0
            if error is None and offset < position:
                continue  # fetched before a seek
            is_later = offset < end and last_epoch >= 0 and (message.leader_epoch() or 0) > last_epoch
            if error is not None or is_later:
                notice, self._arrived = Notice(offset, error), messages[at + 1 :]
                break
            if first is None:
                first = offset
            position = offset + 1
            if offset >= end:
                break  # all others are behind the range, too
            accepted.append(message)
        self._taken.extend(accepted)
        self._size += sum(self._bytes(message, wanted) for message in accepted)
        return Fetched(first, position, len(self._taken), self._size, notice)

    def take(self, split: Split, stream: str) -> MessageRows:
        """Return the records that fetches have added since the last call."""
        rows = MessageRows(self._taken, split, stream, self._unreadable)
        self._taken, self._size, self._unreadable = [], 0, set()
        return rows

    def skip(self, timeout_s: float) -> Notice | None:
        """Wait for one message and drop it."""
        message = self.consumer.poll(timeout_s)
        error = message.error() if message is not None else None
        return Notice(message.offset() or 0, error) if message is not None and error is not None else None

    def _arriving(self, wanted: Wanted, timeout_s: float) -> list[Message]:
        """Wait for one message, then return those that have arrived already.

        `consume(n)` with a timeout would wait for n messages, although the range may have fewer. Hence the wait is in
        `poll`, and `consume` never waits.
        """
        first = self.consumer.poll(timeout_s)
        if first is None:
            return []
        if first.error() is not None:
            return [first]
        # Large first messages lower the number at once, before the mean size is known.
        mean_size = max(wanted.mean_size, self._bytes(first, wanted))
        more = min(wanted.rows, wanted.end - wanted.position, int(wanted.size / mean_size) + 1) - 1
        return [first, *self.consumer.consume(more, 0)] if more > 0 else [first]

    def _bytes(self, message: Message, wanted: Wanted) -> int:
        """Return the bytes of a record; a message's own length is that of its value alone.

        Headers count where they are wanted. Those with a key that is not UTF-8 do not: the client cannot show them.
        """
        size = len(message) + len(message.key() or b"")
        if not wanted.headers:
            return size
        try:
            headers = _headers(message, self._unreadable)
        except UnreadableHeadersError:
            return size
        return size + sum(len(key.encode()) + len(value or b"") for key, value in headers)


class MessageRows:
    """Messages of one split as rows.

    Args:
        unreadable: offsets of records whose headers cannot be read again, since the client has reported that.
    """

    def __init__(self, messages: Sequence[Message], split: Split, stream: str, unreadable: Iterable[int] = ()) -> None:
        self._messages, self._split, self._stream = messages, split, stream
        self._unreadable = set(unreadable)

    def __len__(self) -> int:
        return len(self._messages)

    def offset(self, at: int) -> int:
        """Return the offset of the record at an index."""
        return self._messages[at].offset()  # type: ignore[return-value]  # None only in messages that are produced

    def has_value(self, at: int) -> bool:
        """Return whether the record at an index has a value."""
        return self._messages[at].value() is not None

    def record(self, at: int, *, headers: bool = True) -> Record:
        """Return the record at an index, with its headers or without any."""
        message, split = self._messages[at], self._split
        kind, stamp = message.timestamp()
        own = _headers(message, self._unreadable) if headers else ()
        return Record(
            message.key(),
            message.value(),
            split.topic,
            split.partition,
            self.offset(at),
            stamp if kind else -1,
            split.cluster,
            self._stream,
            own,
        )

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the messages as one batch of rows."""
        messages, split = self._messages, self._split
        columns = repeated_columns(schema, split, self._stream, len(messages))
        stamps = [message.timestamp() for message in messages] if _TIMES & set(schema.names) else []
        made: Mapping[str, Callable[[], list[Any]]] = {
            "key": lambda: [message.key() for message in messages],
            "value": lambda: [message.value() for message in messages],
            "offset": lambda: [message.offset() for message in messages],
            # librdkafka's types are 0 none, 1 create time, 2 append time. Kafka and Spark use -1, 0, 1.
            "timestampType": lambda: [kind - 1 for kind, _ in stamps],
            "headers": lambda: [self._shown_headers(at) for at in range(len(messages))],
        }
        has_size = SIZE in schema.names
        for field in arrow_schema({*schema.names, "key", "value"}) if has_size else schema:
            if field.name in made:
                columns[field.name] = pa.array(made[field.name](), field.type)
        if "timestamp" in schema.names:
            # For a record without a timestamp (type 0), Spark's source shows -1 ms.
            times = pa.array([ms if kind else -1 for kind, ms in stamps], pa.timestamp("ms", tz="UTC"))
            columns["timestamp"] = shown_times(times)
        if has_size:
            columns[SIZE] = sizes(columns["key"], columns["value"])
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _shown_headers(self, at: int) -> list[dict[str, object]] | None:
        try:
            headers = _headers(self._messages[at], self._unreadable)
            # Spark's source shows null for a record without headers, not an empty list.
            return [{"key": key, "value": value} for key, value in headers] or None
        except UnreadableHeadersError as error:
            raise unreadable_headers(self._split, self.offset(at)) from error


def _headers(message: Message, unreadable: set[int]) -> Headers:
    """Return the headers of a record.

    A key that is not UTF-8 leaves a hole in the client's list, which crashes the process when it is read. The client
    reports it once, by a Python error that it leaves set; a garbage collection within the call drops it.

    Args:
        unreadable: offsets of the records that the client has reported; a new one is added.
    """
    if message.offset() not in unreadable:
        with _COLLECTOR:
            is_enabled = gc.isenabled()
            gc.disable()
            try:
                return tuple(_CLIENTS_HEADERS(message) or ())
            except (SystemError, UnicodeDecodeError):
                unreadable.add(message.offset() or 0)
            finally:
                if is_enabled:
                    gc.enable()
    raise UnreadableHeadersError


def unreadable_headers(split: Split, offset: int | None) -> OptionError:
    """Return the error about a row whose headers cannot be shown."""
    return OptionError(
        f"a header key at offset {offset} of {split} is not UTF-8: read no headers (includeHeaders, 'columns')"
    )


def repeated_columns(schema: pa.Schema, split: Split, stream: str, count: int) -> dict[str, pa.Array]:
    """Return those columns of a schema whose rows are all alike, by name."""
    alike = {"topic": split.topic, "partition": split.partition, "kafka_cluster": split.cluster, "kafka_stream": stream}
    repeated_fields = [field for field in schema if field.name in alike]
    return {field.name: pa.repeat(pa.scalar(alike[field.name], field.type), count) for field in repeated_fields}


def _start(split: Split, offset: int, epoch: int) -> TopicPartition:
    if epoch < 0:
        return TopicPartition(split.topic, split.partition, offset)
    return TopicPartition(split.topic, split.partition, offset, "", epoch)
