"""A set-up of internal topics: each row of the table, failures half way, deaths between steps, two at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dynamic_kafka.app.config.internal_topics import InternalTopics
from dynamic_kafka.app.internal_topics import topic_set_up
from dynamic_kafka.app.internal_topics.memory import SetupMemory
from dynamic_kafka.app.internal_topics.parameters import InitParameters
from dynamic_kafka.app.internal_topics.setup_plan import Remembered
from dynamic_kafka.app.internal_topics.topic_set_up import SetupResult, TopicSetUp
from dynamic_kafka.app.tools.init import text_of
from dynamic_kafka.errors import (
    ClusterError,
    ClusterUnreachableError,
    IdentityError,
    MisconfiguredInternalTopicError,
    MissingInternalTopicError,
)
from dynamic_kafka.metadata.topic_ids import shown_topic_id
from tests.unit.internal_topics.fake_home import FakeAdmin, FakeHome

ALL = InitParameters(setup_internal_topics_if_incomplete=True)
NONE = InitParameters()
NAMES = {"log", "keys", "dead"}


class Died(BaseException):
    """The death of the process."""


class Stage:
    """A fake home, and the memory in a folder; each set-up is a new process."""

    def __init__(self, folder: Path) -> None:
        self.admin, self.folder = FakeAdmin(), folder
        self.kafka_id: str | None = None

    @property
    def memory(self) -> SetupMemory:
        return SetupMemory(str(self.folder), "shop")

    def _set_up(self) -> TopicSetUp:
        topics = [
            {"name": "log", "kind": "changelog"},
            {"name": "keys", "kind": "repartition", "partitions": 3},
            {"name": "dead", "kind": "deadLetters"},
        ]
        fields = {"cluster": "east", "topics": topics, "kafkaId": self.kafka_id}
        return TopicSetUp(FakeHome(self.admin), InternalTopics.model_validate(fields), self.memory, 1.0)

    def make(self, parameters: InitParameters = NONE, *, dry_run: bool = False) -> SetupResult:
        return self._set_up().make(parameters, dry_run=dry_run)

    def check(self) -> SetupResult:
        return self._set_up().check()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(topic_set_up, "SETTLE_S", 0.0)
    yield Stage(tmp_path)


def test_all_are_made_by_one_request_and_remembered(stage: Stage) -> None:
    stage.make()
    assert stage.admin.requests == [("create", ["dead", "keys", "log"])]
    assert stage.memory.newest() == Remembered("K1", {name: stage.admin.topics[name].topic_id for name in NAMES})


def test_a_set_up_that_changes_nothing_writes_nothing(stage: Stage) -> None:
    stage.make()
    before = {path: path.stat().st_mtime_ns for path in stage.folder.rglob("*.json")}
    stage.make()
    stage.check()
    assert {path: path.stat().st_mtime_ns for path in stage.folder.rglob("*.json")} == before
    assert len(before) == 1
    assert len(stage.admin.requests) == 1


def test_a_dry_run_changes_nothing(stage: Stage) -> None:
    plan = stage.make(dry_run=True).plan
    assert {topic.name for topic in plan.create} == NAMES
    assert stage.admin.requests == []
    assert list(stage.folder.rglob("*.json")) == []


def test_some_missing_topics_are_refused_unless_completed(stage: Stage) -> None:
    stage.admin.make("log", cleanup_policy="compact")
    with pytest.raises(MissingInternalTopicError, match=r"'keys' .repartition., 'dead'.*exist: 'log'"):
        stage.make()
    assert stage.admin.requests == []
    stage.make(ALL)
    assert stage.admin.topics.keys() == NAMES


def test_a_deviation_is_refused_before_anything_is_made(stage: Stage) -> None:
    stage.admin.make("log", partitions=2)
    with pytest.raises(MisconfiguredInternalTopicError) as refused:
        stage.make(ALL)
    assert "has 2 partitions, declared are 1" in str(refused.value)
    assert "'log': cleanup.policy is 'delete'" in str(refused.value)
    assert stage.admin.requests == []


def test_a_failure_half_way_removes_what_was_made(stage: Stage) -> None:
    stage.admin.refuse = {"keys"}
    with pytest.raises(ClusterError, match=r"keys is refused; .*removed.*: dead, log"):
        stage.make()
    assert stage.admin.topics == {}
    assert stage.memory.newest() == Remembered("K1")
    stage.admin.refuse = set()
    stage.make()
    assert stage.admin.topics.keys() == NAMES


def test_a_clean_up_leaves_topics_of_others(stage: Stage) -> None:
    stage.admin.make("log", cleanup_policy="compact")
    stage.admin.refuse = {"keys"}
    with pytest.raises(ClusterError, match="keys is refused"):
        stage.make(ALL)
    assert stage.admin.topics.keys() == {"log"}


def test_what_cannot_be_removed_is_completed_later(stage: Stage) -> None:
    stage.admin.refuse, stage.admin.undeletable = {"keys"}, {"log"}
    with pytest.raises(ClusterError, match=r"left are 'log'.*does not answer.*set-up"):
        stage.make()
    assert stage.admin.topics.keys() == {"log"}
    stage.admin.refuse = set()
    stage.make()
    assert stage.admin.topics.keys() == NAMES


@pytest.mark.parametrize("made", [False, True])
def test_topics_without_an_answer_stay_and_are_completed(stage: Stage, made: bool) -> None:
    stage.admin.silent, stage.admin.silent_makes = {"keys"}, made
    with pytest.raises(ClusterUnreachableError, match=r"no answer.*topics keys; left are 'keys'"):
        stage.make()
    assert stage.admin.topics.keys() == ({"keys"} if made else set())
    stage.admin.silent = set()
    stage.make()
    assert stage.admin.topics.keys() == NAMES


STEPS = ["kafka_id", "found", "validate", "create", "created", "found-after", "delete"]


@pytest.mark.parametrize("step", STEPS)
def test_after_a_death_at_any_step_the_next_set_up_ends(stage: Stage, step: str) -> None:
    seen: list[str] = []

    def die(request: str) -> None:
        name = "found-after" if request == "found" and "created" in seen else request
        seen.append(name)
        if name == step:
            raise Died

    stage.admin.before = die
    stage.admin.refuse = {"keys"} if step == "delete" else set()
    with pytest.raises(Died):
        stage.make()
    stage.admin.before, stage.admin.refuse = lambda _: None, set()
    stage.make()
    assert stage.admin.topics.keys() == NAMES
    assert stage.memory.newest().begun == frozenset()


def test_a_topic_of_a_cut_off_set_up_is_no_lost_one(stage: Stage) -> None:
    """A set-up that died after some topics were made is completed without any parameter."""
    stage.memory.write(Remembered("K1", {}, frozenset(NAMES)))
    stage.admin.make("log", cleanup_policy="compact")
    assert stage.make().plan.deleted == ()
    assert stage.admin.topics.keys() == NAMES


def test_two_set_ups_at_once_make_each_topic_once(stage: Stage) -> None:
    other = Stage(stage.folder)
    other.admin = stage.admin

    def interfere(request: str) -> None:
        if request == "create":
            stage.admin.before = lambda _: None
            other.make()

    stage.admin.before = interfere
    stage.make()
    assert stage.admin.topics.keys() == NAMES
    assert stage.admin.requests == [("create", sorted(NAMES))] * 2
    assert not any(request == "delete" for request, _ in stage.admin.requests)


def test_another_program_that_makes_them_differently_wins(stage: Stage) -> None:
    """A topic that came between the look and the request, and differs: what this set-up made is removed again."""

    def interfere(request: str) -> None:
        if request == "create":
            stage.admin.make("log", partitions=5, cleanup_policy="compact")

    stage.admin.before = interfere
    with pytest.raises(MisconfiguredInternalTopicError, match=r"has 5 partitions.*removed.*: dead, keys"):
        stage.make()
    assert stage.admin.topics.keys() == {"log"}


def test_a_set_up_waits_for_topics_that_another_is_making(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_set_up, "SETTLE_S", 30.0)
    stage.admin.make("log", cleanup_policy="compact")
    looks = []

    def interfere(request: str) -> None:
        looks.append(request)
        if looks.count("found") == 2:
            stage.admin.make("keys", partitions=3, retention_ms="-1")
            stage.admin.make("dead", cleanup_policy="compact")

    stage.admin.before = interfere
    assert stage.make().plan.create == ()


def test_a_deleted_topic_is_made_again_and_named(stage: Stage) -> None:
    stage.make()
    del stage.admin.topics["log"]
    with pytest.raises(MissingInternalTopicError, match="--setup-changelog-topics-if-incomplete"):
        stage.make()
    assert stage.make(ALL).plan.deleted == ("log",)


def test_a_recreated_topic_is_named_once(stage: Stage) -> None:
    stage.make()
    before = stage.admin.topics["log"].topic_id
    stage.admin.make("log", cleanup_policy="compact")
    now = stage.admin.topics["log"].topic_id
    result = stage.make()
    assert result.plan.recreated == {"log": (before, now)}
    shown = text_of(result, dry_run=False)
    assert f"it was re-created (id {shown_topic_id(before)}, now {shown_topic_id(now)})" in shown
    assert "+" not in shown
    assert stage.make().plan.recreated == {}


def test_a_manual_check_refuses_each_deviation_from_a_set_up(stage: Stage) -> None:
    with pytest.raises(MissingInternalTopicError, match=r"dynamic_kafka.app init app.yaml"):
        stage.check()
    stage.make()
    stage.check()
    topic = stage.admin.topics.pop("log")
    with pytest.raises(MissingInternalTopicError, match=r"'log' .changelog. existed before.*lost"):
        stage.check()
    stage.admin.make("log", cleanup_policy="compact")
    with pytest.raises(
        MissingInternalTopicError, match=f"re-created .*: 'log' .id {shown_topic_id(topic.topic_id)}, now i-d_"
    ):
        stage.check()
    stage.make()
    stage.check()
    stage.admin.make("keys", partitions=7, retention_ms="-1")
    with pytest.raises(MisconfiguredInternalTopicError, match="it has 7 partitions"):
        stage.check()


def test_another_home_is_refused_until_app_yaml_names_it(stage: Stage) -> None:
    stage.make()
    stage.admin = FakeAdmin("K2")
    with pytest.raises(IdentityError, match="set `kafkaId: K2`"):
        stage.make()
    with pytest.raises(IdentityError):
        stage.check()
    stage.kafka_id = "K2"
    assert stage.make().plan.deleted == ()
    assert stage.memory.newest().kafka_id == "K2"
    stage.admin.id = "K3"
    with pytest.raises(IdentityError, match=r"cluster\.id K3, not K2: .*`kafkaId`"):
        stage.make()


def test_a_home_without_an_id_is_taken_as_it_is(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.make()
    stage.admin.id = None
    stage.make()
    assert "reports no cluster.id" in caplog.text
    assert stage.memory.newest().kafka_id == "K1"
