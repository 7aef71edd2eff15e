"""The page of the reading benchmark shows each variant and ratio, and needs no other file."""

from __future__ import annotations

import re
from typing import Any

from tests.bench.reader.cases import CASES, chosen_cases
from tests.bench.reader.figures import case_figures
from tests.bench.reader.page import LABELS, render
from tests.bench.reader.run import not_whole, table

ABOUT = {
    "machine": {"cores": 2, "cpu": "A <fast> one"},
    "at": "2026-11-23T17:00:00+00:00",
    "loadBefore": 0.5,
    "leftOut": ["json_100B: no python: unknown option 'value.format'"],
}


def result() -> dict[str, Any]:
    figures: dict[str, Any] = {"about": ABOUT}
    for case in chosen_cases([case.name for case in CASES])[0]:
        turns = [
            {"variant": variant.name, "round": number, "wall_s": 2.0 + number / 10, "cpu_s": 3.0}
            for variant in case.variants
            for number in range(case.rounds)
        ]
        figures[case.name] = case_figures(case.as_json(), turns)
    figures |= {
        "latency": {"jvm_tuned": {"p50_ms": 340.0, "p99_ms": 500.0}, "python": {"p50_ms": 321.0, "p99_ms": 400.0}},
        "latency_p50_ratio": 1.06,
        "idle": {"jvm_tuned": {"median": 0.05}, "python": {"median": 0.1}},
        "idle_cpu_ratio": 0.5,
        "memory": [{"records": 600_000, "bytes_each": 1024, "peak_mb": 210.0}],
        "worker_peak_mb": 210,
    }
    return figures


def test_the_page_needs_no_other_file() -> None:
    text = render(result(), [])

    assert not re.search(r"https?://|src=|<link|@import|url\(", text)


def test_each_variant_has_a_bar_of_its_length() -> None:
    text = render(result(), [])

    raw = text[text.index('id="raw_100B"') : text.index('id="raw_1KiB"')]
    assert {name for name, label in LABELS.items() if f">{label}<" in raw} == {
        variant.name for variant in chosen_cases(["raw_100B"])[0][0].variants
    }
    # 5,000,000 records in 2.2 s, where the fastest turn took 2.0 s.
    assert 'style="width:90.9%"' in raw and "<b>2.27 M</b>" in raw


def test_ratios_and_goals_are_shown_with_their_colour() -> None:
    text = render(result(), [])

    assert '<div class="tile wrong"><b>1.00</b><span>raw 100B wall vs tuned, goal ≥ 1.25</span>' in text
    assert '<div class="tile"><b>210 MB</b><span>worker peak mb, goal ≤ 256</span>' in text
    assert "p50 321 ms, p99 400 ms" in text and "100 ms of CPU a second" in text


def test_a_fall_and_what_was_left_out_are_named() -> None:
    text = render(result(), ["raw_100B.wall_vs_tuned is 0.5, 50% of the recorded 1"])

    assert '<header class="wrong"><h1>A figure' in text
    assert "<li>raw_100B.wall_vs_tuned is 0.5, 50% of the recorded 1</li>" in text
    assert "unknown option &#x27;value.format&#x27;" in text and "A &lt;fast&gt; one" in text


def test_the_page_of_a_running_benchmark_loads_itself_again() -> None:
    assert 'http-equiv="refresh"' in render({"about": ABOUT}, [], progress="Turn 3 of 90")
    assert "Turn 3 of 90" in render({"about": ABOUT}, [], progress="Turn 3 of 90")
    assert "refresh" not in render(result(), [])


def test_the_table_shows_goal_and_recorded_value() -> None:
    lines = "\n".join(table(result(), result()))

    assert re.search(r"raw_100B\.wall_vs_tuned +1\.00 +1\.25 +1\.00\n", lines)
    assert re.search(r"worker_peak_mb +210 +256 +210", lines)
    assert "records this result" in "\n".join(table(result(), {}))


def test_only_a_whole_run_of_full_size_may_be_recorded() -> None:
    whole, partial, small = result(), result(), result()
    del partial["latency"]
    small["raw_100B"]["rounds"] = 1

    assert not_whole(whole) == []
    assert not_whole(partial) == ["latency"]
    assert not_whole(small) == ["raw_100B"]
    assert "raw_100B" in not_whole({})
