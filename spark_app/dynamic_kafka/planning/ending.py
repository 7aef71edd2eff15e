"""The end of a run that ends by itself: a bounded run, or one of `Trigger.AvailableNow`.

Pure; the driver's `enumerator` calls it. A cluster that does not answer, or a topic that it does not describe, must not
end a run: its records would be missing without any report.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from dynamic_kafka.planning.dataloss import is_recreated
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.progress import Column, OffsetDocument, TopicProgress
from dynamic_kafka.planning.splits import Split


@dataclass
class Targets:
    """The ends of one run of `Trigger.AvailableNow`, fixed for each topic when it is first described in that run.

    Attributes:
        ends: the end of each split; splits without an end are not read in this run.
        topics: {(cluster, topic): its description with those ends}.
    """

    ends: dict[Split, int] = field(default_factory=dict)
    topics: dict[tuple[str, str], TopicObservation] = field(default_factory=dict)

    def fix(self, observed: Mapping[str, ClusterObservation]) -> None:
        """Fix the ends of the topics that have none yet."""
        for cluster, answer in observed.items():
            for name, topic in answer.topics.items():
                if (cluster, name) not in self.topics:
                    self.ends |= {Split(cluster, name, partition): end for partition, end in topic.latest.items()}
                    self.topics[cluster, name] = topic


def still_to_read(
    progress: OffsetDocument,
    wanted: Mapping[str, Collection[str]],
    answers: Mapping[str, ClusterObservation],
    targets: Targets | None,
) -> dict[str, list[str]]:
    """Return the topics that the run has not read to its end, by cluster; none in a run without an end.

    Args:
        progress: the query's progress, back where an amendment left ranges out.
        wanted: the topics that metadata names, by cluster.
        answers: the answers of the last plan.
        targets: targets of a run of `Trigger.AvailableNow`, None in other runs.
    """
    if targets is None and not progress.bounded:
        return {}
    unread = {
        cluster: [
            name for name in sorted(topics) if not _is_read(progress, cluster, name, answers.get(cluster), targets)
        ]
        for cluster, topics in sorted(wanted.items())
    }
    return {cluster: topics for cluster, topics in unread.items() if topics}


def _is_read(
    progress: OffsetDocument, cluster: str, name: str, answer: ClusterObservation | None, targets: Targets | None
) -> bool:
    if answer is not None and name in answer.missing:
        return True
    reading = progress.topic(cluster, name)
    # A bounded run finds no topics after its first plan: its splits are complete.
    if progress.bounded and (reading is None or all(reading.finished(partition) for partition in reading.next)):
        return True
    ending = targets.topics.get((cluster, name)) if targets is not None else None
    if ending is None or reading is None:
        return False
    now = answer.topics.get(name) if answer is not None else None
    # Offsets of the old topic cannot be compared with the ends of a topic re-created under its name. If the plan had
    # the new topic's description, its loss is accepted, and the next run reads it to its end.
    if is_recreated(ending.topic_id, now.topic_id if now is not None else reading.topic_id):
        return now is not None
    return all(
        _reached(reading, partition, end, now.latest if now else None) for partition, end in ending.latest.items()
    )


def _reached(reading: TopicProgress, partition: int, end: int, ends_now: Column | None) -> bool:
    if ends_now is not None:
        # The plan has accepted the loss of a partition that is gone, or of a log that became shorter.
        if partition not in ends_now:
            return True
        end = min(end, ends_now[partition])
    following = reading.next.get(partition)
    return following is not None and (following >= end or reading.finished(partition))
