"""The options of the source, declared once. A new option is one field here, plus the code that uses the field.

Each class is a section of `docs/reference/options.md`, and `SourceOptions` inherits them all. A field with `option` is
complete: the parser fills it and the reference documents it. Code in `parse` fills a field with `combined_from`.
Names are those of Spark's Kafka source where it has one. Aliases are those of Flink (FLIP-246 and its Kafka source).
Pure; `index` collects the declarations for the parser and the reference, also those of `metadata_definitions` and
`secret_definitions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dynamic_kafka.metadata.model import OffsetSpec
from dynamic_kafka.options.checks import check_report_address
from dynamic_kafka.options.option import INT_MAX, Option, combined_from, option
from dynamic_kafka.options.values import PerCluster

_TIME = "milliseconds, or `2026-11-01T00:00:00Z`"
_JSON = "JSON (below)"


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

    include_headers: bool = option(
        "includeHeaders",
        "boolean",
        "Add the column `headers`. It is there, too, if `columns` names it.",
        default="false",
    )
    columns: tuple[str, ...] = combined_from(
        Option(
            "columns",
            "text",
            "The columns of the rows, in this order ([columns](#columns)). If absent: all of them.",
            "`value,timestamp`",
        )
    )
    reader: Literal["auto", "native", "python"] = option(
        "reader",
        "word",
        "The reader on executors: `native` takes records from the Kafka client to Spark without a Python object for"
        " each, and is refused where its extension does not load; `python` needs no extension; `auto` is `native` where"
        " that loads ([performance](../contributing/performance.md#native-or-python)).",
        default="auto",
        words=("auto", "native", "python"),
    )
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
    client_id_prefix: str | None = option(
        "clientIdPrefix",
        "text",
        "The prefix of generated client ids. No effect if `kafka.client.id` is set.",
        "text",
        aliases=("client.id.prefix",),
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
        " ([state](../how-to/state.md#keep-it-with-the-checkpoint)).",
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
