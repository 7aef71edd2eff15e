"""Track how far draining topics are: their lag, and the time since their ends last moved. Driver; pure.

- The lag prober's thread records each round of listing (`DrainTracker.record`). The tracker keeps since when the ends
  of each draining topic have stood still (`_after_listing`).
- The reporter reads the drain of each topic, compared with the committed progress of the sinks (`DrainTracker.states`,
  `_drain`).

A topic that counts as drained may be deleted a moment later, so every doubt counts against it. A topic that was not
listed, does not fit the document or was listed too long ago has no lag and is not quiet. A topic that its cluster does
not have is drained if no source has ever read it: its name may have been mistyped. Nothing more is read of a split that
has reached its stopping offset or its stop record, or by a query that has read everything. Once all queries have,
nothing drains any more, whatever the clusters answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dynamic_kafka.planning.document.progress import Column, OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.planning.sameness.identity import is_another

STALE_S = 30.0
"""A listing that is older is not used. Clusters are asked every ten seconds."""


@dataclass(frozen=True)
class ClusterListing:
    """The answer of one cluster in one round.

    Attributes:
        asked_s, answered_s: when it was asked, and when its answer was there at the latest; monotonic seconds.
        draining: the topics that were draining by the metadata of the request.
    """

    asked_s: float
    answered_s: float
    draining: frozenset[str]
    answer: ClusterObservation


@dataclass(frozen=True)
class TopicDrain:
    """The drain of one topic.

    Attributes:
        lag: offsets that no committed batch has, over all partitions, for the source that is furthest behind among all
            sinks; None if any number is unknown.
        quiet_s: seconds in which no end offset has moved.
        open_transaction: whether there are records after the last stable offset, which `read_committed` does not read
            yet.
        kafka_id: Kafka's own `cluster.id` of the cluster that was listed; None if it is unknown.
        never_reached: no sink has ever read the cluster, and it answers neither them nor the lag prober.
        finished: all sources have read all splits to their ends, and read them no more.
    """

    cluster: str
    topic: str
    lag: int | None
    quiet_s: float
    open_transaction: bool
    kafka_id: str | None = None
    never_reached: bool = False
    finished: bool = False


class DrainTracker:
    """The topics that drain, over all rounds of listing since the application started.

    The lag prober's thread writes it; other threads read it.
    """

    def __init__(self) -> None:
        # One thread replaces the whole mapping, so that other threads never see half a round.
        self._topics: Mapping[tuple[str, str], _Unmoved | None] = {}

    def record(
        self, draining: Mapping[str, frozenset[str]], listings: Mapping[str, ClusterListing], failed: Collection[str]
    ) -> None:
        """Record a round of listing.

        Args:
            draining: the topics that drain now, per cluster.
            listings: the answers. A cluster that has neither answered nor failed keeps its last one.
            failed: clusters that could not be asked, or answered with an error. Their topics begin anew.
        """
        before = self._topics
        self._topics = {
            (cluster, topic): None
            if cluster in failed
            else _after_listing(topic, listings.get(cluster), before.get((cluster, topic)))
            for cluster, topics in draining.items()
            for topic in topics
        }

    def topics(self) -> list[tuple[str, str]]:
        """Return (cluster, topic) of all topics that drain, sorted."""
        return sorted(self._topics)

    def states(
        self, documents: Collection[OffsetDocument | None], now_s: float, never_reached: Collection[str] = ()
    ) -> list[TopicDrain]:
        """Return the drain of each topic, sorted.

        Args:
            documents: the committed progress of each source of each sink, without the ranges that a replay left out
                (`AmendedProgress`); None if it is unknown.
            now_s: monotonic seconds.
            never_reached: the clusters that all sinks report as never reached.
        """
        topics = sorted(self._topics.items(), key=lambda item: item[0])
        reading = [document for document in documents if document is None or not document.finished]
        if documents and not reading:
            ids = {key: unmoved.ends.kafka_id for key, unmoved in topics if unmoved is not None}
            return [TopicDrain(*key, None, 0.0, False, ids.get(key), finished=True) for key, _ in topics]
        unread = {cluster for cluster in never_reached if all(_is_unread(sink, cluster) for sink in reading)}
        return [
            TopicDrain(*key, None, 0.0, False, never_reached=True)
            if unmoved is None and key[0] in unread
            else _drain(*key, unmoved, reading, now_s)
            for key, unmoved in topics
        ]


@dataclass(frozen=True)
class _Ends:
    """The ends of one topic as its cluster listed them, and the identities that they belong to."""

    kafka_id: str | None
    topic_id: str | None
    latest: Column
    high: Column


@dataclass(frozen=True)
class _Unmoved:
    """The span of time, from `since_s` to `listed_s`, in which the ends of a topic were the same."""

    ends: _Ends
    since_s: float
    listed_s: float


def _after_listing(topic: str, listing: ClusterListing | None, before: _Unmoved | None) -> _Unmoved | None:
    """Return since when the ends have not moved; None if the listing has no ends that count."""
    if listing is None:
        return before
    observed = listing.answer.topics.get(topic)
    # If the request was sent before the drain began, producers may still have been writing. A topic without partitions
    # has no ends that could stand still.
    if topic not in listing.draining:
        return None
    if topic in listing.answer.missing:
        ends = _Ends(listing.answer.kafka_id, None, {}, {})
    elif observed is None or not observed.latest:
        return None
    else:
        ends = _Ends(listing.answer.kafka_id, observed.topic_id, observed.latest, observed.high)
    # The cluster read the ends at some moment between request and answer. Only the time from the first answer to the
    # last request is certain.
    since_s = before.since_s if before is not None and before.ends == ends else listing.answered_s
    return _Unmoved(ends, since_s, listing.asked_s)


def _drain(
    cluster: str, topic: str, unmoved: _Unmoved | None, documents: Collection[OffsetDocument | None], now_s: float
) -> TopicDrain:
    if unmoved is None or now_s - unmoved.listed_s > STALE_S:
        return TopicDrain(cluster, topic, None, 0.0, False)
    ends = unmoved.ends
    if not ends.latest:  # the cluster does not have the topic
        if not documents or not all(_is_unread_topic(document, cluster, topic) for document in documents):
            return TopicDrain(cluster, topic, None, 0.0, False, ends.kafka_id)
        return TopicDrain(cluster, topic, 0, unmoved.listed_s - unmoved.since_s, False, ends.kafka_id)
    open_transaction = any(high > ends.latest.get(partition, high) for partition, high in ends.high.items())
    reached = [_reached(cluster, topic, ends, document) for document in documents]
    lags = [_behind(ends.latest, progress) for progress in reached if progress is not None]
    lag = max(lags, default=None) if len(lags) == len(reached) else None
    # A committed offset behind the listed end: the topic was written to since then, or its log was truncated.
    moved = any(
        progress.next[p] > end for progress in reached if progress is not None for p, end in ends.latest.items()
    )
    quiet_s = 0.0 if moved else max(0.0, unmoved.listed_s - unmoved.since_s)
    finished = bool(reached) and all(
        progress is not None and all(map(progress.finished, progress.next)) for progress in reached
    )
    return TopicDrain(cluster, topic, lag, quiet_s, open_transaction, ends.kafka_id, finished=finished)


def _reached(cluster: str, topic: str, ends: _Ends, document: OffsetDocument | None) -> TopicProgress | None:
    """Return a document's progress in a topic if it has all partitions of the very topic that was listed."""
    progress = document.topic(cluster, topic) if document is not None else None
    if document is None or progress is None or progress.next.keys() != ends.latest.keys():
        return None
    other_cluster = is_another(document.clusters[cluster].kafka_id, ends.kafka_id)
    return None if other_cluster or is_another(progress.topic_id, ends.topic_id) else progress


def _is_unread(document: OffsetDocument | None, cluster: str) -> bool:
    return document is not None and cluster not in document.clusters and cluster not in document.parked


def _is_unread_topic(document: OffsetDocument | None, cluster: str, topic: str) -> bool:
    return (
        document is not None
        and document.topic(cluster, topic) is None
        and document.parked_topic(cluster, topic) is None
    )


def _behind(ends: Column, reached: TopicProgress) -> int:
    """Sum the lag over the partitions. Records behind a stopping offset or a stop record do not count: none is read."""
    stops, ended = reached.stops, reached.ended
    return sum(max(0, min(end, stops.get(p, end), ended.get(p, end)) - reached.next[p]) for p, end in ends.items())
