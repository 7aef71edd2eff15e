"""Records of one split as a reader has taken them: rows for Spark, and single records for the user's code.

Runs on executors. A reader implements `Rows`; nothing else has to know the form in which it keeps records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from dynamic_kafka.errors import OptionError
from dynamic_kafka.planning.splits import Split

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One record as Kafka has it: what a record evaluator gets without a deserialiser, and what a deserialiser gets.

    Attributes:
        value: with `value.format` a dictionary of the schema's fields, else bytes.
        timestamp: milliseconds since the epoch; -1 if the record has none.
        cluster: the user's id of the cluster.
        stream: the id of the stream.
        headers: (key, value) of each header, in their order.
    """

    key: bytes | None
    value: Any
    topic: str
    partition: int
    offset: int
    timestamp: int
    cluster: str
    stream: str
    headers: Headers = ()


def time_problem(rows: Rows, at: int) -> str:
    """Return why the timestamp of a record cannot be shown."""
    milliseconds = rows.record(at, headers=False).timestamp
    return f"its timestamp, {milliseconds} ms since 1970, exceeds what Spark can hold (64 bits of microseconds)"


def time_error(rows: Rows, at: int, split: Split) -> OptionError:
    """Return the error about a record whose timestamp cannot be shown."""
    offset, problem = rows.offset(at), time_problem(rows, at)
    return OptionError(
        f"cannot show the record at offset {offset} of {split}: {problem}; take 'timestamp' out of 'columns'"
    )


class UnreadableHeadersError(Exception):
    """The key of a header is not UTF-8, so that no Python text can hold it."""


class Rows(Protocol):
    """Records of one split, in their order. There is at least one."""

    def __len__(self) -> int:
        """Return the number of records."""
        ...

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return them as one batch of rows of the source's schema.

        Raises:
            OptionError: the schema has headers, and a header's key is not UTF-8.
        """
        ...

    def offset(self, at: int) -> int:
        """Return the offset of the record at an index."""
        ...

    def has_value(self, at: int) -> bool:
        """Return whether the record at an index has a value, which may be empty."""
        ...

    def record(self, at: int, *, headers: bool = True) -> Record:
        """Return the record at an index, with its headers or without any.

        Raises:
            UnreadableHeadersError: the key of a header is not UTF-8.
        """
        ...
