"""What metadata says: streams, their clusters, and where reading starts and stops there.

Pure values, shared by the source, the application and the operator. The names are FLIP-246's (`KafkaStream`,
`ClusterMetadata`), with `starting_offsets` and `stopping_offsets` as in Flink's current `ClusterMetadata`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

_TOKEN = re.compile(r"(.{1,64})/([0-9]{1,18})")

OffsetKind = Literal["earliest", "latest", "committed", "timestamp", "explicit"]
ClusterState = Literal["Active", "Draining"]


@dataclass(frozen=True)
class OffsetSpec:
    """Where reading starts or stops on one cluster, before it is resolved to numbers.

    Attributes:
        kind: `explicit` uses `offsets` (or `timestamps`), `timestamp` uses `timestamp_ms`; the others need
            nothing else.
        timestamp_ms: milliseconds since the epoch, for `timestamp`, and for every partition without one of
            its own.
        offsets: {topic: {partition: offset}}; -2 is earliest and -1 latest, as in Spark's JSON.
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
    """One cluster as one stream uses it.

    Attributes:
        topics: topic names, in the order given; never empty.
        properties: Kafka client properties, with `bootstrap.servers` among them (FLIP-246). Secrets only by
            reference.
        starting_offsets: wins over the source's option for this cluster; None leaves the choice to the
            option.
        stopping_offsets: likewise for the end; bounded reading only.
        renamed_from: the id under which this cluster's offsets were saved before.
        secret_folder: the name of the cluster's mounted secret folder; its files are properties by name.
        state: `Draining` clusters are read like active ones; they only wait for their end.
        draining_topics: likewise of an active cluster; some of `topics`.
    """

    topics: tuple[str, ...]
    properties: Mapping[str, str]
    starting_offsets: OffsetSpec | None = None
    stopping_offsets: OffsetSpec | None = None
    renamed_from: str | None = None
    secret_folder: str | None = None
    state: ClusterState = "Active"
    draining_topics: tuple[str, ...] = ()

    @property
    def bootstrap_servers(self) -> str:
        """The servers a client contacts first."""
        return self.properties["bootstrap.servers"]

    @property
    def draining(self) -> frozenset[str]:
        """The topics that drain: all of them on a cluster that does."""
        return frozenset(self.topics if self.state == "Draining" else self.draining_topics)


@dataclass(frozen=True)
class KafkaStream:
    """A logical stream: topics on clusters. `clusters` maps the user's cluster id to its metadata."""

    stream_id: str
    clusters: Mapping[str, ClusterMetadata]

    def __hash__(self) -> int:
        # Without the clusters, which are mappings: FLIP-246's services and subscribers return sets of streams.
        return hash(self.stream_id)


@dataclass(frozen=True)
class Rendering:
    """What the operator's document says of itself, and no other does.

    Attributes:
        subscription: UID of the subscription that it was rendered for; empty if it names none.
        streams: the streams word for word; None if they are larger than `contract.REPORTED_STREAMS_BYTES`.
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
        found = _TOKEN.fullmatch(token or "")
        return cls(lineage=found[1], counter=int(found[2])) if found is not None else None

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
