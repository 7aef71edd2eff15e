"""Processes that are killed with -9 around the verdict that a topic was re-created: workers, and drivers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dynamic_kafka import cause_of
from dynamic_kafka.errors import TopicIntegrityError
from dynamic_kafka.metadata.topic_ids import saved_topic_id
from dynamic_kafka.planning.sameness.integrity import TopicChange, integrity_error
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.state.verdicts import saved_changes
from tests.integration.source.killed_story import KilledStory
from tests.support.fixtures import Brokers
from tests.support.object_store import object_store
from tests.support.streams import Rows, last_document, produce, start_query

pytestmark = pytest.mark.deep("a kill at each step")


class Story(KilledStory):
    """A query whose topics are checked."""

    def __init__(self, folder: Path, brokers: Brokers, topic: str) -> None:
        super().__init__(folder, brokers, topic, topicIntegrityCheck="true")

    def id(self) -> str:
        """Return the id that the topic has on `a` now, as Kafka's tools print it."""
        return self.brokers.a.topic_id(self.topic)

    def verdicts(self) -> list[TopicChange]:
        """Return the recorded verdicts."""
        document = last_document(self.folder / "query-checkpoint")
        assert document is not None
        state = StateLocation(str(self.options["stateLocation"]))
        return list(saved_changes(state, document.query, "verdict").values())

    def ends_with(self, spark: SparkSession) -> str:
        """Start the next driver, and return the error of its query. One that needs a store's log-in is a process."""
        if self.environment:
            (self.folder / "failed").unlink()
            with self.start("local[2,4]") as driver:
                driver.wait_until(lambda: bool(self.failure()), "the end of the query")
            return self.failure()
        with start_query(spark, self.options, self.folder, sink="parquet") as query:
            text = query.wait_failed()
            ended = cause_of(query.query.exception())
        assert isinstance(ended, TopicIntegrityError), text
        return str(ended)

    def reads_on(self, spark: SparkSession, wanted: Rows) -> None:
        """Start another driver, which delivers these rows."""
        if self.environment:
            with self.start("local[2,4]") as driver:
                driver.wait_until(lambda: self.rows() == wanted, "the rows")
            return
        with start_query(spark, self.options, self.folder, sink="parquet") as query:
            query.wait_rows(wanted)


KILLS = [
    "worker before the executor's verdict",
    "worker after the executor's verdict",
    "driver before the executor's verdict",
    "driver after the executor's verdict",
    "driver before the planner's verdict",
    "driver after the planner's verdict",
]


IN_A_STORE = "worker after the executor's verdict"
"""The kill whose verdict is in an object store, not in a folder."""


@pytest.fixture
def story(tmp_path: Path, brokers: Brokers, orders: str, kill: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    made = Story(tmp_path, brokers, orders)
    if kill != IN_A_STORE:
        yield made
        return
    with object_store() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        made.keep_state_in(environment)
        yield made


@pytest.mark.timeout(600)
@pytest.mark.sampled
@pytest.mark.parametrize("kill", KILLS)
def test_a_killed_process_changes_no_verdict(spark: SparkSession, story: Story, kill: str) -> None:
    # Given a driver whose executor holds a range, or which plans nothing for a while
    brokers, orders = story.brokers, story.topic
    story.name("a", "b")
    story.kill(kill)
    wanted, old = story.produce("a", 4) + story.produce("b", 2), story.id()
    by_executor, by_worker = "executor" in kill, kill.startswith("worker")
    with story.start("local[2,4]") as first:
        first.wait_until(lambda: story.rows() == wanted, "the first rows")
        held = story.held_ranges if by_executor else story.held
        held.touch()
        if by_executor:
            story.produce("a", 5)
            wanted += story.produce("b", 3)
        first.wait_until(story.holding.exists, "the hold")

        # When the topic is created again meanwhile, and the process is killed that finds that out
        brokers.a.delete_topic(orders)
        brokers.a.create_topic(orders)
        wanted += produce("a", brokers.a, orders, 12, prefix="new")
        change = TopicChange("a", orders, str(saved_topic_id(old)), str(saved_topic_id(story.id())))
        held.unlink()
        first.wait_until(story.killed.exists, "the kill")
        if by_worker:  # the next attempt finds the same
            first.wait_until(lambda: bool(story.failure()), "the end of the query")
            assert story.failure() == str(integrity_error([change]))
    assert story.verdicts() == ([change] if by_worker or " after " in kill else [])

    # Then the next driver ends with these words
    assert story.ends_with(spark) == str(integrity_error([change]))
    assert story.verdicts() == [change]

    # And once the metadata name the new id, each row comes once
    story.name("a", "b", pins={"a": story.id()})
    story.reads_on(spark, wanted)
