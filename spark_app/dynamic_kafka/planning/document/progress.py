"""The progress of a query over all clusters: the content of one offset document.

Pure immutable values. `OffsetDocument` is the whole state of a query. Spark saves it as text in its own checkpoint (the
format is in `planning.document.codec`) and returns it at a restart. Nothing here changes with time: a deadline is
written once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from dynamic_kafka.planning.splits import Split

Column = Mapping[int, int]
"""One number per partition."""

Unknown = Mapping[str, Any]
"""Optional fields that a newer release saved. They are kept, and mean nothing here."""


@dataclass(frozen=True)
class TopicProgress:
    """Progress in one topic of one cluster.

    Attributes:
        stream: the stream id of its rows; saved, so that a replay yields the same rows.
        topic_id: Kafka's id of the topic; None if the broker reports none.
        next: the next offset to read, per partition.
        epochs: leader epoch at `next`, where the broker reports one.
        starts: where this batch starts, only where that is not the end of the batch before: the split is new, resumed,
            or amended. A batch by value has those of all its ranges.
        start_epochs: leader epoch at `starts` or behind it, where the broker reports one.
        stops: resolved stopping offset, per partition, in bounded reading.
        ended: offset of the stop record that a record evaluator has found, per partition. It is not read, nor is
            anything behind it.
        times: a time that no unread record of the partition is older than, milliseconds since the epoch, as far as
            executors have found one (`planning.clock_of_values`).
    """

    stream: str
    next: Column
    topic_id: str | None = None
    epochs: Column = field(default_factory=dict)
    starts: Column = field(default_factory=dict)
    stops: Column = field(default_factory=dict)
    start_epochs: Column = field(default_factory=dict)
    ended: Column = field(default_factory=dict)
    times: Column = field(default_factory=dict)
    unknown: Unknown = field(default_factory=dict)

    def finished(self, partition: int) -> bool:
        """Return whether the partition has reached its stopping offset, or its stop record."""
        following = self.next[partition]
        return any(partition in ends and following >= ends[partition] for ends in (self.stops, self.ended))

    def finished_count(self) -> int:
        """Return the number of finished partitions. Most topics have no end at all, and then none is looked at."""
        return sum(self.finished(partition) for partition in {**self.stops, **self.ended} if partition in self.next)

    def without(self, partitions: Collection[int]) -> TopicProgress:
        """Return the topic without these partitions."""

        def rest(column: Column) -> Column:
            return {p: number for p, number in column.items() if p not in partitions}

        return replace(
            self,
            next=rest(self.next),
            epochs=rest(self.epochs),
            starts=rest(self.starts),
            stops=rest(self.stops),
            start_epochs=rest(self.start_epochs),
            ended=rest(self.ended),
            times=rest(self.times),
        )

    def parked(self, until_ms: int, before: ParkedTopic | None = None, *, missing: bool = False) -> ParkedTopic:
        """Return the topic as parked. Its offsets win over those of an earlier parking (`before`)."""
        older = before.progress if before is not None else TopicProgress(self.stream, {})
        kept = TopicProgress(
            stream=self.stream,
            topic_id=self.topic_id,
            next={**older.next, **self.next},
            epochs=self.epochs,
            stops=self.stops,
            ended={**{p: at for p, at in older.ended.items() if p not in self.next}, **self.ended},
            times={**{p: time for p, time in older.times.items() if p not in self.next}, **self.times},
        )
        return ParkedTopic(kept, until_ms, missing=missing)


@dataclass(frozen=True)
class ParkedTopic:
    """A topic that metadata no longer names, or that its cluster does not have.

    Attributes:
        progress: where it continues if it returns; it has no starts of a batch.
        until_ms: when it expires, milliseconds since the epoch.
        awaited: metadata named the topic again before that, but its cluster has not answered yet. The topic came back
            in time, so it is kept for as long as metadata names it.
        missing: metadata names the topic, but its cluster has none of this topic id. It is kept in the same way.
    """

    progress: TopicProgress
    until_ms: int
    awaited: bool = False
    missing: bool = False

    @property
    def finished(self) -> bool:
        """Whether all its splits have reached their stopping offsets, or their stop records."""
        return self.progress.finished_count() == len(self.progress.next)


Topic = TypeVar("Topic", TopicProgress, ParkedTopic)


@dataclass(frozen=True)
class SavedCluster(Generic[Topic]):
    """The topics of one cluster, active or parked. `kafka_id` is Kafka's own `cluster.id`, None if none is reported."""

    topics: Mapping[str, Topic]
    kafka_id: str | None = None
    unknown: Unknown = field(default_factory=dict)


ClusterProgress = SavedCluster[TopicProgress]
ParkedCluster = SavedCluster[ParkedTopic]


