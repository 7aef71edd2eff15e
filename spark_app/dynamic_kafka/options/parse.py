"""The parser from the options that Spark hands over to `SourceOptions`.

Pure. It runs wherever the source is constructed, on the driver and again in its other processes, with the same result.
Planning checks later whatever needs brokers or metadata, such as unknown topics and unknown clusters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options.columns import EVENT_TIME, HEADERS, LATE, parse_columns
from dynamic_kafka.options.common_secrets import secret_names, shown
from dynamic_kafka.options.durations import unit_warning
from dynamic_kafka.options.index import IGNORED_OPTIONS
from dynamic_kafka.options.java_client_properties import check_no_literal_secrets, translate_java
from dynamic_kafka.options.model import SourceOptions
from dynamic_kafka.options.offset_bounds import parse_bounds
from dynamic_kafka.options.option import direct_options
from dynamic_kafka.options.own_topics import DeadLetterTopic, OwnTopics, parse_dead_letters, parse_own_topics
from dynamic_kafka.options.recognition import GivenOptions, recognise
from dynamic_kafka.options.secrets import check_references
from dynamic_kafka.options.stream_choice import parse_subscription
from dynamic_kafka.options.value_schema import parse_value_schema
from dynamic_kafka.options.values import Mode, NamedOptions
from dynamic_kafka.user_code import is_import_path
from dynamic_kafka.wording import did_you_mean, first_few

_MILLISECONDS = re.compile(r"\bms\b|timeoutms", re.IGNORECASE)
"""Names of options that have their unit in them, such as Flink's."""

_NEEDS_STATE = (
    "needs 'stateLocation', which records the ranges left out; set it to a folder of the query's own that the driver"
    " can write, such as one beside the checkpoint"
)


def parse_options(options: Mapping[str, str], *, mode: Mode) -> SourceOptions:
    """Check options and resolve their defaults.

    Args:
        options: the options as Spark hands them over. The case of keys does not matter; the case of values does.
        mode: whether Spark reads a stream or a batch. Some defaults and refusals differ.

    Raises:
        OptionError: the first problem, with the option's name and a remedy.
    """
    given = recognise(options)
    warnings = [*_without_effect(given, mode), *_without_unit(given)]
    chosen = parse_subscription(given)
    check_no_literal_secrets(given.kafka)
    check_references(given.kafka)
    kafka_properties = translate_java(given.kafka, "options", warn=warnings.append, fit=True)
    has_group = bool(kafka_properties.get("group.id"))
    bounds = parse_bounds(given, mode=mode, single=chosen.single is not None, has_group=has_group)
    warnings.extend(bounds.overruled)
    if has_group and given.has("groupIdPrefix"):
        warnings.append("option 'groupIdPrefix' has no effect beside 'kafka.group.id'")
    fields: dict[str, Any] = {name: given.value(option) for name, option in direct_options(SourceOptions).items()}
    _check_rates(given, fields["min_offsets_per_trigger"], fields["max_offsets_per_trigger"])
    warnings += _check_time(given, fields)
    more = {
        EVENT_TIME: None if fields["timestamp_assigner"] is not None else "timestampAssigner",
        LATE: None if fields["watermark_mode"] == "periodic" else "watermarkMode=periodic",
    }
    if mode == "batch":
        fields["alignment_max_drift_ms"] = None  # its one plan reads all
    columns = parse_columns(given, include_headers=fields["include_headers"], more=more)
    warnings += _check_headers(given, columns, fields)
    fields["include_headers"] |= HEADERS in columns
    state_location = fields["state_location"]
    _check_failure_policy(fields["cluster_failure_policy"], state_location)
    warnings += _check_values(given, fields)
    warnings += _check_evaluator(given, fields["refused_records"])
    _check_assigner(given, fields["timestamp_assigner"], fields["value_schema"])
    dead_letters = _dead_letters(given, fields["refused_records"], fields["late_rows"], warnings)
    fields["pending_removed_ranges"] = _pending_removed_ranges(fields["pending_removed_ranges"], state_location)
    warnings += _check_secrets(chosen.service, kafka_properties, fields["allowed_servers"])
    fields["commit_offsets"] = _commit_offsets(fields["commit_offsets"], mode, has_group)
    return SourceOptions(
        mode=mode,
        subscribe=chosen.subscribe,
        service=chosen.service,
        single=chosen.single,
        starting=bounds.starting,
        ending=bounds.ending,
        columns=columns,
        kafka_properties=kafka_properties,
        dead_letters=dead_letters,
        own_topics=_own_topics(given, dead_letters),
        warnings=tuple(warnings),
        raw=NamedOptions(options),
        **fields,
    )


def check_stream(options: SourceOptions) -> None:
    """Refuse options that only a stream cannot have. `parse_options` also gets those of a batch, before that is known.

    Raises:
        OptionError: a record evaluator, or a timestamp assigner, has no place for its reports.
    """
    found = {
        "recordEvaluator": options.record_evaluator and "where each split has ended",
        "timestampAssigner": options.timestamp_assigner and "the times that executors find",
    }
    for option, what in found.items():
        if what and options.state_location is None:
            raise OptionError(
                f"option '{option}' needs 'stateLocation', which records {what}; set it to a folder of the query's own"
                " that the driver and all executors can write, such as one beside the checkpoint"
            )


