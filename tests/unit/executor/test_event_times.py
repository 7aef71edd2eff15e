"""The times of records: what an assigner may return, and what its errors say."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from dynamic_kafka import TimestampAssigner
from dynamic_kafka.errors import OptionError, RecordEvaluationError
from dynamic_kafka.executor.evaluating.evaluation import Evaluation
from dynamic_kafka.executor.evaluating.event_times import EventTimes
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.splits import Split

SPLIT = Split("east", "orders", 3)
BATCH = pa.RecordBatch.from_pydict({"offset": pa.array([7, 8], pa.int64())})
HERE = "tests.unit.executor.test_event_times"
OPTIONS = {
    "streamIds": "s",
    "metadataPath": "/streams.yaml",
    "stateLocation": "/state",
    "watermarkAlignmentMaxDrift": "1m",
    "timestampAssigner.step": "5",
}
DAY = datetime(2026, 11, 1, tzinfo=UTC)


class Steps(TimestampAssigner):
    def __init__(self, options: Mapping[str, str]) -> None:
        self.step = int(options["timestampAssigner.step"])

    def extract_timestamps(self, batch: pa.RecordBatch) -> Any:
        return [at * self.step for at in range(len(batch))]


def offsets(batch: pa.RecordBatch) -> Any:
    return batch.column("offset")


class Unfinished(TimestampAssigner):
    """Lacks its method."""


def times(answer: Any) -> list[int | None]:
    column = EventTimes("mine", lambda _: answer).of(BATCH, SPLIT)
    assert column.type == pa.timestamp("us", tz="UTC")
    return [time if time is None else int(time) for time in column.cast(pa.int64()).to_pylist()]


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ([1, 2], [1000, 2000]),
        ([None, -3], [None, -3000]),
        ([None, None], [None, None]),
        (pa.array([1, 2], pa.int32()), [1000, 2000]),
        (pa.chunked_array([[1], [2]]), [1000, 2000]),
        (pa.array([1, 2], pa.timestamp("s")), [1_000_000, 2_000_000]),
        (pa.array([1, 2], pa.timestamp("us", tz="Asia/Tokyo")), [1, 2]),
        (pa.array([1999, None], pa.timestamp("ns", tz="UTC")), [1, None]),
        ([DAY, None], [int(DAY.timestamp()) * 1_000_000, None]),
        ([2**62, 5], [None, 5000]),
        (pa.array([2**50, 5], pa.timestamp("s")), [None, 5_000_000]),
        (pa.array([2**60, -(2**60)], pa.timestamp("ms", tz="UTC")), [None, None]),
    ],
)
def test_times_are_timestamps_or_milliseconds(answer: Any, wanted: list[int | None]) -> None:
    assert times(answer) == wanted


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([1], "it returns 1 times for 2 records"),
        (["2026-11-01", None], "values of type string, not timestamps or milliseconds since 1970"),
        ([1.5, 2.0], "values of type double"),
        (7, "TypeError"),
    ],
)
def test_anything_else_fails_with_the_place(answer: Any, why: str) -> None:
    with pytest.raises(RecordEvaluationError) as failed:
        times(answer)
    assert why in str(failed.value)
    assert "timestampAssigner mine fails for the records 7 to 8 of east/orders[3]" in str(failed.value)


def test_a_field_of_the_value_may_be_nested() -> None:
    item = pa.StructArray.from_arrays([pa.array([1, 2], pa.int64())], ["at"])
    value = pa.StructArray.from_arrays([item], ["item"], mask=pa.array([False, True]))
    batch = pa.RecordBatch.from_arrays([value], ["value"])
    assert EventTimes.of_field("value.item.at").of(batch, SPLIT).cast(pa.int64()).to_pylist() == [1000, None]


@pytest.mark.parametrize(("name", "wanted"), [("Steps", [0, 5000]), ("offsets", [7000, 8000])])
def test_a_class_gets_the_options_and_a_function_the_rows(name: str, wanted: list[int]) -> None:
    evaluation = Evaluation.of(parse_options(OPTIONS | {"timestampAssigner": f"{HERE}:{name}"}, mode="streaming"), {})
    assert evaluation is not None
    found = evaluation.load().times
    assert found is not None and found.of(BATCH, SPLIT).cast(pa.int64()).to_pylist() == wanted


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Nothing", "has no 'Nothing'"),
        ("DAY", "neither a function nor has it extract_timestamps"),
        ("Unfinished", "does not define extract_timestamps"),
    ],
)
def test_a_wrong_name_is_refused_at_the_start(name: str, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        Evaluation.of(parse_options(OPTIONS | {"timestampAssigner": f"{HERE}:{name}"}, mode="streaming"), {})


def test_a_class_without_the_method_says_so() -> None:
    with pytest.raises(NotImplementedError, match="Unfinished does not define extract_timestamps"):
        Unfinished({}).extract_timestamps(BATCH)
