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
from dynamic_kafka.executor.evaluating.record_evaluation import StopSearch, begin
from dynamic_kafka.executor.read_task import BatchReports, ReadTask
from dynamic_kafka.executor.reading.message_connection import MessageRows
from dynamic_kafka.executor.reading.rows import Rows
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.folder import STOP_RECORD, StateFolder
from tests.unit.executor.test_evaluators import Message

SPLIT = Split("east", "t", 0)


class Loaded:
    """An evaluation that ends a split at one offset."""

    evaluator = "mine"
    values = None

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
