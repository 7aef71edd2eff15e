"""Observations: the metadata in force, and the answers of its clusters.

Pure values. `kafka.probe` and the driver's observer fill them, planning reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.planning.document.progress import Column


@dataclass(frozen=True)
class TopicObservation:
    """One topic as its cluster described it.

    Attributes:
        latest: end offset per partition, under the isolation level that the readers use: the last stable offset with
            `read_committed`. Its keys are the partitions that exist (and are subscribed, with `assign`).
        earliest: first available offset per partition; empty when the plan did not ask for it, which is the usual case.
        high: high watermark per partition where `latest` is the last stable offset, fetched after `latest`; empty when
            the caller did not ask for it.
        epochs: leader epoch at the end, where the broker reports one.
        topic_id: None when the broker reports none (an all-zero id counts as none).
    """

    latest: Column
    earliest: Column = field(default_factory=dict)
    epochs: Column = field(default_factory=dict)
    topic_id: str | None = None
    high: Column = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterObservation:
    """The answer of one cluster.

    Attributes:
        topics: the wanted topics that exist and answered.
        missing: wanted topics that are not in the cluster's own list.
        kafka_id: Kafka's `cluster.id`, None when the brokers report none.
    """

    topics: Mapping[str, TopicObservation]
    kafka_id: str | None = None
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Observation:
    """The metadata in force, and the clusters that answered. A plan uses one, and so does a replay.

    Attributes:
        answers: {cluster id: answer} of the clusters that replied in time.
    """

    subscription: Subscription
    answers: Mapping[str, ClusterObservation]


def observed_topic(answers: Mapping[str, ClusterObservation], cluster: str, topic: str) -> TopicObservation | None:
    """Return the answer of a cluster about one topic, None if there is none."""
    answer = answers.get(cluster)
    return answer.topics.get(topic) if answer is not None else None


NoteKind = Literal["new", "parked", "resumed", "expired", "renamed", "recreated", "data-loss", "announced"]


@dataclass(frozen=True)
class Note:
    """An event of one plan, which the driver logs once.

    Attributes:
        former: the id that a renamed cluster had.
    """

    kind: NoteKind
    cluster: str
    text: str
    topic: str | None = None
    former: str | None = None
