"""Where to start and stop as users write it: words, times, Spark's JSON, with a level by cluster around it.

A single-cluster stream uses Spark's own forms. With several clusters explicit positions gain an outer level:

    {"orders": {"0": 42, "1": -2}}                        Spark's; -2 = earliest, -1 = latest
    {"east": {"orders": {"0": 42}}, "west": "latest"}     by cluster: positions, a word, or
    {"east": {"timestamp": "2026-11-01T00:00:00Z"}}       a time for the whole cluster

Pure. What the topics and partitions are is not known here: whether positions fit them is checked when they
are planned. Every error names the option and the place inside the JSON (`east.orders.0`).
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeGuard

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.model import COMMITTED, EARLIEST, LATEST, OffsetSpec
from dynamic_kafka.options.definitions import INT_MAX, LONG_MAX
from dynamic_kafka.options.model import PerCluster

_WORDS = {"earliest": EARLIEST, "latest": LATEST, "committed": COMMITTED}
_SPARK_FORM = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_CLUSTER_FORM = '{"east":{"topicA":{"0":23,"1":-1}},"west":"latest"}'
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Positions = dict[str, dict[int, int]]


def parse_offsets(text: str, *, where: str, single: bool) -> OffsetSpec | PerCluster:
    """`startingOffsets` or `endingOffsets`.

    Args:
        where: how to speak of the option in messages.
        single: True for a single-cluster stream, whose JSON has no level by cluster.

    Raises:
        OptionError: neither a word nor JSON of the expected form.
    """
    word = _WORDS.get(text.lower())
    if word is not None:
        return word
    if not text.lstrip().startswith(("{", "[")):
        raise OptionError(_not_a_word(text, where))
    if single:
        return _cluster_spec(_load(text, where, _SPARK_FORM), where, "")
    return _by_cluster(text, where, _cluster_spec)


def parse_timestamps(text: str, *, where: str, single: bool) -> OffsetSpec | PerCluster:
    """`startingOffsetsByTimestamp` or `endingOffsetsByTimestamp`: milliseconds per partition.

    Raises:
        OptionError: not JSON of the expected form.
    """
    if single:
        return _timestamps_spec(_load(text, where, _SPARK_FORM), where, "")
    return _by_cluster(text, where, _timestamps_spec)


def parse_timestamp(text: str, *, where: str) -> OffsetSpec:
    """`startingTimestamp` or `endingTimestamp`: one time for everything.

    Raises:
        OptionError: neither milliseconds since the epoch nor ISO 8601 with a time zone.
    """
    number = int(text) if re.fullmatch(r"-?\d{1,19}", text, re.ASCII) else None
    return OffsetSpec("timestamp", timestamp_ms=_timestamp(text if number is None else number, where, ""))


def parse_assign(text: str, *, where: str) -> dict[str, tuple[int, ...]]:
    """`assign`: partitions by topic, sorted, none twice.

    Raises:
        OptionError: not JSON of the form {"topicA":[0,1]}, or it names no partition.
    """
    form = '{"topicA":[0,1],"topicB":[2]}'
    assigned: dict[str, tuple[int, ...]] = {}
    for topic, partitions in _load(text, where, form).items():
        if not isinstance(partitions, list) or not partitions:
            raise OptionError(f"{where}: '{topic}' must hold a list of partitions; write for example {form}")
        wrong = [p for p in partitions if not _is_whole(p) or not 0 <= p <= INT_MAX]
        if wrong or not topic:
            raise OptionError(f"{where}: '{topic}' holds {json.dumps(wrong[0] if wrong else topic)}, no partition")
        assigned[topic] = tuple(sorted(set(partitions)))
    return assigned


def _not_a_word(text: str, where: str) -> str:
    near = difflib.get_close_matches(text.lower(), _WORDS, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else f" such as {_CLUSTER_FORM}"
    return f"{where} is '{_short(text)}'; it must be {', '.join(_WORDS)} or JSON{hint}"


def _by_cluster(text: str, where: str, spec: _SpecOf) -> PerCluster:
    clusters: dict[str, OffsetSpec] = {}
    for cluster, value in _load(text, where, _CLUSTER_FORM).items():
        if not cluster:
            raise OptionError(f"{where}: a cluster id is empty; write for example {_CLUSTER_FORM}")
        if isinstance(value, str) and value.strip().lower() in _WORDS:
            clusters[cluster] = _WORDS[value.strip().lower()]
        elif isinstance(value, Mapping):
            _refuse_missing_level(cluster, value, where)
            clusters[cluster] = spec(value, where, cluster)
        else:
            raise OptionError(
                f"{where}: '{cluster}' must hold earliest, latest, committed, a time or positions;"
                f" write for example {_CLUSTER_FORM}"
            )
    return PerCluster(clusters)


def _refuse_missing_level(cluster: str, value: Mapping[str, object], where: str) -> None:
    if value and all(key.isdigit() and _is_whole(number) for key, number in value.items()):
        raise OptionError(
            f"{where}: '{cluster}' holds partitions where topics should be; with several clusters an outer"
            " level"
            f' names the cluster: {{"<cluster id>":{{"{cluster}":{json.dumps(dict(value))}}}}}'
        )


def _cluster_spec(value: Mapping[str, object], where: str, place: str) -> OffsetSpec:
    time = value.get("timestamp")
    if time is not None and not isinstance(time, Mapping):
        if len(value) > 1:
            raise OptionError(f"{where}: {_at(place)}'timestamp' stands for all topics; name no others beside it")
        return OffsetSpec("timestamp", timestamp_ms=_timestamp(time, where, _join(place, "timestamp")))
    return OffsetSpec("explicit", offsets=_positions(value, where, place, lowest=-2))


def _timestamps_spec(value: Mapping[str, object], where: str, place: str) -> OffsetSpec:
    return OffsetSpec("explicit", timestamps=_positions(value, where, place, lowest=0))


def _positions(value: Mapping[str, object], where: str, place: str, *, lowest: int) -> Positions:
    if not value:
        raise OptionError(f"{where}: {_at(place)}no topic is named; write for example {_SPARK_FORM}")
    positions: Positions = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, Mapping) or not partitions or not topic:
            raise OptionError(
                f"{where}: '{_join(place, topic)}' must hold positions by partition; write for example {_SPARK_FORM}"
            )
        if any(isinstance(number, Mapping) for number in partitions.values()):
            form = _CLUSTER_FORM if place else f"{_SPARK_FORM}: a single cluster has no level by cluster"
            deep = f"'{_join(place, topic)}' is one level too deep"
            raise OptionError(f"{where}: {deep}; write for example {form}")
        positions[topic] = {
            _partition(key, where, _join(place, topic)): _position(number, where, _join(place, topic, key), lowest)
            for key, number in partitions.items()
        }
    return positions


def _partition(key: str, where: str, place: str) -> int:
    number = int(key) if re.fullmatch(r"\d{1,10}", key, re.ASCII) else -1
    # "00" is refused with the rest: it would silently be a second name for partition 0.
    if not 0 <= number <= INT_MAX or str(number) != key:
        raise OptionError(f"{where}: '{place}' has the key '{key}', which is no partition number")
    return number


def _position(number: object, where: str, place: str, lowest: int) -> int:
    if not _is_whole(number) or not lowest <= number <= LONG_MAX:
        meaning = "an offset, -2 (earliest) or -1 (latest)" if lowest < 0 else "milliseconds since the epoch"
        raise OptionError(f"{where}: '{place}' must be {meaning}")
    return number


def _timestamp(value: object, where: str, place: str) -> int:
    if _is_whole(value) and 0 <= value <= LONG_MAX:
        return value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            moment = None
        if moment is not None and moment.tzinfo is not None and moment >= _EPOCH:
            return (moment - _EPOCH) // timedelta(milliseconds=1)
    raise OptionError(
        f"{where}: {_at(place)}a time must be milliseconds since the epoch, or like 2026-11-01T00:00:00Z"
        " (with its time zone)"
    )


def _load(text: str, where: str, form: str) -> dict[str, object]:
    try:
        loaded = json.loads(text, object_pairs_hook=_without_doubles, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, _DoubleKeyError) else "it is not JSON"
        raise OptionError(f"{where}: {reason}; expected e.g. {form}, got '{_short(text)}'") from None
    if not isinstance(loaded, dict) or not loaded:
        raise OptionError(f"{where} names nothing; expected e.g. {form}, got '{_short(text)}'")
    return loaded


class _DoubleKeyError(ValueError):
    """A JSON object has one key twice; most parsers silently take the last."""


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    seen: dict[str, object] = {}
    for key, value in pairs:
        if key in seen:
            raise _DoubleKeyError(f"'{key}' is there twice")
        seen[key] = value
    return seen


def _no_number(name: str) -> object:
    raise ValueError(name)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _join(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _at(place: str) -> str:
    return f"'{place}': " if place else ""


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "…"


_SpecOf = Callable[[Mapping[str, object], str, str], OffsetSpec]
