"""How far a query has read, over all clusters: the content of one offset document.

Pure immutable values. `OffsetDocument` is the whole of a query's state: Spark saves it as text in its own checkpoint
(`codec.py` has the format) and hands it back at a restart. Nothing here changes by itself: a deadline is written once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dynamic_kafka.planning.splits import Split

Column = Mapping[int, int]
"""One number per partition."""


@dataclass(frozen=True)
class TopicProgress:
    """Progress in one topic of one cluster.

    Attributes:
        stream: the stream id that its rows carry; saved, so that a replay yields the same rows.
        topic_id: Kafka's id of the topic; None when the broker tells none, or a first version did not record it.
        next: the next offset to read, per partition.
        epochs: leader epoch seen at `next`, where the broker tells.
        starts: where this batch starts, only where that is not the end of the batch before: a split that is new, back
            from parking, or amended.
        start_epochs: leader epoch seen at `starts` or behind it, where the broker told.
        stops: resolved stopping offset, per partition, in bounded reading.
    """

    stream: str
    next: Column
    topic_id: str | None = None
    epochs: Column = field(default_factory=dict)
    starts: Column = field(default_factory=dict)
    stops: Column = field(default_factory=dict)
    start_epochs: Column = field(default_factory=dict)

    def finished(self, partition: int) -> bool:
        """Whether the partition has reached its stopping offset."""
        stop = self.stops.get(partition)
        return stop is not None and self.next[partition] >= stop


@dataclass(frozen=True)
class ClusterProgress:
    """Progress in one cluster. `kafka_id` is Kafka's own `cluster.id`, None when the brokers tell none."""

    topics: Mapping[str, TopicProgress]
    kafka_id: str | None = None


@dataclass(frozen=True)
class ParkedTopic:
    """Splits of a topic that metadata no longer names.

    Attributes:
        until_ms: how long they are kept, milliseconds since the epoch.
        awaited: metadata named the topic again before that, but its cluster has not answered yet. It came back in time,
            so it is kept for as long as it stays named.
    """

    stream: str
    next: Column
    until_ms: int
    topic_id: str | None = None
    epochs: Column = field(default_factory=dict)
    stops: Column = field(default_factory=dict)
    awaited: bool = False


@dataclass(frozen=True)
class ParkedCluster:
    """The parked topics of one cluster, with the cluster's identity at the time."""

    topics: Mapping[str, ParkedTopic]
    kafka_id: str | None = None


@dataclass(frozen=True)
class OffsetDocument:
    """Everything a query knows of its progress after one batch.

    Attributes:
        query: random id of the query, chosen with its first plan; empty before.
        number: counts the documents of a query; 0 is the empty one.
        previous: fingerprint of the document before, so that one document names its whole batch.
        bounded: the run ends when all splits have reached their stopping offsets; nothing is discovered any more.
    """

    query: str = ""
    number: int = 0
    previous: str = ""
    bounded: bool = False
    clusters: Mapping[str, ClusterProgress] = field(default_factory=dict)
    parked: Mapping[str, ParkedCluster] = field(default_factory=dict)

    @property
    def is_initial(self) -> bool:
        """Whether nothing was planned yet."""
        return self.number == 0

    def splits(self) -> Iterator[Split]:
        """All active splits, finished ones among them, in order."""
        for cluster in sorted(self.clusters):
            topics = self.clusters[cluster].topics
            for topic in sorted(topics):
                for partition in sorted(topics[topic].next):
                    yield Split(cluster, topic, partition)

    def topic(self, cluster: str, topic: str) -> TopicProgress | None:
        """Progress of one topic, None when it is not active."""
        found = self.clusters.get(cluster)
        return found.topics.get(topic) if found else None

    def next_of(self, split: Split) -> int | None:
        """The next offset of an active split, None when it is not active."""
        found = self.topic(split.cluster, split.topic)
        return found.next.get(split.partition) if found else None

    def epoch_of(self, split: Split) -> int | None:
        """The leader epoch of that offset, None where it is not known."""
        found = self.topic(split.cluster, split.topic)
        return found.epochs.get(split.partition) if found else None

    @property
    def finished(self) -> bool:
        """Whether every split of a bounded run has reached its stopping offset."""
        return self.bounded and all(
            topic.finished(partition)
            for cluster in self.clusters.values()
            for topic in cluster.topics.values()
            for partition in topic.next
        )

    def settled(self) -> OffsetDocument:
        """The same progress without the starts of its own batch: what the next plan builds upon, and compares with."""
        return replace(
            self,
            clusters={
                cluster: replace(
                    progress,
                    topics={
                        name: replace(topic, starts={}, start_epochs={}) for name, topic in progress.topics.items()
                    },
                )
                for cluster, progress in self.clusters.items()
            },
        )
