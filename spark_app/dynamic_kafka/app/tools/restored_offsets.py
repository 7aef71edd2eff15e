"""Starting offsets for a new checkpoint from what is left of a lost one, compared with the clusters. Pure.

`restore_offsets.py` gathers the facts: the saved offsets, the group's commits, and the clusters' answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from dynamic_kafka.errors import IdentityError, OffsetDocumentError
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, ParkedCluster, ParkedTopic
from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.planning.sameness.identity import recreation
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.wording import first_few


@dataclass(frozen=True)
class SavedOffsets:
    """The next offsets from one source.

    Attributes:
        origin: the source in words.
        kafka_ids: {cluster: `cluster.id`}, where the source has it.
        topic_ids: {(cluster, topic): topic id}, where the source has it.
        ended: the stop record's offset of each split that a record evaluator has ended; None if the source does not
            show them.
        over: whether all splits of the query had ended.
    """

    origin: str
    next: Mapping[Split, int]
    kafka_ids: Mapping[str, str] = field(default_factory=dict)
    topic_ids: Mapping[tuple[str, str], str] = field(default_factory=dict)
    ended: Mapping[Split, int] | None = None
    over: bool = False

    @classmethod
    def of(cls, document: OffsetDocument, origin: str) -> SavedOffsets:
        """Return the splits of an offset document, parked ones too, with the ids that it has."""
        next_offsets: dict[Split, int] = {}
        ended: dict[Split, int] = {}
        kafka_ids: dict[str, str] = {}
        topic_ids: dict[tuple[str, str], str] = {}
        clusters: Iterable[tuple[str, ClusterProgress | ParkedCluster]]
        clusters = (*document.parked.items(), *document.clusters.items())
        for cluster, content in clusters:
            if content.kafka_id is not None:
                kafka_ids[cluster] = content.kafka_id
            for name, saved in content.topics.items():
                topic = saved.progress if isinstance(saved, ParkedTopic) else saved
                next_offsets |= {Split(cluster, name, partition): offset for partition, offset in topic.next.items()}
                ended |= {Split(cluster, name, partition): offset for partition, offset in topic.ended.items()}
                if topic.topic_id is not None:
                    topic_ids[cluster, name] = topic.topic_id
        return cls(origin, next_offsets, kafka_ids, topic_ids, ended=ended, over=document.over)


@dataclass(frozen=True)
class RestoredSplit:
    """One split of the new checkpoint.

    Attributes:
        start: the offset to start from; None if nothing is saved: it starts at its first record.
        waiting: the offsets from there to the end.
        twice: those of them that were delivered already, as other evidence shows; None if there is no other evidence.
        missed: offsets between the saved one and the first one that is still there.
        ended: whether the start is before a stop record, which is still there, or at it.

    Numbers of offsets are upper bounds of records: compaction and transactions leave offsets without a record.
    """

    split: Split
    start: int | None
    waiting: int
    twice: int | None
    missed: int
    ended: bool = False


@dataclass(frozen=True)
class RestoredOffsets:
    """The result: the splits, and what is not taken over.

    Attributes:
        unnamed: the next offsets of saved splits that the metadata does not name now: parked ones, or removed since.
        unchecked: clusters or topics whose identity the source does not have, so that it was not checked.
        topic_ids: {(cluster, topic): the id that a topic with restored offsets has now}.
    """

    splits: tuple[RestoredSplit, ...]
    unnamed: Mapping[Split, int]
    unchecked: tuple[str, ...]
    topic_ids: Mapping[tuple[str, str], str]

    def offsets(self) -> dict[Split, int]:
        """Return the start of each split with a saved offset."""
        return {split.split: split.start for split in self.splits if split.start is not None}


def restore(
    saved: SavedOffsets,
    answers: Mapping[str, ClusterObservation],
    subscription: Subscription,
    *,
    delivered: Mapping[Split, int] = MappingProxyType({}),
    left_out: Collection[str] = (),
    stops: Collection[Split] | None = None,
) -> RestoredOffsets:
    """Compare saved offsets with the clusters.

    Args:
        answers: of all clusters of the subscription, with their earliest offsets.
        delivered: other evidence: the committed offset of splits.
        left_out: `cluster` or `cluster/topic`, which start anew whatever is saved.
        stops: those of the ended splits whose stop record is still there; None without a record evaluator.

    Raises:
        IdentityError: a cluster or topic is another one than the saved one.
        OffsetDocumentError: a saved offset is past the end of its partition, or a stop record would not be found again.
    """
    kept = {
        split: offset
        for split, offset in saved.next.items()
        if split.cluster not in left_out and f"{split.cluster}/{split.topic}" not in left_out
    }
    _check_identities(saved, kept, answers)
    present = list(_present(answers, subscription))
    _check_stop_records(saved, [split for split, _, _ in present if split in kept], stops)
    splits = []
    for split, earliest, latest in present:
        offset = kept.pop(split, None)
        start = earliest if offset is None else offset
        if start > latest:
            origin, topic = saved.origin, f"{split.cluster}/{split.topic}"
            raise OffsetDocumentError(
                f"{origin} has offset {start} of {split}, cut off at {latest}. To reread all of it: --leave-out {topic}"
            )
        first = max(start, earliest)
        splits.append(
            RestoredSplit(
                split,
                start=None if offset is None else first,
                waiting=latest - first,
                twice=max(0, min(delivered[split], latest) - first) if split in delivered else None,
                missed=max(0, earliest - start),
                ended=offset is not None and split in (saved.ended or ()),
            )
        )
    topic_ids = {
        split.split[:2]: topic_id
        for split in splits
        if split.start is not None
        and (topic_id := answers[split.split.cluster].topics[split.split.topic].topic_id) is not None
    }
    unchecked = tuple(_unchecked(saved, splits))
    return RestoredOffsets(tuple(splits), dict(sorted(kept.items())), unchecked, topic_ids)


def _present(answers: Mapping[str, ClusterObservation], subscription: Subscription) -> Iterator[tuple[Split, int, int]]:
    """Yield each split that exists and that metadata names, with its first and its end offset."""
    for cluster in sorted(subscription.clusters):
        for topic, seen in sorted(answers[cluster].topics.items()):
            for partition, latest in sorted(seen.latest.items()):
                yield Split(cluster, topic, partition), seen.earliest[partition], latest


def _check_identities(
    saved: SavedOffsets, kept: Mapping[Split, int], answers: Mapping[str, ClusterObservation]
) -> None:
    problems = []
    for cluster in sorted({split.cluster for split in kept} & answers.keys()):
        before, now = saved.kafka_ids.get(cluster), answers[cluster].kafka_id
        if before is not None and now is not None and before != now:
            text = f"cluster {cluster!r} answers with the cluster.id {now}, saved is {before}"
            problems.append((cluster, text))
            continue
        for topic in sorted({split.topic for split in kept if split.cluster == cluster}):
            seen = answers[cluster].topics.get(topic)
            old, new = saved.topic_ids.get((cluster, topic)), seen.topic_id if seen is not None else None
            if old is not None and new is not None and old != new:
                text = f"topic {topic!r} of cluster {cluster!r} {recreation(old, new)}"
                problems.append((f"{cluster}/{topic}", text))
    if problems:
        flags = " ".join(dict.fromkeys(f"--leave-out {what}" for what, _ in problems))
        texts = "; ".join(text for _, text in problems)
        raise IdentityError(
            f"the offsets of {saved.origin} do not fit: {texts}. Correct the metadata, or reread these: {flags}"
        )


def _check_stop_records(saved: SavedOffsets, present: Collection[Split], stops: Collection[Split] | None) -> None:
    """Refuse ended splits whose stop record the new query would not find: it would read on behind it."""
    ended = saved.ended or {}
    lost = sorted(split for split in present if split in ended and (stops is None or split not in stops))
    if lost:
        why = "app.yaml has no recordEvaluator" if stops is None else "the record is gone"
        flags = " ".join(dict.fromkeys(f"--leave-out {split.cluster}/{split.topic}" for split in lost))
        way = "Set recordEvaluator" if stops is None else "Take the topics out of the metadata"
        ends = first_few(f"{split} at {ended[split]}" for split in lost)
        raise OffsetDocumentError(
            f"{ends} had ended at a stop record, and would be read on: {why}. {way}, or reread the topics: {flags}"
        )


def _unchecked(saved: SavedOffsets, splits: Collection[RestoredSplit]) -> Iterator[str]:
    restored = [split.split for split in splits if split.start is not None]
    for cluster in sorted({split.cluster for split in restored}):
        if cluster not in saved.kafka_ids:
            yield cluster
        else:
            topics = sorted({split.topic for split in restored if split.cluster == cluster})
            yield from (f"{cluster}/{topic}" for topic in topics if (cluster, topic) not in saved.topic_ids)
