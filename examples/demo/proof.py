"""The proof: what the producers know was delivered to Kafka against what a reader of the sink sees. Pure.

Every record carries (cluster, partition, sequence), numbered by its producer from 0. A confirmed delivery is a record
produced. Nothing here counts on totals: a lost record and a doubled one would cancel out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Lane = tuple[str, int]
"""One partition of one cluster."""

EXAMPLES = 5


class Delivered(NamedTuple):
    """One row of the sink: where Kafka had it, and what its value says.

    `written_at` is Kafka's timestamp in seconds since the epoch, `batch` the one that brought it into the sink.
    """

    cluster: str
    partition: int
    offset: int
    said_cluster: str
    said_partition: int
    sequence: int
    written_at: float
    batch: int


@dataclass(frozen=True)
class Verdict:
    """What was found; all but the first two should be 0.

    Attributes:
        produced: records whose delivery to Kafka was confirmed.
        delivered: different records found in the sink.
        lost: produced, and not in the sink.
        duplicated: rows beyond the first of a record.
        unknown: rows of records that no producer knows to be delivered.
        misplaced: rows whose cluster, partition or offset is not the one where the producer put the record.
        gaps: offsets missing between the first and the last of a partition.
        examples: the first few of whatever is wrong, in words.
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
        """Whether every record is there exactly once, and where it should be."""
        wrong = self.lost or self.duplicated or self.unknown or self.misplaced or self.gaps
        return self.produced > 0 and not wrong


def prove(produced: Mapping[Lane, Mapping[int, int]], rows: Iterable[Delivered]) -> Verdict:
    """Compare record by record.

    Args:
        produced: {(cluster, partition): {sequence: offset}} of all confirmed deliveries.
        rows: the whole sink.
    """
    examples: list[str] = []
    seen: Counter[tuple[str, int, int]] = Counter()
    offsets: dict[Lane, set[int]] = defaultdict(set)
    unknown = misplaced = 0
    for row in rows:
        seen[row.said_cluster, row.said_partition, row.sequence] += 1
        offsets[row.cluster, row.partition].add(row.offset)
        expected = produced.get((row.said_cluster, row.said_partition), {}).get(row.sequence)
        if expected is None:
            unknown += 1
            _remember(examples, f"unknown: {row}")
        elif (row.cluster, row.partition, row.offset) != (row.said_cluster, row.said_partition, expected):
            misplaced += 1
            _remember(examples, f"misplaced: {row}, was written at offset {expected}")

    records = [(cluster, partition, number) for (cluster, partition), known in produced.items() for number in known]
    missing = [record for record in records if record not in seen]
    doubled = {record: count for record, count in seen.items() if count > 1}
    for record in sorted(missing):
        _remember(examples, f"lost: cluster {record[0]}, partition {record[1]}, sequence {record[2]}")
    for record, count in sorted(doubled.items()):
        _remember(examples, f"{count} times: cluster {record[0]}, partition {record[1]}, sequence {record[2]}")
    gaps = sum(max(found) - min(found) + 1 - len(found) for found in offsets.values())
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
    """How one partition of a cluster went on after the cluster came back.

    Attributes:
        parked: the offset that was kept when the cluster was removed.
        last_before: the last offset read in its first life, None if there was none.
        first_after: the first offset read after its return, None if there was none.
        read_again: rows read after the return that its first life had had already.
    """

    partition: int
    parked: int
    last_before: int | None
    first_after: int | None
    read_again: int

    @property
    def exact(self) -> bool:
        """Whether it resumed at exactly the parked offset: nothing skipped, nothing read again."""
        ended_there = self.last_before is None or self.last_before == self.parked - 1
        return ended_there and self.first_after == self.parked and self.read_again == 0


def check_return(rows: Iterable[Delivered], cluster: str, parked: Mapping[int, int], since: int) -> list[Return]:
    """Compare a cluster's two lives.

    Args:
        rows: the whole sink.
        parked: {partition: offset} that were kept in between.
        since: the first batch that was planned with the cluster after its return.
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


def _remember(examples: list[str], text: str) -> None:
    if len(examples) < EXAMPLES:
        examples.append(text)
