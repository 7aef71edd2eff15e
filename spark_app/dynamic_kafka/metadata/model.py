"""The values of metadata: streams, their clusters, and where reading starts and stops there.

Pure; shared by the source, the application and the operator. The names are FLIP-246's (`KafkaStream`,
`ClusterMetadata`), with `starting_offsets` and `stopping_offsets` as in Flink's current `ClusterMetadata`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

_TOKEN = re.compile(r"(.{1,64})/([0-9]{1,18})")

OffsetKind = Literal["earliest", "latest", "committed", "timestamp", "explicit"]
ClusterState = Literal["Active", "Announced", "Draining"]


@dataclass(frozen=True)
class OffsetSpec:
    """The start or stop of reading on one cluster, before a plan resolves it to offsets.

    Attributes:
        kind: `explicit` uses `offsets` or `timestamps`, `timestamp` uses `timestamp_ms`, the others no field.
        timestamp_ms: milliseconds since 1970, for every partition that `timestamps` does not name.
        offsets: {topic: {partition: offset}}; -2 means earliest and -1 latest, as in Spark's JSON.
        timestamps: {topic: {partition: milliseconds}}; Spark's `startingOffsetsByTimestamp`.
    """

    kind: OffsetKind
    timestamp_ms: int | None = None
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    timestamps: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


EARLIEST = OffsetSpec("earliest")
LATEST = OffsetSpec("latest")
COMMITTED = OffsetSpec("committed")


@dataclass(frozen=True)
class ClusterMetadata:
    """A cluster as one stream uses it.

    Attributes:
        topics: topic names, in the order given; never empty.
        properties: Kafka client properties, with `bootstrap.servers` among them (FLIP-246). Never a secret's value.
        starting_offsets: overrides the option `startingOffsets` for this cluster; None leaves it to the option.
        stopping_offsets: likewise for `endingOffsets`; used by bounded runs only.
        renamed_from: the id under which this cluster's offsets were saved before.
        secret_folder: the name of the cluster's mounted secret folder; its file names are names of properties.
        state: a `Draining` cluster is read like an active one, until it is removed at its end. An `Announced` one is,
            too, and the stream's clock waits for its first records (`planning.announced`).
        draining_topics: the topics of an active cluster that drain; some of `topics`.
        topic_ids: {topic: the id that it must have, as Kafka's tools print it}, for some of `topics`.
    """

    topics: tuple[str, ...]
    properties: Mapping[str, str]
    starting_offsets: OffsetSpec | None = None
    stopping_offsets: OffsetSpec | None = None
    renamed_from: str | None = None
    secret_folder: str | None = None
    state: ClusterState = "Active"
    draining_topics: tuple[str, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def bootstrap_servers(self) -> str:
        """The servers that a client contacts first."""
        return self.properties["bootstrap.servers"]

    @property
    def draining(self) -> frozenset[str]:
        """The topics that drain: all of them if the cluster drains."""
        return frozenset(self.topics if self.state == "Draining" else self.draining_topics)


@dataclass(frozen=True)
class KafkaStream:
    """A logical stream: topics on clusters. `clusters` maps the user's cluster ids to their metadata."""

    stream_id: str
    clusters: Mapping[str, ClusterMetadata]

    def __hash__(self) -> int:
        # Streams need a hash since FLIP-246's services return sets of them. `clusters` is a mapping and has none.
        return hash(self.stream_id)


@dataclass(frozen=True)
class Rendering:
    """The parts of a document that only the operator writes.

    Attributes:
        subscription: UID of the subscription that it was rendered for; empty if it names none.
        streams: the streams word for word; None if they are larger than `kubernetes_names.REPORTED_STREAMS_BYTES`.
    """

    subscription: str = ""
    streams: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Revision:
    """One version of the metadata.

    Attributes:
        hash: `sha256:<64 hex>` of the content: equal content has an equal hash. Empty in a revision of which only the
            token is known, as from an annotation.
        counter: orders the revisions of one lineage; None in metadata that is not numbered.
        lineage: names a series of revisions. A subscription that is made anew begins another one.
        rendering: set if the operator wrote the metadata.
    """

    hash: str = ""
    counter: int | None = None
    lineage: str | None = None
    rendering: Rendering | None = None

    @classmethod
    def parse(cls, token: str | None) -> Revision | None:
        """Return the revision of a token; None if the text is no token, or is longer than a status takes."""
        match = _TOKEN.fullmatch(token or "")
        return cls(lineage=match[1], counter=int(match[2])) if match is not None else None

    @property
    def token(self) -> str:
        """`<lineage>/<counter>`, as annotations have it; empty where one of the two is missing."""
        return "" if self.counter is None or not self.lineage else f"{self.lineage}/{self.counter}"

    def is_older_than(self, other: Revision) -> bool:
        """Return whether this one comes before `other` in their lineage; False if they have no order."""
        steps = self._steps_after(other)
        return steps is not None and steps < 0

    def is_at_least(self, other: Revision) -> bool:
        """Return whether this one is `other` or comes after it in their lineage; False if they have no order."""
        steps = self._steps_after(other)
        return steps is not None and steps >= 0

    def is_of_other_lineage(self, other: Revision) -> bool:
        """Return whether both have a lineage, and not the same: neither is newer then."""
        return bool(self.token and other.token) and self.lineage != other.lineage

    def _steps_after(self, other: Revision) -> int | None:
        """Return how many revisions this one is after `other`; None without a lineage, or of two lineages."""
        if self.counter is None or other.counter is None or not self.lineage or self.lineage != other.lineage:
            return None
        return self.counter - other.counter
