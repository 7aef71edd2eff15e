"""The options that choose the streams and the source of metadata: a part of `definitions`, in the same form. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dynamic_kafka.options.checks import check_cluster, check_revision
from dynamic_kafka.options.option import INT_MAX, Option, combined_from, option
from dynamic_kafka.options.values import Subscribe


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
        ),
        Option(
            "clusterId",
            "text",
            "For `single-cluster`: the cluster's id in rows, offsets and metrics. If absent: `default`. A query that is"
            " given another id goes on at its offsets.",
            "text",
            aliases=("metadata-service.cluster-id",),
            check=check_cluster,
        ),
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
        aliases=(
            "stream-metadata-discovery-interval-ms",
            "multi.cluster.kafka.source.kafka-metadata-service-discovery-internal-ms",
        ),
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
        " reading resumes at them. `0` keeps none, and drops those that were kept so far.",
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
