"""The topic id of a range: when an executor asks for it, and what another id means."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.errors import (
    ClusterError,
    ClusterUnreachableError,
    DataLossError,
    OptionError,
    ReadTimeoutError,
    TopicIntegrityError,
)
from dynamic_kafka.executor.read_task import BatchReports, ReadTask
from dynamic_kafka.executor.reading import topic_identity
from dynamic_kafka.executor.reading.consumer_cache import CachedConsumer
from dynamic_kafka.executor.reading.topic_identity import ID_VALID_S, confirm_topic, of_planned_topic
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.folder import StateFolder
from dynamic_kafka.state.verdicts import saved_changes

PART = SplitRange(Split("east", "t", 0), 4, 9)
OLD, NEW, ABSENT, MOVED = {"t": ("old", [0])}, {"t": ("new", [0])}, {"gone": None}, {"moved": None}


class World:
    """Brokers, and the clock of a worker.

    Attributes:
        answers: the answers to the next questions; the last one stays. An error is raised.
        asked: number of questions.
        made: number of admin clients.
        disputes: the topics about whose ids the brokers do not agree, for each question about that; the last one stays.
        confirmed: the ids that were asked about.
    """

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.now, self.asked, self.made = 1000.0, 0, 0
        self.disputes: list[frozenset[str]] = [frozenset()]
        self.confirmed: list[str] = []
        self.cached = CachedConsumer("east", None)  # type: ignore[arg-type]

    def disputed(self, _: object, ids: dict[str, str]) -> frozenset[str]:
        self.confirmed += ids.values()
        return self.disputes.pop(0) if len(self.disputes) > 1 else self.disputes[0]

    def read(self, task: ReadTask, *batches: Any) -> list[Any]:
        """Return what a range yields of these batches; an error among them is raised."""

        def fetched() -> Iterator[Any]:
            for batch in batches:
                if isinstance(batch, Exception):
                    raise batch
                yield batch

        return list(of_planned_topic(task, self.cached, fetched()))


class Admin:
    """An admin client of the world."""

    def __init__(self, world: World, deadline_s: float) -> None:
        self.world, self.deadline_s = world, deadline_s

    def describe_topics(self, names: list[str]) -> tuple[dict[str, Any], frozenset[str]]:
        self.world.asked += 1
        answer = self.world.answers.pop(0) if len(self.world.answers) > 1 else self.world.answers[0]
        if isinstance(answer, Exception):
            self.world.now += self.deadline_s
            raise answer
        return {name: answer[name] for name in names if name in answer}, frozenset(names if answer is ABSENT else ())

    def absent_topics(self, names: frozenset[str]) -> frozenset[str]:
        return names

    def close_in_background(self) -> None:
        pass


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(OLD)

    def client(cluster: str, config: object, *, read_committed: bool, deadline_s: float) -> Admin:
        made.made += 1
        return Admin(made, deadline_s)

    def sleep(seconds: float) -> None:
        made.now += seconds

    monkeypatch.setattr(topic_identity, "ClusterAdmin", client)
    monkeypatch.setattr(topic_identity, "disputed_ids", made.disputed)
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    monkeypatch.setattr(time, "sleep", sleep)
    return made


def task(planned: str | None = "old", *, fail: bool = True, reports: BatchReports | None = None) -> ReadTask:
    client = ClusterClient("east", {"bootstrap.servers": "e:1"}, {})
    return ReadTask(PART, "s", "Mk", client, frozenset({"east"}), 8.0, False, fail, topic_id=planned, reports=reports)


@pytest.fixture
def reports(tmp_path: Path) -> BatchReports:
    """The state location of a query that a driver has begun."""
    StateFolder(str(tmp_path)).write("q/state/x.json", {"version": 1})
    return BatchReports(str(tmp_path), "q", "bb", 3)


def seen(reports: BatchReports) -> list[Any]:
    return [(note.kind, note.split, note.content["topicId"]) for note in StateFolder(reports.location).seen("q", "bb")]


# -- when to ask -------------------------------------------------------------------------------------------------------


def test_each_of_many_ranges_asks_once_after_its_end(world: World) -> None:
    for _ in range(10):
        assert world.read(task(), "rows") == ["rows"]
    assert (world.asked, world.made, world.confirmed) == (11, 1, [])


def test_an_old_answer_is_asked_for_again(world: World) -> None:
    world.read(task(), "rows")
    world.now += ID_VALID_S
    world.read(task(), "rows")
    assert world.asked == 4


def test_nothing_is_asked_without_a_planned_id(world: World) -> None:
    assert world.read(task(None), "rows", "more") == ["rows", "more"]
    assert world.asked == 0


@pytest.mark.parametrize("answer", [{"t": (None, [0])}, ABSENT], ids=["no ids", "deleted"])
def test_without_an_id_the_rows_count(world: World, answer: Any) -> None:
    world.answers = [OLD, answer]
    assert world.read(task(), "rows", "more") == ["rows", "more"]


def test_a_topic_that_is_being_created_is_asked_for_again(world: World) -> None:
    world.answers = [OLD, MOVED, MOVED, NEW]
    with pytest.raises(DataLossError):
        world.read(task(), "rows")


# -- brokers that do not agree -----------------------------------------------------------------------------------------


def test_an_id_that_only_one_broker_has_is_asked_for_again(world: World) -> None:
    # Given a broker with old metadata, and then another one
    world.answers, world.disputes = [OLD, NEW, OLD], [frozenset({"t"})]
    assert world.read(task(), "rows") == ["rows"]
    assert (world.asked, world.confirmed) == (3, ["new"])


def test_brokers_that_never_agree_give_no_verdict(world: World, reports: BatchReports) -> None:
    world.answers, world.disputes = [OLD, NEW], [frozenset({"t"})]
    with pytest.raises(ReadTimeoutError, match="brokers do not agree"):
        world.read(replace(task(reports=reports), topic_integrity=True), "rows")
    assert saved_changes(StateFolder(reports.location), "q", "verdict") == {}


def test_an_id_that_all_brokers_have_is_a_verdict(world: World, reports: BatchReports) -> None:
    world.answers = [OLD, NEW]
    with pytest.raises(TopicIntegrityError):
        world.read(replace(task(reports=reports), topic_integrity=True), "rows")
    [verdict] = saved_changes(StateFolder(reports.location), "q", "verdict").values()
    assert (verdict.expected, verdict.found, world.confirmed) == ("old", "new", ["new"])


# -- another topic -----------------------------------------------------------------------------------------------------


def test_another_id_before_a_range_names_both_and_the_ways_out(world: World) -> None:
    world.answers = [NEW]
    with pytest.raises(DataLossError) as lost:
        world.read(task(), AssertionError("read"))
    message = str(lost.value)
    assert "east/t[0] 4..9 is pending" in message
    assert "re-created (id old, now new)" in message
    assert message.index("abandon app.yaml east/t`") < message.index("accept app.yaml --data-loss`")


@pytest.mark.parametrize("answers", [[NEW], [OLD, NEW]], ids=["before", "after"])
def test_with_losses_accepted_a_range_is_left_out(world: World, reports: BatchReports, answers: list[Any]) -> None:
    world.answers = answers
    assert world.read(task(fail=False, reports=reports), "rows") == []
    assert seen(reports) == [("topic-id", PART.split, "new")]


def test_an_attempt_that_has_yielded_rows_fails(world: World, reports: BatchReports) -> None:
    world.answers = [OLD, NEW]
    with pytest.raises(ClusterError, match=r"attempt fails, .* leaves the range out"):
        world.read(task(fail=False, reports=reports), "rows", "more")
    assert seen(reports) == [("topic-id", PART.split, "new")]


def test_records_are_confirmed_before_they_become_dead_letters(world: World, reports: BatchReports) -> None:
    confirm_topic(task(), world.cached)
    world.answers = [NEW]
    with pytest.raises(DataLossError, match="was re-created"):
        confirm_topic(task(), world.cached)
    with pytest.raises(ClusterError, match=r"attempt fails, .* leaves the range out"):
        confirm_topic(task(fail=False, reports=reports), world.cached)


def test_no_last_rows_come_before_the_second_answer(world: World) -> None:
    # A consumer of rows may stop before the generator ends.
    rows = of_planned_topic(task(), world.cached, iter(["rows"]))  # type: ignore[list-item]
    next(rows)
    assert world.asked == 2


def test_missing_offsets_of_another_topic_are_explained(world: World) -> None:
    world.answers = [OLD, NEW]
    with pytest.raises(DataLossError, match="re-created"):
        world.read(task(), DataLossError("the log ends at 2"))
    world.answers = [OLD]
    with pytest.raises(DataLossError, match="the log ends at 2"):
        world.read(task(), DataLossError("the log ends at 2"))


# -- trouble -----------------------------------------------------------------------------------------------------------


def test_a_client_that_has_lost_its_brokers_is_replaced(world: World) -> None:
    world.answers = [OLD, ClusterUnreachableError("east", "no answer"), OLD]
    assert world.read(task(), "rows") == ["rows"]
    assert world.made == 2


def test_rows_without_an_answer_do_not_count(world: World) -> None:
    world.answers = [OLD, ClusterUnreachableError("east", "no answer")]
    with pytest.raises(ReadTimeoutError, match=r"confirm.*\beast/t\[0\] 4\.\.9\b.*\(8 s\):.*no answer"):
        world.read(task(), "rows")


def test_executors_need_the_drivers_state_location(world: World, tmp_path: Path) -> None:
    world.answers = [NEW]
    elsewhere = BatchReports(str(tmp_path / "mine"), "q", "bb", 3)
    with pytest.raises(OptionError, match="name a folder that all share"):
        world.read(task(fail=False, reports=elsewhere), "rows")
