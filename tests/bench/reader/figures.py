"""The figures of the reading benchmark: statistics of turns, ratios, and their comparison with the recorded ones. Pure.

All ratios are above 1 if ours is better. Each is the median over the rounds, of the two turns of one round: what the
machine does beside them, and its speed at that time, touch both. Only ratios are compared between runs.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Json = dict[str, Any]

LEAST_SHARE = 0.9
"""The least share of the recorded ratio that a run may have, and of its own memory that the recorded one is."""
GOALS = {
    "raw_100B.wall_vs_tuned": 1.25,
    "raw_1KiB.wall_vs_tuned": 1.25,
    "raw_100B.cpu_vs_tuned": 1.0,
    "raw_1KiB.cpu_vs_tuned": 1.0,
    "raw_100B.wall_vs_default": 3.0,
    "raw_1KiB.wall_vs_default": 2.5,
    "raw_100B.vs_librdkafka": 0.9,
    "raw_1KiB.vs_librdkafka": 0.9,
    "json_100B.wall_vs_tuned": 3.0,
    "json_100B.cpu_vs_tuned": 3.0,
    "evaluator_100B.evaluator_throughput": 0.85,
    "latency_p50_ratio": 1.1,
    "idle_cpu_ratio": 1.0,
}
"""The least values that are wanted. A run that misses one does not fail."""
PEAK, PEAK_GOAL_MB = "worker_peak_mb", 256
_AGAINST = {
    "wall_vs_tuned": ("jvm_tuned", "wall_s"),
    "cpu_vs_tuned": ("jvm_tuned", "cpu_s"),
    "wall_vs_default": ("jvm_default", "wall_s"),
    "cpu_vs_default": ("jvm_default", "cpu_s"),
    "vs_librdkafka": ("librdkafka", "wall_s"),
}
"""The variant and the seconds that each ratio compares ours with."""
_EVALUATOR = "evaluator_throughput"
RATIOS = (*_AGAINST, _EVALUATOR)
ALONE = {"latency_p50_ratio": "latency", "idle_cpu_ratio": "idle"}
"""The ratios that belong to no case, and the measurement that each is from."""
READERS = ("native", "python")
"""Our readers; the first one that took part gives a case its ratios."""


def case_figures(case: Mapping[str, Any], turns: Iterable[Mapping[str, Any]]) -> Json:
    """Return the ratios of a case, their spread, and the figures of each variant; turns of round -1 do not count.

    Args:
        case: as `cases.Case.as_json` returns it.
        turns: variant, round, wall and CPU seconds of each turn.
    """
    by_variant: dict[str, dict[int, Mapping[str, Any]]] = {}
    for turn in turns:
        if turn["round"] >= 0:
            by_variant.setdefault(turn["variant"], {})[turn["round"]] = turn
    records = case["topic"]["records"]
    readers = [reader for reader in READERS if reader in by_variant]
    figures: Json = {"reader": readers[0] if readers else None, "spread": {}}
    for reader in readers:
        into = figures if reader == readers[0] else figures.setdefault(reader, {"spread": {}})
        for name, ratio in _ratios(reader, by_variant):
            into[name] = round(statistics.median(ratio), 3)
            into["spread"][name] = [round(min(ratio), 3), round(max(ratio), 3)]
    variants = {
        name: {
            "rows_per_s": spread([records / turn["wall_s"] for turn in rounds.values()], digits=0),
            "cpu_us_per_row": spread([turn["cpu_s"] / records * 1e6 for turn in rounds.values()], digits=3),
        }
        for name, rounds in by_variant.items()
    }
    return {**figures, "topic": case["topic"], "rounds": case["rounds"], "variants": variants}


def _ratios(
    reader: str, by_variant: Mapping[str, Mapping[int, Mapping[str, Any]]]
) -> Iterable[tuple[str, list[float]]]:
    ours = by_variant[reader]
    for name, (other, seconds) in _AGAINST.items():
        pairs = [(by_variant.get(other, {}).get(turn), ours[turn]) for turn in ours]
        ratios = [their[seconds] / our[seconds] for their, our in pairs if their is not None and our[seconds]]
        if ratios:
            yield name, ratios
    evaluated = by_variant.get(f"{reader}_evaluator", {})
    if series := [ours[turn]["wall_s"] / evaluated[turn]["wall_s"] for turn in evaluated if turn in ours]:
        yield _EVALUATOR, series


def spread(values: Sequence[float], *, digits: int) -> Json:
    """Return the median, the least and the most of repeated measurements."""
    summary = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: round(value, digits) for name, value in summary.items()}


def latencies(sent: Sequence[float], delivered: Sequence[float]) -> list[float]:
    """Return the seconds of each record from its write to its delivery; both are in the order of one partition.

    Raises:
        ValueError: another number of records was delivered than sent.
    """
    if len(sent) != len(delivered):
        raise ValueError(f"{len(delivered):,} of {len(sent):,} records were delivered")
    return [there - here for here, there in zip(sent, delivered, strict=True)]


def latency_figures(turns: Iterable[Mapping[str, Any]]) -> Json:
    """Return the latencies of both sources over all rounds, and `latency_p50_ratio`."""
    ms: dict[str, list[float]] = {}
    for turn in turns:
        ms.setdefault(turn["variant"], []).extend(turn["ms"])
    by_reader = {
        name: {"p50_ms": round(statistics.median(sample), 1), "p99_ms": round(_quantile(sample, 0.99), 1)}
        for name, sample in ms.items()
    }
    theirs, (_, ours) = by_reader["jvm_tuned"], _ours(by_reader)
    return {"latency_p50_ratio": round(theirs["p50_ms"] / ours["p50_ms"], 3), "latency": by_reader}


def idle_figures(turns: Iterable[Mapping[str, Any]]) -> Json:
    """Return the CPU seconds of each second of an idle query by both sources, and `idle_cpu_ratio`."""
    cpu: dict[str, list[float]] = {}
    for turn in turns:
        cpu.setdefault(turn["variant"], []).append(turn["cpu_s"] / turn["wall_s"])
    by_reader = {name: spread(sample, digits=4) for name, sample in cpu.items()}
    theirs, (_, ours) = by_reader["jvm_tuned"], _ours(by_reader)
    return {"idle_cpu_ratio": round(theirs["median"] / ours["median"], 3), "idle": by_reader}


def _ours(by_reader: Mapping[str, Any]) -> tuple[str, Any]:
    return next((reader, by_reader[reader]) for reader in READERS if reader in by_reader)


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def all_ratios(result: Mapping[str, Any]) -> dict[str, float]:
    """Return all ratios of a result by their path, such as `raw_100B.python.cpu_vs_tuned`."""
    ratios = {name: result[name] for name in ALONE if name in result}
    for name, case in result.items():
        if isinstance(case, Mapping) and "variants" in case:
            parts = [(name, case), *((f"{name}.{reader}", case[reader]) for reader in READERS if reader in case)]
            ratios |= {f"{path}.{ratio}": part[ratio] for path, part in parts for ratio in RATIOS if ratio in part}
    return ratios


def falls(measured: Mapping[str, Any], recorded: Mapping[str, Any]) -> list[str]:
    """Return how a result falls behind the recorded one: ratios below nine tenths of it, or missing; more memory.

    Cases and measurements that did not run are not compared, nor are those of other sizes (`incomparable`).
    """
    small = set(incomparable(measured, recorded))
    now, problems = all_ratios(measured), []
    for path, before in all_ratios(recorded).items():
        part = ALONE.get(path, path.partition(".")[0])
        if part not in measured or part in small:
            continue
        value = now.get(path)
        if value is None:
            problems.append(f"{path} is missing; recorded is {before:g}")
        elif value < LEAST_SHARE * before:
            problems.append(f"{path} is {value:g}, {value / before:.0%} of the recorded {before:g}")
    if PEAK in measured and PEAK in recorded and recorded[PEAK] < LEAST_SHARE * measured[PEAK]:
        problems.append(f"{PEAK} is {measured[PEAK]:g}, and was {recorded[PEAK]:g}")
    return problems


def incomparable(measured: Mapping[str, Any], recorded: Mapping[str, Any]) -> list[str]:
    """Return the cases that ran with other records, or in fewer rounds, than when they were recorded."""
    both = (name for name, case in measured.items() if isinstance(case, Mapping) and name in recorded)
    pairs = ((name, measured[name], recorded[name]) for name in both if "variants" in recorded[name])
    return [name for name, now, before in pairs if now["topic"] != before["topic"] or now["rounds"] < before["rounds"]]
