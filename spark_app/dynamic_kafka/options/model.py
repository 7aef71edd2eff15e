"""The options of one query as values: what `parse_options` returns.

Pure and picklable: the driver makes it once, and the source carries it to its other processes. No value in
here is a secret: literal secrets are refused by the parser, references to them (`${file:…}`) are kept as they
were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dynamic_kafka.metadata.model import EARLIEST, LATEST, OffsetSpec

Mode = Literal["streaming", "batch"]


class NamedOptions(dict[str, str]):
    """Options under their names, found in any letter case, as the user's are: Spark lowers the keys before the source
    sees them, the application does not. Listed, they are in lower case, whoever handed them over."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({key.lower(): value for key, value in options.items()})

    def __missing__(self, key: str) -> str:
        lower = key.lower()
        if lower != key and lower in self:
            return self[lower]
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and super().__contains__(key.lower()))

    def get(self, key: str, default: Any = None) -> Any:
        """The option's text, or the default."""
        return super().get(key, super().get(key.lower(), default))

    def pop(self, key: str, *default: Any) -> Any:
        """The option's text, which is taken out, or the default."""
        return super().pop(key if super().__contains__(key) else key.lower(), *default)

    def __reduce__(self) -> tuple[type[NamedOptions], tuple[dict[str, str]]]:
        return NamedOptions, (dict(self),)


@dataclass(frozen=True)
class StreamIds:
    """Subscribe to streams by id; ids in the order given, none twice."""

    ids: tuple[str, ...]


@dataclass(frozen=True)
class StreamPattern:
    """Subscribe to every stream whose whole id matches a regular expression."""

    pattern: str


@dataclass(frozen=True)
class CustomSubscriber:
    """Subscribe to what a user's class chooses, named `package.module:Class`."""

    path: str


@dataclass(frozen=True)
class SingleCluster:
    """One cluster, given by `kafka.bootstrap.servers`, whose topics are the streams (stream id = topic).

    At most one of `topics`, `pattern` and `assign` is set; none of them means that a user's subscriber
    chooses.

    Attributes:
        cluster_id: the id under which the cluster's offsets are kept and its rows are marked.
        topics: topics to read, in the order given.
        pattern: regular expression for whole topic names.
        assign: the only partitions to read, {topic: (partition, …)}.
    """

    cluster_id: str = "default"
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assign: Mapping[str, tuple[int, ...]] | None = None


@dataclass(frozen=True)
class PerCluster:
    """Where reading starts or stops, by cluster id. Clusters it does not name follow the default."""

    clusters: Mapping[str, OffsetSpec]


Subscribe = StreamIds | StreamPattern | CustomSubscriber


@dataclass(frozen=True)
class SourceOptions:
    """Every option of the source, checked and resolved. Field by field as in `docs/options.md`.

    Attributes:
        mode: how Spark reads: `streaming` or `batch`.
        subscribe: which streams; exactly one way.
        service: `file`, `static`, `single-cluster` or `module:Class`.
        single: the single cluster, when `service` is `single-cluster`.
        metadata_discovery_interval_ms: 0 = look only at the start.
        partition_discovery_interval_ms: None = at each discovery, 0 = only at the start.
        starting, ending: one rule for all clusters, or rules by cluster; `ending` None = never ends
            (streaming).
        kafka_properties: the common client properties under librdkafka's names, without prefix. References to
            secrets are unresolved; a JAAS text that is itself a reference is still there as
            `sasl.jaas.config`.
        commit_offsets: whether offsets go to the consumer group after each batch; the default is resolved.
        pending_removed_ranges: `refuse` when it was not given and there is no state location.
        application_commits: the application commits to the group, so the source only checks the group.
        read_reports: where executors report what they have read, None: nowhere.
        warnings: what was accepted but has no effect, one sentence each, for the log. Never holds a secret.
        raw: the options as given, for users' own services and subscribers.
    """

    mode: Mode
    subscribe: Subscribe
    service: str
    single: SingleCluster | None
    metadata_path: str | None
    metadata_document: str | None
    metadata_revision: str | None
    metadata_timeout_ms: int
    metadata_discovery_interval_ms: int
    metadata_failure_threshold: int
    removed_cluster_retention_ms: int
    partition_discovery_interval_ms: int | None
    cluster_failure_policy: Literal["fail", "stall"]
    read_timeout_ms: int
    state_location: str | None
    pending_removed_ranges: Literal["filter", "refuse"]
    allow_old_checkpoint: bool
    secrets_root: str
    starting: OffsetSpec | PerCluster
    ending: OffsetSpec | PerCluster | None
    starting_strategy: Literal["error", "latest"]
    fail_on_data_loss: bool
    include_headers: bool
    commit_offsets: bool
    group_id_prefix: str | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    kafka_properties: Mapping[str, str]
    application_commits: bool = False
    read_reports: str | None = None
    warnings: tuple[str, ...] = ()
    raw: NamedOptions = field(default_factory=lambda: NamedOptions({}), repr=False)

    @property
    def group_id(self) -> str | None:
        """The consumer group that offsets are committed to, if the user named one."""
        return self.kafka_properties.get("group.id")

    @property
    def bounded(self) -> bool:
        """True if the options alone make reading end (metadata's stopping offsets may do so too)."""
        return self.mode == "batch" or self.ending is not None

    def starting_for(self, cluster_id: str) -> OffsetSpec:
        """Where a cluster starts in the first plan, unless its metadata says otherwise."""
        default = LATEST if self.mode == "streaming" else EARLIEST
        return _for_cluster(self.starting, cluster_id) or default

    def ending_for(self, cluster_id: str) -> OffsetSpec | None:
        """Where a cluster stops, unless its metadata says otherwise; None = it does not (streaming only)."""
        default = LATEST if self.mode == "batch" else None
        return _for_cluster(self.ending, cluster_id) or default


def _for_cluster(rule: OffsetSpec | PerCluster | None, cluster_id: str) -> OffsetSpec | None:
    return rule.clusters.get(cluster_id) if isinstance(rule, PerCluster) else rule
