"""The connection of a reader to one cluster: what reading a range needs of a Kafka client.

Runs on executors. `range_reader` and the checks around it use a `Connection`, and no client. Topic ids come from an
admin client (`CachedConsumer.admin`), which every reader shares.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from confluent_kafka import KafkaError

from dynamic_kafka.executor.reading.rows import Rows
from dynamic_kafka.kafka.errors import ConnectionProblem
from dynamic_kafka.planning.splits import Split


class Wanted(NamedTuple):
    """The records that one fetch may take.

    Attributes:
        position, end: the offsets of the range that are still wanted.
        last_epoch: the last leader epoch of its records; -1 if any will do.
        rows, size: the room in the batch: records, and bytes of keys, values, and headers where these are wanted.
        mean_size: mean bytes of the records so far; a guess for the first batch.
        headers: whether headers are needed, for a column or for the user's code.
    """

    position: int
    end: int
    last_epoch: int
    rows: int
    size: int
    mean_size: float
    headers: bool


class Notice(NamedTuple):
    """A message of the client that is not a record of the range.

    Attributes:
        offset: of the record, or of the end of the partition; 0 without one.
        error: the error that the client reports; None for a record of a later leader epoch.
    """

    offset: int
    error: KafkaError | None


class Fetched(NamedTuple):
    """The outcome of one fetch.

    Attributes:
        first: offset of the first record at or behind the wanted position; None without one.
        position: the next offset.
        rows, size: the records that `take` would return now, and their bytes as `Wanted` counts them. The same for
            each reader, but for headers that cannot be shown: only the native one counts them.
        notice: the message behind these records; None if it is a record, or if there is none.
    """

    first: int | None
    position: int
    rows: int
    size: int
    notice: Notice | None


class Connection(Protocol):
    """A client of one cluster that reads one partition at a time. One thread uses it."""

    def assign(self, split: Split, offset: int, epoch: int) -> None:
        """Begin to read at an offset. With a leader epoch (not -1), first check that the log was not truncated."""
        ...

    def seek(self, split: Split, offset: int, epoch: int) -> None:
        """Read on at another offset of the assigned partition, with the same check.

        Raises:
            KafkaException: the client refuses, with `_STATE` or `_PREV_IN_PROGRESS` until the assignment is processed.
        """
        ...

    def unassign(self) -> None:
        """Stop reading. Records that were fetched and not taken are dropped."""
        ...

    def position(self, split: Split) -> int:
        """Return the client's own position, which also passes the ends of transactions."""
        ...

    def fetch(self, wanted: Wanted, timeout_s: float) -> Fetched:
        """Wait for one message, then add the records that have arrived already, up to the next notice."""
        ...

    def take(self, split: Split, stream: str) -> Rows:
        """Return the records that fetches have added since the last call. There must be one."""
        ...

    def skip(self, timeout_s: float) -> Notice | None:
        """Wait for one message and drop it. Return None without one, and for a record."""
        ...

    def identify(self, topic: str, timeout_s: float) -> tuple[str | None, bool]:
        """Return the `cluster.id` that the brokers report, and whether they report any broker. Ask about the topic.

        Raises:
            KafkaException: no answer in time, or an error.
        """
        ...

    def lists(self, split: Split, timeout_s: float) -> bool:
        """Return whether the cluster's own list of topics has the partition, or an error about the topic.

        Raises:
            KafkaException: no answer in time, or an error.
        """
        ...

    def first_offset(self, split: Split, timeout_s: float) -> int:
        """Return the first offset that the log still holds.

        Raises:
            KafkaException: no answer in time, or an error.
        """
        ...

    @property
    def problem(self) -> ConnectionProblem | None:
        """Return the last problem with a connection, such as a failed authentication.

        Call it only when the range fails: it may drop a record that has just arrived.
        """
        ...

    def forget_problem(self) -> None:
        """Drop the problem: a later failure has another reason."""
        ...

    def close_in_background(self) -> None:
        """Close the client in a background thread."""
        ...
