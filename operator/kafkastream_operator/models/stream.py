"""KafkaStream: a logical stream, with the Kafka clusters and topics that make it up. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dynamic_kafka.metadata.properties import ALLOWED_KEYS
from kafkastream_operator.models.conditions import Condition
from kafkastream_operator.models.fields import (
    MAX_CLUSTERS,
    MAX_TOPICS,
    AnyName,
    ClusterName,
    DurationText,
    FormerName,
    Moment,
    ObjectName,
    Part,
    Properties,
    SecretName,
    Servers,
    StartingOffsets,
    StatusPart,
    StoppingOffsets,
    TopicIds,
    TopicName,
)

MAX_SUBSCRIBERS = 1024
"""How many subscribers the status lists. The conditions count all of them."""
MAX_READERS = 8
"""How many applications the status lists for a cluster."""
ClusterState = Literal["InUse", "Draining", "Released"]
NAMES_CHARACTERS = 280
"""The longest cluster name, plus the number of the others: a column of `kubectl get` has no room for more."""


class SecretRef(Part):
    """A Secret in the same namespace. Its keys are names of Kafka client properties. Only Spark reads it, as a mount.

    Attributes:
        name: the name of the Secret. The subscription must bind it to this cluster, in `spec.secrets`.
    """

    name: SecretName


class StreamCluster(Part):
    """One Kafka cluster of a stream.

    Attributes:
        id: the cluster id that saved offsets and rows refer to. Keep it when the servers change.
        bootstrap_servers: the servers that a client contacts first: `host:port`, separated by commas.
        topics: the topics to read on this cluster.
        topic_ids: the id that a topic must have, for some of the topics, as `kafka-topics.sh --describe` prints it.
            Another topic of that name is not read. To accept a topic that was created again, write its new id.
        properties: Kafka client properties without credentials. docs/reference/metadata.md lists the allowed ones.
        secret_ref: the Secret with the cluster's credentials, if it needs any.
        starting_offsets: the offsets at which reading starts when the cluster is new: `earliest`, `latest`,
            `committed`, `{timestamp: …}` or offsets by topic and partition. Absent: the option of the source decides.
        stopping_offsets: the offsets at which reading ends: `latest`, `committed`, `{timestamp: …}` or offsets by topic
            and partition. They are resolved once, when the source first sees them. Absent: reading does not end.
        renamed_from: the former id of this cluster, whose saved offsets the new id takes over. For a cluster of a
            ConfigMap that had no `clusterId`, the former id is its bootstrap servers.
        state: `Announced` for a cluster that joins later: the clocks of queries with `watermarkAlignmentMaxDrift` stand
            still until it has records. It need not have its topics yet, nor answer. docs/how-to/time.md says how.
        cluster_ref: reserved for a later version; must not be set.
    """

    id: ClusterName
    bootstrap_servers: Servers
    topics: Annotated[tuple[TopicName, ...], Field(min_length=1, max_length=MAX_TOPICS)]
    topic_ids: TopicIds = Field(default_factory=dict)
    properties: Properties = Field(default_factory=dict)
    secret_ref: SecretRef | None = None
    starting_offsets: StartingOffsets = None
    stopping_offsets: StoppingOffsets = None
    renamed_from: FormerName | None = None
    state: Literal["Active", "Announced"] = "Active"
    cluster_ref: ObjectName | None = None

    def wire(self) -> dict[str, Any]:
        """Return the cluster as the document has it. Its properties and offsets are not checked yet."""
        document: dict[str, Any] = {"bootstrapServers": self.bootstrap_servers, "topics": list(self.topics)}
        if self.topic_ids:
            document["topicIds"] = dict(self.topic_ids)
        if self.properties:
            document["properties"] = dict(self.properties)
        if self.secret_ref is not None:
            # The folder has the name of the Secret: clusters may share a Secret, and Spark mounts each Secret once.
            document["secretFolder"] = self.secret_ref.name
        for name, value in (
            ("startingOffsets", self.starting_offsets),
            ("stoppingOffsets", self.stopping_offsets),
            ("renamedFrom", self.renamed_from),
        ):
            if value is not None:
                document[name] = value
        if self.state != "Active":
            document["state"] = self.state
        return document


class Drain(Part):
    """The rules for clusters and topics that are removed from the stream.

    Attributes:
        policy: `WhenDrained` reads a removed topic on until there is evidence that all its records were read;
            `Immediate` stops reading it at once, and its unread records stay unread.
        quiet_period: how long no record may have been written to a topic before it counts as drained.
        timeout: how long a drain may take until the condition `Drained` has the reason `DrainTimedOut`. The drain goes
            on after that: a timeout never removes anything.
    """

    policy: Literal["WhenDrained", "Immediate"] = "WhenDrained"
    quiet_period: DurationText = "5m"
    timeout: DurationText = "1d"


class RolloutRules(Part):
    """The rules for the restarts that a change of the stream takes. They hold beside `--max-restarts` of the operator.

    Attributes:
        max_parallel: how many applications that read the stream may be restarted at the same time. Absent: as many as
            the operator allows.
        pause_on_failure: after a restart that fails, no further application that reads the stream is restarted, until
            a restart succeeds or a person releases the failed one.
    """

    max_parallel: Annotated[int, Field(ge=1)] | None = None
    pause_on_failure: bool = True


class KafkaStreamSpec(Part):
    """The desired content of the stream.

    Attributes:
        clusters: the clusters to read. An empty list is valid: then nothing is read.
        drain: the rules for clusters and topics that are removed from the stream.
        rollout: the rules for the restarts that a change of the stream takes.
    """

    clusters: Annotated[tuple[StreamCluster, ...], Field(max_length=MAX_CLUSTERS)]
    drain: Drain = Drain()
    rollout: RolloutRules | None = None


class SubscriberStatus(StatusPart):
    """One subscription that reads the stream, or asks for it.

    Attributes:
        name: the name of the subscription.
        application: the name of its SparkApplication.
        state: the state of that application: `Running`, `Starting`, `Failing`, `Suspended`, `Completed`,
            `Failed` or `Absent`.
        reason: the reason of the subscription's condition `Ready`, such as `InForce` or `ClockStands`; empty without
            one.
    """

    name: ObjectName
    application: ObjectName
    state: Annotated[str, Field(max_length=64)]
    reason: Annotated[str, Field(max_length=64)] = ""


class ClusterStatus(StatusPart):
    """One cluster that is in the stream, or was removed from it.

    Attributes:
        id: the id of the cluster.
        state: `InUse`, if this or another stream of the namespace names it; `Draining`, if no stream does and an
            application still reads it; `Released`, if none does any more: it may be shut down. A released cluster is
            listed for 7 days.
        since: the time since which it has this state.
        in_stream: whether this stream names it.
        bootstrap_servers: its servers, for one that the stream no longer names the last ones.
        readers: the applications whose documents have it, for this or another stream; the first 8 by name.
        more_readers: whether there are more, or were while it was in the stream. Then it waits for each application
            whose newest document is not in force, until there is none.
        message: the applications that a draining cluster waits for, each with the reason; or who else uses it.
    """

    id: AnyName
    state: Annotated[ClusterState, BeforeValidator(lambda text: "InUse" if text in ("Active", "Held") else text)]
    since: Moment | None = None
    in_stream: bool = True
    bootstrap_servers: Annotated[str, Field(max_length=4096)] = ""
    readers: Annotated[tuple[ObjectName, ...], Field(max_length=MAX_READERS)] = ()
    more_readers: bool = False
    message: Annotated[str, Field(max_length=1024)] = ""


class InForce(StatusPart):
    """The applications that use the newest form of the stream.

    Attributes:
        generation: the generation of the stream's spec that the numbers are about.
        applications: how many of them use it; one that does not run takes it at its start, and counts.
        of: how many applications have a subscription that asks for the stream.
    """

    generation: Annotated[int, Field(ge=0)]
    applications: Annotated[int, Field(ge=0)]
    of: Annotated[int, Field(ge=0)]


class KafkaStreamStatus(StatusPart):
    """The observed state of the stream. Only the operator writes it, and only when something changes.

    Attributes:
        observed_generation: the generation of the spec that this status is about.
        clusters: the clusters that are in the stream, and those that were removed from it.
        cluster_names: the ids of those that are not released in one line, for `kubectl get`.
        subscribers: the subscriptions that read the stream, or ask for it.
        in_force: the applications that use the newest form of the stream; absent in a status of an older version.
        conditions: `Ready`, `InForce`, `Drained`, and the conditions of kstatus: `Reconciling` and `Stalled`.
    """

    observed_generation: Annotated[int, Field(ge=0)] = 0
    clusters: Annotated[tuple[ClusterStatus, ...], Field(max_length=4 * MAX_CLUSTERS)] = ()
    cluster_names: Annotated[str, Field(max_length=NAMES_CHARACTERS)] = ""
    subscribers: Annotated[tuple[SubscriberStatus, ...], Field(max_length=MAX_SUBSCRIBERS)] = ()
    in_force: InForce | None = None
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()


PLURAL, SINGULAR, KIND = "kafkastreams", "kafkastream", "KafkaStream"
SHORT_NAMES = ("kst",)
COLUMNS = (
    {"name": "Clusters", "type": "string", "jsonPath": ".status.clusterNames"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Reason", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].reason'},
    {"name": "In force", "type": "string", "jsonPath": '.status.conditions[?(@.type=="InForce")].status'},
    {"name": "Drained", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Drained")].status'},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)
LIST_KEYS: Mapping[str, str] = {
    "spec.clusters": "id",
    "status.clusters": "id",
    "status.subscribers": "name",
    "status.conditions": "type",
}
LIST_SETS = ("spec.clusters.items.topics",)
"""Lists without duplicates. A CEL rule for so many topics is beyond the API server's budget."""
RULES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "spec.clusters.items": (
        ("!has(self.clusterRef)", "clusterRef is reserved for a later version: leave it out"),
        (
            "!has(self.renamedFrom) || self.renamedFrom != self.id",
            "renamedFrom is the cluster's own id: give the former one",
        ),
        ("self.topics.all(t, t != '.' && t != '..')", "`.` and `..` are not valid topic names"),
    ),
    "spec.clusters.items.topicIds": (
        (
            # The id is base64url of 16 bytes, so the last character has four bits of zero.
            "self.all(topic, self[topic].matches('^[A-Za-z0-9_-]{21}[AQgw]$'))",
            "a topic id is not one of Kafka's: write the 22 characters that `kafka-topics.sh --describe` prints as"
            " TopicId",
        ),
    ),
    "spec.clusters.items.properties": (
        (
            "self.all(key, key in [" + ", ".join(f"'{key}'" for key in sorted(ALLOWED_KEYS)) + "])",
            "metadata may not set this property: properties that load code, run a command, fetch a URL, hold a"
            " credential or name a path are refused; docs/reference/metadata.md lists the allowed; use secretRef for"
            " credentials",
        ),
    ),
    "spec": (
        (
            "self.clusters.all(c, !has(c.renamedFrom) || !self.clusters.exists(o, o.id == c.renamedFrom))",
            "renamedFrom names a cluster that the stream still has: remove one of the two",
        ),
        (
            "self.clusters.all(c, !has(c.renamedFrom) ||"
            " self.clusters.exists_one(o, has(o.renamedFrom) && o.renamedFrom == c.renamedFrom))",
            "two clusters have the same renamedFrom: only one of them can take over its offsets",
        ),
    ),
}
"""CEL rules, by which the API server refuses common mistakes: {path in the schema: (expression, message) …}."""
