"""Drivers on one checkpoint: the newest one counts, and the others refuse."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from dynamic_kafka.errors import DriverReplacedError, DynamicKafkaError, OptionError
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.document.stop_records import StopRecord
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state import incarnation
from dynamic_kafka.state.incarnation import Incarnation
from dynamic_kafka.state.store import StateLocation

SAVED = OffsetDocument("q", 3, "aa", state="e1")
PART = SplitRange(Split("east", "t", 0), 5, 9)
MADE = Amendment("q", 3, "aa", "bb", (PART,), {"east": "unreachable"}, 1_000)


@pytest.fixture
def state(tmp_path: Path) -> StateLocation:
    location = StateLocation(str(tmp_path))
    location.bind("q", "e1")
    return location


def started(state: StateLocation) -> Incarnation:
    process = Incarnation(state)
    process.begin(SAVED)
    return process


def test_the_driver_before_refuses_and_the_newest_goes_on(state: StateLocation) -> None:
    first, second = started(state), started(state)
    with pytest.raises(DriverReplacedError, match=r"driver has started.*, query q\)"):
        first.before_document(SAVED)
    with pytest.raises(DriverReplacedError):
        first.save(MADE)
    assert state.amendments("q") == []
    second.before_document(SAVED)
    second.save(MADE)
    assert [made.left_out for made in state.amendments("q")] == [(PART,)]


def test_a_driver_of_the_first_batch_is_replaced_too(state: StateLocation) -> None:
    first = Incarnation(state)
    first.begin(OffsetDocument())
    first.before_document(SAVED)
    started(state)
    with pytest.raises(DriverReplacedError):
        first.before_document(SAVED)


@pytest.mark.parametrize("first_batch", [False, True])
def test_a_driver_whose_state_folder_was_moved_refuses(state: StateLocation, tmp_path: Path, first_batch: bool) -> None:
    process = Incarnation(state)
    process.begin(OffsetDocument() if first_batch else SAVED)
    process.before_document(SAVED)
    process.check("q")
    (tmp_path / "new").mkdir()
    shutil.move(tmp_path / "q", tmp_path / "new")
    for decide in (process.before_document, lambda document: process.save(MADE), lambda document: process.check("q")):
        with pytest.raises(DriverReplacedError, match=r"q/drivers/0000.*json.* is gone: .*moved"):
            decide(SAVED)
    assert state.amendments("q") == []


def test_a_driver_from_before_a_restored_backup_refuses(
    state: StateLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tmp_path / "q", tmp_path / "backup")
    process = started(state)
    shutil.rmtree(tmp_path / "q")
    shutil.move(tmp_path / "backup", tmp_path / "q")
    # Both have the number 1, and the mark of the later one is the smallest.
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=0))
    later = started(state)
    with pytest.raises(DriverReplacedError):
        process.before_document(SAVED)
    later.before_document(SAVED)


def test_one_failed_look_for_newer_drivers_ends_nothing(state: StateLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    process, outcomes = (
        started(state),
        [DynamicKafkaError("no answer"), state.drivers("q"), *[DynamicKafkaError("no answer")] * 2],
    )

    def drivers(query: str) -> list[str]:
        outcome = outcomes.pop(0)
        if isinstance(outcome, DynamicKafkaError):
            raise outcome
        return outcome

    monkeypatch.setattr(incarnation, "AGAIN_AFTER_S", 0.0)
    monkeypatch.setattr(state, "drivers", drivers)
    process.before_document(SAVED)
    with pytest.raises(DynamicKafkaError, match="no answer"):
        process.before_document(SAVED)
    assert outcomes == []


def test_an_amendment_that_a_replaced_driver_wrote_late_is_void(state: StateLocation) -> None:
    first = started(state)
    second = started(state)
    # The first driver hung between its last look and the write.
    state.save_amendment(replace(MADE, driver=first.name))
    assert state.amendments("q") == []
    third = Incarnation(state)
    assert third.begin(SAVED) == []
    assert first.name < second.name < third.name


def test_a_found_amendment_applies_for_all_later_drivers(state: StateLocation) -> None:
    started(state).save(MADE)
    for _ in range(3):
        assert [made.left_out for made in Incarnation(state).begin(SAVED)] == [(PART,)]


def test_a_driver_that_died_before_its_record_changes_nothing(state: StateLocation) -> None:
    started(state).save(MADE)
    state.write("q/drivers/000000000009-dead.json", {"version": 1})
    driver = Incarnation(state)
    assert [made.left_out for made in driver.begin(SAVED)] == [(PART,)]
    assert driver.name.startswith("000000000010-")


def test_an_empty_record_leaves_the_one_before_in_force(state: StateLocation, tmp_path: Path) -> None:
    first = started(state)
    started(state)
    state.save_amendment(replace(MADE, driver=first.name))
    (tmp_path / "q" / "found" / "000000000009-dead.json").touch()
    assert state.amendments("q") == []


def test_amendments_of_tools_and_of_older_releases_apply(state: StateLocation) -> None:
    started(state)
    state.save_amendment(MADE)
    assert state.amendments("q") == [MADE]
    started(state)
    assert state.amendments("q") == [MADE]


def test_a_late_amendment_does_not_replace_the_newest_drivers(state: StateLocation) -> None:
    first = started(state)
    second = started(state)
    second.save(MADE)
    state.save_amendment(replace(MADE, driver=first.name))
    assert [made.driver for made in state.amendments("q")] == [second.name]


def test_of_two_starts_at_once_one_is_refused(state: StateLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    state.write("q/drivers/000000000002-other.json", {"version": 1, "host": "node-7"})
    listings = iter([[], state.drivers("q")])
    monkeypatch.setattr(state, "drivers", lambda query: next(listings))
    with pytest.raises(DriverReplacedError, match="host node-7"):
        Incarnation(state).begin(SAVED)


def test_a_start_without_a_place_for_reports_replaces_nobody(state: StateLocation, tmp_path: Path) -> None:
    running = started(state)
    (tmp_path / "q" / "seen").rmdir()
    (tmp_path / "q" / "seen").write_text("a file")
    with pytest.raises(OptionError, match=r"stateLocation: .*/q/seen/.*cannot be written.*folder"):
        started(state)
    running.before_document(SAVED)


def test_a_stop_record_reported_after_the_next_start_is_void(state: StateLocation) -> None:
    # Given a driver whose executors have ended a split before the next driver started, and another one after that
    batch, other = fingerprint(SAVED), Split("east", "t", 1)
    first = started(state)
    report(state, first, PART.split, 6)
    second = started(state)
    report(state, first, other, 7)

    # Then the first is obeyed for good, and the second is not
    assert state.stop_records(SAVED) == [StopRecord(PART.split, 6, "id")]
    report(state, second, other, 8)
    report(state, first, PART.split, 5)
    expected = [StopRecord(PART.split, 6, "id"), StopRecord(other, 8, "id")]
    assert state.stop_records(SAVED) == expected
    for _ in range(2):
        started(state)
        assert state.stop_records(SAVED) == expected
    assert len(state.seen("q", batch)) == 3


def test_stop_records_of_later_batches_need_no_record(state: StateLocation) -> None:
    # A driver that found an earlier batch last has read no later one, unless it is the one that reports
    later = replace(SAVED, number=4)
    first = started(state)
    state.save_seen("q", fingerprint(later), "stop-record", PART.split, {"offset": 6, "topicId": "id"})
    report(state, first, Split("east", "t", 1), 7, later)
    started(state)
    assert {record.offset for record in state.stop_records(later)} == {6, 7}


def report(state: StateLocation, driver: Incarnation, split: Split, offset: int, end: OffsetDocument = SAVED) -> None:
    content = {"offset": offset, "topicId": "id"}
    state.save_seen("q", fingerprint(end), "stop-record", split, content, driver=driver.name)
