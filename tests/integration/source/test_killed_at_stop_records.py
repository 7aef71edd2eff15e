"""Processes that are killed with -9 around a stop record: workers, drivers, and one of two executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.integration.source.evaluators import END
from tests.integration.source.killed_story import KilledStory
from tests.support.fixtures import Brokers
from tests.support.object_store import object_store
from tests.support.streams import Row, Rows, assert_rows, last_document

pytestmark = pytest.mark.deep("a kill at each step")

# Each driver takes its time to start: CI has a job that runs these with the reader in Python.


STEPS = ("before the report", "after the report", "before the last document", "after the last document")


class Story(KilledStory):
    """A query that ends at stop records."""

    def spread(self, partitions: int) -> Rows:
        """Give the topic of cluster `a` so many partitions, each with a record and a stop record. Return the rows."""
        at = self.brokers.a
        at.create_partitions(self.topic, partitions)
        producer = Producer({"bootstrap.servers": at.bootstrap})
        for partition in range(partitions):
            for value in ("first", END):
                producer.produce(self.topic, value, partition=partition)
        assert producer.flush(30) == 0
        return Rows(Row("a", self.topic, partition, 0, "first") for partition in range(partitions))

    def ends(self) -> dict[tuple[str, int], int]:
        """Return the stop records in the last document, which says that the query is over."""
        document = last_document(self.folder / "query-checkpoint")
        assert document is not None and document.over
        topics = {name: progress.topics[self.topic] for name, progress in document.clusters.items()}
        assert all(topic.ended == topic.next for topic in topics.values())
        return {(name, p): offset for name, topic in topics.items() for p, offset in topic.ended.items()}


@pytest.fixture
def story(tmp_path: Path, brokers: Brokers, orders: str) -> Iterator[Story]:
    yield Story(tmp_path, brokers, orders, recordEvaluator="tests.integration.source.evaluators:is_end")


@pytest.mark.sampled
@pytest.mark.parametrize("steps", [STEPS[:2], STEPS[2:]], ids=lambda steps: steps[0])
def test_drivers_killed_at_each_step_change_no_row(story: Story, steps: tuple[str, ...]) -> None:
    story.name("a", "b")
    wanted = story.produce("a", 7, end=True) + story.produce("b", 2, end=True)

    # Given one query whose driver is killed at one step after the other
    for step in steps:
        story.kill(f"driver {step}")
        with story.start("local[2,4]") as driver:
            driver.wait_until(story.killed.exists, f"the kill {step}")

    # Then the next driver ends by itself with exactly the rows before the stop records
    with story.start("local[2,4]") as last:
        last.wait_until((story.folder / "ended").exists, "the end of the query")
    assert_rows(story.rows(), wanted)
    assert story.ends() == {("a", 0): 7, ("b", 0): 2}


@pytest.mark.sampled
@pytest.mark.parametrize("step", STEPS[:2])
def test_processes_killed_at_reports_by_value_change_no_row(
    tmp_path: Path, brokers: Brokers, orders: str, step: str
) -> None:
    # Given a query whose clock goes by values, with several batches behind it
    evaluators = "tests.integration.source.evaluators"
    clock = {"watermarkAlignmentMaxDrift": "2s", "idleTimeout": "1ms"}
    options = {"recordEvaluator": f"{evaluators}:is_end", "timestampAssigner": f"{evaluators}:seconds_of_number"}
    story = Story(tmp_path, brokers, orders, **options, **clock)
    story.name("a", "b")
    wanted = story.produce("a", 7) + story.produce("b", 3)
    with story.start("local[2,4]") as driver:
        driver.wait_until(lambda: story.rows() == wanted, "the first rows")

        # When a worker is killed around its report, and then the driver
        story.kill(f"worker {step}")
        wanted += story.produce("a", 6)
        driver.wait_until(lambda: story.rows() == wanted, "the rows of the next attempt")
        assert story.killed.exists()
        story.kill(f"driver {step}")
        wanted += story.produce("a", 5, end=True) + story.produce("b", 17, end=True)
        driver.wait_until(story.killed.exists, f"the kill {step}")

    # Then the next driver ends by itself, and each row came once
    with story.start("local[2,4]") as last:
        last.wait_until((story.folder / "ended").exists, "the end of the query")
    assert_rows(story.rows(), wanted)
    assert story.ends() == {("a", 0): 18, ("b", 0): 20}


def test_workers_killed_at_the_report_change_no_row(story: Story) -> None:
    # The reports go to an object store here: a write to one ends otherwise than a write to a folder
    with object_store() as store:
        story.keep_state_in(store)
        _kill_workers_at_the_report(story)


def _kill_workers_at_the_report(story: Story) -> None:
    story.name("a", "b")
    wanted = story.produce("a", 7, end=True) + story.produce("b", 1)
    story.kill("worker before the report")
    with story.start("local[2,4]") as driver:
        # Given a worker that is killed before it reports a stop record, and another one after it
        driver.wait_until(story.killed.exists, "the kill before the report")
        driver.wait_until(lambda: story.rows() == wanted, "the rows of the next attempt")
        story.kill("worker after the report")
        wanted += story.produce("b", 2, end=True)

        # Then the query ends by itself with exactly the rows before the stop records
        driver.wait_until((story.folder / "ended").exists, "the end of the query")
    assert story.killed.exists()
    assert_rows(story.rows(), wanted)
    assert story.ends() == {("a", 0): 7, ("b", 0): 3}


def test_a_worker_killed_within_a_shared_task_changes_no_row(story: Story) -> None:
    # Given ranges that share tasks in pairs, and a worker that is killed in the second one of a pair
    story.name("a")
    (story.folder / "shared").touch()
    wanted = story.spread(4)
    story.kill(f"worker in the middle of a/{story.topic}[1]")

    # Then the whole task is repeated, and each row comes once
    with story.start("local[2,4]") as last:
        last.wait_until((story.folder / "ended").exists, "the end of the query")
    assert_rows(story.rows(), wanted)
    reads = [read["split"] for read in story.reads()]
    assert [reads.count(f"a/{story.topic}[{partition}]") for partition in range(2)] == [2, 2]


@pytest.mark.scenario(14)
@pytest.mark.scenario(26)
@pytest.mark.scenario(29)
@pytest.mark.scenario(30)
def test_two_executors_one_of_them_lost_amid_a_range(
    story: Story, record_property: Callable[[str, object], None]
) -> None:
    # Given two executors that read two clusters
    story.name("a", "b")
    wanted = story.produce("a", 5) + story.produce("b", 5)
    with story.start("local-cluster[2,1,1024]") as driver:
        driver.wait_until(lambda: story.rows() == wanted, "the first rows")

        # When a cluster and partitions are added, then both executors read, and each range is read once
        story.held.touch()
        read = len(story.reads())
        splits = [(name, partition) for name in "abc" for partition in range(3)]
        for name in "abc":
            getattr(story.brokers, name).create_partitions(story.topic, 3)
        story.name("a", "b", "c")
        wanted += sum((story.produce(name, 5, partition=p) for name, p in splits), start=Rows())
        story.held.unlink()
        driver.wait_until(lambda: story.rows() == wanted, "the added splits")
        added = story.reads()[read:]
        both = {reading["executor"] for reading in added}
        assert len(both) == 2
        assert len({(reading["split"], reading["start"]) for reading in added}) == len(added)

        # When one of them is lost in the middle of a range with a stop record in it
        story.held.touch()
        read = len(story.reads())
        story.kill(f"executor in the middle of a/{story.topic}[0]")
        wanted += story.produce("a", 20, end=True) + story.produce("b", 5)
        story.held.unlink()
        driver.wait_until(story.killed.exists, "the kill")

        # Then another executor reads the whole range, and no row is missing or doubled
        driver.wait_until(lambda: story.rows() == wanted, "the rows of the lost range")
        first, *again = [reading for reading in story.reads()[read:] if reading["split"] == f"a/{story.topic}[0]"]
        assert again and all(reading["start"] == first["start"] for reading in again)
        assert again[-1]["executor"] != first["executor"]
        record_property("reopened_s", round(float(str(again[-1]["at"])) - story.killed.stat().st_mtime, 2))

        # And an executor that joins late gets work
        def newcomer_reads() -> bool:
            nonlocal wanted
            if story.rows() == wanted:
                wanted += sum((story.produce(name, 1, partition=p) for name, p in splits[1:]), start=Rows())
            return not {reading["executor"] for reading in story.reads()} <= both

        driver.wait_until(newcomer_reads, "work for the new executor")

        # And the query ends by itself once all splits have ended
        wanted += sum((story.produce(name, 2, partition=p, end=True) for name, p in splits[1:]), start=Rows())
        driver.wait_until((story.folder / "ended").exists, "the end of the query")
    assert_rows(story.rows(), wanted)
    assert story.ends().keys() == set(splits) and story.ends()["a", 0] == 30
