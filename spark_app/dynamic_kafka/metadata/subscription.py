"""The subscription of a query: each cluster of all its streams once, with all its topics. Driver and operator; pure.

Several streams may share a cluster. Then their topics are united, and its other fields must be equal in all of them.
(Flink's source silently takes those of the last stream.)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from dynamic_kafka.errors import MetadataConflictError
from dynamic_kafka.metadata.model import ClusterMetadata, ClusterState, KafkaStream, OffsetSpec


@dataclass(frozen=True)
class SubscribedCluster:
    """One cluster of a subscription.

    Attributes:
        topics: {topic: stream id}. A topic that several streams share belongs to the first stream id in sorted order.
        properties, starting_offsets, stopping_offsets, renamed_from, secret_folder: as in `ClusterMetadata`.
        state: `Draining` only if every stream with this cluster drains it.
        draining: the topics that every stream with them on this cluster drains.
    """

    topics: Mapping[str, str]
    properties: Mapping[str, str]
    starting_offsets: OffsetSpec | None = None
    stopping_offsets: OffsetSpec | None = None
    renamed_from: str | None = None
    secret_folder: str | None = None
    state: ClusterState = "Active"
    draining: frozenset[str] = frozenset()

    @property
    def bootstrap_servers(self) -> str:
        """The servers that a client contacts first."""
        return self.properties["bootstrap.servers"]


@dataclass(frozen=True)
class Subscription:
    """The clusters of a query by id, and the ids of those of its streams that exist, sorted."""

    clusters: Mapping[str, SubscribedCluster]
    stream_ids: tuple[str, ...]

    @cached_property
    def fingerprint(self) -> str:
        """`sha256:<64 hex>` over the content; the order of streams and clusters does not matter."""
        content = {
            "clusters": {name: _content(cluster) for name, cluster in self.clusters.items()},
            "streams": self.stream_ids,
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def unite(streams: Iterable[KafkaStream]) -> Subscription:
    """One subscription over all `streams`.

    Raises:
        MetadataConflictError: with every disagreement: two streams say different things of one cluster id, or
            a cluster takes over the offsets of one that is itself still read.
    """
    problems: list[str] = []
    clusters: dict[str, SubscribedCluster] = {}
    owners: dict[str, str] = {}
    by_id: dict[str, KafkaStream] = {}
    for stream in streams:
        if by_id.setdefault(stream.stream_id, stream) != stream:
            problems.append(f"the stream id {stream.stream_id!r} names two different streams; merge or rename one")
    for stream_id, stream in sorted(by_id.items()):
        for name, metadata in stream.clusters.items():
            if name not in clusters:
                clusters[name], owners[name] = _first(stream_id, metadata), stream_id
                continue
            problems += _disagreements(name, owners[name], clusters[name], stream_id, metadata)
            clusters[name] = _joined(clusters[name], stream_id, metadata)
    problems += _rename_conflicts(clusters)
    if problems:
        raise MetadataConflictError("; ".join(problems), tuple(problems))
    return Subscription(clusters, tuple(sorted(by_id)))


def _content(cluster: SubscribedCluster) -> dict[str, Any]:
    """Return the value for the fingerprint.

    `draining` is left out where it adds nothing, so that older fingerprints, for which users may wait, stay the same.
    """
    content = asdict(cluster)
    draining = sorted(content.pop("draining"))
    return {**content, "draining": draining} if draining and cluster.state == "Active" else content


def _first(stream_id: str, metadata: ClusterMetadata) -> SubscribedCluster:
    return SubscribedCluster(
        topics=dict.fromkeys(metadata.topics, stream_id),
        properties=metadata.properties,
        starting_offsets=metadata.starting_offsets,
        stopping_offsets=metadata.stopping_offsets,
        renamed_from=metadata.renamed_from,
        secret_folder=metadata.secret_folder,
        state=metadata.state,
        draining=metadata.draining,
    )


def _joined(cluster: SubscribedCluster, stream_id: str, metadata: ClusterMetadata) -> SubscribedCluster:
    starting = _merged(cluster.starting_offsets, metadata.starting_offsets)
    stopping = _merged(cluster.stopping_offsets, metadata.stopping_offsets)
    if "Draining" in (cluster.state, metadata.state):
        counts = metadata if cluster.state == "Draining" else cluster
        starting, stopping = counts.starting_offsets, counts.stopping_offsets
    return replace(
        cluster,
        topics={**dict.fromkeys(metadata.topics, stream_id), **cluster.topics},
        starting_offsets=starting,
        stopping_offsets=stopping,
        state="Draining" if cluster.state == metadata.state == "Draining" else "Active",
        draining=(cluster.draining - set(metadata.topics))
        | (metadata.draining - cluster.topics.keys())
        | (cluster.draining & metadata.draining),
    )


def _disagreements(
    name: str, owner: str, cluster: SubscribedCluster, stream_id: str, metadata: ClusterMetadata
) -> list[str]:
    differing: list[str] = []
    mine, theirs = dict(cluster.properties), dict(metadata.properties)
    if _servers(mine.pop("bootstrap.servers", "")) != _servers(theirs.pop("bootstrap.servers", "")):
        differing.append("bootstrapServers")
    differing += [
        f"properties.{key}" for key in sorted(mine.keys() | theirs.keys()) if mine.get(key) != theirs.get(key)
    ]
    # A cluster that drains was started long ago, so only the other streams choose its start and stop.
    if "Draining" not in (cluster.state, metadata.state):
        if not _mergeable(cluster.starting_offsets, metadata.starting_offsets):
            differing.append("startingOffsets")
        if not _mergeable(cluster.stopping_offsets, metadata.stopping_offsets):
            differing.append("stoppingOffsets")
    if cluster.renamed_from != metadata.renamed_from:
        differing.append("renamedFrom")
    if cluster.secret_folder != metadata.secret_folder:
        differing.append("secretFolder")
    if not differing:
        return []
    return [
        f"the streams {owner!r} and {stream_id!r} disagree about the cluster {name!r}: "
        f"{', '.join(differing)} differ; "
        "say the same in both, or give the clusters different ids"
    ]


def _rename_conflicts(clusters: Mapping[str, SubscribedCluster]) -> list[str]:
    problems = []
    heirs: dict[str, str] = {}
    for name, cluster in sorted(clusters.items()):
        old = cluster.renamed_from
        if old is None:
            continue
        if old in clusters:
            problems.append(
                f"the cluster {name!r} is renamed from {old!r}, which is still read under that id; "
                f"remove one of the two, or the `renamedFrom`"
            )
        elif heirs.setdefault(old, name) != name:
            problems.append(
                f"the clusters {heirs[old]!r} and {name!r} are both renamed from {old!r}; only one can "
                "carry its offsets on"
            )
    return problems


def _servers(text: str) -> frozenset[str]:
    return frozenset(text.split(","))


def _mergeable(one: OffsetSpec | None, other: OffsetSpec | None) -> bool:
    """Return whether two streams' offsets agree: they are equal, or explicit and equal for the topics of both."""
    if one == other:
        return True
    if one is None or other is None or not one.kind == other.kind == "explicit":
        return False
    shared = one.offsets.keys() & other.offsets.keys()
    return one.timestamps == other.timestamps and all(one.offsets[topic] == other.offsets[topic] for topic in shared)


def _merged(one: OffsetSpec | None, other: OffsetSpec | None) -> OffsetSpec | None:
    if one is None or other is None or one == other:
        return one
    return replace(one, offsets={**other.offsets, **one.offsets})