@dataclass(frozen=True)
class OffsetDocument:
    """The complete progress of a query after one batch.

    Attributes:
        query: random id of the query, made by its first plan; empty before.
        number: number of the document within the query; 0 is the empty one.
        previous: fingerprint of the document before, so that one document identifies its whole batch.
        bounded: the run ends when all splits have reached their stopping offsets; it discovers nothing new.
        over: all splits of an unbounded run have reached their stop records: it reads nothing any more, for ever.
        explicit_ids: {cluster id: {topic: topic id}}: the topic that metadata's explicit starting offsets were first
            used for. They hold for no other topic of that name.
        used_acceptances: {cluster id: the acceptance that is void, by its id: the cluster was changed by it, or started
            as new while it was left}.
        state: id of the state folder that the query has used; empty without one.
        clock_ms: a time that all active splits have passed with this batch, milliseconds since the epoch; None without
            alignment.
        announced: {cluster id: when the clock stops to wait for it, milliseconds since the epoch}, for the clusters
            that metadata announces. It is 0 once a batch has had records of the cluster (`planning.announced`).
        by_value: the number of ranges of this batch, each of which gets a report, since executors may end it early.
            None if they do not look for the times of records.
        drift_ms: how far behind the clock they end the ranges of this batch; None in documents of earlier releases.
        logged, fingerprint: caches of `planning.document.codec`: the document's JSON, and its hash. A changed copy
            of the document starts without them.
    """

    query: str = ""
    number: int = 0
    previous: str = ""
    bounded: bool = False
    clusters: Mapping[str, ClusterProgress] = field(default_factory=dict)
    parked: Mapping[str, ParkedCluster] = field(default_factory=dict)
    explicit_ids: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    used_acceptances: Mapping[str, str] = field(default_factory=dict)
    state: str = ""
    over: bool = False
    clock_ms: int | None = None
    announced: Mapping[str, int] = field(default_factory=dict)
    by_value: int | None = None
    drift_ms: int | None = None
    unknown: Unknown = field(default_factory=dict)
    logged: Mapping[str, Any] | None = field(default=None, init=False, compare=False, repr=False)
    fingerprint: str | None = field(default=None, init=False, compare=False, repr=False)

    def cache(self, **caches: Any) -> None:
        """Fill the caches `logged` or `fingerprint`, which are no part of the value."""
        for name, value in caches.items():
            object.__setattr__(self, name, value)

    @property
    def is_initial(self) -> bool:
        """Whether the query has no plan yet."""
        return self.number == 0

    def splits(self) -> Iterator[Split]:
        """Yield all active splits in order, finished ones too."""
        for cluster in sorted(self.clusters):
            topics = self.clusters[cluster].topics
            for topic in sorted(topics):
                for partition in sorted(topics[topic].next):
                    yield Split(cluster, topic, partition)

    def topics(self) -> Iterator[TopicProgress]:
        """Yield the progress of all topics, parked ones too."""
        for cluster in self.clusters.values():
            yield from cluster.topics.values()
        for kept in self.parked.values():
            yield from (topic.progress for topic in kept.topics.values())

    def topic(self, cluster: str, topic: str) -> TopicProgress | None:
        """Return the progress of one topic, None if it is not active."""
        progress = self.clusters.get(cluster)
        return progress.topics.get(topic) if progress else None

    def any_topic(self, cluster: str, topic: str) -> TopicProgress | None:
        """Return the progress of one topic, active or else parked; None without any."""
        kept = self.parked_topic(cluster, topic)
        return self.topic(cluster, topic) or (kept.progress if kept is not None else None)

    def parked_topic(self, cluster: str, topic: str) -> ParkedTopic | None:
        """Return one parked topic, None if it is not parked."""
        parked_cluster = self.parked.get(cluster)
        return parked_cluster.topics.get(topic) if parked_cluster else None

    def next_of(self, split: Split) -> int | None:
        """Return the next offset of a split, None if it is not active."""
        progress = self.topic(split.cluster, split.topic)
        return progress.next.get(split.partition) if progress else None

    def epoch_of(self, split: Split) -> int | None:
        """Return the leader epoch of a split's next offset, None if unknown."""
        progress = self.topic(split.cluster, split.topic)
        return progress.epochs.get(split.partition) if progress else None

    @property
    def finished(self) -> bool:
        """Whether the run has read everything: a bounded one up to its ends, another one up to its stop records.

        Where executors may end ranges early, the document does not show it: a later one does.
        """
        return self.over or (self.bounded and not self.by_value and not any(self.open_splits()))

    def open_splits(self) -> Iterator[Split]:
        """Yield the active splits that are not finished, in order."""
        for split in self.splits():
            if not self.clusters[split.cluster].topics[split.topic].finished(split.partition):
                yield split

    def settled(self) -> OffsetDocument:
        """Return the same progress without the starts of its own batch: the base of the next plan."""
        clusters = {}
        for cluster, progress in self.clusters.items():
            topics = {name: replace(topic, starts={}, start_epochs={}) for name, topic in progress.topics.items()}
            clusters[cluster] = replace(progress, topics=topics)
        return replace(self, clusters=clusters)


def has_stop_records(document: OffsetDocument) -> bool:
    """Return whether a split, active or parked, has found its stop record."""
    return any(topic.ended for topic in document.topics())
