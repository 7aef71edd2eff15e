"""The stop record of a range: what each attempt does before, with and after a report about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dynamic_kafka.errors import DriverReplacedError, DynamicKafkaError, OptionError, RecordEvaluationError
from dynamic_kafka.executor import read_task
from dynamic_kafka.executor.evaluating.evaluators import Evaluator
from dynamic_kafka.executor.evaluating.event_times import EventTimes
from dynamic_kafka.executor.evaluating.record_evaluation import StopSearch, begin
from dynamic_kafka.executor.read_task import BatchReports, ReadTask
from dynamic_kafka.executor.reading.columns import arrow_schema, with_lateness
from dynamic_kafka.executor.reading.message_connection import MessageRows
from dynamic_kafka.executor.reading.rows import Rows
from dynamic_kafka.options.columns import EVENT_TIME, LATE, all_columns
from dynamic_kafka.planning.clock_of_values import BEFORE_ALL_MS
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.folder import RANGE_END, STOP_RECORD, StateFolder
from tests.unit.executor.test_evaluators import Message

SPLIT = Split("east", "t", 0)


class Loaded:
    """An evaluation that ends a split at one offset."""

    evaluator = "mine"
    looks_at_rows = False

    def __init__(self, end: int | None) -> None:
        self.end, self.asked = end, 0

    def load(self) -> Evaluator:
        return Evaluator("mine", "", self.is_end, None, None)

    def is_end(self, record: Any) -> bool:
        self.asked += 1
        return bool(record.offset == self.end)


@pytest.fixture
def task(tmp_path: Path) -> ReadTask:
    """A range 4..9 of a query whose driver has written to the state location."""
    StateFolder(str(tmp_path)).write("q/drivers/1.json", {})
    return ReadTask(
        SplitRange(SPLIT, 4, 9),
        "s",
        None,
        None,  # type: ignore[arg-type]
        frozenset(),
        1.0,
        include_headers=False,
        fail_on_data_loss=True,
        topic_id="id",
        reports=BatchReports(str(tmp_path), "q", "batch", 3, "1"),
    )


def fetched(task: ReadTask, rows: int) -> Iterator[Rows]:
    """The records of a range, so many at a time."""
    records: Any = [Message(offset, b"v") for offset in range(task.part.start, task.part.end)]
    yield from (MessageRows(records[at : at + rows], SPLIT, "s") for at in range(0, len(records), rows))


def attempt(task: ReadTask, end: int | None, *, rows: int = 2) -> list[int]:
    """Read a range as one attempt; return the offsets that Spark gets."""
    evaluation: Any = Loaded(end)
    task, evaluator = begin(task, evaluation)
    if evaluator is None:
        assert evaluation.asked == 0
        return list(range(task.part.start, task.part.end))
    search = StopSearch(task, evaluator)
    batches: list[pa.RecordBatch] = list(search.batches(fetched(task, rows)))
    search.settle()
    assert all(len(batch) > 0 for batch in batches)
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def reported(task: ReadTask) -> list[dict[str, Any]]:
    assert task.reports is not None
    return [dict(report.content) for report in StateFolder(task.reports.location).seen("q", "batch")]


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("end", [4, 5, 6, 7, 8])
def test_nothing_from_the_stop_record_on_is_read(task: ReadTask, end: int, rows: int) -> None:
    assert attempt(task, end, rows=rows) == list(range(4, end))
    [report] = reported(task)
    assert report == {"version": 1, "number": 3, "split": list(SPLIT), "offset": end, "topicId": "id", "driver": "1"}


def test_without_a_stop_record_nothing_is_reported(task: ReadTask) -> None:
    assert attempt(task, None) == [4, 5, 6, 7, 8]
    assert reported(task) == []


@pytest.mark.parametrize("end", [None, 4, 6, 8])
def test_the_next_attempt_obeys_whatever_it_would_find(task: ReadTask, end: int | None) -> None:
    attempt(task, 6)
    assert attempt(task, end) == [4, 5]
    assert [report["offset"] for report in reported(task)] == [6]


def test_a_known_stop_record_needs_no_report(task: ReadTask) -> None:
    known = replace(task, part=replace(task.part, end=7), has_stop_record=True, reports=None)
    assert attempt(known, 5) == [4, 5, 6]


def test_a_batch_read_reports_nothing(task: ReadTask) -> None:
    assert attempt(replace(task, reports=None), 6) == [4, 5]
    assert reported(task) == []


@pytest.mark.parametrize(("mine", "other"), [(6, 5), (6, 7), (None, 6)])
def test_an_attempt_fails_if_another_one_decides_otherwise(task: ReadTask, mine: int | None, other: int) -> None:
    # Given an attempt that has begun to read, when another one reports meanwhile
    evaluation: Any = Loaded(mine)
    begun, evaluator = begin(task, evaluation)
    assert evaluator is not None
    search = StopSearch(begun, evaluator)
    list(search.batches(fetched(begun, 2)))
    attempt(task, other)

    # Then it fails before its last rows, and the report stays
    with pytest.raises(RecordEvaluationError, match=rf"ended east/t\[0\] at offset {other}, "):
        search.settle()
    assert [report["offset"] for report in reported(task)] == [other]


def test_two_attempts_that_agree_both_succeed(task: ReadTask) -> None:
    evaluation: Any = Loaded(6)
    begun, evaluator = begin(task, evaluation)
    assert evaluator is not None
    search = StopSearch(begun, evaluator)
    list(search.batches(fetched(begun, 2)))
    attempt(task, 6)
    search.settle()


def test_the_first_report_stays(task: ReadTask) -> None:
    assert task.reports is not None
    task.reports.save_stop_record(SPLIT, 6, "id")
    task.reports.save_stop_record(SPLIT, 5, "id")
    assert task.reports.stop_record(SPLIT) == 6


def refused(*_: object, **__: object) -> None:
    raise PermissionError("not allowed")


def test_the_first_report_stays_without_hard_links(task: ReadTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.link", refused)
    test_the_first_report_stays(task)


@pytest.mark.parametrize("left", [b"", b'{\n "driver": "1",\n "num'], ids=["empty", "truncated"])
@pytest.mark.parametrize("links", [True, False])
def test_a_write_that_did_not_end_is_no_report(
    *, task: ReadTask, tmp_path: Path, left: bytes, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a report that an attempt has left incomplete
    if not links:
        monkeypatch.setattr("os.link", refused)
    attempt(task, 6)
    [file] = (tmp_path / "q" / "seen" / "batch").iterdir()
    file.write_bytes(left)
    assert task.reports is not None and task.reports.stop_record(SPLIT) is None
    assert reported(task) == []

    # Then the next attempt evaluates anew, and replaces it
    assert attempt(task, 5) == [4]
    assert [report["offset"] for report in reported(task)] == [5]
    assert attempt(task, 6) == [4]


def test_a_late_attempt_of_a_replaced_driver_fails(task: ReadTask, tmp_path: Path) -> None:
    # Given a driver that has replaced the one of a running task
    StateFolder(str(tmp_path)).write("q/drivers/2.json", {})

    # Then the task delivers nothing with a stop record, however often it is repeated
    for _ in range(2):
        with pytest.raises(DriverReplacedError, match=r"task of east/t\[0\] ends"):
            attempt(task, 6)

    # And the tasks of the new driver do not obey its report
    newer = replace(task, reports=BatchReports(str(tmp_path), "q", "batch", 3, "2"))
    assert attempt(newer, 8) == [4, 5, 6, 7]
    assert sorted((report["driver"], report["offset"]) for report in reported(task)) == [("1", 6), ("2", 8)]


def test_executors_without_the_drivers_files_are_refused(task: ReadTask, tmp_path: Path) -> None:
    elsewhere = replace(task, reports=BatchReports(str(tmp_path / "own"), "q", "batch", 3))
    with pytest.raises(OptionError, match="lacks the driver's files on this host"):
        attempt(elsewhere, 6)


def test_executors_that_cannot_write_read_nothing(
    task: ReadTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a folder in which executors cannot write, whether there will be a stop record or not
    monkeypatch.setattr("dynamic_kafka.state.folder._write_local", refused)
    for end in (None, 6):
        evaluation: Any = Loaded(end)
        with pytest.raises(OptionError, match=r"must write .*/q/seen: .*driver's rights"):
            begin(task, evaluation)
        assert evaluation.asked == 0

    # Once they can, they read, and nothing is left of the check
    monkeypatch.undo()
    assert attempt(task, None) == [4, 5, 6, 7, 8]
    assert list((tmp_path / "q" / "seen").iterdir()) == [] and reported(task) == []


def test_the_folder_is_checked_once_in_a_process(task: ReadTask, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt(task, None)
    asked = []
    monkeypatch.setattr(StateFolder, "list_folders", lambda *_: asked.append(1) or [])
    monkeypatch.setattr(StateFolder, "check_writable", lambda *_: asked.append(1))
    attempt(task, None)
    assert not asked and read_task._shared


def test_a_report_that_cannot_be_written_fails_the_attempt(task: ReadTask, tmp_path: Path) -> None:
    (tmp_path / "q" / "seen").write_text("a file")
    with pytest.raises(DynamicKafkaError, match="stateLocation: "):
        attempt(task, 6)


def test_an_evaluator_that_executors_lack_is_explained(task: ReadTask) -> None:
    class Missing:
        evaluator = "m:f"

        def load(self) -> Evaluator:
            raise OptionError("m:f: the module cannot be imported")

    with pytest.raises(OptionError, match=r"m:f: .*\. Executors .*spark\.submit\.pyFiles"):
        begin(task, Missing())  # type: ignore[arg-type]


def test_the_kind_of_the_report_is_pinned() -> None:
    assert STOP_RECORD == "stop-record"


# -- times of records ------------------------------------------------------------------------------------------------


class Timed(Loaded):
    """An evaluation by which the record at an offset has the time 100 + offset, or none at all."""

    looks_at_rows = True

    def __init__(self, end: int | None = None, *, without: tuple[int, ...] = (), ahead: int = 0) -> None:
        super().__init__(end)
        self.evaluator = "mine" if end is not None else None  # type: ignore[assignment]
        self.without, self.ahead = without, ahead

    def load(self) -> Evaluator:
        is_end = self.is_end if self.end is not None else None
        return Evaluator("mine", "", is_end, None, None, times=EventTimes("mine", self.times))

    def times(self, batch: pa.RecordBatch) -> list[int | None]:
        offsets = batch.column("offset").to_pylist()
        return [None if offset in self.without else 100 + offset + self.ahead for offset in offsets]


def timed(task: ReadTask, evaluation: Any, *, pauses_at: int | None, rows: int = 2) -> list[int]:
    """Read a range as one attempt; return the times that Spark gets."""
    assert task.reports is not None
    reports = replace(task.reports, kind=RANGE_END)
    task, evaluator = begin(replace(task, pauses_at_ms=pauses_at, time_column=EVENT_TIME, reports=reports), evaluation)
    assert evaluator is not None
    search = StopSearch(task, evaluator)
    batches: list[pa.RecordBatch] = list(search.batches(fetched(task, rows)))
    search.settle()
    times = [time for batch in batches for time in batch.column(EVENT_TIME).cast(pa.int64()).to_pylist()]
    return [-1 if time is None else time // 1000 for time in times]


def ends(task: ReadTask) -> list[tuple[int, str, int | None]]:
    return [(report["offset"], report["ends"], report["time"]) for report in reported(task)]


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("pauses_at", range(104, 109))
def test_a_range_pauses_before_a_record_that_is_too_new(task: ReadTask, pauses_at: int, rows: int) -> None:
    assert timed(task, Timed(), pauses_at=pauses_at, rows=rows) == list(range(104, pauses_at))
    assert ends(task) == [(pauses_at - 100, "pause", pauses_at)]


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_range_that_is_read_whole_is_reported_too(task: ReadTask, rows: int) -> None:
    assert timed(task, Timed(), pauses_at=1000, rows=rows) == [104, 105, 106, 107, 108]
    assert ends(task) == [(9, "whole", 108)]


def test_records_without_a_time_pause_nothing(task: ReadTask) -> None:
    assert timed(task, Timed(without=(4, 6)), pauses_at=BEFORE_ALL_MS) == [-1]
    assert ends(task) == [(5, "pause", 105)]


def test_a_range_without_any_time_is_whole(task: ReadTask) -> None:
    assert timed(task, Timed(without=(4, 5, 6, 7, 8)), pauses_at=BEFORE_ALL_MS) == [-1] * 5
    assert ends(task) == [(9, "whole", None)]


@pytest.mark.parametrize(
    ("end", "pauses_at", "read", "report"),
    [
        (6, 107, [104, 105], (6, "split", 105)),
        (6, 105, [104], (5, "pause", 105)),
        (8, 106, [104, 105], (6, "pause", 106)),
    ],
)
def test_the_first_end_of_a_range_counts(
    task: ReadTask, end: int, pauses_at: int, read: list[int], report: tuple[int, str, int]
) -> None:
    assert timed(task, Timed(end), pauses_at=pauses_at) == read
    assert ends(task) == [report]


def test_the_next_attempt_ends_where_the_first_did(task: ReadTask) -> None:
    assert timed(task, Timed(), pauses_at=106) == [104, 105]
    # The second one has other times, and its rows have those
    assert timed(task, Timed(ahead=50), pauses_at=106) == [154, 155]
    assert ends(task) == [(6, "pause", 106)]


def test_two_attempts_that_pause_elsewhere_do_not_both_count(task: ReadTask) -> None:
    assert task.reports is not None
    reports = replace(task.reports, kind=RANGE_END)
    evaluation: Any = Timed(ahead=1)
    begun, evaluator = begin(replace(task, pauses_at_ms=107, time_column=EVENT_TIME, reports=reports), evaluation)
    assert evaluator is not None
    search = StopSearch(begun, evaluator)
    list(search.batches(fetched(begun, 2)))
    timed(task, Timed(), pauses_at=107)
    with pytest.raises(RecordEvaluationError, match=r"ended east/t\[0\] at offset 7, this one at offset 6"):
        search.settle()


def test_a_split_with_a_known_stop_record_still_pauses(task: ReadTask) -> None:
    known = replace(task, has_stop_record=True)
    assert timed(known, Timed(6), pauses_at=106) == [104, 105]
    assert ends(task) == [(6, "pause", 106)]


def test_late_rows_go_by_the_times_of_the_records(task: ReadTask) -> None:
    rows = timed(replace(task, late_before_ms=106), Timed(), pauses_at=1000)
    assert rows == [104, 105, 106, 107, 108]
    assert task.read_columns == all_columns(include_headers=False)
    late = with_lateness(
        pa.RecordBatch.from_pydict({EVENT_TIME: pa.array([105_000, 106_000, None], pa.timestamp("us", tz="UTC"))}),
        106,
        EVENT_TIME,
    )
    assert late.column(LATE).to_pylist() == [True, False, False]


def test_records_that_are_refused_have_no_time(task: ReadTask, tmp_path: Path) -> None:
    def refuses_one(record: Any) -> Any:
        if record.offset == 5:
            raise ValueError("not readable")
        return record

    seen: list[int] = []

    def times(batch: pa.RecordBatch) -> list[int]:
        seen.extend(batch.column("offset").to_pylist())
        return [100 + offset for offset in batch.column("offset").to_pylist()]

    evaluator = Evaluator("", "mine", None, None, refuses_one, times=EventTimes("mine", times))
    search = StopSearch(replace(task, pauses_at_ms=107, time_column=EVENT_TIME), evaluator)
    [rows] = list(fetched(task, 5))
    refused: dict[int, str] = {}
    assert evaluator.first_end(rows, pa.record_batch([pa.array(range(5))], ["offset"]), SPLIT, refused) is None
    batch = rows.batch(arrow_schema(task.read_columns))
    before, end = search._up_to_the_end(rows, batch, None, all_columns(include_headers=False), refused)
    assert (end, seen) == (3, [4, 6, 7, 8])
    assert [time is None for time in before.column(EVENT_TIME).to_pylist()] == [False, True, False]


def test_a_batch_by_value_is_reported_without_the_option_too(task: ReadTask) -> None:
    # Given a pending batch by value, and a driver whose options name no assigner any more
    assert task.reports is not None
    begun, evaluator = begin(replace(task, reports=replace(task.reports, kind=RANGE_END)), None)
    assert evaluator is not None
    search = StopSearch(begun, evaluator)
    assert sum(map(len, search.batches(fetched(begun, 2)))) == 5
    search.settle()
    assert ends(task) == [(9, "whole", None)]
    # Then an attempt with it reads the same rows
    assert timed(task, Timed(), pauses_at=106) == [104, 105, 106, 107, 108]
