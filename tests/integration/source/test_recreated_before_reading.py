"""A topic that is re-created between a plan and the reading of its batch, or while a range is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from dynamic_kafka import cause_of
from dynamic_kafka.errors import ClusterError, DataLossError
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading import range_reader
from dynamic_kafka.executor.reading.range_reader import _RangeReader
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.metadata.topic_ids import saved_topic_id
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.state.store import StateLocation
from tests.support.fixtures import Brokers
from tests.support.kafka import KafkaCluster
from tests.support.source_run import SourceRun, read, reading
from tests.support.streams import (
    Collected,
    Rows,
    RunningQuery,
    assert_rows,
    cluster,
    produce,
    start_query,
    stream,
    write_metadata,
)

pytestmark = [pytest.mark.both_readers, pytest.mark.deep("a re-creation at each moment")]


def recreate(at: KafkaCluster, topic: str) -> Rows:
    """Delete a topic of cluster `a`, create it again, and return the rows of its 12 records."""
    at.delete_topic(topic)
    at.create_topic(topic)
    return produce("a", at, topic, 12, prefix="new")


class Story:
    """A query that has delivered offsets 0..4 of a topic, and finds five more records.

    Attributes:
        run: the query.
        before: the rows that it has delivered.
        after: the rows of the re-created topic, once there is one.
        ids: the ids of the old topic and of the new one.
    """

    def __init__(self, run: SourceRun, brokers: Brokers, orders: str) -> None:
        self.run, self._brokers, self._orders = run, brokers, orders
        self.before, self.after = produce("a", brokers.a, orders, 4), Rows()
        self.ids = [brokers.a.topic_id(orders)]
        run.until_rows(self.before)
        produce("a", brokers.a, orders, 5)

    def recreate(self) -> None:
        """Re-create the topic with 12 records: it has all offsets of the batch."""
        self.after = recreate(self._brokers.a, self._orders)
        self.ids.append(self._brokers.a.topic_id(self._orders))

    def recreate_before_reading(self, patch: pytest.MonkeyPatch) -> None:
        """Let the next batch's topic be re-created once its tasks are made."""
        enumerator = self.run.enumerator
        make = enumerator.tasks

        def tasks(start: Mapping[str, Any], end: Mapping[str, Any]) -> list[ReadTask]:
            made = make(start, end)
            self.recreate()
            return made

        patch.setattr(enumerator, "tasks", tasks)

    def recreate_while_reading(self, patch: pytest.MonkeyPatch) -> None:
        """Let the next range's topic be re-created when its last record has arrived."""
        batches = _RangeReader.batches

        def interrupted(reader: _RangeReader) -> Iterator[pa.RecordBatch]:
            yield from batches(reader)
            patch.setattr(_RangeReader, "batches", batches)
            self.recreate()

        patch.setattr(_RangeReader, "batches", interrupted)

    def next_task(self, *, fail: bool) -> ReadTask:
        """Plan the next batch, and return its task."""
        self.run.until(lambda: self.run.batch(crash="partitioned"), "a batch")
        [task] = self.run.tasks
        return replace(task, fail_on_data_loss=fail)

    def reports(self) -> list[tuple[str, object]]:
        """Return what executors reported about the last batch, as (kind, topic id)."""
        state, end = StateLocation(self.run.options["stateLocation"]), self.run.document
        return [(report.kind, report.content["topicId"]) for report in state.seen(end.query, fingerprint(end))]


@pytest.fixture
def story(brokers: Brokers, orders: str, path: Path) -> Iterator[Story]:
    """Yield a query that has one more batch to plan."""
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    with reading(path) as run:
        yield Story(run, brokers, orders)


