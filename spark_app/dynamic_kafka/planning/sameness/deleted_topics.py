"""Deleted topics: their absence is confirmed before it counts, also where a pattern no longer lists them.

Pure; `planning.plan` calls it first in each plan. With Spark's `subscribePattern` the topics come from the cluster's
own list. A deleted topic drops out of that list as if a user had removed it on purpose, and so does a topic that the
query may not describe any more. The outcome must not depend on whether the next plan or the next listing comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.document.progress import Column, OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.questions import AbsentTopicsQuestion, Steps


def confirm_absences(
    progress: OffsetDocument,
    wanted: Mapping[str, SubscribedCluster],
    answers: Mapping[str, ClusterObservation],
    *,
    every: bool,
) -> Steps[Mapping[str, ClusterObservation]]:
    """Return the answers, with only those topics missing that no broker has.

    The others count as not described: a later plan asks again.

    Args:
        progress: saved progress, renames applied.
        every: whether topics without progress are confirmed too; otherwise they stay as they are, unless metadata
            pins their id.

    Raises:
        ClusterError: a cluster refuses to describe one of them.
    """
    doubtful = frozenset(
        (cluster, topic)
        for cluster, answer in answers.items()
        for topic in answer.missing
        if every or progress.topic(cluster, topic) is not None or _is_pinned(wanted, cluster, topic)
    )
    if not doubtful:
        return answers
    present = doubtful - (yield AbsentTopicsQuestion(doubtful))
    return {
        cluster: replace(answer, missing=frozenset(t for t in answer.missing if (cluster, t) not in present))
        for cluster, answer in answers.items()
    }


def _is_pinned(wanted: Mapping[str, SubscribedCluster], cluster: str, topic: str) -> bool:
    return cluster in wanted and topic in wanted[cluster].topic_ids


def mark_deleted_topics(
    given: PlanInput,
) -> Steps[tuple[Mapping[str, SubscribedCluster], Mapping[str, ClusterObservation]]]:
    """Return the wanted clusters and the answers, with deleted topics added as missing ones.

    A deleted topic that was read completely is not wanted any more, unless topics are checked. If the pattern does not
    match a topic any more, the user removed it on purpose, and it is left alone.

    Raises:
        ClusterError: the cluster does not list a topic because it refuses to describe it.
    """
    wanted, answers = given.observation.subscription.clusters, given.observation.answers
    single = given.options.single
    reading = given.progress.clusters.get(single.cluster_id) if single is not None else None
    if single is None or single.pattern is None or reading is None:
        return wanted, answers
    name = single.cluster_id
    if name in wanted and name not in answers:
        return wanted, answers
    # Without any matching topic left, the subscription does not contain the cluster.
    want, answer = wanted.get(name, SubscribedCluster({}, {})), answers.get(name, ClusterObservation({}))
    # A run that ends by itself counts its topics at its start, and would wait for a topic that is parked.
    ends_by_itself = given.progress.bounded or given.limits.targets is not None
    ends = {} if ends_by_itself else given.topic_ends.get(name, {})
    topics, missing = dict(want.topics), set(answer.missing)
    unlisted = frozenset(
        (name, topic)
        for topic in reading.topics
        if (topic not in topics or topic in missing) and given.options.is_matched(topic)
    )
    absent = (yield AbsentTopicsQuestion(unlisted)) if unlisted else frozenset()
    checked = given.options.topic_integrity_check
    for _, topic in sorted(unlisted):
        progress = reading.topics[topic]
        if (name, topic) not in absent:
            # It exists, though not in the list that the metadata were made of.
            topics[topic] = progress.stream
            missing.discard(topic)
        elif not (given.options.fail_on_data_loss or checked):
            continue
        elif _is_read(progress, ends.get(topic)) and not checked:
            topics.pop(topic, None)
            missing.discard(topic)
        else:
            topics[topic] = progress.stream
            missing.add(topic)
    return (
        {**wanted, name: replace(want, topics=topics)},
        {**answers, name: replace(answer, missing=frozenset(missing))},
    )


def _is_read(topic: TopicProgress, ends: Column | None) -> bool:
    return ends is not None and all(topic.next.get(partition, 0) >= end for partition, end in ends.items())
