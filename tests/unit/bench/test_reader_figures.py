"""The ratios of the reading benchmark are medians over pairs, and fail a run below nine tenths of the recorded ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.reader.figures import (
    all_ratios,
    case_figures,
    falls,
    idle_figures,
    incomparable,
    latencies,
    latency_figures,
)

CASE = {"topic": {"name": "100B", "size": 100, "records": 1000, "compression": "none"}, "rounds": 3}


def turns(variant: str, walls: list[float], cpu: float = 1.0) -> list[dict[str, Any]]:
    """Return a warm-up that would spoil every figure, and a turn for each wall time."""
    return [
        {"variant": variant, "round": number, "wall_s": wall, "cpu_s": cpu}
        for number, wall in enumerate([1000.0, *walls], -1)
    ]


def result(ratio: float, **more: Any) -> dict[str, Any]:
    figures = case_figures(CASE, [*turns("jvm_tuned", [ratio] * 3), *turns("native", [1.0] * 3)])
    return {"about": {}, "raw_100B": figures, **more}


def test_a_ratio_is_the_median_of_pairs_of_one_round() -> None:
    theirs = turns("jvm_tuned", [2.0, 40.0, 3.0], cpu=4.0)
    ours = turns("native", [1.0, 20.0, 1.0], cpu=2.0)  # in the second round the machine was busy

    figures = case_figures(CASE, [*theirs, *ours])

    assert figures["wall_vs_tuned"] == 2.0
    assert figures["spread"]["wall_vs_tuned"] == [2.0, 3.0]
    assert figures["cpu_vs_tuned"] == 2.0
    assert figures["reader"] == "native"


def test_each_variant_has_median_and_spread_without_warm_up() -> None:
    variant = case_figures(CASE, turns("native", [1.0, 4.0, 2.0], cpu=0.002))["variants"]["native"]

    assert variant["rows_per_s"] == {"median": 500, "min": 250, "max": 1000}
    assert variant["cpu_us_per_row"] == {"median": 2.0, "min": 2.0, "max": 2.0}


def test_a_ratio_without_its_opponent_is_left_out() -> None:
    figures = case_figures(CASE, [*turns("jvm_tuned", [2.0] * 3), *turns("python", [1.0] * 3)])

    assert {"wall_vs_tuned", "cpu_vs_tuned"} <= set(figures)
    assert {"wall_vs_default", "vs_librdkafka", "evaluator_throughput"}.isdisjoint(figures)


def test_the_second_reader_has_ratios_of_its_own() -> None:
    figures = case_figures(
        CASE, [*turns("librdkafka", [1.0] * 3), *turns("native", [1.0] * 3), *turns("python", [4.0] * 3)]
    )

    assert all_ratios({"raw_100B": figures}) == {
        "raw_100B.vs_librdkafka": 1.0,
        "raw_100B.python.vs_librdkafka": 0.25,
    }


def test_an_evaluator_is_compared_with_none() -> None:
    figures = case_figures(CASE, [*turns("python", [0.9] * 3), *turns("python_evaluator", [1.0] * 3)])

    assert figures["evaluator_throughput"] == 0.9


def test_latency_runs_from_write_to_end_of_batch() -> None:
    assert latencies([1.0, 2.0], [1.5, 2.25]) == [0.5, 0.25]
    with pytest.raises(ValueError, match="1 of 2 records"):
        latencies([1.0, 2.0], [1.5])


def test_latency_and_idle_ratios_divide_theirs_by_ours() -> None:
    latency = latency_figures([{"variant": "jvm_tuned", "ms": [330, 340, 350]}, {"variant": "python", "ms": [170]}])
    idle = idle_figures(
        [{"variant": "jvm_tuned", "cpu_s": 1.0, "wall_s": 10.0}, {"variant": "python", "cpu_s": 4.0, "wall_s": 20.0}]
    )

    assert latency["latency_p50_ratio"] == 2.0
    assert idle["idle_cpu_ratio"] == 0.5


@pytest.mark.parametrize(
    ("now", "fallen"), [(1.8, []), (1.79, ["raw_100B.wall_vs_tuned is 1.79, 90% of the recorded 2"])]
)
def test_a_ratio_below_nine_tenths_has_fallen(now: float, fallen: list[str]) -> None:
    assert falls(result(now), result(2.0)) == fallen


def test_a_missing_ratio_of_a_case_that_ran_has_fallen() -> None:
    measured = result(2.0)
    del measured["raw_100B"]["cpu_vs_tuned"]

    assert falls(measured, result(2.0)) == ["raw_100B.cpu_vs_tuned is missing; recorded is 1"]


def test_what_did_not_run_has_not_fallen() -> None:
    assert falls({"about": {}}, result(2.0, latency_p50_ratio=1.0, latency={})) == []
    assert falls({"about": {}, "latency": {}, "latency_p50_ratio": 0.5}, result(2.0, latency_p50_ratio=1.0)) == [
        "latency_p50_ratio is 0.5, 50% of the recorded 1"
    ]


@pytest.mark.parametrize(("peak", "fallen"), [(222, []), (223, ["worker_peak_mb is 223, and was 200"])])
def test_more_memory_of_a_worker_has_fallen(peak: int, fallen: list[str]) -> None:
    assert falls({"about": {}, "worker_peak_mb": peak}, {"worker_peak_mb": 200}) == fallen
    assert falls({"about": {}}, {"worker_peak_mb": 200}) == falls({"worker_peak_mb": 300}, {}) == []


@pytest.mark.parametrize("change", [{"rounds": 1}, {"topic": {**CASE["topic"], "records": 10}}])  # type: ignore[dict-item]
def test_a_small_run_is_not_compared(change: dict[str, Any]) -> None:
    measured = result(1.0)
    measured["raw_100B"] |= change

    assert incomparable(measured, result(2.0)) == ["raw_100B"]
    assert falls(measured, result(2.0)) == []


def test_nothing_recorded_is_no_fall() -> None:
    assert falls(result(0.1), {}) == []
