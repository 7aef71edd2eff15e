"""The cases of the reading benchmark: topics, and the variants that read each in turn. Pure.

A variant that needs an option which this version lacks is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options import parse_options

PARTITIONS, CORES = 6, 2
ROUNDS = 5
MARK = "BENCH "
"""The beginning of each line of `session.py` for `run.py`; Spark prints others."""
KAFKA, OURS, LIBRDKAFKA = "kafka", "dynamic-kafka", "librdkafka"
TUNED = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(4 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
    "kafka.fetch.max.wait.ms": "100",
}
"""The best settings for Spark's own source. It checks CRCs with and without them, as ours does."""
SCHEMA = "id BIGINT, amount DOUBLE, name STRING"
"""The fields of the values that `fill` writes."""
EVALUATOR = "tests.bench.reader.evaluator:Never"


@dataclass(frozen=True)
class Topic:
    """A topic of equal records: their size in bytes, their number, and the compression."""

    name: str
    size: int
    records: int
    compression: str = "none"


TOPICS = {
    topic.name: topic
    for size, records, text in ((100, 5_000_000, "100B"), (1024, 1_000_000, "1KiB"))
    for topic in (
        Topic(text, size, records),
        Topic(f"{text}_zstd", size, records, "zstd"),
        Topic(f"{text}_lz4", size, records, "lz4"),
    )
}


@dataclass(frozen=True)
class Variant:
    """One way to read a topic.

    Attributes:
        reader: Spark's name of the source, or `librdkafka`.
        select: Spark's expressions for the columns; all columns if empty.
    """

    name: str
    reader: str
    options: Mapping[str, str] = field(default_factory=dict)
    select: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """Variants that read one topic in turn. A case without librdkafka has no limit to compare with."""

    name: str
    topic: Topic
    variants: tuple[Variant, ...]
    rounds: int = ROUNDS

    def as_json(self) -> dict[str, Any]:
        """Return the case for `session.py`."""
        return asdict(self)


def _ours(
    options: Mapping[str, str] = MappingProxyType({}), *, python: bool = True, select: tuple[str, ...] = ()
) -> tuple[Variant, ...]:
    native = Variant("native", OURS, {"reader": "native", **options}, select)
    return (native, replace(native, name="python", options={"reader": "python", **options})) if python else (native,)


DEFAULT = Variant("jvm_default", KAFKA, {"kafka.group.id": "default"})
"""A group of its own makes Spark keep the consumers from turn to turn, as it does in a stream, and as ours are kept."""
LIMIT = Variant("librdkafka", LIBRDKAFKA)
_SOME = ("value", "timestamp")


def _tuned(*select: str) -> Variant:
    return Variant("jvm_tuned", KAFKA, {"kafka.group.id": "tuned", **TUNED}, select)


_JSON = {"value.format": "json", "value.schema": SCHEMA}
_FROM_JSON = f"from_json(cast(value as string), '{SCHEMA}') as value"
_REST = ("key", "topic", "partition", "offset", "timestamp", "timestampType")

CASES = (
    *(Case(f"raw_{name}", topic, (DEFAULT, _tuned(), *_ours(), LIMIT)) for name, topic in TOPICS.items()),
    # All columns on both sides, the value as a structure; then on both sides nothing but the value.
    Case("json_100B", TOPICS["100B"], (_tuned(_FROM_JSON, *_REST), *_ours(_JSON))),
    Case("json_100B_value", TOPICS["100B"], (_tuned(_FROM_JSON), *_ours({"columns": "value", **_JSON}, python=False))),
    # Two columns on both sides.
    Case(
        "raw_100B_columns",
        TOPICS["100B"],
        (_tuned(*_SOME), *_ours({"columns": ",".join(_SOME)}, python=False, select=_SOME)),
    ),
    Case(
        "evaluator_100B",
        TOPICS["100B"],
        (
            *_ours(),
            *(replace(ours, name=f"{ours.name}_evaluator") for ours in _ours({"recordEvaluator": EVALUATOR})),
        ),
    ),
)
LATENCY, IDLE, MEMORY = "latency", "idle", "memory"
OTHERS = (LATENCY, IDLE, MEMORY)
"""The measurements that are no case; the first two take turns in the session."""
OTHER_ROUNDS = ROUNDS
LATENCY_RECORDS = 400
IDLE_PARTITIONS, IDLE_SECONDS = 2000, 10
NAMES = (*(case.name for case in CASES), *OTHERS)


def chosen_cases(
    names: Iterable[str], *, rounds: int | None = None, records: int | None = None
) -> tuple[list[Case], list[str]]:
    """Return the named cases with the variants that this version can run, and the reasons for what is left out.

    While this version has only one reader, that one takes part in every case, under the name `python`.
    """
    wanted, left_out, chosen = set(names), list[str](), list[Case]()
    why_alone = refusal({"reader": "native"})
    if why_alone is not None:
        left_out.append(f"no native reader: {why_alone}; the one in Python takes part in every case")
    for case in (case for case in CASES if case.name in wanted):
        variants = []
        for candidate in case.variants if why_alone is None else _by_the_only_reader(case.variants):
            why = refusal(candidate.options) if candidate.reader == OURS else None
            if why is None:
                variants.append(candidate)
            else:
                left_out.append(f"{case.name}: no {candidate.name}: {why}")
        topic = replace(case.topic, records=records or case.topic.records)
        if any(variant.reader == OURS for variant in variants):
            chosen.append(replace(case, variants=tuple(variants), topic=topic, rounds=rounds or case.rounds))
    return chosen, left_out


def _by_the_only_reader(variants: Sequence[Variant]) -> Iterable[Variant]:
    for variant in variants:
        if variant.reader != OURS:
            yield variant
        elif variant.name.startswith("native"):
            options = {key: value for key, value in variant.options.items() if key != "reader"}
            yield replace(variant, name=variant.name.replace("native", "python"), options=options)


def refusal(options: Mapping[str, str]) -> str | None:
    """Return why this version lacks one of the options of our source; None if it has all.

    Raises:
        OptionError: this version has the options and refuses their values.
    """
    try:
        parse_options({"subscribe": "x", "kafka.bootstrap.servers": "x:1", **options}, mode="batch")
    except OptionError as error:
        if "unknown option" in str(error) or "not in this version" in str(error):
            return str(error)
        raise
    return None


def other_turns(rounds: int) -> list[tuple[int, Variant]]:
    """Return the turns of a measurement that is no case: Spark's own source, tuned, and our reader."""
    ours = _ours(python=False) if refusal({"reader": "native"}) is None else _by_the_only_reader(_ours(python=False))
    return [(turn, variant) for turn in range(rounds) for variant in (_tuned(), *ours)]
