"""The status of each sink's query, taken from its progress events. Driver; metrics, live table and reports read it.

The listener's thread and the supervisor write it, and several other threads read it. A lock guards it, and readers get
a copy. When a cluster leaves the document, its numbers are dropped, and so are its metrics.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dynamic_kafka.kafka.commits import CommitCounts, Offsets, offsets_by_cluster
from dynamic_kafka.planning.advance import ranges_between
from dynamic_kafka.planning.document.codec import decode, is_saved_document
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.splits import Split

ENDED = ("finished", "stopped", "failed")


@dataclass(frozen=True)
class SinkStatus:
    """The status of one sink's query.

    Attributes:
        document: the offset document of the last batch that Spark has committed.
        others: the documents of further sources of ours; a join of a stream with itself has one.
        read: the progress after the batches of these documents, if executors may have ended ranges of them early.
        summaries: the report of each source's planner: lag per cluster, stalled clusters, rejected metadata. Empty for
            a planner that has not reported.
        triggered_at: Spark's time of the trigger that they are from.
        batch: the number of the last batch; -1 before the first.
        rows, rows_per_second, batch_ms: rows, rate and duration of the last batch.
        records: offsets read per split since the application started: records and gaps, of all sources together.
        advanced_at: when a source last advanced each split, in seconds of the monotonic clock.
        state: `starting`, `running`, `restarting`, `finished`, `stopped` or `failed`.
        commits: counts of succeeded and failed commits to the consumer group, per cluster.
        committed: the offsets last committed to the consumer group, per cluster.
    """

    name: str
    document: OffsetDocument = field(default_factory=OffsetDocument)
    others: tuple[OffsetDocument, ...] = ()
    read: tuple[OffsetDocument, ...] = ()
    summaries: tuple[Mapping[str, Any], ...] = ({},)
    triggered_at: str = ""
    batch: int = -1
    rows: int = 0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    records: Mapping[Split, int] = field(default_factory=dict)
    advanced_at: Mapping[Split, float] = field(default_factory=dict)
    state: str = "starting"
    restarts: int = 0
    last_error: str | None = None
    commits: Mapping[str, CommitCounts] = field(default_factory=dict)
    committed: Mapping[str, Offsets] = field(default_factory=dict)

    @property
    def documents(self) -> tuple[OffsetDocument, ...]:
        """The document of each source of ours."""
        return (self.document, *self.others)

    @property
    def progress(self) -> tuple[OffsetDocument, ...]:
        """The progress of each source of ours, as far as it is known."""
        numbers = [document.number for document in self.documents]
        return self.read if [document.number for document in self.read] == numbers else self.documents

    @property
    def next_offsets(self) -> dict[Split, int]:
        """The next offset of each active split, of the source that is furthest behind."""
        return _next_offsets(self.progress)

    @property
    def finished_splits(self) -> frozenset[Split]:
        """The active splits that no source reads any more: they have reached a stopping offset or a stop record."""
        active = {split for document in self.progress for split in document.splits()}
        return frozenset(active.difference(*(document.open_splits() for document in self.progress)))

    @property
    def has_ended_for_good(self) -> bool:
        """Whether the query has ended with everything read, and a further start of it reads nothing."""
        return self.state == "finished" and all(document.finished for document in self.documents)

    @property
    def open_splits(self) -> frozenset[str]:
        """Some splits that have not reached their stop record, once another one has."""
        return frozenset(split for summary in self.summaries for split in summary.get("openSplits", ()))

    @property
    def stalled(self) -> Mapping[str, str]:
        """The clusters that a planner reports as stalled, each with the reason."""
        reasons: dict[str, str] = {}
        for summary in self.summaries:
            clusters = summary.get("clusters", {})
            reasons |= {name: str(status["stalled"]) for name, status in clusters.items() if status.get("stalled")}
            reasons |= summary.get("waiting", {})
        return reasons

    @property
    def never_reached(self) -> Mapping[str, str]:
        """Those of them that the query has never read."""
        names = (name for summary in self.summaries for name in summary.get("neverReached", ()))
        return {name: self.stalled.get(name, "") for name in names}

    @property
    def unanswered(self) -> frozenset[str]:
        """The clusters that the query has never read, and that have neither answered nor failed yet."""
        return frozenset(name for summary in self.summaries for name in summary.get("unanswered", ()))


class StatusBoard:
    """The status of all sinks."""

    def __init__(self, names: list[str]) -> None:
        self._lock = threading.Lock()
        self._sinks = {name: SinkStatus(name) for name in names}

    def sinks(self) -> dict[str, SinkStatus]:
        """Return the current status of each sink by its name."""
        with self._lock:
            return dict(self._sinks)

    def update(self, name: str, **changes: Any) -> SinkStatus:
        """Replace fields of one sink's status, and return the new status."""
        with self._lock:
            self._sinks[name] = replace(self._sinks[name], **changes)
            return self._sinks[name]

    def restored(self, name: str, documents: Sequence[OffsetDocument], now: float) -> SinkStatus:
        """Show the progress of the checkpoint, so that the query has metrics before its first batch.

        Args:
            documents: the last committed document of each source of ours.
            now: seconds of the monotonic clock.
        """
        document, *others = documents
        advanced = dict.fromkeys((split for document in documents for split in document.splits()), now)
        return self.update(name, document=document, others=tuple(others), advanced_at=advanced)

    def read_up_to(self, name: str, progress: Sequence[OffsetDocument], now: float) -> None:
        """Show how far batches were read of which executors may have ended ranges early, and count what was read.

        Args:
            progress: after the batch of each document of the status.
            now: seconds of the monotonic clock.
        """
        before = self.sinks()[name]
        records, advanced, reached = dict(before.records), dict(before.advanced_at), _next_offsets(before.read)
        for split, offset in _next_offsets(progress).items():
            if offset > reached.get(split, offset):
                records[split] = records.get(split, 0) + offset - reached[split]
                advanced[split] = now
        self.update(name, read=tuple(progress), records=records, advanced_at=advanced)

    def idle(self, name: str, event: Mapping[str, Any]) -> None:
        """Take over the planner's report from progress without a batch, for which Spark sends no event.

        If the checkpoint could not be read, this also shows the query's progress before its first batch.
        """
        summaries = planner_reports(event)
        if any(summaries):
            self.update(name, summaries=summaries, triggered_at=str(event.get("timestamp", "")))
        sources = our_sources(event)
        # The progress of a batch is left to its own event, which also counts the offsets that were read.
        idle = bool(sources) and all(source["endOffset"] == source.get("startOffset") for source in sources)
        if idle and self.sinks()[name].document.is_initial:
            document, *others = (decode(source["endOffset"]) for source in sources)
            self.update(name, document=document, others=tuple(others))

    def progress(self, name: str, event: Mapping[str, Any], now: float) -> SinkStatus | None:
        """Take over a progress event, as Spark's JSON, and return the new status.

        An event that is late, since the query's end has shown a newer batch already, only adds what was read.

        Returns:
            None if the event has no source of ours.
        """
        sources = our_sources(event)
        if not sources:
            return None
        before = self.sinks()[name]
        documents = document, *others = [decode(source["endOffset"]) for source in sources]
        seen = {shown.query: shown.number for shown in before.documents}
        is_late = any(reached.number < seen.get(reached.query, 0) for reached in documents)
        newest = before.documents if is_late else documents
        active = {split for progress in newest for split in progress.splits()}
        records = {split: before.records.get(split, 0) for split in active}
        advanced = {split: before.advanced_at.get(split, now) for split in active}
        for source, reached in zip(sources, documents, strict=True):
            # While there is no new batch, Spark's events repeat the last one. `read_up_to` counts the other ones.
            if reached.number == seen.get(reached.query) or reached.by_value:
                continue
            # A query's first batch has no start.
            start = source.get("startOffset")
            begun = decode(start) if isinstance(start, Mapping) else OffsetDocument()
            for part in ranges_between(begun, reached):
                if part.split in active:
                    records[part.split] += part.size
                    advanced[part.split] = now
        of_batch: dict[str, Any] = {
            "summaries": planner_reports(event),
            "triggered_at": str(event.get("timestamp", "")),
            "batch": int(event["batchId"]),
            "rows": int(event.get("numInputRows", 0)),
            "rows_per_second": float(event.get("processedRowsPerSecond", 0.0)),
            "batch_ms": int(event.get("durationMs", {}).get("triggerExecution", 0)),
        }
        if is_late:
            return replace(self.update(name, records=records, advanced_at=advanced), **of_batch)
        return self.update(
            name,
            document=document,
            others=tuple(others),
            records=records,
            advanced_at=advanced,
            **of_batch,
            # The event of the last batch may arrive after its query has ended.
            state=before.state if before.state in ENDED else "running",
        )


def _next_offsets(progress: Sequence[OffsetDocument]) -> dict[Split, int]:
    return {
        Split(cluster, topic, partition): offset
        for cluster, offsets in offsets_by_cluster(*progress).items()
        for (topic, partition), offset in offsets.items()
    }


def our_sources(event: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the sources of ours in a progress event, each with its end offset."""
    return [source for source in event.get("sources", []) if is_saved_document(source.get("endOffset"))]


def planner_reports(event: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the report of each source of ours in a progress event, an empty one where there is none.

    A planner without a report must count: nothing shows which revision it has. Before a query's first batch a source
    has no end offset, and only its report shows that it is ours.
    """
    reports: list[Mapping[str, Any]] = []
    for source in event.get("sources", []):
        reported = source.get("latestOffset")
        report = reported if isinstance(reported, Mapping) else {}
        if is_saved_document(source.get("endOffset")) or {"clusters", "document", "revision"} <= report.keys():
            reports.append(report)
    return tuple(reports)
