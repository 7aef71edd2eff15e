"""Track how far draining topics are: their lag, and the time since their ends last moved. Driver; pure.

The lag prober's thread records each round of listing (`DrainTracker.take`), and the reporter reads the result. A topic
that counts as drained may be deleted a moment later, so every doubt counts against it. A topic that was not listed,
does not fit the document or was listed too long ago has no lag and is not quiet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.planning.progress import Column, OffsetDocument, TopicProgress

STALE_S = 30.0
"""A listing that is older says nothing any more: clusters are asked every ten seconds."""


@dataclass(frozen=True)
class ClusterListing:
    """What a cluster has answered.

    Attributes:
        asked_s, answered_s: when it was asked, and by when its answer was there; monotonic seconds.
        draining: the topics that drained by the metadata that it was asked with.
    """

    asked_s: float
    answered_s: float
    draining: frozenset[str]
    answer: ClusterObservation


@dataclass(frozen=True)
class TopicDrain:
    """How far one topic is.

    Attributes:
        lag: offsets that no committed batch has, over all partitions, of the source that is furthest behind among those
            of all sinks; None if any of them is not known.
        quiet_s: how long no end has moved.
        open_transaction: records after the last stable offset, which readers of committed ones do not see yet.
        kafka_id: Kafka's own `cluster.id` of who was listed; None if it is not known.
    """

    cluster: str
    topic: str
    lag: int | None
    quiet_s: float
    open_transaction: bool
    kafka_id: str | None = None


@dataclass(frozen=True)
class _Ends:
    kafka_id: str | None
    topic_id: str | None
    latest: Column
    high: Column


@dataclass(frozen=True)
class _Seen:
    """`ends` were the same from `since_s` to `listed_s`."""

    ends: _Ends
    since_s: float
    listed_s: float


class DrainTracker:
    """The topics that drain, over all rounds of listing since the application started."""

    def __init__(self) -> None:
        # Replaced as a whole, by one thread: readers in others see a round or the one before.
        self._topics: Mapping[tuple[str, str], _Seen | None] = {}

    def take(
        self, draining: Mapping[str, frozenset[str]], listings: Mapping[str, ClusterListing], failed: Collection[str]
    ) -> None:
        """A round of listing is over.

        Args:
            draining: the topics that drain now, per cluster.
            listings: the answers that came. A cluster may have neither answered nor failed: then its last one stands.
            failed: clusters that could not be asked, or answered with an error. All begin anew there.
        """
        before = self._topics
        self._topics = {
            (cluster, topic): None
            if cluster in failed
            else _seen(topic, listings.get(cluster), before.get((cluster, topic)))
            for cluster, topics in draining.items()
            for topic in topics
        }

    def topics(self) -> list[tuple[str, str]]:
        """(cluster, topic) of what drains, in order."""
        return sorted(self._topics)

    def states(self, documents: Collection[OffsetDocument | None], now_s: float) -> list[TopicDrain]:
        """How far they are, in order.

        Args:
            documents: what each sink has committed, by each of its sources, with what was left out of its last batch
                back in; None: not known.
        """
        return [_state(*key, seen, documents, now_s) for key, seen in sorted(self._topics.items(), key=lambda t: t[0])]


def _seen(topic: str, listing: ClusterListing | None, before: _Seen | None) -> _Seen | None:
    if listing is None:
        return before
    found = listing.answer.topics.get(topic)
    # Asked before it drained, whoever writes may not have known yet; without partitions there is nothing to be quiet.
    if topic not in listing.draining or found is None or not found.latest:
        return None
    ends = _Ends(listing.answer.kafka_id, found.topic_id, found.latest, found.high)
    # Listed at some moment between asking and answering: what is certain is the time between two of them.
    since_s = before.since_s if before is not None and before.ends == ends else listing.answered_s
    return _Seen(ends, since_s, listing.asked_s)


def _state(
    cluster: str, topic: str, seen: _Seen | None, documents: Collection[OffsetDocument | None], now_s: float
) -> TopicDrain:
    if seen is None or now_s - seen.listed_s > STALE_S:
        return TopicDrain(cluster, topic, None, 0.0, False)
    ends = seen.ends
    open_transaction = any(high > ends.latest.get(partition, high) for partition, high in ends.high.items())
    reached = [_reached(cluster, topic, ends, document) for document in documents]
    known = [each for each in reached if each is not None]
    lag = max((_behind(ends.latest, each) for each in known), default=None) if len(known) == len(reached) else None
    # Committed beyond the end that was listed: written to since then, or the log was cut off. It is not quiet.
    moved = any(each.next[partition] > end for each in known for partition, end in ends.latest.items())
    quiet_s = 0.0 if moved else max(0.0, seen.listed_s - seen.since_s)
    return TopicDrain(cluster, topic, lag, quiet_s, open_transaction, ends.kafka_id)


def _reached(cluster: str, topic: str, ends: _Ends, document: OffsetDocument | None) -> TopicProgress | None:
    """The progress in all partitions, if the document speaks of the very topic that was listed."""
    progress = document.topic(cluster, topic) if document is not None else None
    if document is None or progress is None or progress.next.keys() != ends.latest.keys():
        return None
    same = _fits(document.clusters[cluster].kafka_id, ends.kafka_id) and _fits(progress.topic_id, ends.topic_id)
    return progress if same else None


def _fits(saved: str | None, found: str | None) -> bool:
    """Brokers need not tell their ids."""
    return saved is None or found is None or saved == found


def _behind(ends: Column, reached: TopicProgress) -> int:
    """What lies behind a stopping offset is never read."""
    return sum(max(0, min(end, reached.stops.get(p, end)) - reached.next[p]) for p, end in ends.items())
