"""A range whose topic is checked: another topic, or none, ends the query for good, unless metadata name the new id."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.errors import DataLossError, DynamicKafkaError, TopicIntegrityError
from dynamic_kafka.executor.read_task import BatchReports, ReadTask
from dynamic_kafka.planning.sameness.integrity import TopicChange, changes_of
from dynamic_kafka.state.folder import StateFolder
from dynamic_kafka.state.verdicts import saved_changes
from tests.unit.executor.test_topic_identity import ABSENT, NEW, OLD, PART, World, reports, seen, task, world

__all__ = ["reports", "world"]


def checked(*, fail: bool = True, pin: str | None = None, reports: BatchReports | None = None) -> ReadTask:
    return replace(task(fail=fail, reports=reports), topic_integrity=pin is None, pin=pin)


def verdicts(reports: BatchReports) -> list[TopicChange]:
    return list(saved_changes(StateFolder(reports.location), "q", "verdict").values())


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("answers", [[NEW], [OLD, NEW]], ids=["before", "after"])
def test_another_topic_ends_the_query_and_is_recorded(
    world: World, reports: BatchReports, answers: list[Any], fail: bool
) -> None:
    world.answers = answers
    with pytest.raises(
        TopicIntegrityError, match=r"\[TOPIC_CHANGED cluster=east topic=t\b.*id=old now=new\].*re-created"
    ) as ended:
        world.read(checked(fail=fail, reports=reports), "rows")
    assert verdicts(reports) == list(changes_of(ended.value)) == [TopicChange("east", "t", "old", "new")]
    assert seen(reports) == []


@pytest.mark.parametrize("fail", [True, False])
def test_a_topic_that_is_missing_before_a_range_ends_it(world: World, reports: BatchReports, fail: bool) -> None:
    world.answers = [ABSENT]
    with pytest.raises(TopicIntegrityError, match="is missing"):
        world.read(checked(fail=fail, reports=reports), AssertionError("read"))
    assert verdicts(reports) == [TopicChange("east", "t", "old", "")]


def test_a_topic_that_explains_lost_offsets_is_missing(world: World) -> None:
    world.answers = [OLD, ABSENT]
    with pytest.raises(TopicIntegrityError, match="is missing"):
        world.read(checked(), DataLossError("the topic no longer exists"))


def test_rows_of_a_topic_that_is_deleted_after_them_count(world: World) -> None:
    # They are all of the range: a missing one would have been a loss. The next plan ends the query.
    world.answers = [OLD, ABSENT]
    assert world.read(checked(), "rows", "more") == ["rows", "more"]


def test_where_losses_are_skipped_a_missing_topic_ends_the_query(world: World) -> None:
    world.answers = [OLD, ABSENT]
    with pytest.raises(TopicIntegrityError, match="is missing"):
        world.read(checked(fail=False), "rows")


def test_a_broker_without_ids_is_trusted(world: World) -> None:
    world.answers = [{"t": (None, [0])}]
    assert world.read(checked(), "rows") == ["rows"]


@pytest.mark.parametrize("check", [True, False])
def test_a_pin_to_the_new_id_leaves_the_range_out(world: World, reports: BatchReports, check: bool) -> None:
    world.answers = [OLD]
    given = replace(checked(pin="new", reports=reports), topic_integrity=check)
    # A pin that does not fit the planned topic yet is refused
    with pytest.raises(TopicIntegrityError):
        world.read(given, "rows")
    world.answers = [NEW]
    assert world.read(given, "rows") == []
    assert seen(reports) == [("topic-id", PART.split, "new")]
    [report] = StateFolder(reports.location).seen("q", "bb")
    assert report.content["accepted"] is True


def test_a_pin_is_enforced_without_the_option(world: World) -> None:
    world.answers = [OLD, NEW]
    with pytest.raises(TopicIntegrityError, match="topic=t id=old now=new") as ended:
        world.read(checked(pin="old"), "rows")
    assert changes_of(ended.value)[0].pinned


def test_a_verdict_that_cannot_be_written_hides_no_error(
    world: World, reports: BatchReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: StateFolder, path: str, content: object) -> None:
        raise DynamicKafkaError("no space left")

    monkeypatch.setattr(StateFolder, "write", full)
    world.answers = [NEW]
    with pytest.raises(TopicIntegrityError):
        world.read(checked(reports=reports), "rows")


def test_an_executor_without_the_drivers_files_writes_none(world: World, tmp_path: Path) -> None:
    elsewhere = BatchReports(str(tmp_path / "mine"), "q", "bb", 3)
    world.answers = [NEW]
    with pytest.raises(TopicIntegrityError):
        world.read(checked(reports=elsewhere), "rows")
    assert verdicts(elsewhere) == []
