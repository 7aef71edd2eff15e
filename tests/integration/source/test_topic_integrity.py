"""Topic integrity on real brokers: deleted and re-created topics, pins, their acceptance, and crashes around them."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.driver.enumerator import Enumerator
from dynamic_kafka.errors import TopicIntegrityError
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading import range_reader
from dynamic_kafka.executor.reading.range_reader import _RangeReader
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.metadata.topic_ids import saved_topic_id
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.state.verdicts import saved_changes
from tests.support.fixtures import Brokers
from tests.support.source_run import CRASH_POINTS, CrashPoint, SourceRun, read, reading
from tests.support.streams import Rows, assert_rows, cluster, produce, stream, write_metadata

DEEP = pytest.mark.deep("each case of a pin and of a verdict")

CHECK = {"topicIntegrityCheck": "true"}


class World:
    """A topic of cluster `a`, and a query that reads it."""

    def __init__(self, brokers: Brokers, topic: str, path: Path) -> None:
        self.at, self.topic, self.path = brokers.a, topic, path
        self.old = brokers.a.topic_id(topic)
        self.wanted = Rows()
        self.name()

    def name(self, **more: Any) -> None:
        """Write the metadata; `more` are fields of the cluster."""
        write_metadata(self.path, stream("orders", cluster("a", self.at, [self.topic], **more)))

    def pin(self, topic_id: str) -> None:
        self.name(topicIds={self.topic: topic_id})

    def produce(self, count: int) -> Rows:
        return produce("a", self.at, self.topic, count)

    def recreate(self, count: int = 12) -> Rows:
        """Delete the topic, create it again, and return its records; it has all offsets of the old one."""
        self.at.delete_topic(self.topic)
        self.at.create_topic(self.topic)
        return produce("a", self.at, self.topic, count, prefix="new")

    @property
    def now(self) -> str:
        return self.at.topic_id(self.topic)

    def was_recreated(self) -> str:
        return f"[TOPIC_CHANGED cluster=a topic={self.topic} id={self.old} now={self.now}] the topic was re-created"

    def verdicts(self, run: SourceRun) -> list[tuple[str, str]]:
        changes = saved_changes(StateLocation(run.options["stateLocation"]), run.document.query, "verdict")
        return [(change.expected, change.found) for change in changes.values()]


@pytest.fixture
def world(brokers: Brokers, orders: str, path: Path) -> World:
    return World(brokers, orders, path)


def no_broker(*_: object) -> None:
    raise AssertionError("a broker was asked")


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_recreated_topic_ends_the_query_until_it_is_named(
    world: World, fail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reading(world.path, **CHECK, failOnDataLoss=fail) as run:
        before = world.produce(4)
        run.until_rows(before)
        after = world.recreate()

        # Then the query ends with both ids, and a start ends with the same words before any broker is asked
        message = run.until_fails(TopicIntegrityError)
        assert message.startswith(world.was_recreated())
        assert world.verdicts(run) == [(saved_topic_id(world.old), saved_topic_id(world.now))]
        with monkeypatch.context() as patch:
            patch.setattr(ClusterAdmin, "describe_topics", no_broker)
            assert run.until_fails(TopicIntegrityError) == message
        assert_rows(run.rows(), before)

        # Once the metadata name the new id, the new topic comes once, from its first record
        world.pin(world.now)
        run.until_rows(before + after)
        run.restart()
        run.until_rows(before + after + world.produce(2))


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_deleted_topic_is_missing_until_another_is_named(world: World, fail: str) -> None:
    with reading(world.path, **CHECK, failOnDataLoss=fail) as run:
        before = world.produce(4)
        run.until_rows(before)
        world.at.delete_topic(world.topic)
        message = run.until_fails(TopicIntegrityError)
        assert message.startswith(f"[TOPIC_CHANGED cluster=a topic={world.topic} id={world.old}] the topic is missing")
        assert run.until_fails(TopicIntegrityError) == message

        world.at.create_topic(world.topic)
        after = produce("a", world.at, world.topic, 7, prefix="new")
        assert run.until_fails(TopicIntegrityError) == message  # it is not accepted yet
        world.pin(world.now)
        run.until_rows(before + after)


def lacking(topic: str, patch: pytest.MonkeyPatch) -> None:
    """Let no broker have a topic, as after a restore of the cluster's metadata."""
    describe = ClusterAdmin.describe_topics

    def described(admin: ClusterAdmin, names: Collection[str]) -> object:
        by_topic, missing = describe(admin, [name for name in names if name != topic])
        return by_topic, missing | ({topic} & set(names))

    patch.setattr(ClusterAdmin, "describe_topics", described)
    patch.setattr(ClusterAdmin, "absent_topics", lambda admin, topics: frozenset(topics))


