"""The proof: compare the records that Kafka has confirmed with the rows in the sink, one by one. Pure.

Each record contains its cluster, partition and sequence, which its producer counts from 0. Totals prove nothing here: a
lost and a duplicated record would cancel out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Split = tuple[str, int]
"""One partition of one cluster."""

EXAMPLES = 5


class Delivered(NamedTuple):
    """One row of the sink: its place in Kafka, and the numbers inside the record.

    Attributes:
        record_cluster, record_partition, sequence: the numbers that the producer has written into the record.
        written_at: Kafka's timestamp, in seconds since the epoch.
        batch: the batch that wrote the row.
    """

    cluster: str
    partition: int
    offset: int
    record_cluster: str
    record_partition: int
    sequence: int
    written_at: float
    batch: int


@dataclass(frozen=True)
class Verdict:
    """The result of the comparison. All counts but the first two should be 0.

    Attributes:
        produced: records that Kafka has confirmed.
        delivered: different records found in the sink.
        lost: produced records that are not in the sink.
        duplicated: rows beyond the first of a record.
        unknown: rows of records that were never confirmed.
        misplaced: rows whose cluster, partition or offset differs from the producer's.
        gaps: offsets missing between the first and the last of a partition.
        examples: the first few problems, in words.
        per_cluster: {cluster: (produced, delivered)}.
    """

    produced: int
    delivered: int
    lost: int
    duplicated: int
    unknown: int
    misplaced: int
    gaps: int
    examples: Sequence[str]
    per_cluster: Mapping[str, tuple[int, int]]

    @property
    def holds(self) -> bool:
        """Return whether the sink has every record exactly once, from its right place."""
        wrong = self.lost or self.duplicated or self.unknown or self.misplaced or self.gaps
        return self.produced > 0 and not wrong


def prove(produced: Mapping[Split, Mapping[int, int]], rows: Iterable[Delivered]) -> Verdict:
    """Compare record by record.

    Args:
        produced: {(cluster, partition): {sequence: offset}} of all confirmed deliveries.
        rows: all rows of the sink.
    """
    examples: list[str] = []
    seen: Counter[tuple[str, int, int]] = Counter()
    offsets: dict[Split, set[int]] = defaultdict(set)
    unknown = misplaced = 0
    for row in rows:
        seen[row.record_cluster, row.record_partition, row.sequence] += 1
        offsets[row.cluster, row.partition].add(row.offset)
        expected = produced.get((row.record_cluster, row.record_partition), {}).get(row.sequence)
        if expected is None:
            unknown += 1
            _remember(examples, f"unknown: {row}")
        elif (row.cluster, row.partition, row.offset) != (row.record_cluster, row.record_partition, expected):
            misplaced += 1
            _remember(examples, f"misplaced: {row}, was written at offset {expected}")

    records = [(cluster, partition, number) for (cluster, partition), known in produced.items() for number in known]
    missing = [record for record in records if record not in seen]
    doubled = {record: count for record, count in seen.items() if count > 1}
    for record in sorted(missing):
        _remember(examples, f"lost: cluster {record[0]}, partition {record[1]}, sequence {record[2]}")
    for record, count in sorted(doubled.items()):
        _remember(examples, f"{count} times: cluster {record[0]}, partition {record[1]}, sequence {record[2]}")
    gaps = sum(max(own_offsets) - min(own_offsets) + 1 - len(own_offsets) for own_offsets in offsets.values())
    lost = set(missing)
    sent = Counter(cluster for cluster, _, _ in records)
    got = Counter(record[0] for record in records if record not in lost)
    return Verdict(
        produced=len(records),
        delivered=sum(got.values()),
        lost=len(missing),
        duplicated=sum(doubled.values()) - len(doubled),
        unknown=unknown,
        misplaced=misplaced,
        gaps=gaps,
        examples=examples,
        per_cluster={cluster: (sent[cluster], got[cluster]) for cluster in sorted(sent)},
    )


@dataclass(frozen=True)
class Return:
    """How one partition continued after its cluster was added back.

    Attributes:
        parked: the offset that was parked when the cluster was removed.
        last_before: the last offset read before the removal, None if there was none.
        first_after: the first offset read after the return, None if there was none.
        read_again: rows read after the return that had been read before.
    """

    partition: int
    parked: int
    last_before: int | None
    first_after: int | None
    read_again: int

    @property
    def exact(self) -> bool:
        """Return whether it resumed at exactly the parked offset, with no record skipped or read again."""
        ended_there = self.last_before is None or self.last_before == self.parked - 1
        return ended_there and self.first_after == self.parked and self.read_again == 0


def check_return(rows: Iterable[Delivered], cluster: str, parked: Mapping[int, int], since: int) -> list[Return]:
    """Compare the rows of a cluster before its removal and after its return.

    Args:
        rows: all rows of the sink.
        parked: {partition: parked offset}.
        since: the first batch with the cluster after its return.
    """
    before: dict[int, list[int]] = defaultdict(list)
    after: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        if row.cluster == cluster:
            (after if row.batch >= since else before)[row.partition].append(row.offset)
    return [
        Return(
            partition=partition,
            parked=kept,
            last_before=max(before[partition], default=None),
            first_after=min(after[partition], default=None),
            read_again=sum(offset < kept for offset in after[partition]),
        )
        for partition, kept in sorted(parked.items())
    ]


StopRecords = Mapping[str, Mapping[int, int]]
"""{cluster: {partition: offset of the record that ended it}}."""


def wrong_ending(by_query: Mapping[str, StopRecords | None], ends: StopRecords, *, in_order: bool) -> list[str]:
    """Return the problems of the job's end.

    Args:
        by_query: the stop records of each query; None if a query is not over.
        ends: the offset behind the last confirmed record of each partition, where its end of day is.
        in_order: the driver ended with exit code 0.
    """
    problems = [] if in_order else ["the driver did not end with exit code 0"]
    for query, stopped in by_query.items():
        if stopped is None:
            problems.append(f"the query {query} ended before its splits had")
        elif stopped != ends:
            problems.append(f"the query {query} has ended at the offsets {stopped}, the end of day is at {ends}")
    return problems


def _remember(examples: list[str], text: str) -> None:
    if len(examples) < EXAMPLES:
        examples.append(text)
