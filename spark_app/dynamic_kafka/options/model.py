"""The options of one query, checked and resolved: the result of `parse_options`.

Pure and picklable: the driver parses the options once and the source carries the result to its other processes. It
holds no secret: the parser refuses literal secrets, and keeps references (`${file:…}`) as written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dynamic_kafka.metadata.model import EARLIEST, LATEST, OffsetSpec
from dynamic_kafka.options.definitions import FailureOptions, OffsetOptions, ReadingOptions
from dynamic_kafka.options.evaluation_definitions import EvaluationOptions
from dynamic_kafka.options.integrity_definitions import IntegrityOptions
from dynamic_kafka.options.internal_topic_definitions import InternalTopicOptions
from dynamic_kafka.options.metadata_definitions import MetadataOptions, StreamOptions
from dynamic_kafka.options.secret_definitions import SecretOptions
from dynamic_kafka.options.time_definitions import TimeOptions
from dynamic_kafka.options.value_definitions import ValueOptions
from dynamic_kafka.options.values import Mode, NamedOptions, PerCluster, SingleCluster


@dataclass(frozen=True, kw_only=True)
class SourceOptions(
    StreamOptions,
    MetadataOptions,
    OffsetOptions,
    ReadingOptions,
    ValueOptions,
    EvaluationOptions,
    FailureOptions,
    IntegrityOptions,
    InternalTopicOptions,
    SecretOptions,
    TimeOptions,
):
    """The options of one query. `definitions` declares the fields that options fill; the fields here are derived.

    Attributes:
        single: the single cluster, when `service` is `single-cluster`.
        kafka_properties: the common client properties under librdkafka's names, without prefix. References to secrets
            are not resolved. A JAAS text that is itself a reference stays as `sasl.jaas.config`.
        warnings: one sentence for the log for each option that has no effect. They never hold a secret.
        raw: the options as given, for users' own services and subscribers.
    """

    mode: Mode
    single: SingleCluster | None
    kafka_properties: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    raw: NamedOptions = field(default_factory=lambda: NamedOptions({}), repr=False)

    @property
    def group_id(self) -> str | None:
        """The consumer group for commits, if the user named one."""
        return self.kafka_properties.get("group.id")

    @property
    def bounded(self) -> bool:
        """Whether the options alone bound the run. Stopping offsets in metadata may bound it too."""
        return self.mode == "batch" or self.ending is not None

    def is_matched(self, topic: str) -> bool:
        """Return whether a pattern for a single cluster's topics matches this one. It matches no internal topic.

        On a cluster that is not the home, it may match a topic of the same name: only the metadata service asks.
        """
        pattern = self.single.pattern if self.single is not None else None
        own = self.own_topics.topics if self.own_topics is not None else frozenset()
        return pattern is not None and re.fullmatch(pattern, topic) is not None and topic not in own

    def starting_for(self, cluster_id: str) -> OffsetSpec:
        """Return where a cluster starts in the first plan, unless its metadata sets something else."""
        default = LATEST if self.mode == "streaming" else EARLIEST
        return _for_cluster(self.starting, cluster_id) or default

    def ending_for(self, cluster_id: str) -> OffsetSpec | None:
        """Return where a cluster stops, unless its metadata sets something else. None: never (streaming only)."""
        default = LATEST if self.mode == "batch" else None
        return _for_cluster(self.ending, cluster_id) or default


def _for_cluster(rule: OffsetSpec | PerCluster | None, cluster_id: str) -> OffsetSpec | None:
    return rule.clusters.get(cluster_id) if isinstance(rule, PerCluster) else rule
