"""KafkaStream: a logical stream, and the clusters and topics that it is made of. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from dynamic_kafka.metadata.properties import ALLOWED_KEYS
from kafkastream_operator.models.conditions import Condition
from kafkastream_operator.models.fields import (
    MAX_CLUSTERS,
    MAX_TOPICS,
    AnyName,
    ClusterName,
    DurationText,
    FormerName,
    ObjectName,
    Offsets,
    Part,
    Properties,
    SecretName,
    Servers,
    StreamName,
    TopicName,
)

MAX_SUBSCRIBERS = 1024
"""So many are told of; the conditions count all."""
NAMES_CHARACTERS = 280
"""One name of the longest, and how many more there are: a column of `kubectl get` is no place for more."""


class SecretRef(Part):
    """A Secret of the same namespace. Its keys are client properties by name; it is mounted, never read here.

    Attributes:
        name: of the Secret. The subscription must bind it to the cluster.
    """

    name: SecretName


class StreamCluster(Part):
    """One cluster of a stream.

    Attributes:
        id: the name that offsets and rows carry; the servers may change, the id stays.
        bootstrap_servers: `host:port`, separated by commas.
        topics: what is read of it.
        properties: Kafka client properties, of those that metadata may set (docs/metadata.md), without credentials.
        secret_ref: where the credentials are.
        starting_offsets: where reading begins when the cluster is new: `earliest`, `latest`, `committed`,
            `{timestamp: …}` or offsets by topic and partition.
        stopping_offsets: where reading ends: `latest`, `committed`, `{timestamp: …}` or offsets by topic and partition;
            resolved once, when it is first seen.
        renamed_from: the id that this cluster had before: its offsets are carried over. One without `clusterId` in a
            ConfigMap was called by its servers.
        cluster_ref: reserved; must not be set.
    """

    id: ClusterName
    bootstrap_servers: Servers
    topics: Annotated[tuple[TopicName, ...], Field(min_length=1, max_length=MAX_TOPICS)]
    properties: Properties = Field(default_factory=dict)
    secret_ref: SecretRef | None = None
    starting_offsets: Offsets = None
    stopping_offsets: Offsets = None
    renamed_from: FormerName | None = None
    cluster_ref: ObjectName | None = None

    def wire(self) -> dict[str, Any]:
        """The cluster as the document has it, not yet checked."""
        found: dict[str, Any] = {"bootstrapServers": self.bootstrap_servers, "topics": list(self.topics)}
        if self.properties:
            found["properties"] = dict(self.properties)
        if self.secret_ref is not None:
            # Mounted under its own name: two clusters may share a Secret, and Spark mounts each only once.
            found["secretFolder"] = self.secret_ref.name
        for name, value in (
            ("startingOffsets", self.starting_offsets),
            ("stoppingOffsets", self.stopping_offsets),
            ("renamedFrom", self.renamed_from),
        ):
            if value is not None:
                found[name] = value
        return found


class Drain(Part):
    """What happens to what is no longer desired.

    Attributes:
        policy: `WhenDrained` keeps it until there is evidence that everything in it was read; `Immediate` does not.
        quiet_period: how long nothing may have been written before it counts as drained.
        timeout: after which a condition says that it takes too long. Nothing is ever removed because of it.
    """

    policy: Literal["WhenDrained", "Immediate"] = "WhenDrained"
    quiet_period: DurationText = "5m"
    timeout: DurationText = "1d"


class KafkaStreamSpec(Part):
    """What the stream is made of.

    Attributes:
        clusters: the clusters that are read; none: nothing is.
        drain: what happens to what is taken out.
    """

    clusters: Annotated[tuple[StreamCluster, ...], Field(max_length=MAX_CLUSTERS)]
    drain: Drain = Drain()


class SubscriberStatus(Part):
    """One subscription of the stream, as it stands.

    Attributes:
        name: of the subscription.
        application: that it is for.
        state: what the application is doing: `Running`, `Starting`, `Suspended`, `Completed`, `Failed` or `Absent`.
    """

    name: ObjectName
    application: ObjectName
    state: Annotated[str, Field(max_length=64)]


class ClusterStatus(Part):
    """One cluster that the stream has, or had and is still read.

    Attributes:
        id: of the cluster.
        state: `Active`, or `Draining`; `Held` is reserved.
        message: whom a cluster that drains waits for.
    """

    id: AnyName
    state: Literal["Active", "Draining", "Held"]
    message: Annotated[str, Field(max_length=1024)] = ""


class KafkaStreamStatus(Part):
    """What became of it. Only the operator writes it; nothing in it moves while nothing happens.

    Attributes:
        observed_generation: of the spec that this speaks of.
        clusters: that the stream has, or had and that are still read.
        cluster_names: the same in one line, which is what `kubectl get` can show.
        subscribers: who reads it.
        conditions: `Ready`, `SafeToDecommission`, and kstatus's `Reconciling` and `Stalled`.
    """

    observed_generation: Annotated[int, Field(ge=0)] = 0
    clusters: Annotated[tuple[ClusterStatus, ...], Field(max_length=4 * MAX_CLUSTERS)] = ()
    cluster_names: Annotated[str, Field(max_length=NAMES_CHARACTERS)] = ""
    subscribers: Annotated[tuple[SubscriberStatus, ...], Field(max_length=MAX_SUBSCRIBERS)] = ()
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()


PLURAL, SINGULAR, KIND = "kafkastreams", "kafkastream", "KafkaStream"
SHORT_NAMES = ("kst",)
COLUMNS = (
    {"name": "Clusters", "type": "string", "jsonPath": ".status.clusterNames"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Reason", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].reason'},
    {
        "name": "Safe to decommission",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="SafeToDecommission")].status',
    },
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)
LIST_KEYS: Mapping[str, str] = {
    "spec.clusters": "id",
    "status.clusters": "id",
    "status.subscribers": "name",
    "status.conditions": "type",
}
RULES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "spec.clusters.items": (
        ("!has(self.clusterRef)", "clusterRef is reserved for a later version: leave it out"),
        ("!has(self.renamedFrom) || self.renamedFrom != self.id", "renamedFrom names the cluster itself"),
        ("self.topics.all(t, t != '.' && t != '..')", "`.` and `..` are no topic names"),
    ),
    "spec.clusters.items.properties": (
        (
            "self.all(key, key in [" + ", ".join(f"'{key}'" for key in sorted(ALLOWED_KEYS)) + "])",
            "a property is not among those that metadata may set: nothing that loads code, runs a command, fetches a"
            " URL, holds a credential or names a path; docs/metadata.md lists them, secretRef is for credentials",
        ),
    ),
    "spec": (
        (
            "self.clusters.all(c, !has(c.renamedFrom) || !self.clusters.exists(o, o.id == c.renamedFrom))",
            "a cluster is renamedFrom one that the stream still has: remove one of the two",
        ),
        (
            "self.clusters.all(c, !has(c.renamedFrom) ||"
            " self.clusters.exists_one(o, has(o.renamedFrom) && o.renamedFrom == c.renamedFrom))",
            "two clusters are renamedFrom the same one: only one can carry its offsets on",
        ),
    ),
}
"""CEL: what users get wrong, refused by the API server itself. (path of the schema, expression, message)"""

__all__ = ["KafkaStreamSpec", "KafkaStreamStatus", "StreamCluster", "StreamName"]
