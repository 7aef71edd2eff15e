"""The native reader: records go from librdkafka to Arrow without a Python object for each. Runs on executors.

The client is confluent's, so log-ins, identity, statistics and errors are those of the reader in Python. Only the
messages of the partition that is read take another way: the extension takes them from the partition's own queue.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError

from dynamic_kafka.errors import OptionError
from dynamic_kafka.executor.native import PLUGIN, Extension, load
from dynamic_kafka.executor.reading.columns import SIZE, shown_times, sizes
from dynamic_kafka.executor.reading.connection import Connection, Fetched, Notice, Wanted
from dynamic_kafka.executor.reading.message_connection import (
    ConsumerConnection,
    MessageConnection,
    repeated_columns,
    unreadable_headers,
)
from dynamic_kafka.executor.reading.rows import Headers, Record, UnreadableHeadersError
from dynamic_kafka.kafka.errors import ConnectionProblem
from dynamic_kafka.planning.splits import Split

CLIENT_ERROR = 1
"""The extension's number of a notice that has an error."""
BEHIND_ALL = 1 << 62
"""An offset that no log has: all records are before it."""

log = logging.getLogger(__name__)


class NativeConnection(ConsumerConnection):
    """A connection that takes records as columns.

    Args:
        client: the extension's view of the consumer's client.
    """

    def __init__(self, cluster: str, consumer: Consumer, problems: list[ConnectionProblem], client: Any) -> None:
        super().__init__(cluster, consumer, problems)
        self._client = client
        self._assigned = False

    def assign(self, split: Split, offset: int, epoch: int) -> None:
        """Begin to read at an offset. All records from there on arrive anew; those that were fetched can be taken."""
        if self._assigned:  # else an assignment that the client has not begun yet may get another queue
            self.consumer.unassign()
        self._assigned = True
        self._client.open(split.topic, split.partition)
        super().assign(split, offset, epoch)

    def unassign(self) -> None:
        """Stop reading."""
        super().unassign()
        self._client.close()
        self._assigned = False

    def fetch(self, wanted: Wanted, timeout_s: float) -> Fetched:
        """Wait for one message, then add the records that have arrived already, up to the next notice."""
        message = self.consumer.poll(0)  # calls error_cb and stats_cb; no record arrives here
        if message is not None:
            if message.error() is None:
                raise RuntimeError(
                    f"the record at offset {message.offset()} came by another way than the native reader's"
                )
            _, _, rows, size, *_ = self._client.fetch(*wanted._replace(rows=0), 0)
            return Fetched(None, wanted.position, rows, size, Notice(message.offset() or 0, message.error()))
        answer = self._client.fetch(*wanted, math.ceil(timeout_s * 1000))
        first, position, rows, size, kind, offset, code, text = answer
        notice = Notice(offset, KafkaError(code, text) if kind == CLIENT_ERROR else None) if kind else None
        return Fetched(first if first >= 0 else None, position, rows, size, notice)

    def take(self, split: Split, stream: str) -> ColumnRows:
        """Return the records that fetches have added since the last call."""
        taken, unreadable = self._client.take()
        return ColumnRows(taken, unreadable, split, stream)

    def skip(self, timeout_s: float) -> Notice | None:
        """Wait for one message, and drop those that have arrived up to the next notice."""
        return self.fetch(Wanted(BEHIND_ALL, BEHIND_ALL + 1, -1, 1, 1, 1.0, headers=False), timeout_s).notice


class ColumnRows:
    """Records of one split as columns.

    Args:
        taken: the columns that differ between records, by Arrow's interface in C.
        unreadable: index of the first record with a header key that is not UTF-8; -1 without one.
    """

    def __init__(self, taken: Any, unreadable: int, split: Split, stream: str) -> None:
        self._columns: pa.RecordBatch = pa.record_batch(taken)
        self._unreadable, self._split, self._stream = unreadable, split, stream

    def __len__(self) -> int:
        return int(self._columns.num_rows)

    def offset(self, at: int) -> int:
        """Return the offset of the record at an index."""
        return int(self._columns.column("offset")[at].as_py())

    def has_value(self, at: int) -> bool:
        """Return whether the record at an index has a value."""
        return self._lists["value"][at] is not None

    @functools.cached_property
    def _lists(self) -> dict[str, list[Any]]:
        """The columns as Python objects, for the user's code."""
        timestamps = self._columns.column("timestamp").cast(pa.int64())
        columns = self._columns.set_column(3, "timestamp", timestamps)
        return {name: columns.column(name).to_pylist() for name in columns.schema.names}

    def record(self, at: int, *, headers: bool = True) -> Record:
        """Return the record at an index, with its headers or without any."""
        lists, split = self._lists, self._split
        has_stamp = lists["timestampType"][at] >= 0
        return Record(
            lists["key"][at],
            lists["value"][at],
            split.topic,
            split.partition,
            lists["offset"][at],
            lists["timestamp"][at] if has_stamp else -1,
            split.cluster,
            self._stream,
            self._headers(at) if headers else (),
        )

    def _headers(self, at: int) -> Headers:
        headers: Sequence[dict[str, Any]] = self._lists["headers"][at] or ()
        try:
            return tuple((_text(header["key"]), header["value"]) for header in headers)
        except UnicodeDecodeError as error:
            raise UnreadableHeadersError from error

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the records as one batch of rows."""
        if self._unreadable >= 0 and "headers" in schema.names:
            raise unreadable_headers(self._split, self.offset(self._unreadable))
        columns = repeated_columns(schema, self._split, self._stream, len(self))
        if "timestamp" in schema.names:
            columns["timestamp"] = shown_times(self._columns.column("timestamp"))
        if SIZE in schema.names:
            columns[SIZE] = sizes(self._columns.column("key"), self._columns.column("value"))
        arrays = [columns[name] if name in columns else self._columns.column(name) for name in schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _text(key: str | bytes) -> str:
    return key if isinstance(key, str) else key.decode()


def extension_for(reader: str) -> Extension | None:
    """Return the extension, or None if the option `reader` or this installation wants the reader in Python.

    Raises:
        OptionError: the option wants the native reader, and this process cannot use it.
    """
    extension = load() if reader != "python" else ""
    if isinstance(extension, str):
        if reader == "native":
            raise OptionError(
                f"reader=native: {extension}. Install the wheel of this platform and confluent-kafka's; or reader=auto"
            )
        _log_once("reads in Python" + (f": {extension}" if extension else ", as the option 'reader' says"))
        return None
    _log_once("reads natively")
    return extension


def connect(cluster: str, config: dict[str, Any], problems: list[ConnectionProblem], **more: Any) -> Connection:
    """Return a new connection: native if the configuration names the extension as a plugin, else in Python."""
    extension = load() if PLUGIN in config else ""
    if isinstance(extension, str):
        return MessageConnection(cluster, Consumer(config, **more), problems)
    extension.forget()
    try:
        consumer = Consumer(config, **more)
        client = extension.claim()
    finally:
        extension.forget()
    if client is None:  # out of memory; the consumer works without the extension, too
        return MessageConnection(cluster, consumer, problems)
    return NativeConnection(cluster, consumer, problems, client)


@functools.cache
def _log_once(text: str) -> None:
    log.info("this process %s", text)
