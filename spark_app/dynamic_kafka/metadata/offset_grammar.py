"""The grammar of "where reading starts and stops", for documents, options and users' own services.

Driver, tools and operator; pure. Its three readers are `document_models.py`, `options/offsets.py` and
`services/returned_streams.py`. They differ in their parameters only: the side (`START`, `STOP`), and whether the topics
of the cluster are known. A value of this grammar is one of

    earliest                                    a word
    {"timestamp": "2026-11-01T00:00:00Z"}       a time for every partition of the cluster
    {"orders": {"0": 42, "1": -1}}              offsets by topic and partition; -2 = earliest, -1 = latest

Every error is a `Findings`: each problem has its path below the value, such as `("orders", "0")`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeGuard

from dynamic_kafka.metadata.model import OffsetKind, OffsetSpec
from dynamic_kafka.metadata.yaml.located import Findings, Problem
from dynamic_kafka.wording import first_few

EXAMPLE_TIME = '{"timestamp": "2026-11-01T00:00:00Z"}'
EXAMPLE_OFFSETS = '{"topic": {"0": 42}}'

MAX_PARTITION = 2**31 - 1
MAX_OFFSET = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Side:
    """One end of reading.

    Attributes:
        words: the words it takes.
        marks: the negative offsets that it takes, and their meaning.
    """

    words: tuple[OffsetKind, ...]
    marks: Mapping[int, str]


START = Side(("earliest", "latest", "committed"), {-2: "earliest", -1: "latest"})
STOP = Side(("latest", "committed"), {-1: "latest"})
"""Nothing lies before the earliest offset, so no side stops there."""


def read_offsets(value: object, side: Side, topics: Collection[str] | None = None) -> OffsetSpec:
    """Return the offsets that `value`, a word or a mapping, stands for.

    Args:
        value: the plain value, as YAML, JSON or Python has it.
        topics: the cluster's topics; explicit offsets may name no other. None skips that check.

    Raises:
        Findings: the value is none of the forms; with every problem.
    """
    if isinstance(value, str) and value in side.words:
        return OffsetSpec(value)
    if not isinstance(value, Mapping) or not value:
        raise _refusal(f"must be {', '.join(side.words)}, {EXAMPLE_TIME} or {EXAMPLE_OFFSETS}")
    # A mapping under `timestamp` is explicit offsets of a topic of that name.
    if "timestamp" not in value or isinstance(value["timestamp"], Mapping):
        marks = " or ".join(f"{mark} ({meaning})" for mark, meaning in side.marks.items())
        meaning = f"an offset: a whole number from 0, or {marks}"
        numbers = _Numbers("offsets", min(side.marks), meaning, '{"0": 42}')
        return OffsetSpec("explicit", offsets=_by_partition(value, numbers, topics))
    if len(value) > 1:
        raise _refusal("stands for all topics; name no topic beside it", "timestamp")
    return OffsetSpec("timestamp", timestamp_ms=read_timestamp_ms(value["timestamp"], "timestamp"))


def read_timestamps(value: object) -> OffsetSpec:
    """Return the times by topic and partition that `value` holds, in milliseconds since 1970.

    Raises:
        Findings: the value is no such mapping; with every problem.
    """
    numbers = _Numbers("times", 0, "a time in milliseconds since 1970", '{"0": 1793491200000}')
    if not isinstance(value, Mapping) or not value:
        raise _refusal('must be times by topic and partition, as {"topic": {"0": 1793491200000}}')
    return OffsetSpec("explicit", timestamps=_by_partition(value, numbers, None))


def read_timestamp_ms(value: object, *path: str) -> int:
    """Return one time in milliseconds since 1970.

    Args:
        value: milliseconds, as a number or its digits, or ISO 8601 with a zone.

    Raises:
        Findings: the value is no time, has no zone, or lies before 1970.
    """
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value.strip()):
        value = int(value)
    if is_whole(value) and value <= MAX_OFFSET:
        milliseconds = value
    else:
        try:
            moment = datetime.fromisoformat(value.strip() if isinstance(value, str) else "")
        except ValueError:
            text = "is no timestamp; write milliseconds since 1970, or ISO 8601 with a zone, as 2026-11-01T00:00:00Z"
            raise _refusal(text, *path) from None
        if moment.tzinfo is None:
            raise _refusal("has no zone; append `Z` or an offset such as `+01:00`", *path)
        milliseconds = (moment - _EPOCH) // timedelta(milliseconds=1)
    if milliseconds < 0:
        raise _refusal("lies before 1970", *path)
    return milliseconds


def spec_problems(spec: OffsetSpec, side: Side) -> Iterator[Problem]:
    """Yield the problems of a spec that user code has made, whose fields nothing has checked yet."""
    kinds = (*side.words, "timestamp", "explicit")
    if spec.kind not in kinds:
        yield Problem((), f"must be of kind {', '.join(kinds)}, not {spec.kind!r}")
    if spec.kind == "timestamp" and not spec.timestamps and not is_whole(spec.timestamp_ms):
        yield Problem((), "timestamp_ms must be milliseconds since 1970")
    for field, by_topic in (("offsets", spec.offsets), ("timestamps", spec.timestamps)):
        if not isinstance(by_topic, Mapping) or not all(
            isinstance(topic, str)
            and isinstance(numbers, Mapping)
            and all(is_whole(partition) and is_whole(number) for partition, number in numbers.items())
            for topic, numbers in by_topic.items()
        ):
            yield Problem((), f"{field} must be numbers by topic and partition, as {{'orders': {{0: 42}}}}")


@dataclass(frozen=True)
class _Numbers:
    """The numbers that stand by topic and partition: offsets or times."""

    name: str
    lowest: int
    meaning: str
    example: str


def _by_partition(
    value: Mapping[object, object], numbers: _Numbers, topics: Collection[str] | None
) -> dict[str, dict[int, int]]:
    problems: list[Problem] = []
    by_topic: dict[str, dict[int, int]] = {}
    for topic, partitions in ((str(key), held) for key, held in value.items()):
        if topics is not None and topic not in topics:
            hint = f"; for a point in time write {EXAMPLE_TIME}" if topic == "timestamp" else ""
            problems.append(Problem((topic,), f"is not among this cluster's topics ({first_few(topics)}){hint}"))
        elif not topic:
            problems.append(Problem((), "names an empty topic"))
        elif not isinstance(partitions, Mapping) or not partitions:
            problems.append(Problem((topic,), f"must map partitions to {numbers.name}, as {numbers.example}"))
        elif any(isinstance(number, Mapping) for number in partitions.values()):
            text = f"is one level too deep: it must map partitions to {numbers.name}, as {numbers.example}"
            problems.append(Problem((topic,), text))
        else:
            by_topic[topic] = {}
            for key, number in ((str(key), number) for key, number in partitions.items()):
                # "00" is refused too: it would be a second name of partition 0.
                if not re.fullmatch(r"0|[1-9][0-9]{0,9}", key) or int(key) > MAX_PARTITION:
                    problems.append(Problem((topic, key), "is no partition number"))
                elif not is_whole(number) or not numbers.lowest <= number <= MAX_OFFSET:
                    problems.append(Problem((topic, key), f"must be {numbers.meaning}"))
                else:
                    by_topic[topic][int(key)] = number
    if problems:
        raise Findings(problems)
    return by_topic


def _refusal(text: str, *path: str) -> Findings:
    return Findings([Problem(path, text)])


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether `value` is a whole number; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)
