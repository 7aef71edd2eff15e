"""The cases of the reading benchmark compare like with like, and leave out what this version cannot run."""

from __future__ import annotations

import pytest

from dynamic_kafka.errors import OptionError
from tests.bench.clusters import json_values
from tests.bench.reader import cases
from tests.bench.reader.cases import CASES, KAFKA, NAMES, TUNED, chosen_cases, other_turns, refusal


def with_options(monkeypatch: pytest.MonkeyPatch, *known: str) -> None:
    """Make the parser know these options, beside those that name a topic."""

    def parse(options: dict[str, str], mode: str) -> None:
        for name in set(options) - {"subscribe", "kafka.bootstrap.servers", *known}:
            raise OptionError(f"unknown option '{name}'")

    monkeypatch.setattr(cases, "parse_options", parse)


def names(chosen: list[cases.Case]) -> dict[str, list[str]]:
    return {case.name: [variant.name for variant in case.variants] for case in chosen}


def test_full_sizes_are_those_of_the_goals() -> None:
    chosen, _ = chosen_cases(NAMES)

    least = {100: 5_000_000, 1024: 1_000_000}
    assert all(case.topic.records >= least[case.topic.size] and case.rounds >= 5 for case in chosen)


def test_no_side_skips_crcs() -> None:
    assert not [variant for case in CASES for variant in case.variants if "kafka.check.crcs" in variant.options]


def test_tuned_is_tuned_in_every_case() -> None:
    tuned = [variant for case in CASES for variant in case.variants if variant.name == "jvm_tuned"]

    assert tuned
    assert all(dict(tuned_variant.options) == {"kafka.group.id": "tuned", **TUNED} for tuned_variant in tuned)


def test_both_readers_read_every_compression() -> None:
    raw = {case.topic.compression: [variant.name for variant in case.variants] for case in CASES if "raw" in case.name}

    assert raw.keys() == {"none", "zstd", "lz4"}
    assert all({"native", "python"} <= set(readers) for name, readers in raw.items() if name != "none")


def test_some_columns_of_ours_meet_as_many_of_theirs() -> None:
    for case in CASES:
        ours = {len(variant.options["columns"].split(",")) for variant in case.variants if "columns" in variant.options}
        theirs = {len(variant.select) for variant in case.variants if variant.reader == KAFKA}
        assert not ours or ours == theirs, case.name


def test_without_the_native_reader_the_other_takes_part_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with_options(monkeypatch, "recordEvaluator")

    chosen, left_out = chosen_cases(NAMES)

    readers = names(chosen)
    assert readers["raw_100B_zstd"] == ["jvm_default", "jvm_tuned", "python", "librdkafka"]
    assert readers["evaluator_100B"] == ["python", "python_evaluator"]
    assert not any("reader" in chosen_variant.options for case in chosen for chosen_variant in case.variants)
    assert "json_100B" not in readers and "raw_100B_columns" not in readers
    assert any(reason.startswith("no native reader") for reason in left_out)
    assert any(reason.startswith("json_100B") and "value." in reason for reason in left_out)
    assert [variant.name for _, variant in other_turns(1)] == ["jvm_tuned", "python"]


def test_with_all_options_every_variant_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    with_options(monkeypatch, "reader", "recordEvaluator", "value.format", "value.schema", "columns")

    chosen, left_out = chosen_cases(NAMES)

    assert names(chosen) == names(list(CASES)) and left_out == []
    assert [variant.name for _, variant in other_turns(1)] == ["jvm_tuned", "native"]


def test_a_refused_value_is_no_reason_to_leave_a_case_out() -> None:
    with pytest.raises(OptionError, match="includeHeaders"):
        refusal({"includeHeaders": "perhaps"})


def test_values_have_their_size_and_differ() -> None:
    values = json_values(100, 2000)

    assert {len(value) for value in values} == {100}
    assert len(set(values)) == 2000
    assert json_values(100, 2000) == values
