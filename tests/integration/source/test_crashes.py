"""A crash at any step between planning and commit neither loses nor duplicates a record.

Tests without Spark crash at each exact step, with and without metadata changes. Tests with Spark crash it in two ways:
a sink that fails after it has written the batch, and SIGKILL to a driver that writes Parquet.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from dynamic_kafka.errors import OptionError
from dynamic_kafka.planning.document.progress import OffsetDocument
from tests.support.driver_process import DriverProcess
from tests.support.fixtures import Brokers, Topic
from tests.support.places import ROOT
from tests.support.source_run import CRASH_POINTS, CrashPoint, read, reading
from tests.support.spark import spark_environment
from tests.support.streams import (
    Collected,
    Rows,
    assert_rows,
    cluster,
    last_batch,
    last_document,
    next_offsets,
    parked_offsets,
    parquet_rows,
    produce,
    start_query,
    stream,
    write_metadata,
)

DEEP = pytest.mark.deep("a crash at each step")

DRIVER = """
import json, sys
from pathlib import Path
from tests.support.spark import start_spark
from tests.support.streams import start_query

run = start_query(start_spark("to be killed"), json.loads(sys.argv[1]), Path(sys.argv[2]), sink="parquet")
run.query.awaitTermination()
"""
EXECUTOR = """
import pickle, sys
from tests.support.source_run import read

