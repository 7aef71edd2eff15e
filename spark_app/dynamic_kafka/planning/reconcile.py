"""Bring saved splits in line with fresh metadata: park, resume, rename, expire, and find what is new.

Pure: the driver calls it once a plan. This is FLIP-246's filtering of restored splits, extended by parking, so that a
cluster or topic that comes back goes on exactly where it was. An invariant holds over any sequence of calls: a split is
active or parked, never both, and no offset moves here, except where a topic or an accepted cluster is physically new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.dataloss import is_recreated
from dynamic_kafka.planning.observation import ClusterObservation, Note, TopicObservation
from dynamic_kafka.planning.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.splits import Split


@dataclass(frozen=True)
class Reconciled:
    """Progress in line with metadata.

    Attributes:
        document: what is active and what is parked now.
        moved: splits that are active again; they start at their `next`, which the document before does not show.
        new: splits without any progress; True where the topic itself is new to the query, False for a new partition
            of a topic that is already read.
        notes: what happened, for the user.
        recreated: those of the new splits whose topic took the name of another one that the query had.
    """

    document: OffsetDocument
    moved: frozenset[Split]
    new: Mapping[Split, bool]
    notes: tuple[Note, ...]
    recreated: frozenset[Split] = frozenset()


def rename(document: OffsetDocument, wanted: Mapping[str, SubscribedCluster]) -> tuple[OffsetDocument, list[Note]]:
    """Carry the offsets of renamed clusters over to their new ids (`renamedFrom`).

    A rename takes effect when the old id is wanted no more and the new one is not active yet; active progress wins
    over parked progress, whichever id it stands under.
    """
    clusters, parked, notes = dict(document.clusters), dict(document.parked), []
    for cluster, want in sorted(wanted.items()):
        old = want.renamed_from
        if old is None or old in wanted or cluster in clusters or (old not in clusters and old not in parked):
            continue
        if old in clusters:
            clusters[cluster] = clusters.pop(old)
        _park_together(clusters, parked, old, cluster)
        notes.append(
            Note("renamed", cluster, f"cluster {old!r} is now {cluster!r}: its offsets go on under the new id")
        )
    return replace(document, clusters=clusters, parked=parked), notes


def recognise(
    document: OffsetDocument, wanted: Mapping[str, SubscribedCluster], observed: Mapping[str, ClusterObservation]
) -> tuple[OffsetDocument, list[Note]]:
    """Carry offsets over where metadata does not say that a cluster was renamed, but its own `cluster.id` does.

    So it is when a rename is taken back, by the user or because its revision is rejected, when two renames come at
    once, and when the servers change of a cluster that has no other id. As new, all that it holds would be read twice.
    Only an id without active progress takes over, and only from ids that are wanted no more: two wanted ids of one
    cluster, and an id that was saved with another `cluster.id`, are left for `identity_problems` to refuse.
    """
    clusters, parked, notes = dict(document.clusters), dict(document.parked), []
    for cluster, answer in sorted(observed.items()):
        own = parked[cluster].kafka_id if cluster in parked else None
        if (
            cluster not in wanted
            or cluster in clusters
            or answer.kafka_id is None
            or own not in (None, answer.kafka_id)
        ):
            continue
        gone = [name for name, progress in sorted(clusters.items()) if progress.kafka_id == answer.kafka_id]
        # What was parked last knows best how far its topics were read.
        kept = [name for name, progress in parked.items() if progress.kafka_id == answer.kafka_id]
        gone += sorted(
            kept, key=lambda name: -max((topic.until_ms for topic in parked[name].topics.values()), default=0)
        )
        for old in dict.fromkeys(name for name in gone if name not in wanted):
            if old in clusters and cluster not in clusters:
                clusters[cluster] = clusters.pop(old)
            _park_together(clusters, parked, old, cluster)
            text = f"cluster {cluster!r} is the one that was {old!r} ({answer.kafka_id}): its offsets go on"
            notes.append(Note("renamed", cluster, text))
    return replace(document, clusters=clusters, parked=parked), notes


def carry_over(
    document: OffsetDocument, wanted: Mapping[str, SubscribedCluster], observed: Mapping[str, ClusterObservation]
) -> tuple[OffsetDocument, list[Note]]:
    """`rename`, then `recognise`: progress under the ids that metadata has now."""
    renamed, notes = rename(document, wanted)
    recognised, more = recognise(renamed, wanted, observed)
    return recognised, [*notes, *more]


def _park_together(
    clusters: Mapping[str, ClusterProgress], parked: dict[str, ParkedCluster], old: str, new: str
) -> None:
    """Unite what is parked under both ids of a renamed cluster, as far as it belongs to the one physical cluster.

    What is parked under the new id wins over the old one's, active topics over both.
    """
    active = clusters.get(new)
    found = [kept for kept in (parked.pop(old, None), parked.pop(new, None)) if kept is not None]
    if not found and active is None:
        return
    kafka_id = active.kafka_id if active else found[-1].kafka_id
    same = [kept for kept in found if None in (kept.kafka_id, kafka_id) or kept.kafka_id == kafka_id]
    topics = {name: topic for kept in same for name, topic in kept.topics.items()}
    topics = {name: topic for name, topic in topics.items() if active is None or name not in active.topics}
    if topics:
        parked[new] = ParkedCluster(topics, kafka_id)


def forget(document: OffsetDocument, clusters: set[str]) -> OffsetDocument:
    """Drop all progress of clusters whose new physical identity a person has accepted."""
    return replace(
        document,
        clusters={cluster: kept for cluster, kept in document.clusters.items() if cluster not in clusters},
        parked={cluster: kept for cluster, kept in document.parked.items() if cluster not in clusters},
    )


def reconcile(
    document: OffsetDocument,
    wanted: Mapping[str, SubscribedCluster],
    observed: Mapping[str, ClusterObservation],
    *,
    now_ms: int,
    retention_ms: int,
) -> Reconciled:
    """Park what metadata names no longer, resume what it names again, find what is new.

    Args:
        document: settled progress, renames applied.
        wanted: the clusters and topics that metadata names.
        observed: the answers of the wanted clusters that were reachable. A wanted cluster without an answer keeps its
            active splits as they are, and its parked ones parked.
        now_ms: wall-clock time, milliseconds since the epoch.
        retention_ms: how long a parked split is kept (`removedClusterRetention`); 0 keeps none.
    """
    return _Reconciliation(document, wanted, observed, now_ms, retention_ms).run()


class _Reconciliation:
    """One call of `reconcile`: the working copies, and a step per kind of change."""

    def __init__(
        self,
        document: OffsetDocument,
        wanted: Mapping[str, SubscribedCluster],
        observed: Mapping[str, ClusterObservation],
        now_ms: int,
        retention_ms: int,
    ) -> None:
        self.document, self.wanted, self.observed = document, wanted, observed
        self.now_ms, self.retention_ms = now_ms, retention_ms
        self.active = {cluster: dict(progress.topics) for cluster, progress in document.clusters.items()}
        self.parked = {cluster: dict(parked.topics) for cluster, parked in document.parked.items()}
        self.kafka_ids = {cluster: parked.kafka_id for cluster, parked in document.parked.items()} | {
            cluster: progress.kafka_id for cluster, progress in document.clusters.items()
        }
        self.moved: set[Split] = set()
        self.new: dict[Split, bool] = {}
        self.recreated: set[Split] = set()
        self.notes: list[Note] = []

    def run(self) -> Reconciled:
        self.park()
        self.expire()
        for cluster, want in sorted(self.wanted.items()):
            answer = self.observed.get(cluster)
            if answer is None:
                continue
            if answer.kafka_id is not None:
                self.kafka_ids[cluster] = answer.kafka_id
            for topic, stream in sorted(want.topics.items()):
                seen = answer.topics.get(topic)
                if seen is not None:
                    self.take_up(cluster, topic, stream, seen)
        return Reconciled(self.result(), frozenset(self.moved), self.new, tuple(self.notes), frozenset(self.recreated))

    def park(self) -> None:
        for cluster, topics in self.active.items():
            named = self.wanted[cluster].topics if cluster in self.wanted else {}
            for topic in sorted(set(topics) - set(named)):
                progress = topics.pop(topic)
                if self.retention_ms <= 0:
                    self.note("expired", cluster, topic, "is no longer named by metadata and nothing is kept of it")
                    continue
                kept = self.parked.setdefault(cluster, {})
                before = kept.get(topic)
                kept[topic] = ParkedTopic(
                    stream=progress.stream,
                    topic_id=progress.topic_id,
                    # The active progress wins over what an earlier parking left behind.
                    next={**(before.next if before else {}), **progress.next},
                    epochs=progress.epochs,
                    stops=progress.stops,
                    until_ms=self.now_ms + self.retention_ms,
                )
                self.note("parked", cluster, topic, "is no longer named by metadata: its offsets are kept")

    def expire(self) -> None:
        for cluster, topics in self.parked.items():
            named = self.wanted[cluster].topics if cluster in self.wanted else {}
            for topic, kept in list(topics.items()):
                if kept.awaited and topic not in named:
                    # It was back, and has gone again before its cluster answered: that is a parking of its own.
                    topics[topic] = replace(kept, awaited=False, until_ms=self.now_ms + self.retention_ms)
                elif kept.awaited or self.now_ms < kept.until_ms:
                    # Whether it came back in time is decided when it is named again, however late the answer.
                    missing = cluster in self.observed and topic in self.observed[cluster].missing
                    topics[topic] = replace(kept, awaited=topic in named and not missing)
                else:
                    del topics[topic]
                    self.note(
                        "expired", cluster, topic, "was parked past its retention: if it comes back, it starts as new"
                    )

    def take_up(self, cluster: str, topic: str, stream: str, seen: TopicObservation) -> None:
        active = self.active.setdefault(cluster, {})
        progress = active.get(topic)
        known = progress is not None
        parked = self.parked.get(cluster, {}).pop(topic, None)
        kept = self.document.parked.get(cluster)
        was = active.get(topic) or (kept.topics.get(topic) if kept else None)
        recreated = was is not None and is_recreated(was.topic_id, seen.topic_id)
        if progress is None:
            progress = TopicProgress(stream, {}, topic_id=seen.topic_id)
        if parked is not None and is_recreated(parked.topic_id, seen.topic_id):
            self.note("recreated", cluster, topic, "was re-created while it was parked: it starts as new")
        elif parked is not None:
            progress, known = self.resume(cluster, topic, progress, parked), True
            # The topic's own id, from when it was parked, is the one its offsets belong to.
            progress = replace(progress, topic_id=progress.topic_id or parked.topic_id)
        if known and is_recreated(progress.topic_id, seen.topic_id):
            self.note("recreated", cluster, topic, f"was re-created (id {progress.topic_id}, now {seen.topic_id})")
        for partition in sorted(set(seen.latest) - set(progress.next)):
            self.new[split := Split(cluster, topic, partition)] = not known
            if recreated:
                self.recreated.add(split)
        active[topic] = replace(progress, stream=stream, topic_id=seen.topic_id or progress.topic_id)

    def resume(self, cluster: str, topic: str, progress: TopicProgress, parked: ParkedTopic) -> TopicProgress:
        back = {p: offset for p, offset in parked.next.items() if p not in progress.next}
        self.moved.update(Split(cluster, topic, partition) for partition in back)
        self.note("resumed", cluster, topic, "is named again: it goes on at the offsets where it was parked")
        return replace(
            progress,
            next={**progress.next, **back},
            epochs={**{p: parked.epochs[p] for p in back if p in parked.epochs}, **progress.epochs},
            stops={**{p: parked.stops[p] for p in back if p in parked.stops}, **progress.stops},
        )

    def note(self, kind: str, cluster: str, topic: str, text: str) -> None:
        self.notes.append(Note(kind, cluster, f"topic {topic!r} of cluster {cluster!r} {text}", topic))  # type: ignore[arg-type]

    def result(self) -> OffsetDocument:
        return replace(
            self.document,
            clusters={
                cluster: ClusterProgress(topics, self.kafka_ids.get(cluster))
                for cluster, topics in self.active.items()
                if topics
            },
            parked={
                cluster: ParkedCluster(topics, self.kafka_ids.get(cluster))
                for cluster, topics in self.parked.items()
                if topics
            },
        )
