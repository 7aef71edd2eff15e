"""Splits, and the ranges of offsets that a batch reads from them.

Pure values; plans on the driver make them, and ranges travel to executors inside Spark's input partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

LEAST_TASKS = 64
"""The number of ranges that are read by a Spark task each. More of them share tasks, but leave at least so many: that
is enough for the cores of most executors, and Spark starts them in less than a second."""
SHARED_RECORDS = 10_000
"""The most offsets of the ranges that share a task: one Arrow batch, so that a task that is repeated costs little."""


class Split(NamedTuple):
    """One partition of one topic of one cluster. It is never a joined string: ids may hold any separator."""

    cluster: str
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic}[{self.partition}]"


@dataclass(frozen=True)
class SplitRange:
    """The offsets `start <= offset < end` of one split.

    Attributes:
        epoch: leader epoch at `start`, -1 when unknown.
        end_epoch: leader epoch that the range was planned in, -1 when unknown. A record of a later epoch shows that
            the log was truncated since.
    """

    split: Split
    start: int
    end: int
    epoch: int = -1
    end_epoch: int = field(default=-1, compare=False)

    @property
    def size(self) -> int:
        """Number of offsets: an upper bound of the records, since compaction and transactions leave gaps."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.split} {self.start}..{self.end}"


def slice_ranges(
    ranges: Iterable[SplitRange], *, min_partitions: int | None, max_records: int | None
) -> list[SplitRange]:
    """Cut ranges into the pieces that become Spark tasks, as Spark's own Kafka source does.

    Args:
        ranges: what the batch reads, at most one range a split.
        min_partitions: `minPartitions`; larger ranges are cut until there are about that many pieces.
        max_records: `maxRecordsPerPartition`; no piece holds more offsets than that.

    Returns:
        Pieces that cover the ranges exactly. The clusters take turns, so that a slow one never holds every task slot.
    """
    pieces = [piece for part in ranges if part.size > 0 for piece in _cut(part, _by_records(part, max_records))]
    if min_partitions and len(pieces) < min_partitions:
        total = sum(piece.size for piece in pieces)
        pieces = [
            small for piece in pieces for small in _cut(piece, max(1, round(piece.size / total * min_partitions)))
        ]
    return _take_turns(pieces)


def group_ranges(
    ranges: Sequence[SplitRange], *, min_partitions: int | None, max_records: int | None = None
) -> list[list[SplitRange]]:
    """Put many small ranges of one cluster together: each group becomes one Spark task.

    Args:
        ranges: the pieces of a batch, in their order.
        min_partitions: `minPartitions`; there are never fewer groups, nor than `LEAST_TASKS`, if there are more ranges.
        max_records: `maxRecordsPerPartition`, which bounds a group, too.

    Returns:
        Groups that hold each range once, in the order of their first ranges: the clusters still take turns.
    """
    together = len(ranges) // max(min_partitions or 0, LEAST_TASKS)
    most = min(max_records or SHARED_RECORDS, SHARED_RECORDS)
    groups: list[list[SplitRange]] = []
    growing: dict[str, tuple[list[SplitRange], int]] = {}
    for part in ranges:
        group, size = growing.get(part.split.cluster, ([], 0))
        if not 0 < len(group) < together or size + part.size > most:
            group, size = [], 0
            groups.append(group)
        group.append(part)
        if size + part.size <= most:
            growing[part.split.cluster] = group, size + part.size
    return groups


def _by_records(part: SplitRange, max_records: int | None) -> int:
    return 1 if not max_records else -(-part.size // max_records)


def _cut(part: SplitRange, count: int) -> Iterator[SplitRange]:
    """Cut one range into at most `count` non-empty pieces of nearly equal size."""
    count = min(count, part.size)
    for index in range(count):
        start = part.start + part.size * index // count
        end = part.start + part.size * (index + 1) // count
        # The epoch is known only at the range's own start; a later piece may start in another epoch.
        yield SplitRange(part.split, start, end, part.epoch if index == 0 else -1, part.end_epoch)


def _take_turns(pieces: list[SplitRange]) -> list[SplitRange]:
    queues: dict[str, list[SplitRange]] = {}
    for piece in sorted(pieces, key=lambda p: (p.split, p.start)):
        queues.setdefault(piece.split.cluster, []).append(piece)
    turns: list[SplitRange] = []
    longest = max((len(queue) for queue in queues.values()), default=0)
    for turn in range(longest):
        turns.extend(queue[turn] for queue in queues.values() if turn < len(queue))
    return turns
