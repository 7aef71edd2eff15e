"""Rows of some columns: the readers make nothing else, and evaluators and decoders still see what they need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from dynamic_kafka.errors import OptionError, RecordDecodingError
from dynamic_kafka.executor.decoding.typed_rows import RefusedRecords, ValueFormat
from dynamic_kafka.executor.evaluating.evaluators import Evaluator
from dynamic_kafka.executor.evaluating.record_evaluation import StopSearch
from dynamic_kafka.executor.read_task import DeadLetterTarget
from dynamic_kafka.executor.reading.columns import _TYPES, SIZE, arrow_schema, spark_schema, with_lateness
from dynamic_kafka.executor.reading.message_connection import MessageRows
from dynamic_kafka.options.columns import COLUMNS, EVENT_TIME, LATE, all_columns
from tests.unit.executor.test_dead_letters import HOME, TASK, Topic, offset_in, rows, topic
from tests.unit.executor.test_evaluators import Message

__all__ = ["topic"]
ID = StructType([StructField("id", LongType())])
VALUES = (b'{"id": 1}', b"no json", b'{"id": 2}', None)


def test_every_column_has_a_type() -> None:
    assert (*COLUMNS, EVENT_TIME, LATE, SIZE) == tuple(_TYPES)
    assert arrow_schema(COLUMNS).names == spark_schema(COLUMNS).names == list(COLUMNS)
    assert all_columns(include_headers=False) == tuple(name for name in COLUMNS if name != "headers")


@pytest.mark.parametrize(
    ("before_ms", "late"), [(None, [False] * 5), (7, [True, False, False, True, False]), (-1, [False] * 5)]
)
def test_rows_older_than_the_clock_are_late(before_ms: int | None, late: list[bool]) -> None:
    times = pa.array([6000, 7000, 8000, -1000, None], arrow_schema(["timestamp"]).field(0).type)

    shown = with_lateness(pa.RecordBatch.from_arrays([times], ["timestamp"]), before_ms)

    assert shown.schema == arrow_schema(["timestamp", LATE])
    assert shown.column(LATE).to_pylist() == late


def test_schemas_have_the_order_of_the_names() -> None:
    assert arrow_schema(["timestamp", "value"]).names == ["timestamp", "value"]
    assert (
        spark_schema(["timestamp", "value"], ID).simpleString() == "struct<timestamp:timestamp,value:struct<id:bigint>>"
    )
    assert spark_schema(["key"], ID).simpleString() == "struct<key:binary>"


class Untouchable:
    """A message of which a reader may ask nothing but its value."""

    def value(self) -> bytes:
        return b"v"


def test_the_reader_in_python_asks_for_nothing_else() -> None:
    messages: Any = [Untouchable(), Untouchable()]
    batch = MessageRows(messages, TASK.part.split, "shop").batch(arrow_schema(["kafka_stream", "value", "partition"]))
    assert batch.to_pylist() == [{"kafka_stream": "shop", "value": b"v", "partition": 3}] * 2


def test_headers_that_cannot_be_shown_spare_other_columns() -> None:
    made = rows(Message(40, b"v", headers=SystemError("not UTF-8")))
    assert made.batch(arrow_schema(["value"])).to_pylist() == [{"value": b"v"}]
    with pytest.raises(OptionError, match=r"no headers \(includeHeaders, 'columns'\)"):
        made.batch(arrow_schema(["value", "headers"]))


def evaluator(*, mask: Any = None, is_end: Any = None, mode: RefusedRecords | None = None) -> Evaluator:
    values = ValueFormat(ID.json(), mode, "_corrupt_record", "UTC").load() if mode is not None else None
    return Evaluator("mine", "", is_end, mask, None, values)


def found(
    columns: tuple[str, ...], by: Evaluator, *, include_headers: bool = False, letters: bool = False
) -> list[Any]:
    """Return the rows that Spark gets of four records, of which the evaluator sees all columns."""
    target = TASK.dead_letters if letters else None
    task = replace(TASK, columns=columns, include_headers=include_headers, dead_letters=target)
    messages = [Message(40 + at, value, headers=[("h", b"x")]) for at, value in enumerate(VALUES)]
    batches = list(StopSearch(task, by).batches([rows(*messages)]))
    assert all(batch.schema.names == list(columns) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("include_headers", [False, True])
def test_an_evaluator_of_batches_sees_all_columns(include_headers: bool) -> None:
    seen: list[pa.RecordBatch] = []

    def mask(batch: pa.RecordBatch) -> list[bool]:
        seen.append(batch)
        return [offset == 42 for offset in batch.column("offset").to_pylist()]

    assert found(("partition",), evaluator(mask=mask), include_headers=include_headers) == [{"partition": 3}] * 2
    assert seen[0].schema == arrow_schema(all_columns(include_headers=include_headers))


def test_an_evaluator_of_records_sees_them_whole() -> None:
    seen: list[Any] = []

    def is_end(record: Any) -> bool:
        seen.append(record)
        return bool(record.offset == 41)

    assert found(("timestamp",), evaluator(is_end=is_end))[0].keys() == {"timestamp"}
    assert [(seen_record.key, seen_record.value, seen_record.offset, seen_record.headers) for seen_record in seen] == [
        (b"k", value, 40 + at, (("h", b"x"),)) for at, value in enumerate(VALUES[:2])
    ]


@pytest.mark.parametrize("mode", ["permissive", "dropmalformed", "deadletter", "failfast"])
@pytest.mark.parametrize("columns", [("value",), ("offset", LATE, "value")])
def test_late_records_keep_their_bytes(topic: Topic, columns: tuple[str, ...], mode: RefusedRecords) -> None:
    # Given malformed records before and between the late ones, where the mode reads on
    bad = () if mode == "failfast" else (b"no json",)
    values = (*bad, b'{"id" : 1}', *bad, b'{"id": 2}', None)
    target = DeadLetterTarget(HOME, "dead", "K1", refused=mode == "deadletter", late=True)
    task = replace(TASK, columns=columns, dead_letters=target, late_before_ms=6)
    messages = [Message(40 + at, value, stamp=(1, 7 if value in bad else 5)) for at, value in enumerate(values)]

    batches = list(StopSearch(task, evaluator(mode=mode)).batches([rows(*messages)]))

    assert sum(map(len, batches)) == (2 if mode == "permissive" else 0)
    late = {record.value: dict(record.headers) for record in topic.records if record.value != b"no json"}
    assert [(value, headers.get("tombstone")) for value, headers in late.items()] == [
        (b'{"id" : 1}', None),
        (b'{"id": 2}', None),
        (b"", b"true"),
    ]


@pytest.mark.parametrize(
    ("mode", "offsets"),
    [("permissive", [40, 41, 42, 43]), ("dropmalformed", [40, 42, 43]), ("deadletter", [40, 42, 43])],
)
@pytest.mark.parametrize("columns", [("offset",), ("offset", "value"), ("value", "offset")])
def test_values_are_decoded_whether_rows_have_them_or_not(
    *, topic: Topic, columns: tuple[str, ...], mode: RefusedRecords, offsets: list[int]
) -> None:
    read = found(columns, evaluator(mode=mode), letters=mode == "deadletter")
    assert [row["offset"] for row in read] == offsets
    assert [row["value"] for row in read if "value" in row] in (
        [],
        [{40: {"id": 1}, 41: {"id": None}, 42: {"id": 2}}.get(at) for at in offsets],
    )
    assert [(offset_in(record), record.value) for record in topic.records] == (
        [(41, b"no json")] if mode == "deadletter" else []
    )


def test_a_malformed_value_fails_although_no_row_has_it() -> None:
    with pytest.raises(RecordDecodingError, match="offset 41"):
        found(("key",), evaluator(mode="failfast"))


def test_evaluators_get_decoded_values_that_no_row_has() -> None:
    read = found(("offset",), evaluator(is_end=lambda record: record.value == {"id": 2}, mode="dropmalformed"))
    assert read == [{"offset": 40}]
    read = found(
        ("offset",),
        evaluator(mask=lambda batch: [row == {"id": 2} for row in batch["value"].to_pylist()], mode="permissive"),
    )
    assert read == [{"offset": 40}, {"offset": 41}]


def test_reports_add_columns_that_spark_does_not_get() -> None:
    task = replace(TASK, columns=("value",), statistics=True)
    assert task.reported_columns == ("value", "timestamp", SIZE)
    assert replace(task, statistics=False).reported_columns == ("value",)
    assert replace(task, columns=("timestamp", "key")).reported_columns == ("timestamp", "key", SIZE)


FAR = (1, 1_700_000_000_000_000_000)
"""A timestamp in nanoseconds, written as milliseconds."""


def far(columns: tuple[str, ...], by: Evaluator, *, letters: bool = False) -> list[dict[str, Any]]:
    """Return the rows of three records; the second has such a timestamp, and the third no value, too."""
    task = replace(TASK, columns=columns, dead_letters=TASK.dead_letters if letters else None, statistics=True)
    messages = [Message(40, b'{"id": 1}'), Message(41, b'{"id": 2}', stamp=FAR), Message(42, None, stamp=FAR)]
    batches = list(StopSearch(task, by).batches([rows(*messages)]))
    return [row for batch in batches for row in batch.select(columns).to_pylist()]


def test_only_rows_that_show_a_far_timestamp_fail() -> None:
    plain = evaluator(is_end=lambda record: record.timestamp == 9)
    assert [row["offset"] for row in far(("offset",), plain)] == [40, 41, 42]
    with pytest.raises(OptionError) as refused:
        far(("timestamp",), plain)
    assert str(refused.value).startswith(
        "cannot show the record at offset 41 of east/orders[3]: its timestamp, 1700000000000000000 ms since 1970,"
    )
    # A record behind the stop record is not read.
    assert len(far(("timestamp",), evaluator(is_end=lambda record: record.timestamp == FAR[1]))) == 1


@pytest.mark.parametrize(
    ("mode", "offsets"), [("permissive", [40, 41, 42]), ("dropmalformed", [40]), ("deadletter", [40])]
)
def test_the_mode_decides_about_far_timestamps(topic: Topic, mode: RefusedRecords, offsets: list[int]) -> None:
    read = far(("offset", "timestamp", "value"), evaluator(mode=mode), letters=mode == "deadletter")
    assert [row["offset"] for row in read] == offsets
    assert [row["value"] for row in read[1:]] == [{"id": 2}, None][: len(read) - 1]
    assert all(row["timestamp"] is None for row in read[1:])
    assert [(offset_in(letter), dict(letter.headers)["timestamp"]) for letter in topic.records] == (
        [(41, b"1700000000000000000"), (42, b"1700000000000000000")] if mode == "deadletter" else []
    )
    # Without the column, no record is refused.
    assert len(far(("offset",), evaluator(mode=mode))) == 3


def test_a_far_timestamp_fails_with_its_place() -> None:
    with pytest.raises(RecordDecodingError, match=r"offset 41\b.*timestamp, 1700000000000000000 ms"):
        far(("timestamp",), evaluator(mode="failfast"))


def test_a_deserialiser_may_send_far_timestamps_to_dead_letters(topic: Topic) -> None:
    by = Evaluator("mine", "theirs", None, None, lambda record: record.value)
    assert [row["offset"] for row in far(("offset", "timestamp"), by, letters=True)] == [40]
    assert [offset_in(letter) for letter in topic.records] == [41, 42]
