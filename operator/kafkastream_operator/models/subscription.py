"""KafkaStreamSubscription: which application reads which streams, and how changes reach it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from kafkastream_operator.models.conditions import Condition
from kafkastream_operator.models.fields import (
    MAX_SECRETS,
    MAX_SERVERS,
    MAX_STREAMS,
    ClusterName,
    DurationText,
    Moment,
    ObjectName,
    Part,
    Regex,
    Server,
    StreamName,
    Text,
)

KUBEFLOW: Final = "sparkoperator.k8s.io/v1beta2"
APACHE: Final = "spark.apache.org/v1"
MAX_DRAINING = 1000
Strategy = Literal["Restart", "Reload", "Auto"]


class ApplicationRef(Part):
    """A SparkApplication of the same namespace."""

    api_version: Literal["sparkoperator.k8s.io/v1beta2", "spark.apache.org/v1"] = KUBEFLOW
    kind: Literal["SparkApplication"] = "SparkApplication"
    name: ObjectName


class Streams(Part):
    """Which streams: exactly one of the two. A pattern must match a whole stream id, in this namespace."""

    ids: Annotated[tuple[StreamName, ...], Field(min_length=1, max_length=MAX_STREAMS)] | None = None
    pattern: Regex | None = None


class SecretBinding(Part):
    """The Secret whose credentials a cluster gets, and the only servers that they may be sent to."""

    cluster: ClusterName
    name: ObjectName
    allowed_servers: Annotated[tuple[Server, ...], Field(min_length=1, max_length=MAX_SERVERS)]


class Pause(Part):
    """No change is rolled out. `until`: when that ends by itself; absent, when the pause is taken out."""

    until: Moment | None = None
    reason: Text = ""


class SubscriptionSpec(Part):
    """What the application reads."""

    application_ref: ApplicationRef
    streams: Streams
    update_strategy: Strategy = "Auto"
    secrets: Annotated[tuple[SecretBinding, ...], Field(max_length=MAX_SECRETS)] = ()
    pause: Pause | None = None
    orphan_retention: DurationText = "7d"


class DrainingTopic(Part):
    """What was rendered, is no longer desired, and stays in the document until it is drained.

    Attributes:
        stream: the stream that had it.
        revision: the counter of the first document that had it as draining.
        message: who or what it waits for.
    """

    cluster: ClusterName
    topic: Annotated[str, Field(max_length=249)]
    stream: StreamName
    since: Moment
    revision: Annotated[int, Field(ge=0)]
    quiet_period: DurationText = "5m"
    timeout: DurationText = "1d"
    message: Annotated[str, Field(max_length=1024)] = ""


class Rendered(Part):
    """The document as it was last written."""

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
    """What became of it. Only the operator writes it; nothing in it moves while nothing happens."""

    observed_generation: Annotated[int, Field(ge=0)] = 0
    rendered: Rendered | None = None
    rollout: Rollout | None = None
    restarted_at: Moment | None = None
    orphaned_at: Moment | None = None
    draining: Annotated[tuple[DrainingTopic, ...], Field(max_length=MAX_DRAINING)] = ()
    kept: Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})] = Field(
        default_factory=dict
    )
    """The streams as rendered, so that they survive the loss of the document; empty where they are too large."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=32)] = ()


PLURAL, SINGULAR, KIND = "kafkastreamsubscriptions", "kafkastreamsubscription", "KafkaStreamSubscription"
SHORT_NAMES = ("kss",)
COLUMNS = (
    {"name": "Application", "type": "string", "jsonPath": ".spec.applicationRef.name"},
    {"name": "Strategy", "type": "string", "jsonPath": ".spec.updateStrategy"},
    {"name": "Revision", "type": "integer", "jsonPath": ".status.rendered.counter"},
    {"name": "Roll-out", "type": "string", "jsonPath": ".status.rollout.phase"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Reason", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].reason'},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)
LIST_KEYS: Mapping[str, str] = {"spec.secrets": "cluster", "status.conditions": "type"}
RULES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "": (("self.metadata.name.size() <= 63", "a subscription's name has at most 63 characters: it is a label, too"),),
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
