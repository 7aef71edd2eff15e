"""KafkaStreamSubscription: the streams that one application reads, and how changes reach it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from kafkastream_operator.models.conditions import Condition
from kafkastream_operator.models.fields import (
    MAX_CLUSTERS,
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
    StatusPart,
    StreamName,
    Text,
    Time,
)

KUBEFLOW: Final = "sparkoperator.k8s.io/v1beta2"
APACHE: Final = "spark.apache.org/v1"
MAX_DRAINING = 1000
"""How many draining topics the status lists, because it has to fit into etcd. The document has all of them."""
MAX_RELEASES, RELEASE_CHARACTERS = 256, 600
"""How many releases the status lists, and the longest of them in characters; also the longest retry."""
MAX_NAME = 63
"""The longest name of a subscription, which is the value of a label, too."""
MAX_HOME = 253
"""The longest id of a cluster that the status lists as a home."""
Strategy = Literal["Restart", "Reload", "Auto"]


class ApplicationRef(Part):
    """A SparkApplication in the same namespace.

    Attributes:
        api_version: the API version of Kubeflow's SparkApplication, or of Apache's (experimental).
        kind: the kind of the application.
        name: the name of the application.
    """

    api_version: Literal["sparkoperator.k8s.io/v1beta2", "spark.apache.org/v1"] = KUBEFLOW
    kind: Literal["SparkApplication"] = "SparkApplication"
    name: ObjectName


class Streams(Part):
    """The streams, by `ids` or by `pattern`: exactly one of the two.

    Attributes:
        ids: the ids of the streams. The first document is rendered when all of them exist and none is held.
        pattern: a regular expression in RE2's syntax. It selects the streams of this namespace whose whole id matches.
    """

    # Atomic: an apply that sets one of the two fields removes the other.
    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    ids: Annotated[tuple[StreamName, ...], Field(min_length=1, max_length=MAX_STREAMS)] | None = None
    pattern: Regex | None = None


class SecretBinding(Part):
    """A Secret with the credentials for one cluster, and the only servers that may receive them.

    Attributes:
        cluster: the id of the cluster.
        name: the name of the Secret. It must be the one that the stream names in `secretRef`.
        allowed_servers: the servers, each as `host:port`, that the cluster's `bootstrapServers` may name.
    """

    cluster: ClusterName
    name: SecretName
    allowed_servers: Annotated[tuple[Server, ...], Field(min_length=1, max_length=MAX_SERVERS)]


class Pause(Part):
    """A pause: while it lasts, no change is rolled out, and no drain ends.

    Attributes:
        until: the time at which the pause ends. Absent: it ends when the field `pause` is removed.
        reason: a note for people, which is not evaluated.
    """

    until: Time | None = None
    reason: Text = ""


class SubscriptionSpec(Part):
    """The desired state: the streams that the application reads.

    Attributes:
        application_ref: the application. It cannot be changed.
        streams: the streams that the application reads.
        update_strategy: how a change reaches the application. `Restart`: by a restart. `Reload`: live, without a
            restart. `Auto`: live where that is possible, otherwise by a restart.
        secrets: the Secrets with the credentials of the clusters.
        pause: stops roll-outs and the end of drains for a time.
        orphan_retention: how long a subscription that was created from annotations is kept after its application is
            deleted.
    """

    application_ref: ApplicationRef
    streams: Streams
    update_strategy: Strategy = "Auto"
    secrets: Annotated[tuple[SecretBinding, ...], Field(max_length=MAX_SECRETS)] = ()
    pause: Pause | None = None
    orphan_retention: DurationText = "7d"


class DrainingTopic(StatusPart):
    """A topic that is no longer desired, and stays in the document until it is drained.

    Attributes:
        cluster: the id of the topic's cluster.
        topic: the name of the topic.
        stream: the stream that had the topic.
        since: the time at which the drain began.
        revision: the counter of the first document in which the topic drains.
        quiet_period, timeout: the value in `spec.drain` of the stream, or the longest one if several streams had
            the topic.
        message: the fact that the drain waits for.
    """

    cluster: AnyName
    topic: Annotated[str, Field(max_length=249)]
    stream: AnyName
    since: Moment
    revision: Annotated[int, Field(ge=0)]
    quiet_period: DurationText = "5m"
    timeout: DurationText = "1d"
    message: Annotated[str, Field(max_length=1024)] = ""


class Rendered(StatusPart):
    """The document that the operator last wrote.

    Attributes:
        config_map: the name of the ConfigMap that holds the document.
        lineage: the series of revisions that the document belongs to. A new one begins only if every trace of the
            last one is lost.
        counter: the number of the revision within its lineage.
        hash: the hash of the document's streams.
        restored: how often in succession the operator has written this document again, after somebody else had changed
            or deleted it. Ten quiet minutes end the count. None if that was never needed, since an earlier release
            does not read the field.
        restored_at: the time of the last restoration.
    """

    config_map: ObjectName
    lineage: Annotated[str, Field(max_length=64)]
    counter: Annotated[int, Field(ge=0)]
    hash: Annotated[str, Field(max_length=80)]
    restored: Annotated[int, Field(ge=0)] | None = None
    restored_at: Moment | None = None

    @property
    def token(self) -> str:
        """The revision as `<lineage>/<counter>`."""
        return f"{self.lineage}/{self.counter}"


class Rollout(StatusPart):
    """The current roll-out, or the last one.

    Attributes:
        token: the revision that is rolled out, as `<lineage>/<counter>`.
        method: how the revision reaches the driver. `Restart` restarts it, `Reload` changes it live, and `Adopt` is the
            first document, for which nothing is patched.
        phase: `Pending` before the patch or refresh, `Patched` after it, `Confirmed` when the driver has the revision,
            `Failed` when the operator has given up.
        attempts: how many patches the operator made for this revision.
        submission: the application's submission id at the time of the patch.
        at: the time of the last step.
        reverted: how often somebody else reverted the patch.
        problem: the reason for which the API server refused the patch; empty if it did not.
        generation: the generation of the application for which the API server refused the patch.
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


