"""Amendments: durable records of what a batch leaves out of its planned ranges, the exceptions to exact replay.

Pure values and arithmetic; `state.store` saves amendments, `driver.replay` decides when to make one. An
amendment names its batch by the fingerprints of both offset documents. It is written before the batch runs, and every
later replay of the batch obeys it.

The splits go back to the start of their range, so no record is lost. If an earlier attempt of the batch reached the
sink, its records may be delivered again when the cluster returns; so the driver logs the ranges. Spark's file sink
skips a batch that it already has without asking the source for ranges: nothing is left out of such a batch.

Stop records are the other exception (`planning.document.stop_records`): executors find them, and a batch ends at them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dynamic_kafka.errors import OffsetDocumentError
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.document.stop_records import StopRecord, cut, end_splits, of_document
from dynamic_kafka.planning.splits import Split, SplitRange

_KEPT_BATCHES = 4
Reason = Literal["removed", "unreachable", "recreated", "abandoned"]
"""The reason why the ranges of a cluster are left out."""


@dataclass(frozen=True)
class Amendment:
    """The ranges that one batch leaves out.

    Attributes:
        query: id of the query.
        number: number of the batch's end document.
        start, end: fingerprints of the batch's two documents.
        left_out: whole ranges of splits, as they were planned.
        reasons: the reason by cluster.
        made_ms: creation time, milliseconds since the epoch; informative only.
        driver: the driver that made it (`state.incarnation`); empty if a tool did, or an early version.
        saved_digest: the digest of its file; None before it is saved. A changed copy starts without it.
    """

    query: str
    number: int
    start: str
    end: str
    left_out: tuple[SplitRange, ...]
    reasons: Mapping[str, Reason]
    made_ms: int
    driver: str = ""
    saved_digest: str | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def digest(self) -> str:
        """A digest of the amendment as it is saved. The same amendment made at another time has another one."""
        return self.saved_digest or _digest(self.to_wire())

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object that is saved."""
        driver = {"driver": self.driver} if self.driver else {}
        return driver | {
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
            raise OffsetDocumentError(f"an amendment has version {wire.get('version')!r}, this dynamic-kafka reads 1")
        try:
            amendment = cls(
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
                driver=str(wire.get("driver", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise OffsetDocumentError(f"a saved amendment is damaged: {error!r}") from None
        object.__setattr__(amendment, "saved_digest", _digest(wire))
        return amendment


class Amendments:
    """The amendments of one query. A batch may have several: each replay may find more ranges that cannot be read."""

    def __init__(self, amendments: Iterable[Amendment] = ()) -> None:
        self._of_batch: dict[tuple[str, str], list[Amendment]] = {}
        self._stop_records: dict[str, list[StopRecord]] = {}
        self._reported: dict[str, set[Split]] = {}
        for amendment in amendments:
            self.add(amendment)

    def with_stop_records(
        self, end: OffsetDocument, stop_records: Collection[StopRecord], unread: Iterable[Split] = ()
    ) -> Amendments:
        """Set the stop records of the batch that ends with a document. Returns itself.

        Args:
            unread: the splits of which executors have read nothing, since another topic has the name.
        """
        batch = fingerprint(end) if stop_records or end.by_value else ""
        if end.by_value:
            self._reported[batch] = {record.split for record in stop_records} | set(unread)
        if records := of_document(stop_records, end):
            self._stop_records[batch] = records
        for kept in (self._stop_records, self._reported):
            while len(kept) > _KEPT_BATCHES:  # only the last batches are asked for
                del kept[next(iter(kept))]
        return self

    def stop_records_of(self, end: OffsetDocument) -> Sequence[StopRecord]:
        """Return the stop records of the batch that ends with a document."""
        return self._stop_records.get(fingerprint(end), ()) if self._stop_records else ()

    def add(self, amendment: Amendment) -> None:
        self._of_batch.setdefault((amendment.start, amendment.end), []).append(amendment)

    def remaining(self, ranges: Iterable[SplitRange], batch: tuple[str, str]) -> list[SplitRange]:
        """Return the ranges that remain of a batch, which is named by the fingerprints of its two documents."""
        left_out = {part.split for part in self._left_out(batch)}
        return cut((part for part in ranges if part.split not in left_out), self._stop_records.get(batch[1], ()))

    def after(self, logged: OffsetDocument) -> OffsetDocument:
        """Return the progress after a document's batch: settled, back at the start of each range left out, ended.

        Its `by_value` is the number of ranges without a report: 0 after a batch that has ended (`check_reported`).
        """
        progress = logged.settled()
        # A fingerprint of many splits takes time: skip it without amendments.
        if not self._of_batch and not self._stop_records and not logged.by_value:
            return progress
        batch = (logged.previous, fingerprint(logged))
        left_out = self._left_out(batch)
        progress = rewind(progress, left_out) if left_out else progress
        if batch[1] in self._stop_records:
            progress = end_splits(progress, self._stop_records[batch[1]])
        if logged.by_value:
            # Without the reports of all ranges, it is not known how far the batch was read.
            progress = replace(progress, by_value=max(0, logged.by_value - len(self.known(logged))))
        return progress

    def known(self, logged: OffsetDocument) -> set[Split]:
        """Return the splits of which it is known how far the batch by value of a document was read."""
        batch = (logged.previous, fingerprint(logged))
        return self._reported.get(batch[1], set()).union(part.split for part in self._left_out(batch))

    def _left_out(self, batch: tuple[str, str]) -> list[SplitRange]:
        return [part for amendment in self._of_batch.get(batch, ()) for part in amendment.left_out]


def check_reported(progress: OffsetDocument, state: str) -> None:
    """Check that executors have reported each range of a batch that has ended: else it is not known what was read.

    Args:
        progress: after the batch, as `Amendments.after` returns it.
        state: the URI of the state location.

    Raises:
        OffsetDocumentError: they have not.
    """
    if progress.by_value:
        raise OffsetDocumentError(
            f"{progress.by_value} ranges of the batch of document {progress.number} have no report of an executor in"
            f" {state}, which says where they ended: start the query with timestampAssigner, which looks for the ends;"
            " or restore the files; or start a new query with startingOffsets"
        )


def _digest(wire: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(wire, sort_keys=True).encode()).hexdigest()


def rewind(document: OffsetDocument, left_out: Iterable[SplitRange]) -> OffsetDocument:
    """Return the document with splits back at the start of these ranges.

    They keep their leader epochs: if a truncation is why a range was left out, the next plan finds where.
    """
    clusters = {cluster: dict(progress.topics) for cluster, progress in document.clusters.items()}
    for part in left_out:
        topics = clusters[part.split.cluster]
        topic = topics[part.split.topic]
        topics[part.split.topic] = replace(topic, next={**topic.next, part.split.partition: part.start})
    kept = {cluster: replace(progress, topics=clusters[cluster]) for cluster, progress in document.clusters.items()}
    return replace(document, clusters=kept)