def test_another_topic_before_reading_fails_the_batch(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.recreate_before_reading(monkeypatch)
    with pytest.raises(DataLossError) as lost:
        story.run.batch()
    old, new = story.ids
    message = str(lost.value)
    assert "4..9 is pending" in message and f"re-created (id {old}, now {new})" in message
    assert "abandon app.yaml a/orders" in message and "accept app.yaml --data-loss" in message
    assert_rows(story.run.rows(), story.before)

    # Once the loss is accepted, the new topic comes once, from its first record
    story.run.restart(failOnDataLoss="false")
    story.run.until_rows(story.before + story.after)


def test_with_losses_accepted_nothing_of_another_topic_is_read(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.run.restart(failOnDataLoss="false")
    story.recreate_before_reading(monkeypatch)
    assert story.run.batch()
    assert_rows(story.run.rows(), story.before)
    assert story.reports() == [("topic-id", saved_topic_id(story.ids[1]))]

    monkeypatch.undo()
    story.run.until_rows(story.before + story.after)


def test_a_range_is_left_out_if_its_topic_changes_meanwhile(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.run.restart(failOnDataLoss="false")
    story.recreate_while_reading(monkeypatch)
    assert story.run.batch()
    assert_rows(story.run.rows(), story.before)
    assert story.reports() == [("topic-id", saved_topic_id(story.ids[1]))]

    story.run.until_rows(story.before + story.after)


def test_a_change_after_the_first_rows_fails_the_attempt(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a range of several batches of rows
    monkeypatch.setattr(range_reader, "MAX_ROWS", 2)
    task = story.next_task(fail=False)
    story.recreate_while_reading(monkeypatch)

    # When the topic changes, then the attempt fails, and the next one reads nothing
    with pytest.raises(ClusterError, match=r"re-created while a/orders-.* 4\.\.9\b"):
        list(read(task))
    assert list(read(task)) == []
    assert story.reports() == [("topic-id", saved_topic_id(story.ids[1]))]


def test_a_change_while_reading_fails_with_both_ids(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    task = story.next_task(fail=True)
    story.recreate_while_reading(monkeypatch)
    with pytest.raises(DataLossError) as lost:
        list(read(task))
    assert all(topic_id in str(lost.value) for topic_id in story.ids)


def test_a_replay_obeys_a_report_despite_old_metadata(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a batch of which executors have read nothing, and that was not committed
    story.run.restart(failOnDataLoss="false")
    story.recreate_before_reading(monkeypatch)
    story.run.batch(crash="sunk")
    monkeypatch.undo()

    # When the replay meets only brokers that have the old topic's metadata
    describe, (old, new) = ClusterAdmin.describe_topics, map(saved_topic_id, story.ids)

    def outdated(admin: ClusterAdmin, names: list[str]) -> object:
        topics, missing = describe(admin, names)
        return {name: (old if id == new else id, parts) for name, (id, parts) in topics.items()}, missing

    monkeypatch.setattr(ClusterAdmin, "describe_topics", outdated)
    story.run.batch(crash="read")

    # Then it reads nothing either
    assert story.run.tasks == []
    monkeypatch.undo()
    story.run.until_rows(story.before + story.after)


def test_a_topic_that_was_deleted_after_reading_is_delivered(
    story: Story, brokers: Brokers, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = story.next_task(fail=True)
    monkeypatch.setattr(story, "recreate", lambda: brokers.a.delete_topic(orders))
    story.recreate_while_reading(monkeypatch)
    assert [row.offset for row in read(task)] == [4, 5, 6, 7, 8]


# -- through Spark -----------------------------------------------------------------------------------------------------


class InterruptedSink(Collected):
    """A `foreachBatch` sink that lets something happen once Spark has planned a batch, before it reads any of it.

    Attributes:
        attempts: {batch: the rows of each attempt}.
    """

    def __init__(self) -> None:
        super().__init__()
        self.attempts: dict[int, list[Rows]] = {}
        self.before_reading: Callable[[], object] | None = None
        self.dies = False

    def __call__(self, frame: DataFrame, batch: int) -> None:
        if self.before_reading is not None:
            self.before_reading()
            self.before_reading = None
        super().__call__(frame, batch)
        self.attempts.setdefault(batch, []).append(self.batches[batch])
        if self.dies:
            self.dies = False
            raise RuntimeError("the sink dies before the commit")


@pytest.fixture
def start(
    spark: SparkSession, brokers: Brokers, orders: str, path: Path
) -> Callable[[InterruptedSink, str], RunningQuery]:
    """Return a function that starts a query on the topics of two clusters, with a value of `failOnDataLoss`."""
    write_metadata(path, stream("orders", *(cluster(name, getattr(brokers, name), [orders]) for name in "ab")))
    options = {"streamIds": "orders", "metadataPath": path, "startingOffsets": "earliest"}
    options["stateLocation"] = path.parent / "state"

    def start(sink: InterruptedSink, fail_on_data_loss: str) -> RunningQuery:
        return start_query(spark, {**options, "failOnDataLoss": fail_on_data_loss}, path.parent, sink=sink)

    return start


def test_spark_fails_a_batch_whose_topic_is_another_one(
    start: Callable[[InterruptedSink, str], RunningQuery], brokers: Brokers, orders: str
) -> None:
    # Given a batch of both clusters, and a topic that is re-created once it is planned
    sink, old = InterruptedSink(), brokers.a.topic_id(orders)
    before = produce("a", brokers.a, orders, 4)
    with start(sink, "true") as run:
        run.wait_rows(before)
    produce("a", brokers.a, orders, 5)
    intact, new = produce("b", brokers.b, orders, 3), Rows()
    sink.before_reading = lambda: new.update(recreate(brokers.a, orders))

    # Then the query ends with both ids, and nothing of the batch is delivered
    with start(sink, "true") as run:
        run.wait_failed()
        lost = cause_of(run.query.exception())
    assert isinstance(lost, DataLossError)
    assert "4..9 is pending" in str(lost)
    assert f"re-created (id {old}, now {brokers.a.topic_id(orders)})" in str(lost)
    assert_rows(sink.rows(), before)

    # Once the loss is accepted, all records that exist come once
    with start(sink, "false") as run:
        run.wait_rows(before + intact + new)


def test_spark_repeats_a_batch_without_a_range_that_was_left_out(
    start: Callable[[InterruptedSink, str], RunningQuery], brokers: Brokers, orders: str
) -> None:
    # Given a batch of both clusters, of which executors leave one range out, and a sink that dies before the commit
    sink, new = InterruptedSink(), Rows()
    before = produce("a", brokers.a, orders, 4)
    with start(sink, "false") as run:
        run.wait_rows(before)
    produce("a", brokers.a, orders, 5)
    intact = produce("b", brokers.b, orders, 3)
    sink.before_reading, sink.dies = lambda: new.update(recreate(brokers.a, orders)), True
    with start(sink, "false") as run:
        assert "the sink dies before the commit" in run.wait_failed()
    assert_rows(sink.rows(), before + intact)

    # Then a restart repeats the batch, and reads the new topic after it, each record once
    with start(sink, "false") as run:
        run.wait_rows(before + intact + new)
    [repeated] = [rows for rows in sink.attempts.values() if len(rows) > 1]
    assert repeated == [intact, intact]
