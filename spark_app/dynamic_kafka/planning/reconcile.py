"""Saved splits brought in line with fresh metadata: park, resume, expire, and find new splits.

Pure; `planning.plan` calls it once a plan. This is FLIP-246's filtering of restored splits, extended by parking, so
that a cluster or topic that comes back continues exactly at its offset. Two invariants hold over any sequence of calls.
A split is active or parked, never both. No offset moves here, unless a topic or an accepted cluster is physically new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.document.progress import (
    OffsetDocument,
    SavedCluster,
    Topic,
    TopicProgress,
)
from dynamic_kafka.planning.observation import ClusterObservation, Note, NoteKind, TopicObservation
from dynamic_kafka.planning.sameness.identity import is_another, recreation
from dynamic_kafka.planning.splits import Split


@dataclass(frozen=True)
class Reconciled:
    """Progress in line with metadata.

    Attributes:
        document: progress with the splits that are active or parked now.
        resumed: splits that are active again; they start at their `next`, which the document before does not show.
        new: splits without any progress; True if the topic itself is new to the query, False for a new partition of a
            topic that is already read.
        recreated: those of the new splits whose topic took the name of another one that the query had.
    """

    document: OffsetDocument
    resumed: frozenset[Split]
    new: Mapping[Split, bool]
    notes: tuple[Note, ...]
    recreated: frozenset[Split] = frozenset()


def forget(document: OffsetDocument, clusters: set[str]) -> OffsetDocument:
    """Drop all progress of clusters whose new physical identity a user has accepted."""
    return replace(
        document,
        clusters={cluster: kept for cluster, kept in document.clusters.items() if cluster not in clusters},
        parked={cluster: kept for cluster, kept in document.parked.items() if cluster not in clusters},
        explicit_ids={cluster: kept for cluster, kept in document.explicit_ids.items() if cluster not in clusters},
    )


def reconcile(
    document: OffsetDocument,
    wanted: Mapping[str, SubscribedCluster],
    observed: Mapping[str, ClusterObservation],
    *,
    now_ms: int,
    retention_ms: int,
) -> Reconciled:
    """Park topics that metadata no longer names, resume those that it names again, and find new splits.

    Args:
        document: settled progress, renames applied.
        observed: the answers of the wanted clusters that were reachable. A wanted cluster without an answer keeps its
            active splits as they are, and its parked ones parked.
        now_ms: wall-clock time, milliseconds since the epoch.
        retention_ms: milliseconds for which a parked split is kept (`removedClusterRetention`); 0 keeps none, nor
            any that was parked before.
    """
    return _Reconciliation(document, wanted, observed, now_ms, retention_ms).run()


class _Reconciliation:
    """One call of `reconcile`: working copies, and one method per kind of change."""

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
        self.resumed: set[Split] = set()
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
        return Reconciled(
            self.result(), frozenset(self.resumed), self.new, tuple(self.notes), frozenset(self.recreated)
        )

    def park(self) -> None:
        for cluster, topics in self.active.items():
            named = self.wanted[cluster].topics if cluster in self.wanted else {}
            for topic in sorted(set(topics) - set(named)):
                progress = topics.pop(topic)
                if self.retention_ms <= 0:
                    self.note("expired", cluster, topic, "is no longer named by metadata, and its offsets are not kept")
                    continue
                kept = self.parked.setdefault(cluster, {})
                kept[topic] = progress.parked(self.now_ms + self.retention_ms, kept.get(topic))
                self.note("parked", cluster, topic, "is no longer named by metadata: its offsets are kept")

    def expire(self) -> None:
        for cluster, topics in self.parked.items():
            named = self.wanted[cluster].topics if cluster in self.wanted else {}
            for topic, kept in list(topics.items()):
                held = kept.awaited or kept.missing
                if held and topic not in named and self.retention_ms > 0:
                    # It was removed before its cluster answered or had it again: this is a new parking.
                    until_ms = self.now_ms + self.retention_ms
                    topics[topic] = replace(kept, awaited=False, missing=False, until_ms=until_ms)
                elif topic in named and (held or self.now_ms < kept.until_ms):
                    # It is in time if metadata names it in time, however late its cluster has it or answers.
                    topics[topic] = kept if held else replace(kept, awaited=True)
                elif self.now_ms < kept.until_ms and self.retention_ms > 0:
                    continue
                else:
                    del topics[topic]
                    text = "was parked past its retention: if it returns, it starts as new"
                    self.note("expired", cluster, topic, text)

    def take_up(self, cluster: str, topic: str, stream: str, seen: TopicObservation) -> None:
        active = self.active.setdefault(cluster, {})
        progress = active.get(topic)
        known = progress is not None
        kept = self.parked.get(cluster, {}).pop(topic, None)
        parked = kept.progress if kept is not None else None
        was = active.get(topic) or self.document.any_topic(cluster, topic)
        recreated = was is not None and is_another(was.topic_id, seen.topic_id)
        if progress is None:
            progress = TopicProgress(stream, {}, topic_id=seen.topic_id)
        if parked is not None and is_another(parked.topic_id, seen.topic_id):
            self.note("recreated", cluster, topic, "was re-created while it was parked: it starts as new")
        elif parked is not None:
            progress, known = self.resume(cluster, topic, progress, parked), True
            # The offsets belong to the topic id from when it was parked.
            progress = replace(progress, topic_id=progress.topic_id or parked.topic_id)
        if known and is_another(progress.topic_id, seen.topic_id):
            self.note("recreated", cluster, topic, recreation(progress.topic_id, seen.topic_id))
            # Nothing of the old topic is missing in a split that had ended: it is no data loss, but a new split.
            progress = progress.without([p for p in progress.ended if progress.finished(p)])
        for partition in sorted(set(seen.latest) - set(progress.next)):
            self.new[split := Split(cluster, topic, partition)] = not known
            if recreated:
                self.recreated.add(split)
        active[topic] = replace(progress, stream=stream, topic_id=seen.topic_id or progress.topic_id)

    def resume(self, cluster: str, topic: str, progress: TopicProgress, parked: TopicProgress) -> TopicProgress:
        back = {p: offset for p, offset in parked.next.items() if p not in progress.next}
        self.resumed.update(Split(cluster, topic, partition) for partition in back)
        self.note("resumed", cluster, topic, "is back: it continues at its parked offsets")
        return replace(
            progress,
            next={**progress.next, **back},
            epochs={**{p: parked.epochs[p] for p in back if p in parked.epochs}, **progress.epochs},
            stops={**{p: parked.stops[p] for p in back if p in parked.stops}, **progress.stops},
            ended={**{p: parked.ended[p] for p in back if p in parked.ended}, **progress.ended},
            times={**{p: parked.times[p] for p in back if p in parked.times}, **progress.times},
        )

    def note(self, kind: NoteKind, cluster: str, topic: str, text: str) -> None:
        self.notes.append(Note(kind, cluster, f"topic {topic!r} of cluster {cluster!r} {text}", topic))

    def result(self) -> OffsetDocument:
        clusters = self.with_topics(self.document.clusters, self.active)
        parked = self.with_topics(self.document.parked, self.parked)
        return replace(self.document, clusters=clusters, parked=parked)

    def with_topics(
        self, before: Mapping[str, SavedCluster[Topic]], topics_of: Mapping[str, Mapping[str, Topic]]
    ) -> dict[str, SavedCluster[Topic]]:
        new = SavedCluster[Topic]({})
        return {
            cluster: replace(before.get(cluster, new), topics=topics, kafka_id=self.kafka_ids.get(cluster))
            for cluster, topics in topics_of.items()
            if topics
        }
