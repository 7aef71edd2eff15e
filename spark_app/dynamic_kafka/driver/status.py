"""The driver's status: a small summary for Spark's progress events, and one log line per event.

Driver; owned by the enumerator. A Python source has no custom metrics. The result of `reportLatestOffset` appears in
each progress event as the source's latest offset. It is small, since progress events go to the event log up to three
times a batch.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from dynamic_kafka.metadata.discovery_state import DiscoveryStatus
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.planning.clock import NOT_ALIGNED, Aligned
from dynamic_kafka.planning.document.progress import OffsetDocument, has_stop_records
from dynamic_kafka.planning.observation import Note
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.wording import first_few

log = logging.getLogger("dynamic_kafka")

REMIND_S = 300.0
"""Seconds between two log lines about a condition that lasts, such as a cluster that stays stalled."""
NO_ANSWER_YET = "has not answered yet"
"""The cause of a cluster that is silent, and has not failed yet. The log has the failure, too, when it comes."""
NOT_ACTIVE = "it is no longer active, as the metadata service says"
"""The cause of a cluster that is left out although the metadata in force names it."""
RECENT = 20
"""Notes kept for the summary."""
SHOWN_SPLITS = 10
"""The most open splits that the summary names."""


class Reminders:
    """Repeated log lines about stalled clusters: the end of a log must show them, too."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, tuple[datetime, float]] = {}

    def check(self, stalled: Mapping[str, str], never_reached: Collection[str] = ()) -> None:
        """Note the clusters that are stalled now, and log those that have been for another `REMIND_S`."""
        now = self._clock()
        self._known = {cluster: known for cluster, known in self._known.items() if cluster in stalled}
        for cluster, why in stalled.items():
            since, logged_at = self._known.setdefault(cluster, (datetime.now(UTC), now))
            if now - logged_at >= REMIND_S:
                self._known[cluster] = (since, now)
                state = "was still never reached" if cluster in never_reached else "is still stalled"
                log.warning("cluster %s %s, since %s: %s", cluster, state, f"{since:%Y-%m-%dT%H:%M:%SZ}", why)


