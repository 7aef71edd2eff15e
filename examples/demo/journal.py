"""What happened in a run, as it is told and reported afterwards. Plain values; times are seconds since the epoch."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

ChangeKind = Literal["add", "remove", "return"]
EventKind = Literal["story", "change", "kill"]


@dataclass
class Change:
    """One `kubectl apply` of the stream.

    Attributes:
        clusters: those that the stream lives on from then on.
        at: when kubectl was called.
        in_force_s: from then until Spark had committed the first batch that was planned with it.
        first_record_s: from then until the first row of the added cluster could be read in the sink; None for removals.
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
    """A cluster that was taken out of Git, and stayed in the document until it was drained.

    Attributes:
        removed: when it was taken out.
        unread: records of it that were in no batch of the sink then.
        drained_s: from then until the document no longer had it.
        safe_s: from then until `SafeToDecommission` was true: that was in force, and its broker could be stopped.
        written_after: records that were written to it after it was taken out.
        left: records of it that one of the queries had not committed when it was said to be safe; None: never said.
        waited_for: what the stream's `SafeToDecommission` said meanwhile, each text once.
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
    """One kill -9 of the driver.

    Attributes:
        wanted: the moment that the story asked for.
        found: what the checkpoint and the sink's log showed afterwards.
        processes: how many died.
        recovered_s: from the kill until the next batch was committed.
        repeated: that was the batch that the kill had cut off, once more.
    """

    at: float
    wanted: str
    found: str
    processes: int
    recovered_s: float | None = None
    repeated: bool = False


@dataclass(frozen=True)
class Event:
    """One line of the story."""

    at: float
    kind: EventKind
    text: str


@dataclass
class Span:
    """A time in which something was so; `until` is None as long as it is."""

    cluster: str
    since: float
    until: float | None = None


@dataclass
class Journal:
    """The whole run.

    Attributes:
        began: when the story began: the first record was in the sink.
        member: when each cluster was in the metadata: in Git, and then in the document until it was drained.
        broker: when each broker ran.
        broker_ends: {cluster: sum of its end offsets}, asked of the broker itself when its producers had gone.
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

    @property
    def additions(self) -> Sequence[Change]:
        """The changes that brought a cluster, new or back."""
        return [change for change in self.changes if change.kind != "remove"]

    def killed_in(self, change: Change) -> bool:
        """Whether the driver was killed before a change was in force and its first record there."""
        until = change.at + max(change.in_force_s or 0.0, change.first_record_s or 0.0)
        return any(change.at <= kill.at <= until for kill in self.kills)

    @property
    def median_first_record_s(self) -> float | None:
        """Over all additions, those that a kill fell into among them."""
        found = [change.first_record_s for change in self.additions if change.first_record_s is not None]
        return statistics.median(found) if found else None


def begin(spans: list[Span], cluster: str, at: float) -> None:
    """It is so from now on."""
    spans.append(Span(cluster, at))


def end(spans: list[Span], cluster: str, at: float) -> None:
    """It is so no longer."""
    for span in spans:
        if span.cluster == cluster and span.until is None:
            span.until = at
