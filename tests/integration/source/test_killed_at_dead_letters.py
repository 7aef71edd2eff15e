"""Processes that are killed with -9 after they have written dead letters: workers, and drivers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.source.killed_story import KilledStory
from tests.integration.source.test_dead_letters import COMPACTED, MODULE, produce_mixed
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka.dead_letters import dead_letters
from tests.support.streams import Rows, start_query

pytestmark = pytest.mark.deep("a kill at each step")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kill", ["worker after the letters", "driver after the letters"])
def test_a_killed_process_repeats_only_keys(
    *, spark: SparkSession, tmp_path: Path, brokers: Brokers, orders: str, topic: Topic, kill: str
) -> None:
    # Given a process that is killed once it has written its first dead letters
    dead = brokers.b.create_topic(topic("dead"), config=COMPACTED)
    home = json.dumps({"topic": dead, "cluster": "b", "kafkaId": brokers.b.kafka_id})
    refusing = {"recordDeserializer": f"{MODULE}:refuse_bad", "mode": "deadletter", "deadLetters": home}
    story = KilledStory(tmp_path, brokers, orders, **refusing)
    story.name("a", "b")
    story.kill(kill)
    wanted, letters = produce_mixed(brokers, orders)

    # When the next attempt, or the next driver, reads the batch again
    with story.start("local[2,4]") as first:
        first.wait_until(story.killed.exists, "the kill")
        if kill.startswith("worker"):
            first.wait_until(lambda: story.rows() == wanted, "the rows")
    if kill.startswith("driver"):
        assert story.rows() == Rows() and dead_letters(brokers.b, dead)
        with start_query(spark, story.options, story.folder, sink="parquet") as query:
            query.wait_rows(wanted)

    # Then each row came once, and the repeated letters have the keys and the contents of those before
    assert story.rows() == wanted
    arrived = dead_letters(brokers.b, dead)
    assert set(arrived) == letters and len(arrived) > len(letters)
