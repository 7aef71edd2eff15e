"""Ranges that a batch leaves out although they were planned: the durable exceptions to exact replay.

Pure values and arithmetic; `state.py` saves them, `replay.py` decides when to make one. An amendment names its
batch by the fingerprints of both offset documents, is written before the batch runs and obeyed by every later replay of
it. Its splits go back to the start of their range, so nothing is lost; if an earlier attempt of the batch had reached
the sink, its records may be delivered again when the cluster returns, which is why the user is told. (Of a batch that
Spark's file sink has already, the source is not asked for its ranges: nothing is left out of it.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from dynamic_kafka.errors import OffsetDocumentError
from dynamic_kafka.planning.codec import fingerprint
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.splits import Split, SplitRange

Reason = Literal["removed", "unreachable", "recreated", "abandoned"]
"""Why a cluster's ranges are left out."""


@dataclass(frozen=True)
class Amendment:
    """What one batch leaves out.

    Attributes:
        query: id of the query.
        number: number of the batch's end document.
        start, end: fingerprints of the batch's two documents.
        left_out: whole ranges of splits, as they were planned.
        reasons: why, per cluster.
        made_ms: when, milliseconds since the epoch; for people only.
    """

    query: str
    number: int
    start: str
    end: str
    left_out: tuple[SplitRange, ...]
    reasons: Mapping[str, Reason]
    made_ms: int

    def to_wire(self) -> dict[str, Any]:
        """The JSON object that is saved."""
        return {
            "version": 1,
            "query": self.query,
            "number": self.number,
            "start": self.start,
            "end": self.end,
            "reasons": dict(sorted(self.reasons.items())),
            "madeMs": self.made_ms,
            "leftOut": [[*part.split, part.start, part.end] for part in self.left_out],
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Amendment:
        """Read a saved amendment; OffsetDocumentError if it is damaged or newer than this version."""
        if wire.get("version") != 1:
            raise OffsetDocumentError(f"an amendment of version {wire.get('version')!r}: this dynamic-kafka reads 1")
        try:
            return cls(
                query=wire["query"],
                number=int(wire["number"]),
                start=wire["start"],
                end=wire["end"],
                left_out=tuple(
                    SplitRange(Split(cluster, topic, int(partition)), int(start), int(end))
                    for cluster, topic, partition, start, end in wire["leftOut"]
                ),
                reasons=wire["reasons"],
                made_ms=int(wire["madeMs"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise OffsetDocumentError(f"a saved amendment is damaged: {error!r}") from None


class Amendments:
    """What was left out of a query's batches. One batch may have several, each for what had gone by then."""

    def __init__(self, found: Iterable[Amendment] = ()) -> None:
        self._of_batch: dict[tuple[str, str], list[Amendment]] = {}
        for amendment in found:
            self.add(amendment)

    def add(self, amendment: Amendment) -> None:
        """Take one more into account."""
        self._of_batch.setdefault((amendment.start, amendment.end), []).append(amendment)

    def remaining(self, ranges: Iterable[SplitRange], batch: tuple[str, str]) -> list[SplitRange]:
        """The ranges that remain of a batch, which is named by the fingerprints of its two documents."""
        gone = {part.split for amendment in self._of_batch.get(batch, ()) for part in amendment.left_out}
        return [part for part in ranges if part.split not in gone]

    def after(self, logged: OffsetDocument) -> OffsetDocument:
        """Progress after a logged document's batch: settled, and back at the start of each range that was left out."""
        progress = logged.settled()
        # With many splits a fingerprint takes time.
        found = self._of_batch.get((logged.previous, fingerprint(logged)), ()) if self._of_batch else ()
        for amendment in found:
            abandoned = {cluster for cluster, reason in amendment.reasons.items() if reason == "abandoned"}
            progress = rewind(progress, amendment.left_out, anew=abandoned)
        return progress


def rewind(document: OffsetDocument, left_out: Iterable[SplitRange], *, anew: Collection[str] = ()) -> OffsetDocument:
    """The document with splits back at the start of these ranges.

    Args:
        anew: clusters whose leader epochs are forgotten with it: a person has given up what a truncation has taken, and
            would be told of it once more.
    """
    clusters = {cluster: dict(progress.topics) for cluster, progress in document.clusters.items()}
    for part in left_out:
        topics = clusters[part.split.cluster]
        topic = topics[part.split.topic]
        partition = part.split.partition
        forgotten = partition if part.split.cluster in anew else None
        topics[part.split.topic] = replace(
            topic,
            next={**topic.next, partition: part.start},
            epochs={p: epoch for p, epoch in topic.epochs.items() if p != forgotten},
        )
    return replace(
        document,
        clusters={
            cluster: replace(progress, topics=clusters[cluster]) for cluster, progress in document.clusters.items()
        },
    )
