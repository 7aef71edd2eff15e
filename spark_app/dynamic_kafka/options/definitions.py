"""Every option of the source, in one table: names, aliases, defaults and what they do.

The parser reads names, aliases, kinds, bounds and defaults from here, and `docs/options.md` is generated from
here, so neither can forget an option that the other knows. Pure; read by the parser and by `python -m
dynamic_kafka.options`. The names are Spark's where Spark's Kafka source has one; aliases are Flink's
(FLIP-246 and its Kafka source).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "duration", "count", "boolean", "word"]
Status = Literal["active", "ignored", "later"]

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        name: as documented; matched without regard to case, since Spark hands keys on in lower case.
        kind: how its text is read.
        doc: one line for users.
        values: what may be written, for the documentation (words and booleans say it themselves).
        default: the text that stands for an absent option; None if absence means something of its own.
        aliases: other names for it; the same value under two names is fine.
        words: the allowed values of kind `word`.
        minimum, maximum: bounds of a count, and the lower bound of a duration in milliseconds.
        streaming_only: without effect in a batch read.
        negative_alias_is_zero: under an alias, a negative number means "off", as it does in Flink.
        status: `ignored` options are accepted for Spark's sake; `later` ones are refused by this version.
    """

    name: str
    kind: Kind
    doc: str
    values: str = ""
    default: str | None = None
    aliases: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int = LONG_MAX
    streaming_only: bool = False
    negative_alias_is_zero: bool = False
    status: Status = "active"


_WHICH_STREAMS = (
    Option("streamIds", "text", "The streams to read, by id.", "`a;b;c`", aliases=("stream-ids",)),
    Option(
        "streamPattern",
        "text",
        "The streams to read: every one whose whole id matches. New ones are picked up while running.",
        "regular expression",
        aliases=("stream-pattern",),
    ),
    Option(
        "streamSubscriber",
        "text",
        "A class of yours that chooses the streams. Options of its own are `streamSubscriber.<key>`; it is made with"
        " all options as one mapping, which finds them in any letter case.",
        "`module:Class`",
    ),
    Option(
        "subscribe",
        "text",
        "Spark's form for one cluster: topics. Needs `kafka.bootstrap.servers`.",
        "`topic1,topic2`",
    ),
    Option(
        "subscribePattern",
        "text",
        "Spark's form for one cluster: every topic whose whole name matches.",
        "regular expression",
    ),
    Option("assign", "text", "Spark's form for one cluster: these partitions only.", '`{"topicA":[0,1]}`'),
)

_METADATA = (
    Option(
        "metadataService",
        "text",
        "Where the streams are described. With `kafka.bootstrap.servers` and one of `subscribe`,"
        " `subscribePattern`, `assign` the default is `single-cluster`. Options of a class of yours are"
        " `metadataService.<key>`; it is made with all options as one mapping, which finds them in any letter case.",
        "`file`, `static`, `single-cluster`, `module:Class`",
        default="file",
        aliases=("metadata-service",),
    ),
    Option("metadataPath", "text", "The document, or the mounted folder that holds it, for `file`.", "path"),
    Option("metadataDocument", "text", "The document itself, for `static`.", "YAML or JSON"),
    Option(
        "metadataRevision",
        "text",
        "The revision to wait for at the start: nothing is read before metadata is at least as new. Absent: what the"
        " operator has put into the driver's environment (`KAFKASTREAMS_REVISION`), for its documents.",
        "`17`, `lineage/17`, `sha256:…`",
    ),
    Option("metadataTimeout", "duration", "How long to wait for that revision.", default="2m", minimum=1),
    Option(
        "metadataDiscoveryInterval",
        "duration",
        "How often metadata is looked up; `0`: only at the start.",
        default="10s",
        aliases=("stream-metadata-discovery-interval-ms",),
        streaming_only=True,
        negative_alias_is_zero=True,
    ),
    Option(
        "metadataFailureThreshold",
        "count",
        "How many look-ups in a row may have no answer before the query fails.",
        default="1",
        maximum=INT_MAX,
        aliases=("stream-metadata-discovery-failure-threshold",),
        streaming_only=True,
    ),
    Option(
        "removedClusterRetention",
        "duration",
        "How long the offsets of a removed cluster or topic are kept: back within it, reading resumes there.",
        default="7d",
        aliases=("stream-metadata-removed-cluster-retention-ms",),
        streaming_only=True,
    ),
    Option(
        "partitionDiscoveryInterval",
        "duration",
        "How often clusters are asked for new partitions; `0`: only at the start. Absent: at each discovery.",
        aliases=("scan.topic-partition-discovery.interval", "partition.discovery.interval.ms"),
        streaming_only=True,
        negative_alias_is_zero=True,
    ),
)