class LastFailure(StatusPart):
    """The last failure of the application, and how often it has failed in a row.

    Attributes:
        cause: the cause in one line, without secrets; empty if none is named.
        exit_code: the exit code of the bundled application, if it is known.
        count: failures in a row. A driver that reports, and runs for ten minutes after the last failure, sets it to 0.
        at: the time at which the operator saw the failure.
        since: the time of the first failure in the row; absent in a status of an older version.
        submission: the application's submission that has failed.
        driver: the UID of the last failed driver's pod that the operator has seen.
        revision: the revision of the document when the operator saw the failure, as `<lineage>/<counter>`; empty if
            the status had none, or is of an older version.
    """

    cause: Annotated[str, Field(max_length=1024)] = ""
    exit_code: Annotated[int, Field(ge=0, le=255)] | None = None
    count: Annotated[int, Field(ge=0)] = 0
    at: Moment
    since: Moment | None = None
    submission: Annotated[str, Field(max_length=128)] = ""
    driver: Annotated[str, Field(max_length=64)] = ""
    revision: Annotated[str, Field(max_length=96)] = ""


class Finished(StatusPart):
    """The end of the application's queries, from the last report of its driver, or from its driver's ended container.

    Attributes:
        at: the time at which the operator first saw the report; or at which the container ended.
        revision: the revision in force, as `<lineage>/<counter>`; absent without a report.
        driver: the UID of the driver's pod.
        submission: the application's submission.
    """

    at: Moment
    revision: Annotated[str, Field(max_length=96)] = ""
    driver: Annotated[str, Field(max_length=64)] = ""
    submission: Annotated[str, Field(max_length=128)] = ""


class SubscriptionStatus(StatusPart):
    """The observed state of the subscription. Only the operator writes it, and only when something changes.

    Attributes:
        observed_generation: the generation of the spec that this status is about.
        rendered: the document that the operator last wrote.
        rollout: how the newest revision reaches the application.
        rolling_out_since: the time since which the operator has been rolling changes out; newer revisions keep it until
            one is confirmed.
        restarted_at: the time at which the operator last restarted the application.
        orphaned_at: the time since which the application does not exist, for a subscription that was created from
            its annotations.
        draining: the topics that are no longer desired and still read, as many of them as fit.
        released: the entries of the annotation `kafkastream.dev/release` that were used. Each counts once.
        retried: the value of the annotation `kafkastream.dev/retry` that was used last. It counts once.
        homes: the clusters that hold internal topics of the application, by the last report of its driver.
        kept: a copy of the rendered streams, from which a lost document is restored; empty if they are too large.
        failure: the last failure of the application; absent before the first.
        finished: the end of the application's queries; absent if they have not ended, or one reads again since.
        conditions: the conditions of the subscription; docs/reference/conditions.md lists each with its remedy.
    """

    observed_generation: Annotated[int, Field(ge=0)] = 0
    rendered: Rendered | None = None
    rollout: Rollout | None = None
    rolling_out_since: Moment | None = None
    restarted_at: Moment | None = None
    orphaned_at: Moment | None = None
    draining: Annotated[tuple[DrainingTopic, ...], Field(max_length=MAX_DRAINING)] = ()
    released: Annotated[
        tuple[Annotated[str, Field(max_length=RELEASE_CHARACTERS)], ...], Field(max_length=MAX_RELEASES)
    ] = ()
    retried: Annotated[str, Field(max_length=RELEASE_CHARACTERS)] = ""
    homes: Annotated[tuple[Annotated[str, Field(max_length=MAX_HOME)], ...], Field(max_length=MAX_CLUSTERS)] = ()
    kept: Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})] = Field(
        default_factory=dict
    )
    failure: LastFailure | None = None
    finished: Finished | None = None
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
LIST_SETS: tuple[str, ...] = ()
RULES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "": (
        (
            f"self.metadata.name.size() <= {MAX_NAME}",
            f"a subscription's name has at most {MAX_NAME} characters, because it is the value of a label",
        ),
    ),
    "spec.applicationRef": (
        ("self == oldSelf", "a subscription cannot change its application: delete it and create another one"),
    ),
    "spec.streams": (
        ("has(self.ids) != has(self.pattern)", "set exactly one of streams.ids and streams.pattern"),
        (
            "!has(self.ids) || self.ids.all(id, self.ids.exists_one(other, other == id))",
            "streams.ids names a stream twice",
        ),
    ),
}
"""CEL rules, by which the API server refuses common mistakes: {path in the schema: (expression, message) …}."""
