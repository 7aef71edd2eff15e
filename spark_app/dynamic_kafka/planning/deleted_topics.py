"""Topics that a pattern on one cluster has read and that are deleted: a loss, unless all of their records were read.

Pure. In Spark's own form no metadata names topics: the cluster's list does, and one that is deleted drops out of it as
if somebody had taken it out on purpose. Whether the next plan or the next look at the list comes first must not matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from dynamic_kafka.planning.observation import ClusterObservation, WantedCluster
from dynamic_kafka.planning.progress import ClusterProgress, Column, TopicProgress


def tell_deleted(
    pattern: str,
    reading: ClusterProgress,
    want: WantedCluster,
    answer: ClusterObservation,
    ends: Mapping[str, Column],
) -> tuple[WantedCluster, ClusterObservation]:
    """What is wanted of the cluster and observed, with the topics that were deleted as missing ones, or, where all was
    read, as no longer wanted.

    Args:
        pattern: chooses topics by their whole names. What it chooses no longer was left out on purpose.
        ends: where each topic ended when an earlier plan of this process saw it.
    """
    topics, missing = dict(want.topics), set(answer.missing)
    for name, topic in reading.topics.items():
        if (name in topics and name not in missing) or not re.fullmatch(pattern, name):
            continue
        if _all_read(topic, ends.get(name)):
            topics.pop(name, None)
            missing.discard(name)
        else:
            topics[name] = topic.stream
            missing.add(name)
    return replace(want, topics=topics), replace(answer, missing=frozenset(missing))


def _all_read(topic: TopicProgress, ends: Column | None) -> bool:
    return ends is not None and all(topic.next.get(partition, 0) >= end for partition, end in ends.items())
