"""One plan from end to end: the pure steps in their one order.

Driver; called by the enumerator once a plan, and by the tests with a simulated world, so that what they prove holds for
what runs. The steps need three answers from outside; the caller gives them as functions (`Edge`), which may do I/O and
may raise. Nothing else in here looks at the world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from dynamic_kafka.planning.dataloss import DataLoss, find_data_loss, is_recreated
from dynamic_kafka.planning.observation import ClusterObservation, Note, WantedCluster
from dynamic_kafka.planning.plan import Limits, Plan, advance, open_splits
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.reconcile import Reconciled, carry_over, reconcile
from dynamic_kafka.planning.splits import Split


@dataclass(frozen=True)
class Situation:
    """What one plan is made from.

    Attributes:
        logged: the document that Spark has, as it has it.
        progress: the same settled, and back where an amendment left ranges out (`Amendments.after`).
        wanted: the clusters and topics that metadata names.
        observed: the clusters that answered.
        now_ms: wall-clock time, milliseconds since the epoch.
        retention_ms: `removedClusterRetention`.
        limits: how much the batch may take.
        query: the id to give to a query that has none yet.
        bounded: whether a query that starts now is a bounded run.
    """

    logged: OffsetDocument
    progress: OffsetDocument
    wanted: Mapping[str, WantedCluster]
    observed: Mapping[str, ClusterObservation]
    now_ms: int
    retention_ms: int
    limits: Limits
    query: str
    bounded: bool = False


class Edge(Protocol):
    """What a plan asks of its caller, in the order of the methods; each may raise to end the plan."""

    def verify(self, progress: OffsetDocument) -> OffsetDocument:
        """Refuse clusters that are not the saved ones; forget what a person accepted to be new."""

    def resolve(self, done: Reconciled) -> tuple[Mapping[Split, int], Mapping[Split, int]]:
        """The starts of the splits that are new, and the stops of those that should have one and have none.

        Called a second time, with nothing new, when topics that were re-created have lost theirs.
        """

    def accept(self, opened: OffsetDocument, losses: list[DataLoss]) -> tuple[OffsetDocument, list[Note]]:
        """Refuse data losses, or go on behind them: the document, what to tell the user."""


@dataclass(frozen=True)
class Planned:
    """The plan, what it did on the way, and the splits that had no progress before (`Reconciled.new`)."""

    plan: Plan
    notes: tuple[Note, ...]
    new: Mapping[Split, bool]


def plan_batch(situation: Situation, edge: Edge) -> Planned:
    """Plan the next batch of a query.

    Returns:
        The plan; its document is `situation.logged` itself when there is nothing to do.
    """
    logged, observed = situation.logged, situation.observed
    progress, notes = carry_over(situation.progress, situation.wanted, observed)
    progress = edge.verify(progress)
    done = reconcile(progress, situation.wanted, observed, now_ms=situation.now_ms, retention_ms=situation.retention_ms)
    if logged.bounded:
        # A bounded run reads what it found at its first plan, whatever has become of that.
        done = replace(
            done, new={split: new for split, new in done.new.items() if _had(progress, split, new, observed)}
        )
    elif logged.is_initial:
        done = replace(done, document=replace(done.document, bounded=situation.bounded))
    starts, stops = edge.resolve(done)
    opened = open_splits(done.document, starts, stops, observed)
    losses = find_data_loss(opened, observed, before=progress)
    if losses:
        opened, lost = edge.accept(opened, losses)
        notes = [*notes, *lost]
    if any(loss.recreated for loss in losses):
        # Their stops went with the old topics: the same rules stop the new ones.
        _, stops = edge.resolve(replace(done, document=opened, new={}))
        opened = open_splits(opened, {}, stops, observed)
    plan = advance(logged, opened, observed=observed, limits=situation.limits, query=situation.query)
    return Planned(plan, (*notes, *done.notes), done.new)


def _had(progress: OffsetDocument, split: Split, new_topic: bool, observed: Mapping[str, ClusterObservation]) -> bool:
    """Whether a new split belongs to a topic that the query had, and that starts as new: it was parked for too long, or
    was re-created, with as many partitions as it likes."""
    parked = progress.parked.get(split.cluster)
    if parked is not None and split.topic in parked.topics:
        return new_topic
    topic, answer = progress.topic(split.cluster, split.topic), observed.get(split.cluster)
    seen = answer.topics.get(split.topic) if answer is not None else None
    return topic is not None and seen is not None and is_recreated(topic.topic_id, seen.topic_id)