def _without_effect(given: GivenOptions, mode: Mode) -> list[str]:
    warnings = []
    for option in given.options():
        if option in IGNORED_OPTIONS:
            given.value(option)
            warnings.append(f"option '{option.name}' has no effect: {option.description}")
        elif mode == "batch" and option.streaming_only:
            warnings.append(f"option '{option.name}' has no effect in a batch read")
    return warnings


def _without_unit(given: GivenOptions) -> Iterator[str]:
    """Yield a warning for each duration below a second that has no unit: whoever wrote it may have meant seconds."""
    for option in given.options():
        where = given.where(option.name)
        warning = unit_warning(given.text(option.name) or "", where=where) if option.kind == "duration" else None
        if warning is not None and not _MILLISECONDS.search(where):
            yield warning


def _check_time(given: GivenOptions, fields: Mapping[str, Any]) -> list[str]:
    """Refuse a clock that nothing sets, and one for a query without a clock; return warnings about what has no use."""
    drift, mode, word = "watermarkAlignmentMaxDrift", "watermarkMode", fields["watermark_mode"]
    if fields["time_characteristic"] == "processing" and (given.has(drift) or word == "periodic"):
        other = given.where(drift if given.has(drift) else mode)
        raise OptionError(
            f"{given.where('timeCharacteristic')} is 'processing', which has no clock, and {other} is about one; take"
            " one of them out"
        )
    if word == "periodic" and not given.has(drift):
        raise OptionError(f"{given.where(mode)} is 'periodic', which needs '{drift}': it makes the clock")
    if fields["late_rows"] == "deadletter" and word == "none":
        raise OptionError(f"{given.where('lateRows')} is 'deadletter', which needs watermarkMode=periodic")
    needs = {"idleTimeout": drift, "announcedTimeout": drift, "allowedLateness": f"{mode}=periodic"}
    has = {drift: given.has(drift), f"{mode}=periodic": word == "periodic"}
    return [
        f"{given.where(name)} has no effect without '{other}'"
        for name, other in needs.items()
        if given.has(name) and not has[other]
    ]


def _check_rates(given: GivenOptions, lowest: int | None, highest: int | None) -> None:
    if lowest is not None and highest is not None and lowest > highest:
        raise OptionError(
            f"{given.where('minOffsetsPerTrigger')} ({lowest}) is higher than {given.where('maxOffsetsPerTrigger')}"
            f" ({highest}), so that no batch is ever large enough; lower the first or raise the second"
        )


def _check_headers(given: GivenOptions, columns: tuple[str, ...], fields: Mapping[str, Any]) -> list[str]:
    assigner = fields["timestamp_assigner"]
    sees_headers = fields["record_evaluator"] is not None or (assigner is not None and is_import_path(assigner))
    if not fields["include_headers"] or HEADERS in columns or sees_headers:
        return []
    return [f"{given.where('includeHeaders')} has no effect, since {given.where('columns')} does not name headers"]


def _check_secrets(service: str, kafka_properties: Mapping[str, str], allowed: str | None) -> list[str]:
    """Refuse secrets that metadata from outside could send anywhere; return a warning about a list without effect."""
    secrets = secret_names(kafka_properties)
    if secrets and allowed is None and service not in ("static", "single-cluster"):
        raise OptionError(
            f"the options hold secrets ({shown(secrets)}), and metadataService={service} brings servers from outside:"
            " set 'allowedServers' to the servers that may get these secrets (host:port,host:port)"
            " (docs/reference/allowed-servers.md)"
        )
    if allowed is not None and not secrets:
        return ["option 'allowedServers' has no effect: the kafka.* options hold no secret"]
    return []


def _check_failure_policy(policy: str, state_location: str | None) -> None:
    if policy == "stall" and state_location is None:
        raise OptionError(f"clusterFailurePolicy=stall {_NEEDS_STATE}")


def _check_values(given: GivenOptions, fields: Mapping[str, Any]) -> list[str]:
    """Refuse what does not go with typed values; return warnings about options that need these."""
    schema, corrupt, mode = fields["value_schema"], fields["corrupt_column"], fields["refused_records"]
    if not given.has("value.format"):
        if schema is not None:
            raise OptionError("option 'value.schema' needs 'value.format', such as json")
        if mode in ("permissive", "dropmalformed"):
            raise OptionError(f"mode={mode} needs 'value.format': without it, values are bytes, and none is malformed")
        lonely = [name for name in ("columnNameOfCorruptRecord", "timeZone") if given.has(name)]
        return [f"option '{name}' has no effect without 'value.format'" for name in lonely]
    if schema is None:
        raise OptionError("option 'value.format' needs 'value.schema', the schema of the values")
    if given.has("recordDeserializer"):
        raise OptionError(
            "option 'recordDeserializer' does not go with 'value.format': the record evaluator gets the decoded value"
            " then; take one of them out"
        )
    kinds = {field["name"]: field["type"] for field in parse_value_schema(schema, "")["fields"]}
    if kinds.get(corrupt, "string") != "string" or kinds.keys() == {corrupt}:
        raise OptionError(
            f"option 'value.schema': the field {corrupt!r} gets the text of malformed values, so it must be of type"
            " STRING, and not the only field; columnNameOfCorruptRecord names another one"
        )
    return []


