"""Data losses: records that should have been read and are gone (`failOnDataLoss`).

Pure; `planning.plan` searches for losses before a batch takes anything, and `planning.losses.acceptance` judges them.
A plan has first offsets only of clusters that it has just opened, since they cost each cluster a call. Executors notice
expired records while they read (`executor.reading.range_reader`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from dynamic_kafka.planning.document.progress import OffsetDocument, ParkedCluster, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.questions import EpochCheck
from dynamic_kafka.planning.sameness.identity import is_another, recreation
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.wording import first_few, tool_command

LossKind = Literal["expired", "truncated", "recreated", "missing", "partition-gone"]
"""The kinds of data losses, as acceptances save them."""


@dataclass(frozen=True)
class DataLoss:
    """One split that cannot continue at its offset.

    Attributes:
        resume_at: the nearest offset where it can, None if the split is gone. For a re-created topic it is the first
            offset, or 0 if that was not observed.
        topic_id: id of the topic that the split's offset belongs to, if known.
        recreated: whether another topic has that name now.
        missing: whether the cluster does not have the topic at all.
        truncated: whether leader epochs show that the log was cut off at `resume_at`.
        epoch: the present leader epoch, None if unknown.
    """

    split: Split
    reason: str
    resume_at: int | None
    topic_id: str | None = None
    recreated: bool = False
    missing: bool = False
    truncated: bool = False
    epoch: int | None = None

    def kind(self, following: int) -> LossKind:
        """Return the kind of the loss for a split whose next offset is `following`."""
        if self.recreated:
            return "recreated"
        if self.resume_at is None:
            return "missing" if self.missing else "partition-gone"
        return "truncated" if self.resume_at < following else "expired"


def epochs_to_check(document: OffsetDocument, observed: Mapping[str, ClusterObservation]) -> dict[Split, EpochCheck]:
    """Return the splits whose partition had a new leader since their next offset was planned.

    A leader that did not have all records may have been elected: its log lacks some, and goes on with others.
    """
    checks = {}
    for cluster, answer in sorted(observed.items()):
        reading = document.clusters.get(cluster)
        for name, topic in sorted(reading.topics.items()) if reading else ():
            seen = answer.topics.get(name)
            if seen is None or seen.epochs == topic.epochs:
                continue
            for partition, saved in topic.epochs.items():
                newest = seen.epochs.get(partition, saved)
                if newest > saved and partition in seen.latest and not topic.finished(partition):
                    # With `read_committed` the observed end may lie before the next offset.
                    end = max(seen.latest[partition], topic.next[partition])
                    check = EpochCheck(seen.topic_id, saved, newest, end)
                    checks[Split(cluster, name, partition)] = check
    return checks


def find_data_loss(
    document: OffsetDocument,
    observed: Mapping[str, ClusterObservation],
    *,
    before: OffsetDocument | None = None,
    epoch_ends: Mapping[Split, int] = MappingProxyType({}),
) -> list[DataLoss]:
    """Compare every active split with what its cluster still has.

    Args:
        document: progress to judge, with the splits that were just opened.
        before: progress before it took over the observed topic ids. A topic with another id there was re-created.
        epoch_ends: the answer to the question for `epochs_to_check`.

    Returns:
        One loss for each split whose next offset expired (retention), lies past the end (truncation) or belongs to a
        topic that was re-created since, and for each split whose partition is gone. Topics and clusters without an
        answer are left alone, and so are finished splits, but for a new one that starts past the log's end.
    """
    losses: list[DataLoss] = []
    for cluster, answer in sorted(observed.items()):
        progress = document.clusters.get(cluster)
        for topic, reading in sorted(progress.topics.items()) if progress else ():
            if topic in answer.missing:
                losses.extend(
                    DataLoss(
                        Split(cluster, topic, partition),
                        "the topic no longer exists",
                        None,
                        topic_id=reading.topic_id,
                        missing=True,
                    )
                    for partition in sorted(reading.next)
                    if not reading.finished(partition)
                )
                continue
            seen = answer.topics.get(topic)
            if seen is None:
                continue
            earlier = before.clusters.get(cluster) if before else None
            saved = earlier.topics.get(topic, reading) if earlier else reading
            recreated = is_another(saved.topic_id, seen.topic_id)
            ended = {p for p in saved.ended if p in saved.next and saved.finished(p)} if recreated else set()
            if ended and ended == saved.next.keys():
                continue  # all of the old topic was read, up to its stop records
            earliest, latest = seen.earliest, seen.latest
            for partition, following in sorted(reading.next.items()):
                is_there = not recreated and earliest.get(partition, 0) <= following <= latest.get(partition, -1)
                if is_there and not epoch_ends:
                    continue  # nearly all of thousands of splits, in each plan
                split = Split(cluster, topic, partition)
                if partition not in seen.latest and seen.topic_id is not None and seen.topic_id == saved.topic_id:
                    continue  # partitions never leave a topic: this broker does not have the newest metadata yet
                kept_to = following if recreated else epoch_ends.get(split, following)
                loss = (
                    _judge_recreated(following, saved.topic_id, seen, partition)
                    if recreated
                    else _judge(following, earliest.get(partition), latest.get(partition), kept_to)
                )
                is_new = earlier is None or topic not in earlier.topics or partition not in saved.next
                starts_past_the_end = is_new and following > latest.get(partition, following)
                is_done = reading.finished(partition) and not starts_past_the_end
                if loss is not None and not is_done and partition not in ended:
                    losses.append(
                        DataLoss(
                            split,
                            *loss,
                            topic_id=saved.topic_id,
                            recreated=recreated,
                            truncated=kept_to < following,
                            epoch=seen.epochs.get(partition),
                        )
                    )
    return losses


def recreated_while_pending(part: SplitRange, planned: str | None, current_id: str) -> str:
    """Return the error for a range of a pending batch whose topic was re-created, with the ways out."""
    topic = "/".join(part.split[:2])
    change, abandon = recreation(planned, current_id), tool_command("abandon", topic)
    accept = tool_command("accept", flag="--data-loss")
    return f"data loss: {part} is pending, but the topic {change}. To read the new one: {abandon}, then {accept}"


def _judge_recreated(
    following: int, saved: str | None, seen: TopicObservation, partition: int
) -> tuple[str, int | None]:
    recreated = f"the topic {recreation(saved, seen.topic_id)}: "
    if partition not in seen.latest:
        return f"{recreated}the partition no longer exists", None
    # The old offset may exist in the new log, but other records are there.
    return f"{recreated}offset {following} belongs to the old one", seen.earliest.get(partition, 0)


def _judge(following: int, earliest: int | None, latest: int | None, kept_to: int) -> tuple[str, int | None] | None:
    if latest is None:
        return "the partition no longer exists", None
    if kept_to < following:
        text = f"the log was truncated at {kept_to}, before the next offset {following}, and other records follow"
        return text, max(kept_to, earliest or 0)
    if following > latest:
        text = f"the log ends at {latest}, before the next offset {following} (truncated, or the topic re-created)"
        return text, latest
    if earliest is not None and following < earliest:
        return f"offsets {following}..{earliest} have expired", earliest
    return None


def describe(losses: Iterable[DataLoss]) -> str:
    """Return the first losses as text, for an error or a log."""
    return first_few((f"{loss.split}: {loss.reason}" for loss in losses), separator="; ")


def skip_losses(document: OffsetDocument, losses: Iterable[DataLoss], until_ms: int) -> OffsetDocument:
    """Continue behind the losses (`failOnDataLoss=false`, or accepted).

    Splits that are gone are dropped. A missing topic is parked: if it returns with its id, it continues at its offsets.

    Args:
        until_ms: when parked topics expire, unless metadata names them.
    """
    clusters = {cluster: dict(progress.topics) for cluster, progress in document.clusters.items()}
    parked = dict(document.parked)
    for loss in losses:
        cluster, name, _ = loss.split
        if not loss.missing:
            clusters[cluster][name] = _skip(clusters[cluster][name], loss)
        elif name in clusters[cluster]:
            missing = clusters[cluster].pop(name).parked(until_ms, document.parked_topic(cluster, name), missing=True)
            others = parked[cluster].topics if cluster in parked else {}
            parked[cluster] = ParkedCluster({**others, name: missing}, document.clusters[cluster].kafka_id)
    kept = {
        cluster: replace(
            document.clusters[cluster], topics={name: topic for name, topic in topics.items() if topic.next}
        )
        for cluster, topics in clusters.items()
    }
    return replace(document, clusters={cluster: p for cluster, p in kept.items() if p.topics}, parked=parked)


def _skip(topic: TopicProgress, loss: DataLoss) -> TopicProgress:
    partition = loss.split.partition
    resumed = {} if loss.resume_at is None else {partition: loss.resume_at}
    # The epoch of the lost records would show the same truncation again.
    epochs = {p: epoch for p, epoch in topic.epochs.items() if p != partition}
    if loss.resume_at is not None and loss.epoch is not None:
        epochs[partition] = loss.epoch
    following = {p: offset for p, offset in topic.next.items() if p != partition} | resumed
    # Stops of the old topic do not apply to the new one.
    anew = loss.recreated or loss.resume_at is None
    stops = {p: stop for p, stop in topic.stops.items() if p != partition} if anew else topic.stops
    # A stop record behind the loss is in the old topic, or was cut off: another one may be there.
    cut_off = anew or loss.truncated
    ended = {p: at for p, at in topic.ended.items() if p != partition} if cut_off else topic.ended
    times = {p: time_ms for p, time_ms in topic.times.items() if p != partition} if cut_off else topic.times
    return replace(topic, next=following, epochs=epochs, stops=stops, ended=ended, times=times)
