"""KafkaStreamSubscription: which application reads which streams, and how changes reach it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from kafkastream_operator.models.conditions import Condition
from kafkastream_operator.models.fields import (
    MAX_SECRETS,
    MAX_SERVERS,
    MAX_STREAMS,
    AnyName,
    ClusterName,
    DurationText,
    Moment,
    ObjectName,
    Part,
    Regex,
    SecretName,
    Server,
    StreamName,
    Text,
)

KUBEFLOW: Final = "sparkoperator.k8s.io/v1beta2"
APACHE: Final = "spark.apache.org/v1"
MAX_DRAINING = 1000
"""So many topics are told of at a time: a status has to fit into etcd. The document has all that drain."""
MAX_RELEASES, RELEASE_CHARACTERS = 256, 600
"""So many releases count at a time, each of at most so many characters."""
MAX_NAME = 63
"""A subscription's name is the value of a label as well."""
Strategy = Literal["Restart", "Reload", "Auto"]


class ApplicationRef(Part):
    """A SparkApplication of the same namespace.

    Attributes:
        api_version: Kubeflow's, or Apache's (experimental).
        kind: of the application.
        name: of the application.
    """

    api_version: Literal["sparkoperator.k8s.io/v1beta2", "spark.apache.org/v1"] = KUBEFLOW
    kind: Literal["SparkApplication"] = "SparkApplication"
    name: ObjectName


class Streams(Part):
    """Which streams: exactly one of the two.

    Attributes:
        ids: the streams by name. Nothing is rendered for the first time before all of them are there
            and none is held.
        pattern: a regular expression (RE2's) that must match a whole stream id of this namespace.
    """

    # Whoever applies one of the two takes the other out by that.
    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    ids: Annotated[tuple[StreamName, ...], Field(min_length=1, max_length=MAX_STREAMS)] | None = None
    pattern: Regex | None = None


class SecretBinding(Part):
    """The Secret whose credentials a cluster gets, and the only servers that they may be sent to.

    Attributes:
        cluster: the id of the cluster.
        name: of the Secret that its stream asks for by `secretRef`.
        allowed_servers: each `host:port` that the cluster's `bootstrapServers` may name.
    """

    cluster: ClusterName
    name: SecretName
    allowed_servers: Annotated[tuple[Server, ...], Field(min_length=1, max_length=MAX_SERVERS)]


class Pause(Part):
    """No change is rolled out, and no drain ends.

    Attributes:
        until: when that ends by itself; absent: when the pause is taken out.
        reason: for who wonders.
    """

    until: Moment | None = None
    reason: Text = ""


class SubscriptionSpec(Part):
    """What the application reads.

    Attributes:
        application_ref: the application; it cannot be changed.
        streams: which streams it reads.
        update_strategy: how changes reach it: by a restart, live, or live where that is possible.
        secrets: the credentials that its clusters get.
        pause: nothing is rolled out for now.
        orphan_retention: how long a subscription that came of annotations outlives its application.
    """

    application_ref: ApplicationRef
    streams: Streams
    update_strategy: Strategy = "Auto"
    secrets: Annotated[tuple[SecretBinding, ...], Field(max_length=MAX_SECRETS)] = ()
    pause: Pause | None = None
    orphan_retention: DurationText = "7d"


class DrainingTopic(Part):
    """What was rendered, is no longer desired, and stays in the document until it is drained.

    Attributes:
        cluster: that has it.
        topic: that drains.
        stream: the stream that had it.
        since: when it began to drain.
        revision: the counter of the first document that had it as draining.
        quiet_period, timeout: of the stream's `drain`.
        message: who or what it waits for.
    """

    cluster: AnyName
    topic: Annotated[str, Field(max_length=249)]
    stream: AnyName
    since: Moment
    revision: Annotated[int, Field(ge=0)]
    quiet_period: DurationText = "5m"
    timeout: DurationText = "1d"
    message: Annotated[str, Field(max_length=1024)] = ""