def _check_evaluator(given: GivenOptions, refused_records: str) -> list[str]:
    """Refuse what does not go with a record evaluator; return a warning about a deserialiser without effect."""
    _check_whole_ranges(given, "recordEvaluator", "has found the record that ends the split")
    if not given.has("recordEvaluator"):
        lonely = given.has("recordDeserializer") and refused_records == "failfast"
        return (
            ["option 'recordDeserializer' has no effect without 'recordEvaluator' or mode=deadletter"] if lonely else []
        )
    return []


def _check_whole_ranges(given: GivenOptions, option: str, found: str) -> None:
    """Refuse options that cut ranges of a split beside one by which executors end a range."""
    for name in ("minPartitions", "maxRecordsPerPartition"):
        if given.has(option) and given.has(name):
            raise OptionError(
                f"{given.where(name)} does not go with {given.where(option)}: it cuts a range of a split into several"
                f" tasks, and a task does not know whether another one {found}; take one of them out"
            )


def _check_assigner(given: GivenOptions, assigner: str | None, schema: str | None) -> None:
    """Refuse times of records without a clock, and a field that has no times."""
    option = "timestampAssigner"
    if assigner is None:
        return
    if not given.has("watermarkAlignmentMaxDrift"):
        raise OptionError(
            f"{given.where(option)} needs 'watermarkAlignmentMaxDrift', which makes the clock that follows these times"
        )
    _check_whole_ranges(given, option, "has found a record that the others are to wait for")
    root, *path = assigner.split(".") if not is_import_path(assigner) else ("",)
    if root and schema is None:
        raise OptionError(f"{given.where(option)} is '{assigner}', which needs 'value.format' and 'value.schema'")
    if root:
        kind: Any = parse_value_schema(schema or "", "option 'value.schema'")
        for name in path:
            inner = kind.get("fields", ()) if isinstance(kind, dict) else ()
            fields = {field["name"]: field["type"] for field in inner}
            if name not in fields:
                near = did_you_mean(name, fields) or (f"; the fields are {first_few(fields)}" if fields else "")
                raise OptionError(
                    f"{given.where(option)} is '{assigner}', but value.schema has no field {name!r}{near}"
                )
            kind = fields[name]
        if kind not in ("timestamp", "long"):
            raise OptionError(
                f"{given.where(option)} is '{assigner}', a field of another type than TIMESTAMP and BIGINT"
                " (milliseconds since 1970): name such a field, or write `module:Name`"
            )


def _dead_letters(
    given: GivenOptions, refused_records: str, late_rows: str, warnings: list[str]
) -> DeadLetterTopic | None:
    """Return the dead-letter topic, if one is used. Raises OptionError if something is missing."""
    text = given.text("deadLetters")
    dead_letter_topic = parse_dead_letters(text, given.where("deadLetters")) if text is not None else None
    users = [name for name, word in (("mode", refused_records), ("lateRows", late_rows)) if word == "deadletter"]
    if not users:
        if dead_letter_topic is not None:
            warnings.append("option 'deadLetters' has no effect without mode=deadletter or lateRows=deadletter")
        return None
    if refused_records == "deadletter" and not given.has("recordDeserializer") and not given.has("value.format"):
        raise OptionError(
            "mode=deadletter needs 'recordDeserializer', which decides about each record, or 'value.format'"
        )
    if dead_letter_topic is None:
        raise OptionError(
            f"{users[0]}=deadletter needs a dead-letter topic: set 'deadLetters', in app.yaml `deadLetters` under"
            " `internalTopics`"
        )
    return dead_letter_topic


def _own_topics(given: GivenOptions, letters: DeadLetterTopic | None) -> OwnTopics | None:
    """Return the application's own topics, at least the dead-letter topic. Raises OptionError."""
    text = given.text("internalTopics")
    if text is not None:
        return parse_own_topics(text, given.where("internalTopics"))
    if letters is None:
        return None
    topics = frozenset((letters.topic,))
    return OwnTopics(letters.cluster, letters.properties, letters.kafka_id, topics, topics)


def _pending_removed_ranges(word: str | None, state_location: str | None) -> Literal["filter", "refuse"]:
    if word == "filter" and state_location is None:
        raise OptionError(f"pendingRemovedRanges=filter {_NEEDS_STATE}")
    return "refuse" if word == "refuse" or state_location is None else "filter"


def _commit_offsets(wanted: bool | None, mode: Mode, has_group: bool) -> bool:
    if wanted and not has_group:
        raise OptionError("commitOffsets=true needs a consumer group; set kafka.group.id")
    return mode == "streaming" and has_group and wanted is not False
