"""What the planner sees of the world: what metadata wants, and what the clusters answered.

Pure values. The edges (`metadata.discovery`, `kafka.admin`) fill them, the planner reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dynamic_kafka.planning.progress import Column


@dataclass(frozen=True)
class TopicObservation:
    """One topic as its cluster described it.

    Attributes:
        latest: end offset per partition, under the isolation level that the readers use: the last stable offset with
            `read_committed`. Its keys are the partitions that exist (and are subscribed, with `assign`).
        earliest: first offset still there; empty when it was not asked for, which is the usual case.
        high: high watermark per partition where `latest` is the last stable offset, asked for after it; empty when it
            was not asked for.
        epochs: leader epoch at the end, where the broker tells.
        topic_id: None when the broker tells none (all-zero ids count as none).
    """

    latest: Column
    earliest: Column = field(default_factory=dict)
    epochs: Column = field(default_factory=dict)
    topic_id: str | None = None
    high: Column = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterObservation:
    """One cluster as it answered.

    Attributes:
        topics: the wanted topics that exist and answered.
        missing: wanted topics that the cluster's own list does not name.
        kafka_id: Kafka's `cluster.id`, None when the brokers tell none.
    """

    topics: Mapping[str, TopicObservation]
    kafka_id: str | None = None
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True)
class WantedCluster:
    """What metadata wants from one cluster: `topics` maps a topic to the stream id that its rows carry."""

    topics: Mapping[str, str]
    renamed_from: str | None = None


NoteKind = Literal["new", "parked", "resumed", "expired", "renamed", "recreated", "data-loss"]


@dataclass(frozen=True)
class Note:
    """Something a plan did that a user should hear of, once: it goes to the log and into the reported status."""

    kind: NoteKind
    cluster: str
    text: str
    topic: str | None = None
