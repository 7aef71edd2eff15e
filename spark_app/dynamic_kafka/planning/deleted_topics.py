"""Deleted topics of a pattern on a single cluster: a data loss, unless all of their records were read.

Pure; `planning.batch` calls it first in each plan. With Spark's `subscribePattern` the topics come from the cluster's
own list. A deleted topic drops out of that list as if a user had removed it on purpose. The outcome must not depend on
whether the next plan or the next listing comes first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.progress import Column, TopicProgress


def mark_deleted_topics(given: PlanInput) -> tuple[Mapping[str, SubscribedCluster], Mapping[str, ClusterObservation]]:
    """Return the wanted clusters and the answers, with deleted topics added as missing ones.

    A deleted topic that was read completely is not wanted any more. If the pattern does not match a topic any more, the
    user removed it on purpose, and it is left alone.
    """
    wanted, answers = given.observation.subscription.clusters, given.observation.answers
    single = given.options.single
    reading = given.progress.clusters.get(single.cluster_id) if single is not None else None
    if single is None or single.pattern is None or reading is None or not given.options.fail_on_data_loss:
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
    for topic, progress in reading.topics.items():
        if (topic in topics and topic not in missing) or not re.fullmatch(single.pattern, topic):
            continue
        if _is_read(progress, ends.get(topic)):
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
