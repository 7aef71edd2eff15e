"""The journal of a run, from which the report is made. Plain values; times are seconds since the epoch."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from demo.proof import StopRecords

ChangeKind = Literal["add", "remove", "return"]
EventKind = Literal["story", "change", "kill"]


@dataclass
class Change:
    """One `kubectl apply` of the stream.

    Attributes:
        clusters: the clusters of the stream after it.
        at: when kubectl was called.
        in_force_s: seconds until Spark had committed the first batch that was planned with it.
        first_record_s: seconds until a row of the added cluster was readable in the sink; None for removals.
    """

    what: str
    kind: ChangeKind
    cluster: str
    clusters: tuple[str, ...]
    at: float
    in_force_s: float | None = None
    first_record_s: float | None = None


@dataclass
class Drain:
    """A cluster that was removed from Git, and stayed in the document until it was drained.

    Attributes:
        removed: when it was removed.
        unread: its records that were in no batch of the sink then.
        drained_s: seconds from the removal until it left the document.
        safe_s: seconds from the removal until the operator had released it, and its broker could be stopped.
        written_after: records written to it after the removal.
        left: its records that a query had not committed when it was reported as safe; None if it never was.
        waited_for: the operator's reasons to hold it meanwhile, each text once.
    """

    cluster: str
    removed: float
    unread: int
    drained_s: float | None = None
    safe_s: float | None = None
    written_after: int = 0
    waited_for: list[str] = field(default_factory=list)
    left: int | None = None


@dataclass
class Kill:
    """One SIGKILL to the driver.

    Attributes:
        wanted: the moment that the story aimed at.
        found: the state of the checkpoint and the sink afterwards, in words.
        processes: number of processes that died.
        recovered_s: seconds until the next batch was committed.
        repeated: the next batch was a replay of the interrupted one.
    """

    at: float
    wanted: str
    found: str
    processes: int
    recovered_s: float | None = None
    repeated: bool = False


@dataclass(frozen=True)
class Ending:
    """The end of the job, by itself, after the end of the day.

    Attributes:
        sent: when each partition had its record.
        took_s: seconds from then until Kubeflow's operator had the application as completed.
        in_order: the driver ended with exit code 0.
        stop_records: {cluster: {partition: offset of its stop record}} by each query; None if a query is not over.
    """

    sent: float
    took_s: float
    in_order: bool
    stop_records: Mapping[str, StopRecords | None]


@dataclass(frozen=True)
class Event:
    """One line of the story."""

    at: float
    kind: EventKind
    text: str


@dataclass
class Span:
    """A period of a cluster; `until` is None while it lasts."""

    cluster: str
    since: float
    until: float | None = None


@dataclass
class Journal:
    """The whole run.

    Attributes:
        began: when the first record was in the sink.
        member: periods in which each cluster was in Git, or still in the document.
        broker: periods in which each broker ran.
        broker_ends: {cluster: sum of its end offsets}, from the broker, after its producers had left.
        ending: how the job ended; None before.
    """

    began: float
    ended: float = 0.0
    changes: list[Change] = field(default_factory=list)
    drains: list[Drain] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    member: list[Span] = field(default_factory=list)
    broker: list[Span] = field(default_factory=list)
    broker_ends: dict[str, int] = field(default_factory=dict)
    ending: Ending | None = None

    @property
    def additions(self) -> Sequence[Change]:
        """Return the changes that added a cluster, or added it back."""
        return [change for change in self.changes if change.kind != "remove"]

    def killed_in(self, change: Change) -> bool:
        """Return whether the driver was killed before a change was in force and its first record readable."""
        until = change.at + max(change.in_force_s or 0.0, change.first_record_s or 0.0)
        return any(change.at <= kill.at <= until for kill in self.kills)

    @property
    def median_first_record_s(self) -> float | None:
        """Return the median over all additions, including those during a kill; None if there are none."""
        seconds = [change.first_record_s for change in self.additions if change.first_record_s is not None]
        return statistics.median(seconds) if seconds else None


def begin(spans: list[Span], cluster: str, at: float) -> None:
    """Begin a period of a cluster."""
    spans.append(Span(cluster, at))


def end(spans: list[Span], cluster: str, at: float) -> None:
    """End the open period of a cluster."""
    for span in spans:
        if span.cluster == cluster and span.until is None:
            span.until = at
