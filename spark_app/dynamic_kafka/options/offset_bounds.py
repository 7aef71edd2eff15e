"""Where reading starts and stops: one rule for each side, from three options each.

The precedence of the options is Spark's (KafkaSourceProvider): one time for all, then a time per partition, then
offsets. So are the refusals, which Spark has for batch reads. Those about the end hold in streaming too: this source
allows an end there, and Spark does not. Pure; only the parser uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.model import EARLIEST, LATEST, OffsetSpec
from dynamic_kafka.options.offsets import parse_offsets, parse_timestamp, parse_timestamps
from dynamic_kafka.options.recognition import GivenOptions
from dynamic_kafka.options.values import Mode, PerCluster
from dynamic_kafka.wording import first_few

_EARLIEST_OFFSET = -2
_LATEST_OFFSET = -1

Rule = OffsetSpec | PerCluster


@dataclass(frozen=True)
class Bounds:
    """The fields `starting` and `ending` of `SourceOptions`, and a warning for each overruled option."""

    starting: Rule
    ending: Rule | None
    overruled: tuple[str, ...]


def parse_bounds(given: GivenOptions, *, mode: Mode, single: bool, has_group: bool) -> Bounds:
    """Return where reading starts and stops.

    Args:
        single: whether there is a single cluster, whose JSON has no level by cluster.
        has_group: whether there is a consumer group, for `committed`.

    Raises:
        OptionError: an option does not parse, a batch starts at latest, an end is at earliest, `committed` has no
            group, a start is after the end, or explicit starts and ends name different partitions.
    """
    starting, started_by, overruled_starts = _side(given, "starting", single)
    ending, ended_by, overruled_ends = _side(given, "ending", single)
    if mode == "batch":
        _refuse(starting, LATEST, _LATEST_OFFSET, "start can't be latest in a batch read", "startingOffsets")
    _refuse(ending, EARLIEST, _EARLIEST_OFFSET, "end can't be earliest: nothing would be read", "endingOffsets")
    for name, rule in (("startingOffsets", starting), ("endingOffsets", ending)):
        if not has_group and any(spec.kind == "committed" for _, spec in _specs(rule)):
            raise OptionError(f"option '{name}' is committed, but no group is named; set kafka.group.id")
    _refuse_start_after_end(starting, ending, f"{started_by} and {ended_by}")
    default = EARLIEST if mode == "batch" else LATEST
    default_end = LATEST if mode == "batch" else None
    return Bounds(starting or default, ending or default_end, (*overruled_starts, *overruled_ends))


def _side(given: GivenOptions, side: str, single: bool) -> tuple[Rule | None, str, tuple[str, ...]]:
    """Return the rule of one side, the phrase that names its option, and warnings about the overruled options."""
    ordered = (f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets")
    named = [name for name in ordered if given.has(name)]
    # Parse the overruled options too: a mistake in one would otherwise come to light years later.
    rules = [_read(given, name, single) for name in named]
    if not rules:
        return None, "", ()
    overruled = tuple(f"option '{name}' has no effect beside '{named[0]}'" for name in named[1:])
    return rules[0], given.where(named[0]), overruled


def _read(given: GivenOptions, name: str, single: bool) -> Rule:
    text, where = given.given_text(name), given.where(name)
    if name.endswith("OffsetsByTimestamp"):
        return parse_timestamps(text, where=where, single=single)
    if name.endswith("Timestamp"):
        return parse_timestamp(text, where=where)
    return parse_offsets(text, where=where, single=single)


def _specs(rule: Rule | None) -> Iterator[tuple[str, OffsetSpec]]:
    """Yield each rule with the id of its cluster; the id is empty for the rule of all clusters."""
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
        unpaired = sorted(first.keys() ^ last.keys())
        odd = first_few((f"{topic}-{partition}" for topic, partition in unpaired), 5)
        raise OptionError(
            f"{options}: the starting and ending {what} must name the same partitions; only one of them names {odd}:"
            " name them in both, or in none"
        )
    for (topic, partition), start in first.items():
        end = last[topic, partition]
        # Negative numbers stand for earliest and latest; their offsets become known at planning.
        if 0 <= end < start:
            raise OptionError(
                f"{options}: the starting {what} of {topic}-{partition} ({start}) lie after the ending ones ({end});"
                " start earlier or end later"
            )


def _flat(positions: Mapping[str, Mapping[int, int]]) -> Iterator[tuple[str, int, int]]:
    for topic, partitions in positions.items():
        for partition, number in partitions.items():
            yield topic, partition, number