@DEEP
def test_a_topic_missing_for_a_moment_needs_no_acceptance(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with reading(world.path, **CHECK) as run:
        before = world.produce(4)
        run.until_rows(before)
        with monkeypatch.context() as patch:
            lacking(world.topic, patch)
            message = run.until_fails(TopicIntegrityError)
            assert run.until_fails(TopicIntegrityError) == message
            assert "is missing" in message

        # When the topic is there with its id, then the next start withdraws the verdict and reads on
        after = before + world.produce(3)
        run.until_rows(after)
        assert world.verdicts(run) == [] and "the verdict is withdrawn" in caplog.text

        # And a real deletion ends the query, and each start
        world.at.delete_topic(world.topic)
        assert run.until_fails(TopicIntegrityError) == message
        assert run.until_fails(TopicIntegrityError) == message


@DEEP
def test_one_broker_with_another_id_gives_no_verdict(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    describe, stale = ClusterAdmin.describe_topics, saved_topic_id("AbCdEfGhIjKlMnOpQrStUQ")

    def described(admin: ClusterAdmin, names: Collection[str]) -> object:
        topics, missing = describe(admin, names)
        if type(admin) is ClusterAdmin:  # the client that looks for another answer asks the other brokers
            topics = {name: (stale, partitions) for name, (_, partitions) in topics.items()}
        return topics, missing

    with reading(world.path, **CHECK) as run:
        before = world.produce(4)
        run.until_rows(before)
        after = before + world.produce(2)
        with monkeypatch.context() as patch:
            patch.setattr(ClusterAdmin, "describe_topics", described)
            run.restart()
            run.until(lambda: run.batch() or "do not agree on the ids" in caplog.text, "the disagreement")
        assert_rows(run.rows(), before)
        run.until_rows(after)
        assert world.verdicts(run) == []


@DEEP
def test_a_deleted_topic_may_be_taken_out_of_the_metadata(world: World, brokers: Brokers) -> None:
    with reading(world.path, **CHECK) as run:
        before = world.produce(4)
        run.until_rows(before)
        world.at.delete_topic(world.topic)
        run.until_fails(TopicIntegrityError)
        write_metadata(world.path, stream("orders", cluster("b", brokers.b, [world.topic])))
        run.until_rows(before + produce("b", brokers.b, world.topic, 3))


def test_without_the_option_nothing_is_checked(world: World) -> None:
    with reading(world.path, failOnDataLoss="false") as run:
        before = world.produce(4)
        run.until_rows(before)
        run.until_rows(before + world.recreate())


@DEEP
def test_discovery_may_be_off(world: World) -> None:
    with reading(world.path, **CHECK, metadataDiscoveryInterval="0", partitionDiscoveryInterval="0") as run:
        run.until_rows(world.produce(4))
        world.recreate()
        run.restart()
        assert world.was_recreated() in run.until_fails(TopicIntegrityError)


# -- pins --------------------------------------------------------------------------------------------------------------


@DEEP
def test_a_pin_has_the_form_that_kafka_itself_writes(world: World) -> None:
    # Kafka writes the id into each partition's folder, in the form of its tools. Only half of the ids differ between
    # the two alphabets of base64.
    while not {"-", "_"} & set(world.now):
        world.recreate(0)
    [written] = {
        line.removeprefix("topic_id: ")
        for file in world.at.folder.rglob(f"{world.topic}-0/partition.metadata")
        for line in file.read_text().splitlines()
        if line.startswith("topic_id: ")
    }
    assert written == world.now
    world.pin(written)
    with reading(world.path) as run:
        run.until_rows(world.produce(3))


@DEEP
def test_a_pinned_topic_must_have_its_id_at_the_first_start(world: World) -> None:
    world.pin("AbCdEfGhIjKlMnOpQrStUQ")
    world.produce(3)
    with reading(world.path) as run:
        message = run.until_fails(TopicIntegrityError)
        assert f"id=AbCdEfGhIjKlMnOpQrStUQ now={world.old}]" in message and "was re-created" in message
        assert run.rows() == Rows()


@DEEP
def test_a_wrong_pin_that_arrives_does_not_end_the_query(world: World) -> None:
    with reading(world.path) as run:
        wanted = world.produce(3)
        run.until_rows(wanted)
        world.pin("AbCdEfGhIjKlMnOpQrStUQ")
        run.until(lambda: "rejected" in run.report(), "the rejection")
        assert "AbCdEfGhIjKlMnOpQrStUQ" in run.report()["rejected"]
        run.until_rows(wanted + world.produce(2))
        assert world.verdicts(run) == []
        world.pin(world.old)
        run.until(lambda: "rejected" not in run.report(), "the correction")


@DEEP
def test_a_pin_that_comes_with_the_new_topic_ends_nothing(world: World) -> None:
    # The plan that meets the new topic has older metadata. They are looked up once more before the query ends
    with reading(world.path, **CHECK, metadataDiscoveryInterval="1h") as run:
        before = world.produce(4)
        run.until_rows(before)
        after = world.recreate()
        world.pin(world.now)
        run.until_rows(before + after)
        assert world.verdicts(run) == []


# -- re-created between plan and read, and crashes ---------------------------------------------------------------------


def recreate_before_reading(world: World, patch: pytest.MonkeyPatch) -> Rows:
    """Let the topic be re-created once the next batch's tasks are made; return the rows that it has then."""
    made, after = Enumerator.tasks, Rows()

    def tasks(self: Enumerator, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[ReadTask]:
        planned = made(self, start, end)
        patch.setattr(Enumerator, "tasks", made)
        after.update(world.recreate())
        return planned

    patch.setattr(Enumerator, "tasks", tasks)
    return after


@DEEP
@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_recreated_between_plan_and_read_comes_once(
    world: World, fail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reading(world.path, **CHECK, failOnDataLoss=fail) as run:
        before = world.produce(4)
        run.until_rows(before)
        world.produce(5)
        after = recreate_before_reading(world, monkeypatch)

        # The executor finds it and records the verdict; nothing of the batch is delivered, and no start reads it
        message = run.until_fails(TopicIntegrityError)
        assert message.startswith(world.was_recreated())
        assert world.verdicts(run) == [(saved_topic_id(world.old), saved_topic_id(world.now))]
        assert run.until_fails(TopicIntegrityError) == message
        assert_rows(run.rows(), before)

        # The pending batch's range is left out, and the new topic comes once
        world.pin(world.now)
        run.until_rows(before + after)


@DEEP
def test_only_rows_before_the_last_batch_may_reach_another_sink(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # The window of sinks that keep a failed task's rows: the batches of the range before the last one
    monkeypatch.setattr(range_reader, "MAX_ROWS", 2)
    with reading(world.path, **CHECK) as run:
        run.until_rows(world.produce(4))
        world.produce(5)
        run.until(lambda: run.batch(crash="partitioned"), "a batch")
        [task] = run.tasks
        batches = _RangeReader.batches

        def interrupted(reader: _RangeReader) -> Iterator[Any]:
            yield from batches(reader)
            monkeypatch.setattr(_RangeReader, "batches", batches)
            world.recreate()

        monkeypatch.setattr(_RangeReader, "batches", interrupted)
        yielded = []
        with pytest.raises(TopicIntegrityError):
            for row in read(replace(task)):
                yielded.append(row.offset)
        assert yielded == [4, 5, 6, 7]


@DEEP
@pytest.mark.parametrize(
    ("crash", "pending"), [*((point, True) for point in CRASH_POINTS), ("logged", False), ("sunk", False)]
)
@pytest.mark.sampled
def test_a_crash_at_any_step_after_an_acceptance_is_harmless(
    world: World, crash: CrashPoint, pending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reading(world.path, **CHECK) as run:
        before = world.produce(4)
        run.until_rows(before)
        world.produce(5)
        after = recreate_before_reading(world, monkeypatch) if pending else world.recreate()
        run.until_fails(TopicIntegrityError)
        world.pin(world.now)
        run.batch(crash=crash)
        run.batch(crash=crash)
        run.until_rows(before + after)


# -- documents of earlier releases -------------------------------------------------------------------------------------


@DEEP
def test_a_document_without_ids_migrates(world: World) -> None:
    with reading(world.path, **CHECK) as run:
        before = world.produce(4)
        run.until_rows(before)
        wire = json.loads(run.offsets[-1])
        for progress in wire["clusters"].values():
            for topic in progress["topics"].values():
                del topic["id"]
        run.offsets[-1] = json.dumps(wire)
        run.restart()
        run.until_rows(before + world.produce(2))
        topic = run.document.topic("a", world.topic)
        assert topic is not None
        assert topic.topic_id == saved_topic_id(world.old)


@DEEP
def test_a_broker_that_reports_no_ids_is_warned_about_once(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    describe = ClusterAdmin.describe_topics

    def without_ids(admin: ClusterAdmin, names: list[str]) -> object:
        topics, missing = describe(admin, names)
        return {name: (None, partitions) for name, (_, partitions) in topics.items()}, missing

    monkeypatch.setattr(ClusterAdmin, "describe_topics", without_ids)
    with caplog.at_level(logging.WARNING), reading(world.path, **CHECK) as run:
        wanted = world.produce(4)
        run.until_rows(wanted)
        run.until_rows(wanted + world.produce(2))
    assert caplog.text.count("cluster 'a' reports no topic ids: nothing shows whether") == 1
