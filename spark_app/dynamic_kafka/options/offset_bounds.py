"""Where reading starts and stops, out of the three options of each side, and what Spark refuses about them.
Pure.

The order among the options is Spark's (KafkaSourceProvider): one time for all, then a time per partition,
then offsets. The refusals are Spark's for batch reads; those about the end hold in streaming too, where only
we allow one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.model import EARLIEST, LATEST, OffsetSpec
from dynamic_kafka.options.model import Mode, PerCluster
from dynamic_kafka.options.offsets import parse_offsets, parse_timestamp, parse_timestamps
from dynamic_kafka.options.recognition import Given

_EARLIEST_OFFSET = -2
_LATEST_OFFSET = -1

Rule = OffsetSpec | PerCluster


@dataclass(frozen=True)
class Bounds:
    """`starting` and `ending` as in `SourceOptions`; `overruled` names options that another one wins over."""

    starting: Rule
    ending: Rule | None
    overruled: tuple[str, ...]


def parse_bounds(given: Given, *, mode: Mode, single: bool, has_group: bool) -> Bounds:
    """Start and end of reading.

    Args:
        single: whether the JSON has no level by cluster.
        has_group: whether there is a consumer group whose committed offsets can be meant.

    Raises:
        OptionError: not understood, a batch that starts at latest, an end at earliest, `committed` without a
            group, a start after the end, or explicit positions of both for different partitions.
    """
    starting, started_by, lost_starts = _side(given, "starting", single)
    ending, ended_by, lost_ends = _side(given, "ending", single)
    if mode == "batch":
        _refuse(starting, LATEST, _LATEST_OFFSET, "start can't be latest in a batch read", "startingOffsets")
    _refuse(ending, EARLIEST, _EARLIEST_OFFSET, "end can't be earliest: nothing would be read", "endingOffsets")
    for name, rule in (("startingOffsets", starting), ("endingOffsets", ending)):
        if not has_group and any(spec.kind == "committed" for _, spec in _specs(rule)):
            raise OptionError(f"option '{name}' is committed, but no group is named; set kafka.group.id")
    _refuse_start_after_end(starting, ending, f"{started_by} and {ended_by}")
    default = EARLIEST if mode == "batch" else LATEST
    default_end = LATEST if mode == "batch" else None
    return Bounds(starting or default, ending or default_end, (*lost_starts, *lost_ends))


def _side(given: Given, side: str, single: bool) -> tuple[Rule | None, str, tuple[str, ...]]:
    """The rule of one side, which option gave it, and what it overrules."""
    ordered = (f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets")
    named = [name for name in ordered if given.has(name)]
    # All are read, so that a mistake in one that is overruled does not come to light years later.
    rules = [_read(given, name, single) for name in named]
    if not rules:
        return None, "", ()
    lost = tuple(f"option '{name}' has no effect beside '{named[0]}'" for name in named[1:])
    return rules[0], given.where(named[0]), lost


def _read(given: Given, name: str, single: bool) -> Rule:
    text, where = given.required_text(name), given.where(name)
    if name.endswith("OffsetsByTimestamp"):
        return parse_timestamps(text, where=where, single=single)
    if name.endswith("Timestamp"):
        return parse_timestamp(text, where=where)
    return parse_offsets(text, where=where, single=single)


def _specs(rule: Rule | None) -> Iterator[tuple[str, OffsetSpec]]:
    """Each spec with the id of its cluster, or with an empty text if it is for all."""
    if isinstance(rule, PerCluster):
        yield from rule.clusters.items()
    elif rule is not None:
        yield "", rule


def _refuse(rule: Rule | None, word: OffsetSpec, offset: int, why: str, option: str) -> None:
    for cluster, spec in _specs(rule):
        place = f" of cluster '{cluster}'" if cluster else ""
        if spec == word:
            raise OptionError(f"option '{option}'{place}: the {why}")
        for topic, partition, number in _flat(spec.offsets):
            if number == offset:
                raise OptionError(f"option '{option}'{place}, {topic}-{partition}: the {why}")


def _refuse_start_after_end(starting: Rule | None, ending: Rule | None, options: str) -> None:
    ends = dict(_specs(ending))
    for cluster, start in _specs(starting):
        end = ends.get(cluster)
        if end is None or start.kind != end.kind:
            continue
        place = f" of cluster '{cluster}'" if cluster else ""
        if start.timestamp_ms is not None and end.timestamp_ms is not None and start.timestamp_ms > end.timestamp_ms:
            raise OptionError(
                f"{options}: the starting time{place} ({start.timestamp_ms}) is later than the ending time"
                f" ({end.timestamp_ms}); start earlier or end later"
            )
        _compare(start.offsets, end.offsets, f"offsets{place}", options)
        _compare(start.timestamps, end.timestamps, f"timestamps{place}", options)


def _compare(
    starts: Mapping[str, Mapping[int, int]], ends: Mapping[str, Mapping[int, int]], what: str, options: str
) -> None:
    if not starts or not ends:
        return
    first = {(topic, partition): number for topic, partition, number in _flat(starts)}
    last = {(topic, partition): number for topic, partition, number in _flat(ends)}
    if first.keys() != last.keys():
        odd = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(first.keys() ^ last.keys())[:5])
        raise OptionError(
            f"{options}: the starting and ending {what} must name the same partitions; only one of them names {odd}:"
            " name them in both, or in none"
        )
    for (topic, partition), start in first.items():
        end = last[topic, partition]
        # Negative numbers stand for earliest and latest, which are not known yet.
        if 0 <= end < start:
            raise OptionError(
                f"{options}: the starting {what} of {topic}-{partition} ({start}) lie after the ending ones ({end});"
                " start earlier or end later"
            )


def _flat(positions: Mapping[str, Mapping[int, int]]) -> Iterator[tuple[str, int, int]]:
    for topic, partitions in positions.items():
        for partition, number in partitions.items():
            yield topic, partition, number