rows = [row for task in pickle.load(sys.stdin.buffer) for row in read(task)]
sys.stdout.buffer.write(pickle.dumps(rows))
"""


@pytest.fixture
def orders(brokers: Brokers, topic: Topic) -> str:
    """Create a topic of two partitions on each of the three clusters."""
    name = topic("orders")
    for at in brokers:
        at.create_topic(name, 2)
    return name


# -- every step, without Spark -----------------------------------------------------------------------------------------


@DEEP
@pytest.mark.sampled
@pytest.mark.parametrize("first_batch", [True, False], ids=["in the first batch", "in a later batch"])
@pytest.mark.parametrize("point", CRASH_POINTS)
def test_after_a_crash_every_record_is_delivered_once(
    brokers: Brokers, orders: str, path: Path, point: CrashPoint, first_batch: bool
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])))
    wanted = produce("a", brokers.a, orders, 6) + produce("b", brokers.b, orders, 4, partition=1)
    with reading(path, maxOffsetsPerTrigger=7) as run:
        if not first_batch:
            run.batch()
        run.batch(crash=point)
        wanted += produce("a", brokers.a, orders, 5, partition=1)
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 6, 1: 5}, ("b", orders): {0: 0, 1: 4}}
        assert run.report()["document"] == run.document.number == len(run.offsets)


@DEEP
@pytest.mark.sampled
@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_crash_while_a_cluster_is_removed_loses_nothing(
    brokers: Brokers, orders: str, path: Path, point: CrashPoint, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", a, b))
    first_a, first_b = produce("a", brokers.a, orders, 6), produce("b", brokers.b, orders, 4)
    with reading(path) as run:
        run.batch(crash=point)
        write_metadata(path, stream("orders", b))
        delivered = first_a + first_b if point in ("sunk", "committed") else first_b
        run.until_rows(delivered)
        run.until(lambda: run.next.keys() == {("b", orders)}, "only b to be read")
        if point != "planned":  # without a saved offset, no split is parked
            assert run.parked == {("a", orders): {0: 6 if point == "committed" else 0, 1: 0}}
        more_a, more_b = produce("a", brokers.a, orders, 3), produce("b", brokers.b, orders, 3)
        write_metadata(path, stream("orders", a, b))
        # Exactly once at all points but one: a batch in the sink that Spark had not committed is replayed, as logged.
        pending = Rows() if point == "committed" else first_a
        run.until_rows(delivered + pending + more_a + more_b)
        assert ("possibly delivered by" in caplog.text) == (point not in ("planned", "committed"))

        assert run.next == {("a", orders): {0: 9, 1: 0}, ("b", orders): {0: 7, 1: 0}}
        assert set(run.report()["clusters"]) == {"a", "b"}


def test_repeated_crashes_while_clusters_are_added_lose_nothing(brokers: Brokers, orders: str, path: Path) -> None:
    known = [cluster(name, at, [orders]) for name, at in zip("abc", brokers, strict=True)]
    wanted = Rows()
    with reading(path, maxOffsetsPerTrigger=5) as run:
        for turn, point in enumerate((*CRASH_POINTS, *reversed(CRASH_POINTS))):
            write_metadata(path, stream("orders", *known[: 1 + turn // 5]))
            for name, at in zip("abc", brokers, strict=True):
                wanted += produce(name, at, orders, 2, partition=turn % 2)
            run.batch(crash=point)
        run.until_rows(wanted)

        assert run.next == {(name, orders): {0: 14, 1: 14} for name in "abc"}
        assert run.parked == {}
        assert all(reported["lag"] == 0 for reported in run.report()["clusters"].values())


@DEEP
def test_an_unwritable_amendment_stops_the_query_before_reading(brokers: Brokers, orders: str, path: Path) -> None:
    a, b = cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", a, b))
    of_a, of_b = produce("a", brokers.a, orders, 4), produce("b", brokers.b, orders, 4)
    with reading(path) as run:
        run.batch(crash="logged")
        write_metadata(path, stream("orders", b))
        [query] = (path.parent / "state").iterdir()
        blocked = query / "amendments"
        blocked.write_text("a file where the folder should be")
        with pytest.raises(OptionError, match=r"stateLocation: .*/amendments cannot be read"):
            run.batch()
        assert (run.rows(), len(run.offsets)) == (Rows(), 1)
        blocked.unlink()
        run.restart()
        run.until_rows(of_b)
        write_metadata(path, stream("orders", a, b))
        run.until_rows(of_a + of_b)

        assert run.next == {("a", orders): {0: 4, 1: 0}, ("b", orders): {0: 4, 1: 0}}


@DEEP
@pytest.mark.scenario(22)
def test_a_failed_task_is_read_again_from_the_same_offset(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    produce("a", brokers.a, orders, 10)
    wanted = produce("a", brokers.a, orders, 10)
    with reading(path, startingOffsets=json.dumps({"a": {orders: {"0": 10, "1": 0}}})) as run:
        run.batch(crash="partitioned")
        [task] = run.tasks
        attempt = read(task)
        for _ in range(4):
            next(attempt)
        attempt.close()

        assert_rows(Rows(read(task)), wanted)
        run.until_rows(wanted)
        assert run.next == {("a", orders): {0: 20, 1: 0}}
        assert run.report()["clusters"]["a"]["lag"] == 0


@pytest.mark.scenario(15)
def test_the_driver_plans_before_an_executor_exists(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])))
    wanted = produce("a", brokers.a, orders, 6) + produce("b", brokers.b, orders, 4)
    with reading(path) as run:
        run.batch(crash="partitioned")
        assert run.next == {("a", orders): {0: 6, 1: 0}, ("b", orders): {0: 4, 1: 0}}
        run.stop()

        # An executor that starts after the plan, and has only its tasks.
        late = subprocess.run(
            [sys.executable, "-c", EXECUTOR],
            input=pickle.dumps(run.tasks),
            capture_output=True,
            cwd=ROOT,
            env=os.environ | spark_environment(),
            check=True,
            timeout=60,
        )
        assert_rows(Rows(pickle.loads(late.stdout)), wanted)
        assert b"Error" not in late.stderr


# -- on Spark ----------------------------------------------------------------------------------------------------------


def test_a_batch_written_but_not_committed_is_replayed_exactly(
    spark: SparkSession, brokers: Brokers, orders: str, tmp_path: Path, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])))
    wanted = produce("a", brokers.a, orders, 20) + produce("b", brokers.b, orders, 20)
    options = {
        "streamIds": "orders",
        "metadataPath": path,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": 16,
    }

    class FailsAfter(Collected):
        """A sink that fails after it has taken a batch; at the second attempt it compares both."""

        def __call__(self, frame: DataFrame, batch: int) -> None:
            before = self.batches.get(batch)
            super().__call__(frame, batch)
            if before is None and batch < 2:
                raise RuntimeError("the sink failed after it had the batch")
            assert before in (None, self.batches[batch]), "a replay differs from the first attempt"

    sink = FailsAfter()
    for _ in range(2):
        with start_query(spark, options, tmp_path, sink=sink) as query:
            assert "the sink failed after it had the batch" in query.wait_failed()
        wanted += produce("a", brokers.a, orders, 5, partition=1)
    with start_query(spark, options, tmp_path, sink=sink) as query:
        query.wait_rows(wanted)

        assert next_offsets(query.document()) == {("a", orders): {0: 20, 1: 10}, ("b", orders): {0: 20, 1: 0}}
        report = query.wait_report(bool, "a report")
        assert report["clusters"].keys() == {"a", "b"}


@pytest.mark.timeout(600)  # three drivers start, perhaps on a busy machine
def test_three_kills_of_the_driver_lose_and_repeat_nothing(
    spark: SparkSession, brokers: Brokers, orders: str, tmp_path: Path, path: Path
) -> None:
    a, b, c = (cluster(name, at, [orders]) for name, at in zip("abc", brokers, strict=True))
    write_metadata(path, stream("orders", a, b))
    wanted = produce("a", brokers.a, orders, 900) + produce("b", brokers.b, orders, 900, partition=1)
    options = {
        "streamIds": "orders",
        "metadataPath": str(path),
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "450",
        "metadataDiscoveryInterval": "500ms",
        "stateLocation": str(tmp_path / "state"),
    }
    checkpoint, output = tmp_path / "query-checkpoint", tmp_path / "query-output"

    def planned() -> int:
        return last_batch(checkpoint / "offsets")

    def committed() -> int:
        return last_batch(checkpoint / "commits")

    def last_saved() -> OffsetDocument:
        document = last_document(checkpoint)
        assert document is not None
        return document

    def killed(when: Callable[[], bool], what: str) -> None:
        with DriverProcess(DRIVER, [json.dumps(options), str(tmp_path)], tmp_path / "driver.log") as driver:
            driver.wait_until(when, what)

    killed(lambda: planned() >= 1 and planned() > committed(), "a batch in flight")
    before = committed()
    write_metadata(path, stream("orders", a, b, c))
    wanted += produce("c", brokers.c, orders, 300)
    killed(lambda: committed() > before, "a commit")
    # A cluster with ranges in the pending batch is removed while no driver runs.
    write_metadata(path, stream("orders", b, c))
    wanted += produce("b", brokers.b, orders, 300)
    before = planned()
    killed(lambda: planned() >= before + 2, "plans without it")
    assert ("a", orders) not in next_offsets(last_saved())
    write_metadata(path, stream("orders", a, b, c))
    last = start_query(spark, options, tmp_path, sink="parquet", trigger={"availableNow": True})
    last.query.awaitTermination()

    assert last.error() == ""
    assert_rows(parquet_rows(output), wanted)
    assert next_offsets(last.document()) == {
        ("a", orders): {0: 900, 1: 0},
        ("b", orders): {0: 300, 1: 900},
        ("c", orders): {0: 300, 1: 0},
    }
    assert parked_offsets(last.document()) == {}
    log = (tmp_path / "driver.log").read_text()
    assert re.search(rf"{orders!r} of cluster 'a' .*offsets are kept", log)
    assert "replaying batch of document" in log
