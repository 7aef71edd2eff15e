"""What is known of each sink's query, as its progress events tell it. Driver; the source of metrics and display.

Written by the listener's thread and the supervisor, read by whoever serves metrics or draws: a lock guards it, and
readers get a copy. What a cluster had is forgotten when it goes, and so are its series.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dynamic_kafka.kafka.commits import CommitCounts, Offsets
from dynamic_kafka.planning.codec import decode
from dynamic_kafka.planning.plan import ranges_between
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.splits import Split

ENDED = ("finished", "stopped", "failed")


@dataclass(frozen=True)
class SinkStatus:
    """One sink's query.

    Attributes:
        document: how far it has read, in batches that Spark has committed.
        others: the same of its further sources, where it reads the stream more than once, as a join with itself may.
        summary: what the planner reports: lag per cluster, stalled clusters, rejected metadata.
        batch: number of the last batch, -1 before the first.
        rows_per_second: of the last batch.
        records: offsets read per split, since the application started.
        advanced_at: when a split last got on, in seconds of the monotonic clock.
        state: `starting`, `running`, `restarting`, `finished`, `stopped` or `failed`.
        commits, committed: what commits to the groups came to, per cluster.
    """

    name: str
    document: OffsetDocument = field(default_factory=OffsetDocument)
    others: tuple[OffsetDocument, ...] = ()
    summary: Mapping[str, Any] = field(default_factory=dict)
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
    def stalled(self) -> Mapping[str, str]:
        """Clusters that do not answer, with the reason, as the planner reports them."""
        clusters = self.summary.get("clusters", {})
        active = {name: str(each["stalled"]) for name, each in clusters.items() if each.get("stalled")}
        return {**active, **self.summary.get("waiting", {})}


class StatusBoard:
    """The status of all sinks."""

    def __init__(self, names: list[str]) -> None:
        self._lock = threading.Lock()
        self._sinks = {name: SinkStatus(name) for name in names}

    def sinks(self) -> dict[str, SinkStatus]:
        """All of them, as they are now."""
        with self._lock:
            return dict(self._sinks)

    def update(self, name: str, **changes: Any) -> SinkStatus:
        """Replace fields of one sink's status; returns the new one."""
        with self._lock:
            self._sinks[name] = replace(self._sinks[name], **changes)
            return self._sinks[name]

    def restored(self, name: str, documents: Sequence[OffsetDocument], now: float) -> SinkStatus:
        """Take in what the query had reached when it was last stopped, a document for each of its sources: its series
        are there before its first batch."""
        document, *others = documents
        advanced = dict.fromkeys(document.splits(), now)
        return self.update(name, document=document, others=tuple(others), advanced_at=advanced)

    def idle(self, name: str, event: Mapping[str, Any]) -> None:
        """Take in what the planner says in progress that is no batch: Spark sends no event of that.

        Where the checkpoint could not be read, it is also what tells how far the query is before its first batch.
        """
        for source in event.get("sources", []):
            latest = source.get("latestOffset")
            if isinstance(latest, Mapping) and {"clusters", "document", "revision"} <= latest.keys():
                self.update(name, summary=latest)
        sources = our_sources(event)
        # What a batch has reached is told by its own event, which counts what it has read.
        idle = bool(sources) and all(source["endOffset"] == source.get("startOffset") for source in sources)
        if idle and self.sinks()[name].document.is_initial:
            document, *others = (decode(source["endOffset"]) for source in sources)
            self.update(name, document=document, others=tuple(others))

    def progress(self, name: str, event: Mapping[str, Any], now: float) -> SinkStatus | None:
        """Take a progress event in, as Spark's JSON; None if it says nothing of a source of ours."""
        sources = our_sources(event)
        if not sources:
            return None
        source, before = sources[0], self.sinks()[name]
        document, *others = (decode(each["endOffset"]) for each in sources)
        active = set(document.splits())
        records = {split: before.records.get(split, 0) for split in active}
        advanced = {split: before.advanced_at.get(split, now) for split in active}
        start = source.get("startOffset")
        # A query's first batch has no start. While nothing comes, Spark's events repeat the last batch.
        begun = decode(start) if isinstance(start, Mapping) else OffsetDocument()
        if document.number != before.document.number:
            for part in ranges_between(begun, document):
                if part.split in records:
                    records[part.split] += part.size
                    advanced[part.split] = now
        latest = source.get("latestOffset")
        return self.update(
            name,
            document=document,
            others=tuple(others),
            summary=latest if isinstance(latest, Mapping) else {},
            batch=int(event["batchId"]),
            rows=int(event.get("numInputRows", 0)),
            rows_per_second=float(event.get("processedRowsPerSecond", 0.0)),
            batch_ms=int(event.get("durationMs", {}).get("triggerExecution", 0)),
            records=records,
            advanced_at=advanced,
            # The event of the last batch may come after its query has ended.
            state=before.state if before.state in ENDED else "running",
        )


def our_sources(event: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts of a progress event that are about sources of ours, with the offsets that they have reached."""
    return [source for source in event.get("sources", []) if _is_ours(source.get("endOffset"))]


def _is_ours(end: object) -> bool:
    return isinstance(end, Mapping) and {"version", "query", "clusters"} <= end.keys()