class Rendered(Part):
    """The document as it was last written.

    Attributes:
        config_map: that holds it.
        lineage: the line of revisions; another one begins only when every trace of the last is lost.
        counter: the revision within it.
        hash: of the streams in it.
    """

    config_map: ObjectName
    lineage: Annotated[str, Field(max_length=64)]
    counter: Annotated[int, Field(ge=0)]
    hash: Annotated[str, Field(max_length=80)]


class Rollout(Part):
    """The roll-out under way or done last.

    Attributes:
        token: the revision, `<lineage>/<counter>`, that it brings.
        method: how; `Adopt` is the first render, which patches nothing.
        phase: `Pending` before its effect, `Patched` when that was made, `Confirmed` when the driver has it, `Failed`
            when it is given up.
        attempts: patches made.
        submission: the application's submission id when it was patched.
        at: when the last step was taken.
        reverted: how often somebody took the patch back.
        problem: why the API server did not take the patch.
        generation: of the application that it did not take it for.
    """

    token: Annotated[str, Field(max_length=96)]
    method: Literal["Adopt", "Restart", "Reload"]
    phase: Literal["Pending", "Patched", "Confirmed", "Failed"]
    attempts: Annotated[int, Field(ge=0)] = 0
    submission: Annotated[str, Field(max_length=128)] = ""
    at: Moment
    reverted: Annotated[int, Field(ge=0)] = 0
    problem: Annotated[str, Field(max_length=1024)] = ""
    generation: Annotated[int, Field(ge=0)] = 0


class SubscriptionStatus(Part):
    """What became of it. Only the operator writes it; nothing in it moves while nothing happens.

    Attributes:
        observed_generation: of the spec that this speaks of.
        rendered: the document.
        rollout: how the newest revision reaches the application.
        restarted_at: when the operator restarted the application last.
        orphaned_at: since when the application is gone, where the subscription came of its annotations.
        draining: what is no longer desired and still read, as far as it fits.
        released: the releases by annotation that have counted, and count no more.
        kept: the streams as rendered, so that they survive the loss of the document; empty where they are too large.
        conditions: what is true of it; docs/operator.md has each with its remedy.
    """

    observed_generation: Annotated[int, Field(ge=0)] = 0
    rendered: Rendered | None = None
    rollout: Rollout | None = None
    restarted_at: Moment | None = None
    orphaned_at: Moment | None = None
    draining: Annotated[tuple[DrainingTopic, ...], Field(max_length=MAX_DRAINING)] = ()
    released: Annotated[
        tuple[Annotated[str, Field(max_length=RELEASE_CHARACTERS)], ...], Field(max_length=MAX_RELEASES)
    ] = ()
    kept: Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})] = Field(
        default_factory=dict
    )
    conditions: Annotated[tuple[Condition, ...], Field(max_length=32)] = ()


PLURAL, SINGULAR, KIND = "kafkastreamsubscriptions", "kafkastreamsubscription", "KafkaStreamSubscription"
SHORT_NAMES = ("kss",)
COLUMNS = (
    {"name": "Application", "type": "string", "jsonPath": ".spec.applicationRef.name"},
    {"name": "Strategy", "type": "string", "jsonPath": ".spec.updateStrategy"},
    {"name": "Revision", "type": "integer", "jsonPath": ".status.rendered.counter"},
    {"name": "Roll-out", "type": "string", "jsonPath": '.status.conditions[?(@.type=="RolledOut")].reason'},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Reason", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].reason'},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)
LIST_KEYS: Mapping[str, str] = {"spec.secrets": "cluster", "status.conditions": "type"}
RULES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "": (
        (
            f"self.metadata.name.size() <= {MAX_NAME}",
            f"a subscription's name has at most {MAX_NAME} characters: it is a label, too",
        ),
    ),
    "spec.applicationRef": (
        ("self == oldSelf", "a subscription cannot change its application: delete it and make another"),
    ),
    "spec.streams": (
        ("has(self.ids) != has(self.pattern)", "set exactly one of streams.ids and streams.pattern"),
        (
            "!has(self.ids) || self.ids.all(id, self.ids.exists_one(other, other == id))",
            "a stream is named twice in streams.ids",
        ),
    ),
}
"""CEL: what users get wrong, refused by the API server itself."""
