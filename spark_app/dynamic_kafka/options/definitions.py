"""Every option of the source, declared once. A new option is one field here, plus the code that uses the field.

Each class is a section of `docs/options.md`, and `SourceOptions` inherits them all. A field with `option` is
complete: the parser fills it and the reference documents it. Code in `parse` fills a field with `combined_from`.
Names are those of Spark's Kafka source where it has one. Aliases are those of Flink (FLIP-246 and its Kafka source).
Pure; `index` collects the declarations for the parser and the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dynamic_kafka.metadata.model import OffsetSpec
from dynamic_kafka.options.checks import check_report_address, check_revision
from dynamic_kafka.options.option import INT_MAX, Option, combined_from, option
from dynamic_kafka.options.values import PerCluster, Subscribe

_TIME = "milliseconds, or `2026-11-01T00:00:00Z`"
_JSON = "JSON (below)"


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """The choice of the streams; exactly one of these options is set."""

    subscribe: Subscribe = combined_from(
        Option("streamIds", "text", "The streams to read, by id.", "`a;b;c`", aliases=("stream-ids",)),
        Option(
            "streamPattern",
            "text",
            "The streams to read: every stream whose whole id matches. A running query picks up new streams.",
            "regular expression",
            aliases=("stream-pattern",),
        ),
        Option(
            "streamSubscriber",
            "text",
            "A class of your own that chooses the streams. It gets all options as one mapping, which ignores letter"
            " case. Its own options are `streamSubscriber.<key>`.",
            "`module:Class`",
        ),
        Option(
            "subscribe",
            "text",
            "Spark's form for one cluster: these topics. Needs `kafka.bootstrap.servers`.",
            "`topic1,topic2`",
        ),
        Option(
            "subscribePattern",
            "text",
            "Spark's form for one cluster: every topic whose whole name matches.",
            "regular expression",
        ),
        Option("assign", "text", "Spark's form for one cluster: only these partitions.", '`{"topicA":[0,1]}`'),
    )


@dataclass(frozen=True, kw_only=True)
class MetadataOptions:
    """The metadata service (`file`, `static`, `single-cluster` or `module:Class`) and its discovery."""

    service: str = combined_from(
        Option(
            "metadataService",
            "text",
            "The source of metadata. With `kafka.bootstrap.servers` and one of `subscribe`, `subscribePattern`,"
            " `assign` the default is `single-cluster`. A class of your own gets all options as one mapping, which"
            " ignores letter case. Its own options are `metadataService.<key>`.",
            "`file`, `static`, `single-cluster`, `module:Class`",
            default="file",
            aliases=("metadata-service",),
        )
    )
    metadata_path: str | None = option(
        "metadataPath", "text", "For `file`: the metadata document, or the mounted folder with it.", "path"
    )
    metadata_document: str | None = option(
        "metadataDocument", "text", "For `static`: the metadata document itself.", "YAML or JSON"
    )
    metadata_revision: str | None = option(
        "metadataRevision",
        "text",
        "The revision to wait for at the start: the query reads nothing before metadata is at least as new. If"
        " absent: the revision in the environment variable `KAFKASTREAMS_REVISION`, which the operator sets for its own"
        " documents.",
        "`17`, `lineage/17`, `sha256:…`",
        check=check_revision,
    )
    metadata_timeout_ms: int = option(
        "metadataTimeout", "duration", "How long to wait for that revision.", default="2m", minimum=1
    )
    metadata_discovery_interval_ms: int = option(
        "metadataDiscoveryInterval",
        "duration",
        "How often the source looks up metadata; `0`: only at the start.",
        default="10s",
        aliases=("stream-metadata-discovery-interval-ms",),
        streaming_only=True,
        negative_alias_is_zero=True,
    )
    metadata_failure_threshold: int = option(
        "metadataFailureThreshold",
        "count",
        "How many failed lookups in a row the query tolerates. One more ends it.",
        default="1",
        maximum=INT_MAX,
        aliases=("stream-metadata-discovery-failure-threshold",),
        streaming_only=True,
    )
    removed_cluster_retention_ms: int = option(
        "removedClusterRetention",
        "duration",
        "How long the source keeps the offsets of a removed cluster or topic. If it comes back within this time,"
        " reading resumes at them.",
        default="7d",
        aliases=("stream-metadata-removed-cluster-retention-ms",),
        streaming_only=True,
    )
    partition_discovery_interval_ms: int | None = option(
        "partitionDiscoveryInterval",
        "duration",
        "How often the source looks for new partitions; `0`: only at the start. If absent: at each discovery.",
        aliases=("scan.topic-partition-discovery.interval", "partition.discovery.interval.ms"),
        streaming_only=True,
        negative_alias_is_zero=True,
    )


@dataclass(frozen=True, kw_only=True)
class OffsetOptions:
    """Where reading starts and stops: one rule for all clusters, or rules by cluster. `ending` None: never."""

    starting: OffsetSpec | PerCluster = combined_from(
        Option(
            "startingOffsets",
            "text",
            "Where the first plan of a query starts. If absent: `latest` in streaming, `earliest` in batch. Splits that"
            " discovery finds later start at `earliest`. A start in the metadata of a cluster wins.",
            f"`earliest`, `latest`, `committed`, {_JSON}",
        ),
        Option(
            "startingTimestamp",
            "text",
            "Start at the first record at or after this time. Wins over the two other starting options.",
            _TIME,
        ),
        Option("startingOffsetsByTimestamp", "text", "A time per partition. Wins over `startingOffsets`.", _JSON),
    )
    starting_strategy: Literal["error", "latest"] = option(
        "startingOffsetsByTimestampStrategy",
        "word",
        "If a partition has no record at or after its starting time: `error` fails, `latest` starts at the end.",
        default="error",
        words=("error", "latest"),
    )
    ending: OffsetSpec | PerCluster | None = combined_from(
        Option(
            "endingOffsets",
            "text",
            "Where reading stops. If absent: `latest` in batch, never in streaming. It is allowed in"
            " streaming, too; only Spark's own source refuses it there.",
            f"`latest`, `committed`, {_JSON}",
        ),
        Option(
            "endingTimestamp",
            "text",
            "Stop before the first record at or after this time. Wins over the two other ending options.",
            _TIME,
        ),
        Option("endingOffsetsByTimestamp", "text", "A time per partition. Wins over `endingOffsets`.", _JSON),
    )


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """The columns, the rates and the commits. The parser resolves the default of `commit_offsets`."""

    include_headers: bool = option("includeHeaders", "boolean", "Add the column `headers`.", default="false")
    max_offsets_per_trigger: int | None = option(
        "maxOffsetsPerTrigger",
        "count",
        "The most offsets per batch, shared between clusters by lag.",
        minimum=1,
        streaming_only=True,
    )
    min_offsets_per_trigger: int | None = option(
        "minOffsetsPerTrigger",
        "count",
        "Start a batch only when this many offsets are available, or after `maxTriggerDelay`.",
        minimum=1,
        streaming_only=True,
    )
    max_trigger_delay_ms: int = option(
        "maxTriggerDelay",
        "duration",
        "How long `minOffsetsPerTrigger` may delay a batch.",
        default="15m",
        streaming_only=True,
    )
    min_partitions: int | None = option(
        "minPartitions",
        "count",
        "The least number of Spark partitions: the source cuts large ranges to reach it.",
        minimum=1,
        maximum=INT_MAX,
    )
    max_records_per_partition: int | None = option(
        "maxRecordsPerPartition", "count", "The most records per Spark partition.", minimum=1
    )
    commit_offsets: bool = option(
        "commitOffsets",
        "boolean",
        "Commit offsets to `kafka.group.id` after each batch, for lag tools. If absent: on if there is a group id.",
        aliases=("commit.offsets.on.checkpoint",),
        streaming_only=True,
    )
    group_id_prefix: str | None = option(
        "groupIdPrefix", "text", "The prefix of generated group ids. No effect if `kafka.group.id` is set.", "text"
    )


@dataclass(frozen=True, kw_only=True)
class FailureOptions:
    """Failures, recovery and the state. The parser resolves the default of `pending_removed_ranges`."""

    cluster_failure_policy: Literal["fail", "stall"] = option(
        "clusterFailurePolicy",
        "word",
        "If an active cluster does not answer: `fail` ends the query; `stall` reads the other clusters and waits for"
        " it (needs `stateLocation`).",
        default="fail",
        words=("fail", "stall"),
    )
    read_timeout_ms: int = option(
        "readTimeout",
        "duration",
        "How long the read of a range may make no progress before its batch fails.",
        default="30s",
        minimum=1,
        aliases=("kafkaConsumer.pollTimeoutMs",),
    )
    state_location: str | None = option(
        "stateLocation",
        "text",
        "The folder for amendments and acceptances, beside Spark's checkpoint. Some options need it. **Keep it as"
        " long as the checkpoint, and move it together with the checkpoint**: it records the ranges that batches left"
        " out, and a query that has used it refuses to start with another folder or none"
        " ([state](state.md#keep-it-with-the-checkpoint)).",
        "URI or path",
    )
    pending_removed_ranges: Literal["filter", "refuse"] = option(
        "pendingRemovedRanges",
        "word",
        "If a pending batch names a cluster that has left the metadata: `filter` leaves its ranges out and parks"
        " them (needs `stateLocation`); `refuse` ends the query. If absent: `filter` with a `stateLocation`,"
        " otherwise `refuse`.",
        words=("filter", "refuse"),
    )
    allow_old_checkpoint: bool = option(
        "allowOldCheckpoint",
        "boolean",
        "Start from a checkpoint that is older than the delivered records, and read the later records again. **Not"
        " for file sinks**: they skip batches whose numbers they already have, and lose the records in them.",
        default="false",
        streaming_only=True,
    )
    application_commits: bool = option(
        "applicationCommits",
        "boolean",
        "The bundled application sets it, because it commits to the group itself. The source then only checks the"
        " group.",
        default="false",
        streaming_only=True,
    )
    application_queries: str | None = option(
        "applicationQueries",
        "text",
        "The bundled application sets it: the ids of the query's sources, whose commits to the group are no other"
        " query's.",
        "`id,id`",
        streaming_only=True,
    )
    read_reports: str | None = option(
        "readReports",
        "text",
        "The bundled application sets it: the address to which executors report their reads, for its metrics.",
        "`host:port/key`",
        check=check_report_address,
        streaming_only=True,
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        "boolean",
        "Whether data loss ends the query. With `false` the source logs a warning and reads on.",
        default="true",
    )
