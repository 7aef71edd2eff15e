"""The options that say where reading starts and stops, out of their texts. Pure; the option parser calls it.

A single-cluster stream uses Spark's own forms. With several clusters, explicit offsets have an outer level:

    {"orders": {"0": 42, "1": -2}}                        Spark's form; -2 = earliest, -1 = latest
    {"east": {"orders": {"0": 42}}, "west": "latest"}     by cluster: offsets, a word, or
    {"east": {"timestamp": "2026-11-01T00:00:00Z"}}       one time for the whole cluster

`metadata.offset_grammar` reads the value of one cluster. This module adds JSON, the level of clusters, words in any
letter case, and the option's name in errors, with the place inside the JSON (`east.orders.0`). Topics and partitions
are checked later, when a plan uses the offsets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.model import OffsetSpec
from dynamic_kafka.metadata.offset_grammar import (
    MAX_PARTITION,
    START,
    is_whole,
    read_offsets,
    read_timestamp_ms,
    read_timestamps,
)
from dynamic_kafka.metadata.strict_json import DuplicateKeyError, load_json
from dynamic_kafka.metadata.yaml.located import Findings
from dynamic_kafka.options.values import PerCluster
from dynamic_kafka.wording import did_you_mean

_SPARK_FORM = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_CLUSTER_FORM = '{"east":{"topicA":{"0":23,"1":-1}},"west":"latest"}'
_ASSIGN_FORM = '{"topicA":[0,1],"topicB":[2]}'


def parse_offsets(text: str, *, where: str, single: bool) -> OffsetSpec | PerCluster:
    """Read `startingOffsets` or `endingOffsets`.

    Args:
        where: the option's name in messages.
        single: True for a single-cluster stream, whose JSON has no level of clusters.

    Raises:
        OptionError: neither a word nor JSON of the expected form.
    """
    if text.lower() in START.words:
        return _offsets(text)
    if not text.lstrip().startswith(("{", "[")):
        hint = did_you_mean(text.lower(), START.words) or f" such as {_CLUSTER_FORM}"
        raise OptionError(f"{where} is '{_short(text)}'; it must be {', '.join(START.words)} or JSON{hint}")
    return _parse_json(text, where, single, _offsets)


def parse_timestamps(text: str, *, where: str, single: bool) -> OffsetSpec | PerCluster:
    """Read `startingOffsetsByTimestamp` or `endingOffsetsByTimestamp`: milliseconds per partition.

    Raises:
        OptionError: not JSON of the expected form.
    """
    return _parse_json(text, where, single, _times)


def parse_timestamp(text: str, *, where: str) -> OffsetSpec:
    """Read `startingTimestamp` or `endingTimestamp`: one time for everything.

    Raises:
        OptionError: neither milliseconds since 1970 nor ISO 8601 with a time zone.
    """
    try:
        return OffsetSpec("timestamp", timestamp_ms=read_timestamp_ms(text))
    except Findings as error:
        raise _option_error(error, where) from None


def parse_assign(text: str, *, where: str) -> dict[str, tuple[int, ...]]:
    """Read `assign`: partitions by topic, sorted, none twice.

    Raises:
        OptionError: not JSON of the form {"topicA":[0,1]}, or it names no partition.
    """
    assigned: dict[str, tuple[int, ...]] = {}
    for topic, partitions in _load(text, where, _ASSIGN_FORM).items():
        if not isinstance(partitions, list) or not partitions:
            raise OptionError(f"{where}: '{topic}' must hold a list of partitions; write for example {_ASSIGN_FORM}")
        wrong = [p for p in partitions if not is_whole(p) or not 0 <= p <= MAX_PARTITION]
        if wrong or not topic:
            raise OptionError(f"{where}: '{topic}' holds {json.dumps(wrong[0] if wrong else topic)}, no partition")
        assigned[topic] = tuple(sorted(set(partitions)))
    return assigned


def _offsets(value: object) -> OffsetSpec:
    """Read one cluster's value. Both sides take all words: `offset_bounds` refuses an end at earliest."""
    return read_offsets(value.strip().lower() if isinstance(value, str) else value, START)


def _times(value: object) -> OffsetSpec:
    # A whole cluster may have a word instead of times.
    return _offsets(value) if isinstance(value, str) else read_timestamps(value)


def _parse_json(text: str, where: str, single: bool, read: Callable[[object], OffsetSpec]) -> OffsetSpec | PerCluster:
    loaded = _load(text, where, _SPARK_FORM if single else _CLUSTER_FORM)
    if single:
        _refuse_extra_level(loaded, where)
    values = {"": loaded} if single else loaded
    specs: dict[str, OffsetSpec] = {}
    for cluster, value in values.items():
        if not single:
            _refuse_missing_level(cluster, value, where)
        try:
            specs[cluster] = read(value)
        except Findings as error:
            raise _option_error(error, where, *([cluster] if cluster else [])) from None
    return specs[""] if single else PerCluster(specs)


def _refuse_missing_level(cluster: str, value: object, where: str) -> None:
    if not cluster:
        raise OptionError(f"{where}: a cluster id is empty; write for example {_CLUSTER_FORM}")
    if isinstance(value, Mapping) and value and all(key.isdigit() and is_whole(n) for key, n in value.items()):
        raise OptionError(
            f"{where}: '{cluster}' holds partitions where topics should be; with several clusters an outer level"
            f' names the cluster: {{"<cluster id>":{{"{cluster}":{json.dumps(dict(value))}}}}}'
        )


def _refuse_extra_level(value: Mapping[str, object], where: str) -> None:
    for topic, partitions in value.items():
        if isinstance(partitions, Mapping) and any(isinstance(number, Mapping) for number in partitions.values()):
            raise OptionError(
                f"{where}: '{topic}' is one level too deep; write for example {_SPARK_FORM}: a single cluster has no"
                " level by cluster"
            )


def _option_error(error: Findings, where: str, *place: str) -> OptionError:
    """Return the first problem, with its place inside the JSON."""
    problem = error.problems[0]
    path = ".".join((*place, *map(str, problem.path)))
    return OptionError(f"{where}: '{path}' {problem.text}" if path else f"{where} {problem.text}")


def _load(text: str, where: str, form: str) -> dict[str, object]:
    try:
        loaded = load_json(text)
    except ValueError as error:
        reason = str(error) if isinstance(error, DuplicateKeyError) else "it is not JSON"
        raise OptionError(f"{where}: {reason}; expected e.g. {form}, got '{_short(text)}'") from None
    if not isinstance(loaded, dict) or not loaded:
        raise OptionError(f"{where} names nothing; expected e.g. {form}, got '{_short(text)}'")
    return loaded


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "…"
