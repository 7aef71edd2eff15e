"""The next offset document from reconciled progress, and the ranges of a batch from its two documents.

Pure; runs on the driver and in the tools. `planning.plan` calls the first two functions in each plan:

- `open_splits` adds the splits that are new, at the starting offsets that were resolved for them.
- `advance` moves splits forward as far as their ends and the rate limits allow, and makes the next document.
- `ranges_between` returns the ranges of a batch that was planned before; `driver.replay` calls it.

Three rules keep a replay exact. A batch's end document holds every start that the document before it does not show
(`starts`). A plan without news returns the very document that it was given. `ranges_between` uses documents only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from dynamic_kafka.errors import OffsetDocumentError
from dynamic_kafka.planning.announced import arrived
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, observed_topic
from dynamic_kafka.planning.sameness.identity import is_another
from dynamic_kafka.planning.splits import Split, SplitRange

TopicChange = Callable[[str, str, TopicProgress], TopicProgress]
"""(cluster, topic name, progress) → the changed progress."""


@dataclass(frozen=True)
class Limits:
    """How much one batch may take. None means no limit.

    Attributes:
        max_offsets: `maxOffsetsPerTrigger`, over all clusters.
        min_offsets, max_delay_ms: a batch waits for that many offsets, at most that long.
        waited_ms: milliseconds since the last batch.
        targets: the ends of a run of `Trigger.AvailableNow`. Splits without one take nothing.
    """

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 0
    waited_ms: int = 0
    targets: Mapping[Split, int] | None = None


@dataclass(frozen=True)
class Plan:
    """The outcome of one plan.

    Attributes:
        document: the next document; the logged one itself when there is nothing to do.
        lag: waiting offsets per cluster before this batch takes its share; reachable clusters only.
        left: waiting offsets per cluster after it.
        admitted: number of offsets that this batch takes.
    """

    document: OffsetDocument
    lag: Mapping[str, int] = field(default_factory=dict)
    left: Mapping[str, int] = field(default_factory=dict)
    admitted: int = 0


def open_splits(
    progress: OffsetDocument,
    starts: Mapping[Split, int],
    stops: Mapping[Split, int],
    observed: Mapping[str, ClusterObservation],
) -> OffsetDocument:
    """Add new splits at their resolved starts, and the resolved stopping offsets.

    Topics that still have no split at all, because no start is resolved, wait for a later plan.
    """
    return _with_stops(_with_new(progress, starts, observed), stops)


def advance(
    logged: OffsetDocument,
    progress: OffsetDocument,
    *,
    observed: Mapping[str, ClusterObservation],
    limits: Limits,
    query: str,
    state: str = "",
    room: Mapping[Split, int] | None = None,
    drift_ms: int | None = None,
    clock_ms: int | None = None,
    goal_ms: int | None = None,
) -> Plan:
    """Plan the next batch.

    Args:
        logged: the last document, exactly as Spark has it.
        progress: the same, amended, reconciled, with its new splits opened and behind any accepted data loss.
        observed: the clusters that answered; splits of others stay where they are.
        query: the id for a query that has none yet.
        state: the id of the state folder that the query uses. A new one is news: it is logged at once.
        room: the most offsets that alignment lets a split take; splits that are not in here may take any number.
        drift_ms: how far behind the clock executors end ranges, by the times of records; None if they do not look for
            them. Times alone are no news.
        clock_ms: the clock before the batch. A clock alone is no news.
        goal_ms: the clock after a batch that takes all that `room` allows.

    Returns:
        The plan; its document continues `logged` exactly.
    """
    lags = _lags(progress, observed, limits.targets)
    allowed = _within(lags, room or {})
    granted = _admit(allowed, limits, logged.number, total=sum(lags.values()))
    clock = goal_ms if goal_ms is not None and granted == allowed else clock_ms
    lag, taken = (_by_cluster(counts, observed) for counts in (lags, granted))
    left = {cluster: count - taken[cluster] for cluster, count in lag.items()}
    # Compare with starts: a split that went back and takes the same range again ends where the logged document ends.
    moved, by_value = _with_granted(progress, granted, observed), drift_ms is not None
    read = replace(_with_starts(moved, progress, logged, by_value=by_value), state=state)
    ranges = sum(count > 0 for count in granted.values())
    read = replace(read if by_value else _without_times(read), by_value=ranges if by_value else None, drift_ms=drift_ms)
    # The first document is always written: it holds the resolved starts. A later plan would resolve "latest" again.
    # A bounded run ends with a document that shows it.
    ends = bool(logged.by_value) and read.finished
    if logged.query and not ends and _without_times(read) == _without_times(logged.settled()):
        return Plan(logged, lag, left)
    document = replace(
        read,
        query=logged.query or query,
        number=logged.number + 1,
        previous=fingerprint(logged),
        clock_ms=clock,
        announced=arrived(read.announced, {cluster for cluster, count in taken.items() if count}),
    )
    return Plan(document, lag, left, sum(granted.values()))


def check_chain(start: OffsetDocument, end: OffsetDocument) -> None:
    """Check that a document follows the one that Spark names before it.

    Raises:
        OffsetDocumentError: it does not.
    """
    if end.previous in ("", fingerprint(start)):
        return
    text = f"the offset document {end.number} does not follow the one that Spark names before it ({start.number})"
    if start.query == end.query and end.number > start.number + 1:
        raise OffsetDocumentError(
            f"{text}: Spark has logged none of those in between. Take asyncProgressTrackingEnabled out of the query,"
            " and start a new checkpoint with startingOffsets from the column PENDING FROM that `inspect` shows"
            " (docs/reference/behaviour.md#after-a-crash)"
        )
    raise OffsetDocumentError(f"{text}: the checkpoint was edited or mixed up; restore it, or start with a new one")


def ranges_between(start: OffsetDocument, end: OffsetDocument) -> list[SplitRange]:
    """Return the ranges of the batch that leads from one logged document to the next, without empty ones.

    Raises:
        OffsetDocumentError: the documents do not belong together.
    """
    ranges = []
    for cluster, progress in end.clusters.items():
        for name, topic in progress.topics.items():
            before = start.topic(cluster, name)
            for partition, following in topic.next.items():
                split = Split(cluster, name, partition)
                first, epoch = _start_of(partition, topic, before)
                if first is None or following < first:
                    old, new = start.number, end.number
                    raise OffsetDocumentError(
                        f"{split} goes from {first} to {following} in documents {old} and {new}: restore the checkpoint"
                    )
                if following > first:
                    ranges.append(SplitRange(split, first, following, epoch, topic.epochs.get(partition, -1)))
    return ranges


def _with_new(
    progress: OffsetDocument, starts: Mapping[Split, int], observed: Mapping[str, ClusterObservation]
) -> OffsetDocument:
    """Add new splits at their start. Topics that still have no split at all are left out until a later plan.

    A new split gets the observed leader epoch: its log may be cut off and grow again before the first read. The epoch
    does not apply to a start that is newer than the observation.
    """
    clusters = {cluster: dict(reading.topics) for cluster, reading in progress.clusters.items()}
    added: dict[tuple[str, str], dict[int, int]] = {}
    for split, start in starts.items():
        added.setdefault((split.cluster, split.topic), {})[split.partition] = start
    for (cluster, name), offsets in added.items():
        topic, seen = clusters[cluster][name], observed_topic(observed, cluster, name)
        known = seen.epochs if seen else {}
        own = {p: known[p] for p, start in offsets.items() if seen and p in known and start <= seen.latest.get(p, -1)}
        clusters[cluster][name] = replace(topic, next={**topic.next, **offsets}, epochs={**topic.epochs, **own})
    kept = {
        cluster: replace(progress.clusters[cluster], topics={n: t for n, t in topics.items() if t.next})
        for cluster, topics in clusters.items()
    }
    return replace(progress, clusters={cluster: reading for cluster, reading in kept.items() if reading.topics})


def _with_stops(progress: OffsetDocument, stops: Mapping[Split, int]) -> OffsetDocument:
    if not stops:
        return progress

    def stopped(cluster: str, name: str, topic: TopicProgress) -> TopicProgress:
        own = {p: stops[split] for p in topic.next if (split := Split(cluster, name, p)) in stops}
        return replace(topic, stops={**topic.stops, **own}) if own else topic

    return _map_topics(progress, stopped)


def _lags(
    progress: OffsetDocument, observed: Mapping[str, ClusterObservation], targets: Mapping[Split, int] | None
) -> dict[Split, int]:
    """Return the offsets that a batch may take from each split of the clusters that answered, without zeros."""
    lags = {}
    for cluster, answer in sorted(observed.items()):
        reading = progress.clusters.get(cluster)
        for name, topic in sorted(reading.topics.items()) if reading else ():
            seen = answer.topics.get(name)
            if seen is None:
                continue
            latest, stops, ended = seen.latest, topic.stops, topic.ended
            # Most of thousands of splits have nothing new, or no limit: this loop does as little as possible for those.
            for partition, following in sorted(topic.next.items()):
                end = latest.get(partition, following)
                if end <= following:
                    continue
                if partition in stops:
                    end = min(end, stops[partition])
                if partition in ended:
                    end = min(end, ended[partition])
                split = Split(cluster, name, partition)
                if targets is not None:
                    end = min(end, targets.get(split, following))
                if end > following:
                    lags[split] = end - following
    return lags


def _within(lags: dict[Split, int], room: Mapping[Split, int]) -> dict[Split, int]:
    """Return the offsets that alignment lets each split take, without zeros."""
    if not room:
        return lags
    return {split: most for split, lag in lags.items() if (most := min(lag, room.get(split, lag)))}


def _admit(lags: Mapping[Split, int], limits: Limits, turn: int, *, total: int) -> Mapping[Split, int]:
    """Return the offsets that each split takes in this batch; `total` counts those that alignment holds back, too."""
    if must_wait(total, min_offsets=limits.min_offsets, waited_ms=limits.waited_ms, max_delay_ms=limits.max_delay_ms):
        return {}
    return share(lags, limits.max_offsets, turn) if limits.max_offsets else lags


def _by_cluster(counts: Mapping[Split, int], observed: Iterable[str]) -> dict[str, int]:
    """Return the sum of the counts for each observed cluster."""
    sums = dict.fromkeys(observed, 0)
    for split, count in counts.items():
        sums[split.cluster] += count
    return sums


def _with_granted(
    progress: OffsetDocument, granted: Mapping[Split, int], observed: Mapping[str, ClusterObservation]
) -> OffsetDocument:
    """Advance the splits that take offsets; the others keep everything, leader epochs too."""
    taken: dict[tuple[str, str], dict[int, int]] = {}
    for split, count in granted.items():
        taken.setdefault((split.cluster, split.topic), {})[split.partition] = count

    def moved(cluster: str, name: str, topic: TopicProgress) -> TopicProgress:
        own = taken.get((cluster, name))
        if not own:
            return topic
        seen = observed[cluster].topics[name].epochs
        return replace(
            topic,
            next={p: following + own.get(p, 0) for p, following in topic.next.items()},
            epochs={**topic.epochs, **{p: seen[p] for p in own if p in seen}},
        )

    return _map_topics(progress, moved)


def _with_starts(
    document: OffsetDocument, before: OffsetDocument, logged: OffsetDocument, *, by_value: bool
) -> OffsetDocument:
    """Record the starts of the batch that the logged document does not show; of a batch `by_value`, of all ranges.

    Starts are found by comparison, not by tracking what moved: new, resumed, renamed, amended and skipped splits all
    differ from the logged document. A missing start would be a range that no replay can read.
    """

    def started(cluster: str, name: str, topic: TopicProgress) -> TopicProgress:
        was, shown = before.clusters[cluster].topics[name], logged.topic(cluster, name)
        own = was.next
        # The same offset of a re-created topic is another place, with another leader epoch.
        same = shown is not None and not is_another(shown.topic_id, topic.topic_id)
        known: Mapping[int, int] = shown.next if shown and same else {}
        if own == known and not by_value:
            return topic
        starts = {p: at for p, at in own.items() if known.get(p) != at or (by_value and topic.next[p] > at)}
        # Only ranges that are read need an epoch. A range that went back has a later epoch, which shows a truncation
        # too.
        epochs = {p: was.epochs[p] for p in starts if p in was.epochs and topic.next[p] > starts[p]}
        return replace(topic, starts=starts, start_epochs=epochs)

    return _map_topics(document, started)


def _start_of(partition: int, topic: TopicProgress, before: TopicProgress | None) -> tuple[int | None, int]:
    """Return where a batch starts in a partition, None if no document shows it, and the leader epoch there or -1."""
    if partition in topic.starts:
        return topic.starts[partition], topic.start_epochs.get(partition, -1)
    if before is None:
        return None, -1
    return before.next.get(partition), before.epochs.get(partition, -1)


def forget_times(document: OffsetDocument, splits: Collection[Split]) -> OffsetDocument:
    """Return the progress without the times of these splits."""
    if not splits:
        return document

    def rest(cluster: str, name: str, topic: TopicProgress) -> TopicProgress:
        return replace(topic, times={p: t for p, t in topic.times.items() if Split(cluster, name, p) not in splits})

    return _map_topics(document, rest)


def _without_times(document: OffsetDocument) -> OffsetDocument:
    if document.by_value is None and not any(topic.times for topic in document.topics()):
        return document  # nearly all
    without = _map_topics(document, lambda cluster, name, topic: replace(topic, times={}))
    return replace(without, by_value=None, drift_ms=None)


def _map_topics(document: OffsetDocument, change: TopicChange) -> OffsetDocument:
    clusters = {
        cluster: replace(progress, topics={name: change(cluster, name, t) for name, t in progress.topics.items()})
        for cluster, progress in document.clusters.items()
    }
    return replace(document, clusters=clusters)


# -- admission ------------------------------------------------------------------------------------------


S = TypeVar("S")


def share(lags: Mapping[S, int], limit: int, turn: int = 0) -> dict[S, int]:
    """Share `limit` offsets over splits by their lag.

    Args:
        lags: offsets waiting per split; splits without any are ignored.
        limit: offsets to give out in total, at least 1.
        turn: a number that grows with every batch. With fewer offsets than splits, it selects the splits of this batch,
            so that each split has its turn. It comes from the offset document, so that a plan is a pure function.

    Returns:
        Offsets per split with lag, each at most its lag; their sum is min(limit, total lag).
    """
    waiting = [split for split, lag in lags.items() if lag > 0]
    total = sum(lags[split] for split in waiting)
    if total <= limit:
        return {split: lags[split] for split in waiting}
    if limit < len(waiting):
        first = turn * limit % len(waiting)
        chosen = (waiting[first:] + waiting[:first])[:limit]
        return dict.fromkeys(chosen, 1)
    # One for each split, the rest by lag: rounded down first, then the largest remainders, ties by order.
    rest, rest_total = limit - len(waiting), total - len(waiting)
    granted = {split: 1 + (lags[split] - 1) * rest // rest_total for split in waiting}
    left = limit - sum(granted.values())
    by_remainder = sorted(waiting, key=lambda split: -((lags[split] - 1) * rest % rest_total))
    for split in by_remainder[:left]:
        granted[split] += 1
    return granted


def must_wait(total_lag: int, *, min_offsets: int | None, waited_ms: int, max_delay_ms: int) -> bool:
    """Return whether a batch waits for more records (`minOffsetsPerTrigger`), at most for `maxTriggerDelay`.

    Args:
        total_lag: offsets waiting over all splits.
        waited_ms: milliseconds since the last batch was planned.
    """
    return min_offsets is not None and 0 < total_lag < min_offsets and waited_ms < max_delay_ms
