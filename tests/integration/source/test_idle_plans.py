"""A query without news: what its plans ask the brokers, and a topic that is re-created meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.errors import DataLossError, TopicIntegrityError
from dynamic_kafka.kafka import probe
from dynamic_kafka.kafka.admin import ClusterAdmin
from tests.support.fixtures import Brokers
from tests.support.source_run import SourceRun, reading
from tests.support.streams import Rows, assert_rows, cluster, produce, stream, write_metadata

pytestmark = pytest.mark.deep("what plans without news ask for")


class Story:
    """A query that has delivered the five records of a topic.

    Attributes:
        asked: the requests to the cluster since then.
    """

    def __init__(self, run: SourceRun, brokers: Brokers, orders: str) -> None:
        self.run, self._brokers, self._orders = run, brokers, orders
        self.before = produce("a", brokers.a, orders, 5)
        run.until_rows(self.before)
        self.asked: list[str] = []

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Note the requests from now on."""
        for name in ("kafka_id", "describe_topics", "offsets"):
            patch.setattr(ClusterAdmin, name, self._noted(name, getattr(ClusterAdmin, name)))

    def _noted(self, name: str, call: Any) -> Any:
        def noted(*args: Any, **named: Any) -> Any:
            self.asked.append(name)
            return call(*args, **named)

        return noted

    def recreate(self) -> Rows:
        """Re-create the topic with as many records, and return them."""
        self._brokers.a.delete_topic(self._orders)
        self._brokers.a.create_topic(self._orders)
        return self.produce(5)

    def produce(self, count: int) -> Rows:
        """Write more records, and return them."""
        return produce("a", self._brokers.a, self._orders, count, prefix="new")


@pytest.fixture
def story(brokers: Brokers, orders: str, path: Path) -> Iterator[Story]:
    """Yield a query without news, which looks for new partitions once an hour."""
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    with reading(path, partitionDiscoveryInterval="1h") as run:
        yield Story(run, brokers, orders)


def test_an_idle_plan_asks_for_ends_and_the_clusters_id(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not story.run.batch()
    story.watch(monkeypatch)
    assert not any(story.run.batch() for _ in range(3))
    assert story.asked == ["kafka_id", "offsets"] * 3

    # Once there is news, its plan compares the ids
    story.produce(1)
    story.asked.clear()
    assert story.run.batch()
    assert story.asked[:3] == ["kafka_id", "offsets", "describe_topics"]


def test_a_topic_recreated_between_idle_plans_is_not_read(story: Story) -> None:
    # Given a topic that was re-created with the same ends, and idle plans that do not see it
    after = story.recreate()
    assert not story.run.batch()

    # When it has news, then the query fails before it reads anything
    after += story.produce(1)
    assert "the topic was re-created" in story.run.until_fails(DataLossError)
    assert_rows(story.run.rows(), story.before)
    story.run.restart(failOnDataLoss="false")
    story.run.until_rows(story.before + after)


def test_idle_plans_find_a_recreated_topic_after_a_time(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.recreate()
    assert not story.run.batch()
    monkeypatch.setattr(probe, "RECHECK_S", 0.0)
    with pytest.raises(DataLossError, match="the topic was re-created"):
        story.run.batch()


@pytest.mark.parametrize("pinned", [False, True], ids=["option", "pin"])
def test_idle_plans_compare_the_ids_of_checked_topics(brokers: Brokers, orders: str, path: Path, pinned: bool) -> None:
    pins = {"topicIds": {orders: brokers.a.topic_id(orders)}} if pinned else {}
    write_metadata(path, stream("orders", {**cluster("a", brokers.a, [orders]), **pins}))
    with reading(path, partitionDiscoveryInterval="1h", topicIntegrityCheck=not pinned) as run:
        story = Story(run, brokers, orders)
        assert not run.batch()
        story.recreate()
        with pytest.raises(TopicIntegrityError, match="was re-created"):
            run.batch()
