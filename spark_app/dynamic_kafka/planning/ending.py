"""The end of a run that ends by itself: a bounded one, one of `Trigger.AvailableNow`, or one with a record evaluator.

Pure; the driver's `enumerator` and `planning.plan` call it. A cluster that does not answer, or a topic that it does
not describe, must not end a run: its records would be missing without any report.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.document.progress import OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.sameness.identity import is_another
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.wording import first_few


@dataclass
class Targets:
    """The ends of one run of `Trigger.AvailableNow`, fixed for each split when it is first described in that run.

    Attributes:
        ends: the end of each split; splits without an end are not read in this run.
        topics: {(cluster, topic): its description with those ends}.
        assigned: whether the option `assign` chooses the partitions: others may have progress from before.
    """

    assigned: bool = False
    ends: dict[Split, int] = field(default_factory=dict)
    topics: dict[tuple[str, str], TopicObservation] = field(default_factory=dict)

    def fix(self, observed: Mapping[str, ClusterObservation]) -> None:
        """Fix the ends of the splits that have none yet. A topic re-created in the run gets none."""
        for cluster, answer in observed.items():
            for name, topic in answer.topics.items():
                known = self.topics.setdefault((cluster, name), replace(topic, latest={}))
                # A broker with old metadata may lack a partition, and describe it later.
                new = {partition: end for partition, end in topic.latest.items() if partition not in known.latest}
                if new and not is_another(known.topic_id, topic.topic_id):
                    self.ends |= {Split(cluster, name, partition): end for partition, end in new.items()}
                    self.topics[cluster, name] = replace(known, latest={**known.latest, **new})


def all_stop_records_reached(progress: OffsetDocument) -> bool:
    """Return whether all splits of an unbounded run have reached their stop records. Without any split none has."""
    return not progress.bounded and any(True for _ in progress.splits()) and not any(progress.open_splits())


def awaited_before_the_end(
    given: PlanInput,
    progress: OffsetDocument,
    wanted: Mapping[str, SubscribedCluster],
    answers: Mapping[str, ClusterObservation],
) -> str:
    """Return why a run that has read all its splits is not over, as they may not be all that it has to read.

    Once it is over, it is so for ever: no later metadata adds a split to it. So the newest metadata has to be in force
    and to name each subscribed stream. Each wanted cluster has to answer in this very plan, and to describe each topic
    that it has. No split with records to read may be parked: metadata may name it again.

    Args:
        progress: progress with new splits opened.
        wanted, answers: with absences confirmed.
    """
    if given.incomplete_metadata:
        return given.incomplete_metadata
    silent = sorted(cluster for cluster, want in wanted.items() if want.topics and cluster not in answers)
    if silent:
        return f"no answer from {first_few(silent)}"
    unknown = [
        f"{cluster}/{name}"
        for cluster, want in sorted(wanted.items())
        for name in sorted(want.topics)
        if not _has_only(progress, cluster, name, answers[cluster])
    ]
    if unknown:
        return f"not all partitions are described of {first_few(unknown)}"
    announced = [
        f"{cluster}/{name}"
        for cluster, want in sorted(wanted.items())
        for name in sorted(want.topics)
        if want.state == "Announced" and name in answers[cluster].missing
    ]
    if announced:
        return f"{first_few(announced)} is announced, and not there yet"
    parked = [
        f"{cluster}/{name}"
        for cluster, kept in sorted(progress.parked.items())
        for name, topic in sorted(kept.topics.items())
        if given.now_ms < topic.until_ms and not topic.finished
    ]
    if not parked or given.options.removed_cluster_retention_ms <= 0:
        return ""
    topics = first_few(parked)
    lost = "missing in the metadata or its cluster"
    return f"{topics} is {lost}: bring it back, or give up its rest: start once with removedClusterRetention=0"


def goes_on(waits_for: str) -> dict[tuple[str, ...], str | None]:
    """Return the warning about a run that has read all its splits and is not over, None where it does not wait."""
    text = f"all splits have reached their stop records, but the query goes on: {waits_for}"
    return {("waits-for",): text if waits_for else None}


def _has_only(progress: OffsetDocument, cluster: str, name: str, answer: ClusterObservation) -> bool:
    seen, reading = answer.topics.get(name), progress.topic(cluster, name)
    if seen is None:
        return name in answer.missing
    return reading is not None and seen.latest.keys() <= reading.next.keys()


def still_to_read(
    progress: OffsetDocument,
    wanted: Mapping[str, Collection[str]],
    answers: Mapping[str, ClusterObservation],
    targets: Targets | None,
) -> dict[str, list[str]]:
    """Return the topics that the run has not read to its end, by cluster; none in a run without an end.

    Args:
        progress: the query's progress, back where an amendment left ranges out.
        wanted, answers: those of the last plan (`Planned`), by cluster.
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
    if targets is None or ending is None or reading is None:
        return False
    now = answer.topics.get(name) if answer is not None else None
    # Offsets of the old topic cannot be compared with the ends of a topic re-created under its name. If the plan had
    # the new topic's description, its loss is accepted, and the next run reads it to its end.
    if is_another(ending.topic_id, now.topic_id if now is not None else reading.topic_id):
        return now is not None
    if not targets.assigned and any(p not in ending.latest and not reading.finished(p) for p in reading.next):
        return False  # only brokers with old metadata have answered: they lack a partition that was read before
    return all(_reached(reading, partition, end, now) for partition, end in ending.latest.items())


def _reached(reading: TopicProgress, partition: int, end: int, now: TopicObservation | None) -> bool:
    if now is not None:
        # The plan has accepted the loss of a log that became shorter, or of a partition that is gone. Partitions never
        # leave a topic that has an id: a broker with old metadata lacks it.
        if partition not in now.latest and now.topic_id is None:
            return True
        end = min(end, now.latest.get(partition, end))
    following = reading.next.get(partition)
    return following is not None and (following >= end or reading.finished(partition))
