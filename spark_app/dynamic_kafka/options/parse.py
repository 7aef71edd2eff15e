"""From the options Spark hands over to `SourceOptions`: the one place that decides what a set of options
means.

Runs wherever the source is constructed, on the driver and again in its other processes; pure, so that the
answer is the same everywhere. What only brokers or metadata can tell (unknown topics, unknown clusters) is
checked at planning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options.definitions import OPTIONS
from dynamic_kafka.options.java_client import check_no_literal_secrets, translate_java
from dynamic_kafka.options.model import Mode, NamedOptions, SourceOptions
from dynamic_kafka.options.offset_bounds import parse_bounds
from dynamic_kafka.options.recognition import Given, sort_out
from dynamic_kafka.options.secrets import check_references
from dynamic_kafka.options.subscription import parse_revision, parse_subscription


def parse_options(options: Mapping[str, str], *, mode: Mode) -> SourceOptions:
    """Check options and resolve their defaults.

    Args:
        options: as Spark hands them over; the case of keys does not matter, that of values does.
        mode: whether Spark reads a stream or a batch; some defaults and refusals differ.

    Raises:
        OptionError: the first thing that is wrong, with the option's name and what to do.
    """
    given = sort_out(options)
    warnings = _without_effect(given, mode)
    chosen = parse_subscription(given)
    kafka_properties = _kafka_properties(given, warnings)
    has_group = bool(kafka_properties.get("group.id"))
    bounds = parse_bounds(given, mode=mode, single=chosen.single is not None, has_group=has_group)
    warnings.extend(bounds.overruled)
    state_location = given.text("stateLocation")
    lowest, highest = _rates(given)
    if has_group and given.has("groupIdPrefix"):
        warnings.append("option 'groupIdPrefix' has no effect beside 'kafka.group.id'")
    return SourceOptions(
        mode=mode,
        subscribe=chosen.subscribe,
        service=chosen.service,
        single=chosen.single,
        metadata_path=given.text("metadataPath"),
        metadata_document=given.text("metadataDocument"),
        metadata_revision=parse_revision(given),
        metadata_timeout_ms=given.duration_ms("metadataTimeout"),
        metadata_discovery_interval_ms=given.duration_ms("metadataDiscoveryInterval"),
        metadata_failure_threshold=given.count("metadataFailureThreshold"),
        removed_cluster_retention_ms=given.duration_ms("removedClusterRetention"),
        partition_discovery_interval_ms=given.optional_duration_ms("partitionDiscoveryInterval"),
        cluster_failure_policy=_failure_policy(given, state_location),
        read_timeout_ms=given.duration_ms("readTimeout"),
        state_location=state_location,
        pending_removed_ranges=_pending_removed_ranges(given, state_location),
        allow_old_checkpoint=given.boolean("allowOldCheckpoint"),
        secrets_root=_absolute(given, "secretsRoot"),
        starting=bounds.starting,
        ending=bounds.ending,
        starting_strategy="latest" if given.word("startingOffsetsByTimestampStrategy") == "latest" else "error",
        fail_on_data_loss=given.boolean("failOnDataLoss"),
        include_headers=given.boolean("includeHeaders"),
        commit_offsets=_commit_offsets(given, mode, has_group),
        group_id_prefix=given.text("groupIdPrefix"),
        max_offsets_per_trigger=highest,
        min_offsets_per_trigger=lowest,
        max_trigger_delay_ms=given.duration_ms("maxTriggerDelay"),
        min_partitions=given.optional_count("minPartitions"),
        max_records_per_partition=given.optional_count("maxRecordsPerPartition"),
        kafka_properties=kafka_properties,
        application_commits=given.boolean("applicationCommits"),
        read_reports=_read_reports(given),
        warnings=tuple(warnings),
        raw=NamedOptions(options),
    )


def _without_effect(given: Given, mode: Mode) -> list[str]:
    warnings = []
    for name in given.names():
        if OPTIONS[name].status == "ignored":
            warnings.append(f"option '{name}' has no effect: {OPTIONS[name].doc}")
        elif mode == "batch" and OPTIONS[name].streaming_only:
            warnings.append(f"option '{name}' has no effect in a batch read")
    return warnings


def _kafka_properties(given: Given, warnings: list[str]) -> dict[str, str]:
    check_no_literal_secrets(given.kafka)
    check_references(given.kafka)
    return translate_java(given.kafka, "options", warn=warnings.append, fit=True)


def _rates(given: Given) -> tuple[int | None, int | None]:
    lowest = given.optional_count("minOffsetsPerTrigger")
    highest = given.optional_count("maxOffsetsPerTrigger")
    if lowest is not None and highest is not None and lowest > highest:
        raise OptionError(
            f"{given.where('minOffsetsPerTrigger')} ({lowest}) is higher than {given.where('maxOffsetsPerTrigger')}"
            f" ({highest}): no batch could hold so many; lower the first or raise the second"
        )
    return lowest, highest


def _failure_policy(given: Given, state_location: str | None) -> Literal["fail", "stall"]:
    if given.word("clusterFailurePolicy") == "fail":
        return "fail"
    if state_location is None:
        raise OptionError(
            "clusterFailurePolicy=stall needs 'stateLocation', where it keeps what was left out of a batch"
        )
    return "stall"


def _pending_removed_ranges(given: Given, state_location: str | None) -> Literal["filter", "refuse"]:
    word = given.optional_word("pendingRemovedRanges")
    if word == "filter" and state_location is None:
        raise OptionError(
            "pendingRemovedRanges=filter needs 'stateLocation', where it keeps what was left out of a batch"
        )
    return "refuse" if word == "refuse" or state_location is None else "filter"


def _commit_offsets(given: Given, mode: Mode, has_group: bool) -> bool:
    wanted = given.optional_boolean("commitOffsets")
    if wanted and not has_group:
        raise OptionError("commitOffsets=true needs a consumer group; set kafka.group.id")
    return mode == "streaming" and has_group and wanted is not False


def _read_reports(given: Given) -> str | None:
    text = given.text("readReports")
    if text is not None and not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+):\d{1,5}/\w+", text):
        raise OptionError(f"{given.where('readReports')} is '{text}'; it must be host:port/key")
    return text


def _absolute(given: Given, name: str) -> str:
    path = given.required_text(name)
    if not path.startswith("/"):
        raise OptionError(f"{given.where(name)} is '{path}'; it must be an absolute path")
    return path