@dataclass
class PlanStatus:
    """The state after the latest plan, for the user.

    Attributes:
        revision: hash (or counter) of the metadata in force.
        lineage: lineage of that counter; empty for a hash.
        rejected: why the newest metadata is not in force, None if it is.
        incomplete_metadata: why the newest metadata may name more than those in force; empty if they are complete. A
            rejected revision counts only if it is newer.
        waits_for: why the query goes on although all its splits have reached their stop records.
        rejected_token: the rejected revision, `<lineage>/<counter>`, if known.
        missing: ids of subscribed streams that metadata does not name.
        metadata_failures: consecutive failed lookups of metadata.
        lag: offsets that no batch has taken yet, per reachable cluster.
        aligned: the alignment of the last plan.
        stalled: clusters that do not answer, with the reason.
        never_reached: those of them that the query has never read.
        unanswered: clusters that the query has never read, and that have neither answered nor failed yet.
    """

    revision: str = ""
    lineage: str = ""
    rejected: str | None = None
    incomplete_metadata: str = ""
    waits_for: str = ""
    missing: tuple[str, ...] = ()
    rejected_token: str = ""
    metadata_failures: int = 0
    lag: Mapping[str, int] = field(default_factory=dict)
    aligned: Aligned = NOT_ALIGNED
    stalled: dict[str, str] = field(default_factory=dict)
    never_reached: frozenset[str] = frozenset()
    unanswered: frozenset[str] = frozenset()
    notes: list[Note] = field(default_factory=list)
    _warned: set[tuple[str, ...]] = field(default_factory=set)
    _reminders: Reminders = field(default_factory=Reminders)

    def note_metadata(self, revision: Revision, status: DiscoveryStatus) -> None:
        """Keep the revision in force, and the state of the discovery."""
        self.metadata_failures = status.consecutive_failures
        self.rejected, self.rejected_token = status.rejected, status.rejected_token
        self.missing = status.missing
        older = Revision.parse(status.rejected_token)
        self.incomplete_metadata = ""
        if status.rejected and not (older is not None and older.is_older_than(revision)):
            self.incomplete_metadata = f"newer metadata is rejected: {status.rejected}"
        elif status.last_error:
            self.incomplete_metadata = f"the newest metadata is unknown: {status.last_error}"
        elif self.missing:
            names = first_few(self.missing)
            self.incomplete_metadata = f"metadata does not name the subscribed stream {names}"
        self.revision = revision.hash if revision.counter is None else str(revision.counter)
        self.lineage = (revision.lineage or "") if revision.counter is not None else ""

    def note(self, notes: Iterable[Note]) -> None:
        """Log events, and keep the latest."""
        for note in notes:
            log.warning("%s", note.text) if note.kind in ("recreated", "data-loss") else log.info("%s", note.text)
            self.notes = [*self.notes[-RECENT + 1 :], note]

    def note_silent(
        self, failures: Mapping[str, str], named: Collection[str], never_read: frozenset[str] = frozenset()
    ) -> None:
        """Log and keep the clusters that do not answer, and forget those that metadata no longer names.

        Args:
            failures: {cluster: cause} of those that failed now; earlier ones stay until they answer.
            never_read: clusters that the query has never read.
        """
        self.stalled = {cluster: cause for cluster, cause in self.stalled.items() if cluster in named}
        for cluster, cause in failures.items():
            before = self.stalled.get(cluster, NO_ANSWER_YET)
            if cluster not in never_read or _words(cause) != _words(before):
                self.stalled[cluster] = cause
            if NO_ANSWER_YET in before:
                state = "was never reached" if cluster in never_read else "is stalled"
                log.warning("cluster %s %s, the source reads the others: %s", cluster, state, cause)
        self.never_reached = never_read & self.stalled.keys()
        self._reminders.check(self.stalled, self.never_reached)

    def warn(self, warnings: Mapping[tuple[str, ...], str | None]) -> None:
        """Log each warning once, by its key. With None the condition is over: if it returns, log it again."""
        for key, text in warnings.items():
            if text is None:
                self._warned.discard(key)
            elif key not in self._warned:
                self._warned.add(key)
                log.warning("%s", text)

    def summary(self, document: OffsetDocument, *, finished: bool) -> dict[str, Any]:
        """Return the summary for a progress event: a few numbers per cluster, no offsets, no servers.

        Args:
            finished: whether a run that ends by itself has nothing left to read, not even ranges that its last batch
                left out. Otherwise, once a split has reached its stop record, the first open ones are named.
        """
        clusters: dict[str, dict[str, Any]] = {}
        for cluster, progress in sorted(document.clusters.items()):
            clusters[cluster] = {
                "splits": sum(len(topic.next) for topic in progress.topics.values()),
                "finished": sum(topic.finished_count() for topic in progress.topics.values()),
                "lag": self.lag.get(cluster),
            }
            if cluster in self.stalled:
                clusters[cluster]["stalled"] = self.stalled[cluster]
        summary: dict[str, Any] = {"clusters": clusters, "document": document.number, "revision": self.revision}
        if self.aligned is not NOT_ALIGNED:
            held_by = self.aligned.held_by
            summary |= {"clock": document.clock_ms, "clockHeldBy": None if held_by is None else held_by._asdict()}
            announced = {"clockWaitsFor": self.aligned.waits_for, "announcedTimedOut": self.aligned.given_up}
            summary |= {name: list(clusters) for name, clusters in announced.items() if clusters}
        if self.lineage:
            summary["lineage"] = self.lineage
        parked = {
            cluster: sum(len(topic.progress.next) for topic in kept.topics.values())
            for cluster, kept in sorted(document.parked.items())
        }
        if parked:
            summary["parked"] = parked
        waiting = {cluster: why for cluster, why in self.stalled.items() if cluster not in clusters}
        if waiting:
            summary["waiting"] = waiting
        if never_reached := sorted(self.never_reached & waiting.keys()):
            summary["neverReached"] = never_reached
        if self.unanswered:
            summary["unanswered"] = sorted(self.unanswered)
        if self.rejected:
            summary["rejected"] = self.rejected
            if self.rejected_token:
                summary["rejectedRevision"] = self.rejected_token
        if self.missing:
            summary["missingStreams"] = list(self.missing)
        if self.metadata_failures:
            summary["metadataFailures"] = self.metadata_failures
        return summary | self._ending(document, finished=finished)

    def _ending(self, document: OffsetDocument, *, finished: bool) -> dict[str, Any]:
        if finished:
            return {"finished": True}
        waits_for = {"waitsFor": self.waits_for} if self.waits_for else {}
        if not has_stop_records(document):
            return waits_for
        return {"openSplits": [str(split) for split in islice(document.open_splits(), SHOWN_SPLITS)]} | waits_for


def _words(text: str) -> str:
    """Return a text without its numbers: librdkafka's causes count milliseconds, and a report should not change."""
    return re.sub(r"\d+", "", text)


def new_notes(new: Iterable[Split]) -> list[Note]:
    """Return a note per topic with new splits."""
    counts: dict[tuple[str, str], int] = {}
    for split in new:
        counts[split.cluster, split.topic] = counts.get((split.cluster, split.topic), 0) + 1
    return [
        Note("new", cluster, f"{count} new splits: topic {topic!r} of cluster {cluster!r}", topic)
        for (cluster, topic), count in sorted(counts.items())
    ]
