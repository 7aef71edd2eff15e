"""The subscription of a query: each cluster of all its streams once, with all its topics. Driver and operator; pure.

Several streams may share a cluster. Then their topics are united, and its other fields must be equal in all of them.
(Flink's source silently takes those of the last stream.)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

from dynamic_kafka.errors import MetadataConflictError, OptionError
from dynamic_kafka.metadata.model import ClusterMetadata, ClusterState, KafkaStream, OffsetSpec
from dynamic_kafka.wording import did_you_mean, first_few


@dataclass(frozen=True)
class SubscribedCluster:
    """One cluster of a subscription.

    Attributes:
        topics: {topic: stream id}. A topic that several streams share belongs to the first stream id in sorted order.
        properties, starting_offsets, stopping_offsets, renamed_from, secret_folder: as in `ClusterMetadata`.
        state: `Draining` only if every stream with this cluster drains it, `Announced` if one announces it.
        draining: the topics that every stream with them on this cluster drains.
        topic_ids: {topic: the id that it must have, as Kafka's tools print it}.
    """

    topics: Mapping[str, str]
    properties: Mapping[str, str]
    starting_offsets: OffsetSpec | None = None
    stopping_offsets: OffsetSpec | None = None
    renamed_from: str | None = None
    secret_folder: str | None = None
    state: ClusterState = "Active"
    draining: frozenset[str] = frozenset()
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def bootstrap_servers(self) -> str:
        return self.properties["bootstrap.servers"]

    @property
    def access(self) -> tuple[Mapping[str, str], str | None]:
        """Everything that a client needs to reach the cluster."""
        return self.properties, self.secret_folder


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

    def present_id(self, cluster: str) -> str:
        """Return the id that a cluster has now: its own, or that of the one that is renamed from it."""
        renamed = (name for name, named in self.clusters.items() if named.renamed_from == cluster)
        return cluster if cluster in self.clusters else next(renamed, cluster)

    def present_home(self, cluster: str, where: str) -> str:
        """Return the present id of the home of the application's own topics.

        Args:
            where: the place of the setting, for messages.

        Raises:
            OptionError: it is none of the clusters.
        """
        present = self.present_id(cluster)
        if present not in self.clusters:
            hint = did_you_mean(cluster, self.clusters) or f"; it names: {first_few(sorted(self.clusters))}"
            text = "the metadata of the subscribed streams names no cluster"
            raise OptionError(f"{where}: {text} {cluster!r}{hint}")
        return present


_STATES: tuple[ClusterState, ...] = ("Draining", "Active", "Announced")
"""A cluster has the last of the states that its streams give it."""


class Entry(NamedTuple):
    """The entry of a cluster in one stream."""

    stream: str
    cluster: str


@dataclass(frozen=True)
class Conflict:
    """A disagreement between two entries, which no query can read together.

    Attributes:
        one, other: the entries. Both are of one stream if it contradicts itself.
        subject: what they disagree about, such as "cluster 'east' (bootstrapServers differ)".
        message: the whole conflict with a remedy.
    """

    one: Entry
    other: Entry
    subject: str
    message: str


def unite(streams: Iterable[KafkaStream]) -> Subscription:
    """Return one subscription over all `streams`.

    Raises:
        MetadataConflictError: with every conflict: two streams disagree about a cluster id, or a cluster takes over
            the offsets of one that is itself still read.
    """
    problems: list[str] = []
    by_id: dict[str, KafkaStream] = {}
    for stream in streams:
        if by_id.setdefault(stream.stream_id, stream) != stream:
            problems.append(f"the stream id {stream.stream_id!r} names two different streams; merge or rename one")
    clusters, conflicts = _joined_clusters(by_id)
    problems += dict.fromkeys(conflict.message for conflict in conflicts)
    if problems:
        raise MetadataConflictError("; ".join(problems), tuple(problems))
    return Subscription(clusters, tuple(sorted(by_id)))


def find_conflicts(streams: Iterable[KafkaStream]) -> list[Conflict]:
    """Return the conflicts for which `unite` would refuse these streams; each stream has an id of its own."""
    return _joined_clusters({stream.stream_id: stream for stream in streams})[1]


def _joined_clusters(streams: Mapping[str, KafkaStream]) -> tuple[dict[str, SubscribedCluster], list[Conflict]]:
    entries: dict[str, list[tuple[Entry, ClusterMetadata]]] = {}
    for stream_id, stream in sorted(streams.items()):
        for name, metadata in stream.clusters.items():
            entries.setdefault(name, []).append((Entry(stream_id, name), metadata))
    clusters: dict[str, SubscribedCluster] = {}
    conflicts: list[Conflict] = []
    for name, cluster_entries in entries.items():
        entry, metadata = cluster_entries[0]
        union, agreed = _Union(entry.stream, metadata), True
        for entry, metadata in cluster_entries[1:]:
            agreed = agreed and not differing_fields(union, metadata)
            union.add(entry.stream, metadata)
        clusters[name] = union.cluster([metadata for _, metadata in cluster_entries])
        # Many streams may share a cluster, so their entries are compared in pairs only where some of them disagree.
        if not agreed:
            conflicts += _cluster_conflicts(name, cluster_entries)
    return clusters, conflicts + _rename_conflicts(entries)


def _cluster_conflicts(name: str, entries: Sequence[tuple[Entry, ClusterMetadata]]) -> list[Conflict]:
    """Return the conflicts of each entry with the first entry of every content that disagrees with its own."""
    firsts: list[tuple[Entry, ClusterMetadata]] = []
    for entry, metadata in entries:
        if not any(_same_content(metadata, known) for _, known in firsts):
            firsts.append((entry, metadata))
    conflicts: dict[tuple[Entry, Entry], Conflict] = {}
    for entry, metadata in entries:
        for first, known in firsts:
            one, other = sorted((first, entry))
            if (one, other) in conflicts or not (fields := differing_fields(known, metadata)):
                continue
            differ = f"{', '.join(fields)} differ"
            message = (
                f"streams {one.stream!r} and {other.stream!r} disagree about cluster {name!r}: {differ};"
                " make them equal"
            )
            conflicts[one, other] = Conflict(one, other, f"cluster {name!r} ({differ})", message)
    return list(conflicts.values())


def _same_content(one: ClusterMetadata, other: ClusterMetadata) -> bool:
    return replace(one, topics=other.topics, draining_topics=other.draining_topics) == other


def _content(cluster: SubscribedCluster) -> dict[str, Any]:
    """Return the value for the fingerprint.

    `draining` and `topic_ids` are left out where they add nothing, so that older fingerprints, for which users may
    wait, stay the same.
    """
    content = asdict(cluster)
    draining, topic_ids = sorted(content.pop("draining")), content.pop("topic_ids")
    if draining and cluster.state != "Draining":
        content["draining"] = draining
    return {**content, "topic_ids": topic_ids} if topic_ids else content


class _Union:
    """The union of one cluster's entries, as it grows. Many streams may share a cluster, so none of them is copied."""

    def __init__(self, stream_id: str, metadata: ClusterMetadata) -> None:
        self.topics: dict[str, str] = dict.fromkeys(metadata.topics, stream_id)
        self.properties = metadata.properties
        self.starting_offsets, self.stopping_offsets = metadata.starting_offsets, metadata.stopping_offsets
        self.renamed_from, self.secret_folder = metadata.renamed_from, metadata.secret_folder
        self.state: ClusterState = metadata.state
        self.draining = set(metadata.draining)
        self.topic_ids = dict(metadata.topic_ids)

    def add(self, stream_id: str, metadata: ClusterMetadata) -> None:
        """Add the entry of the next stream."""
        starting = _merged(self.starting_offsets, metadata.starting_offsets)
        stopping = _merged(self.stopping_offsets, metadata.stopping_offsets)
        if "Draining" in (self.state, metadata.state):
            deciding = metadata if self.state == "Draining" else self
            starting, stopping = deciding.starting_offsets, deciding.stopping_offsets
        self.starting_offsets, self.stopping_offsets = starting, stopping
        for topic, pin in metadata.topic_ids.items():
            # The pin of a stream that drains the topic gives way: it was written when the topic was another one.
            if topic not in self.topic_ids or topic in self.draining:
                self.topic_ids[topic] = pin
        self.draining -= set(metadata.topics) - metadata.draining
        self.draining |= {topic for topic in metadata.draining if topic not in self.topics}
        for topic in metadata.topics:
            self.topics.setdefault(topic, stream_id)
        self.state = max(self.state, metadata.state, key=_STATES.index)

    def cluster(self, entries: Sequence[ClusterMetadata]) -> SubscribedCluster:
        """Return the union of all these entries, with the topics of the last one first."""
        order = dict.fromkeys(topic for entry in reversed(entries) for topic in entry.topics)
        return SubscribedCluster(
            topics={topic: self.topics[topic] for topic in order},
            properties=self.properties,
            starting_offsets=self.starting_offsets,
            stopping_offsets=self.stopping_offsets,
            renamed_from=self.renamed_from,
            secret_folder=self.secret_folder,
            state=self.state,
            draining=frozenset(self.draining),
            topic_ids=self.topic_ids,
        )


def differing_fields(one: ClusterMetadata | _Union, other: ClusterMetadata) -> list[str]:
    """Return the fields in which two streams' entries of one cluster disagree, as a document calls them."""
    fields: list[str] = []
    mine, theirs = dict(one.properties), dict(other.properties)
    if _servers(mine.pop("bootstrap.servers", "")) != _servers(theirs.pop("bootstrap.servers", "")):
        fields.append("bootstrapServers")
    fields += [f"properties.{key}" for key in sorted(mine.keys() | theirs.keys()) if mine.get(key) != theirs.get(key)]
    # A cluster that drains was started long ago, so only the other streams choose its start and stop.
    if "Draining" not in (one.state, other.state):
        if not _mergeable(one.starting_offsets, other.starting_offsets):
            fields.append("startingOffsets")
        if not _mergeable(one.stopping_offsets, other.stopping_offsets):
            fields.append("stoppingOffsets")
    pinned = (one.topic_ids.keys() & other.topic_ids.keys()) - one.draining - other.draining
    fields += [f"topicIds.{topic}" for topic in sorted(pinned) if one.topic_ids[topic] != other.topic_ids[topic]]
    if one.renamed_from != other.renamed_from:
        fields.append("renamedFrom")
    if one.secret_folder != other.secret_folder:
        fields.append("secretFolder")
    return fields


def _rename_conflicts(entries: Mapping[str, Sequence[tuple[Entry, ClusterMetadata]]]) -> list[Conflict]:
    heirs: dict[str, dict[str, list[Entry]]] = {}
    for name, cluster_entries in entries.items():
        for entry, metadata in cluster_entries:
            if metadata.renamed_from is not None:
                heirs.setdefault(metadata.renamed_from, {}).setdefault(name, []).append(entry)
    conflicts = []
    for old, new in sorted(heirs.items()):
        if old in entries:
            for name in sorted(new):
                subject = f"cluster {old!r}, which is {name!r} now where it is renamed"
                message = (
                    f"cluster {name!r} is renamed from {old!r}, which is still read; remove one, or the `renamedFrom`"
                )
                pairs = _rivals(new[name], [entry for entry, _ in entries[old]])
                conflicts += [Conflict(one, other, subject, message) for one, other in pairs]
            continue
        for first, name in combinations(sorted(new), 2):
            subject = f"cluster {old!r}, which is {first!r} in one and {name!r} in the other"
            message = (
                f"the clusters {first!r} and {name!r} are both renamed from {old!r}; only one can carry its offsets on"
            )
            pairs = _rivals(new[first], new[name])
            conflicts += [Conflict(one, other, subject, message) for one, other in pairs]
    return conflicts


def _rivals(some: Sequence[Entry], others: Sequence[Entry]) -> list[tuple[Entry, Entry]]:
    """Return each entry of both lists with an entry of the other list, of another stream if that is possible."""

    def rival(entry: Entry, candidates: Sequence[Entry]) -> Entry:
        return next((candidate for candidate in candidates if candidate.stream != entry.stream), candidates[0])

    return [*((one, rival(one, others)) for one in some), *((rival(other, some), other) for other in others)]


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