_TROUBLE = (
    Option(
        "clusterFailurePolicy",
        "word",
        "An active cluster does not answer: `fail` ends the query, `stall` reads the others and waits for it"
        " (needs `stateLocation`).",
        default="fail",
        words=("fail", "stall"),
    ),
    Option(
        "readTimeout",
        "duration",
        "How long a range in flight may make no progress before its batch fails.",
        default="30s",
        minimum=1,
        aliases=("kafkaConsumer.pollTimeoutMs",),
    ),
    Option(
        "stateLocation",
        "text",
        "Where amendments and acceptances are kept, beside Spark's checkpoint. Some options need it. **It has to"
        " live as long as the checkpoint, and to move with it**: without it a query does not know which ranges were"
        " left out of a batch, and never reads them.",
        "URI or path",
    ),
    Option(
        "pendingRemovedRanges",
        "word",
        "A planned batch names a cluster that metadata no longer names: `filter` leaves its ranges out and"
        " parks them (needs `stateLocation`), `refuse` stops. Absent: `filter` if there is a"
        " `stateLocation`.",
        words=("filter", "refuse"),
    ),
    Option(
        "allowOldCheckpoint",
        "boolean",
        "Start from a checkpoint that is older than what was delivered, and read again what came after it. **Not for"
        " file sinks**: they skip batches whose numbers they have, and the records in them are lost for the sink.",
        default="false",
        streaming_only=True,
    ),
    Option(
        "applicationCommits",
        "boolean",
        "Set by the bundled application: it commits to the group itself, the source only checks the group.",
        default="false",
        streaming_only=True,
    ),
    Option(
        "readReports",
        "text",
        "Set by the bundled application: where executors report what they have read, for its metrics.",
        "`host:port/key`",
        streaming_only=True,
    ),
    Option(
        "failOnDataLoss",
        "boolean",
        "Fail when records that should be read are gone, instead of going on with a warning.",
        default="true",
    ),
    Option(
        "secretsRoot",
        "text",
        "The folder that holds one mounted folder of credentials per cluster.",
        "path",
        default="/etc/kafkastreams-secrets",
    ),
)

_OFFSETS = (
    Option(
        "startingOffsets",
        "text",
        "Where the first plan of a query starts. Absent: `latest` in streaming, `earliest` in batch. What is"
        " found later starts at `earliest`. Metadata may set it per cluster and then wins.",
        "`earliest`, `latest`, `committed`, JSON (below)",
    ),
    Option(
        "startingTimestamp",
        "text",
        "Start at the first record at or after this time. Wins over the two other starting options.",
        "milliseconds, or `2026-11-01T00:00:00Z`",
    ),
    Option(
        "startingOffsetsByTimestamp",
        "text",
        "A time per partition. Wins over `startingOffsets`.",
        "JSON (below)",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "word",
        "No record at or after a starting time: `error`, or start at `latest`.",
        default="error",
        words=("error", "latest"),
    ),
    Option(
        "endingOffsets",
        "text",
        "Where reading stops. Absent: `latest` in batch, never in streaming (Spark refuses it there).",
        "`latest`, `committed`, JSON (below)",
    ),
    Option(
        "endingTimestamp",
        "text",
        "Stop before the first record at or after this time. Wins over the two other ending options.",
        "milliseconds, or `2026-11-01T00:00:00Z`",
    ),
    Option("endingOffsetsByTimestamp", "text", "A time per partition. Wins over `endingOffsets`.", "JSON (below)"),
)

_READING = (
    Option("includeHeaders", "boolean", "Add the column `headers`.", default="false"),
    Option(
        "maxOffsetsPerTrigger",
        "count",
        "At most this many offsets per batch, shared over clusters by lag.",
        minimum=1,
        streaming_only=True,
    ),
    Option(
        "minOffsetsPerTrigger",
        "count",
        "Wait until this many offsets are there, or `maxTriggerDelay` has passed.",
        minimum=1,
        streaming_only=True,
    ),
    Option(
        "maxTriggerDelay",
        "duration",
        "How long `minOffsetsPerTrigger` may hold back a batch.",
        default="15m",
        streaming_only=True,
    ),
    Option(
        "minPartitions",
        "count",
        "At least this many Spark partitions: large ranges are cut.",
        minimum=1,
        maximum=INT_MAX,
    ),
    Option("maxRecordsPerPartition", "count", "At most this many records per Spark partition.", minimum=1),
    Option(
        "commitOffsets",
        "boolean",
        "Commit offsets to `kafka.group.id` after each batch, for lag tools. Absent: on if there is a group id.",
        aliases=("commit.offsets.on.checkpoint",),
        streaming_only=True,
    ),
    Option(
        "groupIdPrefix",
        "text",
        "Begin the generated group ids with this. Ignored if `kafka.group.id` is set.",
        "text",
    ),
    Option(
        "fetchOffset.numRetries",
        "text",
        "Spark's; accepted without effect: librdkafka retries by itself within its time-outs.",
        "count",
        status="ignored",
    ),
    Option(
        "fetchOffset.retryIntervalMs",
        "text",
        "Spark's; accepted without effect, as above.",
        "milliseconds",
        status="ignored",
    ),
)

_LATER = (
    Option("topicIntegrityCheck", "boolean", "", aliases=("scan.topic-integrity-check.enabled",), status="later"),
    Option("recordEvaluator", "text", "", aliases=("scan.record.evaluator.class",), status="later"),
    Option("internalTopicsSetup", "text", "", aliases=("internal.topics.setup",), status="later"),
    Option("watermarkMode", "text", "", status="later"),
    Option("watermarkAlignmentMaxDrift", "duration", "", status="later"),
    Option("timeCharacteristic", "text", "", status="later"),
    Option("idleTimeout", "duration", "", status="later"),
)

SECTIONS: Mapping[str, tuple[Option, ...]] = {
    "Which streams": _WHICH_STREAMS,
    "Metadata": _METADATA,
    "Where reading starts and stops": _OFFSETS,
    "Reading, rates, commits": _READING,
    "Trouble and state": _TROUBLE,
}
"""The documented options by section, in the order of the documentation."""

OPTIONS: Mapping[str, Option] = {option.name: option for options in (*SECTIONS.values(), _LATER) for option in options}
"""Every known option by name, those of later versions included."""

BY_KEY: Mapping[str, Option] = {
    key.lower(): option for option in OPTIONS.values() for key in (option.name, *option.aliases)
}
"""Every name and alias in lower case. All share one namespace: no name is another option's alias."""
