"""The end of a run that ends by itself: a bounded run, or one of `Trigger.AvailableNow`.

Pure; the driver's `enumerator` calls it. A cluster that does not answer must not end a run: its records would be
missing without any report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dynamic_kafka.planning.dataloss import is_recreated
from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.splits import Split


@dataclass
class Targets:
    """The ends of one run of `Trigger.AvailableNow`, fixed for each cluster when it first answers in that run.

    Attributes:
        ends: the end of each split; splits without an end are not read in this run.
        fixed: the clusters that have answered.
        topic_ids: {(cluster, topic): id of the topic that the ends belong to}, None where brokers report no ids.
    """

    ends: dict[Split, int] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    topic_ids: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def fix(self, observed: Mapping[str, ClusterObservation]) -> None:
        """Fix the ends of the clusters that have none yet."""
        for cluster in observed.keys() - self.fixed:
            for name, topic in observed[cluster].topics.items():
                self.ends |= {Split(cluster, name, partition): end for partition, end in topic.latest.items()}
                self.topic_ids[cluster, name] = topic.topic_id
        self.fixed |= observed.keys()


def still_to_read(progress: OffsetDocument, clusters: Iterable[str], targets: Targets | None) -> frozenset[str]:
    """Return those of `clusters` that the run has not read to its end; none in a run without an end.

    Args:
        progress: the query's progress, back where an amendment left ranges out.
        clusters: clusters that metadata names.
        targets: targets of a run of `Trigger.AvailableNow`, None in other runs.
    """
    if targets is None and not progress.bounded:
        return frozenset()
    return frozenset(cluster for cluster in clusters if not _is_read(progress, cluster, targets))


def _is_read(progress: OffsetDocument, cluster: str, targets: Targets | None) -> bool:
    if not progress.bounded:
        ends = {split: end for split, end in (targets.ends if targets else {}).items() if split.cluster == cluster}
        known = targets is not None and cluster in targets.fixed
        return known and all(_reached(progress, split, end, targets) for split, end in ends.items())
    # A bounded run finds no topics after its first plan: its splits are complete.
    reading = progress.clusters.get(cluster)
    open_splits = [
        Split(cluster, name, partition)
        for name, topic in (reading.topics.items() if reading else ())
        for partition in topic.next
        if not topic.finished(partition)
    ]
    if targets is None or cluster not in targets.fixed:
        return not open_splits
    return all(_reached(progress, split, targets.ends.get(split, 0), targets) for split in open_splits)


def _reached(progress: OffsetDocument, split: Split, end: int, targets: Targets | None) -> bool:
    topic = progress.topic(split.cluster, split.topic)
    following = topic.next.get(split.partition) if topic is not None else None
    if topic is None or following is None:
        return False
    ended = targets.topic_ids.get((split.cluster, split.topic)) if targets is not None else None
    # An offset of the old topic cannot be compared with an end of a topic re-created under its name.
    return following >= end and not is_recreated(topic.topic_id, ended)
