"""Processes that are killed with -9 around a stop record: workers, drivers, and one of two executors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyspark
import pytest

from tests.integration.source.evaluators import END
from tests.support.driver_process import DriverProcess
from tests.support.fixtures import Brokers
from tests.support.streams import (
    Rows,
    assert_rows,
    cluster,
    last_document,
    parquet_rows,
    produce,
    stream,
    write_metadata,
)

DRIVER = """
import os
import sys
from pathlib import Path

from dynamic_kafka import stop_when_finished
from tests.integration.source.killed_source import KilledSource
from tests.support.spark import start_spark

story, master, options = Path(sys.argv[1]), sys.argv[2], dict(pair.split("=", 1) for pair in sys.argv[3:])
spark = start_spark("killed", {"spark.master": master, "spark.executor.memory": "512m"})
(story / "driver").write_text(str(os.getpid()))
spark.dataSource.register(KilledSource)
frame = spark.readStream.format("dynamic-kafka").options(**options).load()
writer = frame.writeStream.format("parquet").option("path", str(story / "rows"))
writer = writer.option("checkpointLocation", str(story / "checkpoint"))
query = writer.trigger(processingTime="100 milliseconds").start()
assert stop_when_finished(query)
(story / "ended").touch()
"""


class Story:
    """One query, whose processes can be killed. Its files are in one folder, as `killed_source` wants them."""

    def __init__(self, folder: Path, brokers: Brokers, topic: str) -> None:
        self.folder, self.brokers, self.topic = folder, brokers, topic
        self.killed, self.held = folder / "killed", folder / "held"
        self._drivers = 0
        self.kill("nobody")

    def name(self, *clusters: str) -> None:
        """Let metadata name these clusters."""
        named = (cluster(each, getattr(self.brokers, each), [self.topic]) for each in clusters)
        write_metadata(self.folder / "streams.json", stream("orders", *named))

    def kill(self, what: str) -> None:
        """Name the process to kill once, and its step."""
        (self.folder / "kill").write_text(what)

    def produce(self, cluster_id: str, count: int, *, partition: int = 0, end: bool = False) -> Rows:
        """Send records, with `end` the record that ends the split and three more. Return the rows that they become."""
        at = getattr(self.brokers, cluster_id)
        rows = produce(cluster_id, at, self.topic, count, partition=partition)
        if end:
            at.produce(self.topic, [END, "late", "late", "late"], partition=partition)
        return rows

    def start(self, master: str) -> DriverProcess:
        """Start a driver. The executors of `local-cluster` run in a folder of the story, not in the package's."""
        home = self.folder / "spark-home"
        home.mkdir(exist_ok=True)
        if not self._drivers:
            for part in Path(pyspark.__file__).parent.iterdir():
                (home / part.name).symlink_to(part)
        self._drivers += 1
        options = {
            "streamIds": "orders",
            "metadataPath": self.folder / "streams.json",
            "metadataDiscoveryInterval": "200ms",
            "startingOffsets": "earliest",
            "stateLocation": self.folder / "state",
            "recordEvaluator": "tests.integration.source.evaluators:is_end",
        }
        given = [str(self.folder), master, *(f"{name}={value}" for name, value in options.items())]
        log = self.folder / f"driver-{self._drivers}.log"
        return DriverProcess(DRIVER, given, log, environment={"SPARK_HOME": str(home)})

    def rows(self) -> Rows:
        return parquet_rows(self.folder / "rows") if (self.folder / "rows" / "_spark_metadata").exists() else Rows()

    def reads(self) -> list[Mapping[str, object]]:
        """All attempts to read a range so far."""
        found = self.folder / "reads"
        return [json.loads(line) for line in found.read_text().splitlines()] if found.exists() else []

    def ends(self) -> dict[tuple[str, int], int]:
        """Return the stop records in the last document, which says that the query is over."""
        document = last_document(self.folder / "checkpoint")
        assert document is not None and document.over
        topics = {name: progress.topics[self.topic] for name, progress in document.clusters.items()}
        assert all(topic.ended == topic.next for topic in topics.values())
        return {(name, p): offset for name, topic in topics.items() for p, offset in topic.ended.items()}


@pytest.fixture
def story(tmp_path: Path, brokers: Brokers, orders: str) -> Iterator[Story]:
    yield Story(tmp_path, brokers, orders)


KILLS = [
    "worker before the report",
    "worker after the report",
    "driver before the report",
    "driver after the report",
    "driver before the last document",
    "driver after the last document",
]


@pytest.mark.parametrize("kill", KILLS)
def test_a_killed_process_changes_no_row(story: Story, kill: str) -> None:
    # Given a process that is killed at one step, once
    story.name("a", "b")
    wanted = story.produce("a", 7, end=True) + story.produce("b", 2, end=True)
    story.kill(kill)
    if kill.startswith("driver"):
        with story.start("local[2,4]") as first:
            first.wait_until(story.killed.exists, "the kill")

    # Then the next attempt, or the next driver, ends by itself with exactly the rows before the stop records
    with story.start("local[2,4]") as last:
        last.wait_until((story.folder / "ended").exists, "the end of the query")
    assert story.killed.exists()
    assert_rows(story.rows(), wanted)
    assert story.ends() == {("a", 0): 7, ("b", 0): 2}


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
        both = {each["executor"] for each in added}
        assert len(both) == 2
        assert len({(each["split"], each["start"]) for each in added}) == len(added)

        # When one of them is lost in the middle of a range with a stop record in it
        story.held.touch()
        read = len(story.reads())
        story.kill(f"executor in the middle of a/{story.topic}[0]")
        wanted += story.produce("a", 20, end=True) + story.produce("b", 5)
        story.held.unlink()
        driver.wait_until(story.killed.exists, "the kill")

        # Then another executor reads the whole range, and no row is missing or doubled
        driver.wait_until(lambda: story.rows() == wanted, "the rows of the lost range")
        first, *again = [each for each in story.reads()[read:] if each["split"] == f"a/{story.topic}[0]"]
        assert again and all(each["start"] == first["start"] for each in again)
        assert again[-1]["executor"] != first["executor"]
        record_property("reopened_s", round(float(str(again[-1]["at"])) - story.killed.stat().st_mtime, 2))

        # And an executor that joins late gets work
        def newcomer_reads() -> bool:
            nonlocal wanted
            if story.rows() == wanted:
                wanted += sum((story.produce(name, 1, partition=p) for name, p in splits[1:]), start=Rows())
            return not {each["executor"] for each in story.reads()} <= both

        driver.wait_until(newcomer_reads, "work for the new executor")

        # And the query ends by itself once all splits have ended
        wanted += sum((story.produce(name, 2, partition=p, end=True) for name, p in splits[1:]), start=Rows())
        driver.wait_until((story.folder / "ended").exists, "the end of the query")
    assert_rows(story.rows(), wanted)
    assert story.ends().keys() == set(splits) and story.ends()["a", 0] == 30
