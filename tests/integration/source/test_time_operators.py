"""Spark's operators over three clusters agree with the same records in order: one lags by an hour, one joins late.

In the middle one cluster leaves the metadata and another one joins, and a batch fails before Spark has committed it.
Without alignment, the same operators lose rows.
"""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from dynamic_kafka import register
from tests.integration.source.simulated_spark import at, document
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import KafkaCluster, Record
from tests.support.spark_kafka import SPARK42_PYTHON
from tests.support.streams import RunningQuery

pytestmark = pytest.mark.deep("operators of Spark, with and without alignment")

T0 = 1_700_000_000_000
STEP_MS = 30_000
"""Time between two records of a cluster. A record has its own time as its value, and so it is the same on each."""
BEFORE = {"east": range(240), "west": range(120, 240)}
"""The numbers of the records before the migration. East begins an hour earlier, and has each record of west, too."""
AFTER = {"east": range(240, 300), "south": range(240, 300)}

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The only state store that `transformWithState` works with."""
Read = Callable[[], DataFrame]
Rows = list[tuple[Any, ...]]


class Operator(NamedTuple):
    """A stateful operator: its query, and what its output comes to.

    Attributes:
        frame: makes the query of the source's rows.
        result: makes of all rows of the output, in order, a multiset that must grow to `wanted`.
        wanted: makes it of the numbers of each cluster's records.
    """

    frame: Callable[[Read], DataFrame]
    mode: str
    result: Callable[[Rows], Counter[Any]]
    wanted: Callable[[dict[str, list[int]]], Counter[Any]]


def windows(read: Read) -> DataFrame:
    counts = read().groupBy(f.window("timestamp", "5 minutes")).count()
    return counts.select(f.col("window.start").cast("long") * 1000, "count")


def without_duplicates(read: Read) -> DataFrame:
    return read().dropDuplicatesWithinWatermark(["value"]).select(f.col("value").cast("string").cast("long"))


def joined(read: Read) -> DataFrame:
    same = "l.value = r.value AND l.kafka_cluster < r.kafka_cluster"
    at_once = "r.timestamp BETWEEN l.timestamp AND l.timestamp + INTERVAL 1 SECOND"
    pairs = read().alias("l").join(read().alias("r"), f.expr(f"{same} AND {at_once}"))
    return pairs.selectExpr("CAST(CAST(l.value AS STRING) AS LONG)")


def in_state(read: Read) -> DataFrame:
    class Count(StatefulProcessor):
        """Counts the rows of a window. It is a local class so that workers get its code, and do not import tests."""

        def init(self, handle: StatefulProcessorHandle) -> None:
            self.rows = handle.getValueState("rows", "rows long")

        def handleInputRows(self, key: tuple[int], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
            known = self.rows.get()[0] if self.rows.exists() else 0
            self.rows.update((known + sum(1 for _ in rows),))
            yield Row(start=key[0], count=self.rows.get()[0])

        def close(self) -> None:
            pass

    rows = read().withColumn("start", f.window("timestamp", "5 minutes").start.cast("long") * 1000)
    rows.sparkSession.conf.set(STATE_STORE, ROCKS_DB)
    return rows.groupBy("start").transformWithState(Count(), "start long, count long", "update", "eventTime")


def time_ms(number: int) -> int:
    return T0 + number * STEP_MS


def in_windows(records: dict[str, list[int]]) -> Counter[Any]:
    return Counter(time_ms(number) // 300_000 * 300_000 for numbers in records.values() for number in numbers)


def both(records: dict[str, list[int]]) -> Counter[Any]:
    others = (number for name, numbers in records.items() if name != "east" for number in numbers)
    return Counter(time_ms(number) for number in others if number in records["east"])


HAS_OWN_STATE = os.environ.get("SEEDS") == "all"
OWN_STATE = pytest.mark.skipif(
    not HAS_OWN_STATE,
    reason="SEEDS=all runs it: Spark starts several Python workers for it, which took more than a minute on busy cores",
)
OPERATORS = {
    "windows": Operator(windows, "update", lambda rows: Counter(dict(rows)), in_windows),
    "own state": Operator(in_state, "update", lambda rows: Counter(dict(rows)), in_windows),
    "without duplicates": Operator(
        without_duplicates,
        "append",
        lambda rows: Counter(row[0] for row in rows),
        lambda records: Counter({time_ms(number) for numbers in records.values() for number in numbers}),
    ),
    "join": Operator(joined, "append", lambda rows: Counter(row[0] for row in rows), both),
}
NAMED = [pytest.param(name, marks=OWN_STATE if name == "own state" else ()) for name in OPERATORS]


class Story:
    """A query with an operator, over clusters that come and go."""

    def __init__(self, spark: SparkSession, folder: Path, operator: Operator, *, aligned: bool) -> None:
        register(spark)
        self.spark, self.operator, self.folder = spark, operator, folder
        self.metadata = folder / "streams.json"
        self.options = {
            "streamIds": "orders",
            "metadataPath": str(self.metadata),
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "60",
            **({"watermarkAlignmentMaxDrift": "1m"} if aligned else {}),
        }
        self.batches: dict[int, Rows] = {}
        self.fails_at = -1

    def start(self) -> RunningQuery:
        """Start the query, or start it again."""

        def read() -> DataFrame:
            frame = self.spark.readStream.format("dynamic-kafka").options(**self.options).load()
            return frame.withWatermark("timestamp", "1 minute")

        def deliver(batch: DataFrame, number: int) -> None:
            self.batches[number] = [tuple(row) for row in batch.collect()]
            if number == self.fails_at:
                raise RuntimeError("killed")

        checkpoint = self.folder / "checkpoint"
        writer = self.operator.frame(read).writeStream.outputMode(self.operator.mode).foreachBatch(deliver)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="100 milliseconds")
        return RunningQuery(writer.start(), checkpoint, None, self.folder)

    def result(self) -> Counter[Any]:
        """Return what the output comes to so far."""
        return self.operator.result([row for number in sorted(self.batches) for row in self.batches[number]])


def produce(broker: KafkaCluster, name: str, numbers: range) -> None:
    times = map(time_ms, numbers)
    broker.produce(name, [Record(b"%d" % time, partition=0, timestamp_ms=time) for time in times])


@pytest.fixture(scope="module", autouse=True)
def own_state_packages(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Lend the packages that `transformWithState` needs. The other Spark's environment has them, this one has not."""
    if not HAS_OWN_STATE:
        yield
        return
    lent = tmp_path_factory.mktemp("lent")
    packages = next(SPARK42_PYTHON.parent.parent.glob("lib/python*/site-packages"), None)
    assert packages is not None, "make setup-spark42"
    for package in ("pandas", "numpy", "numpy.libs", "dateutil", "pytz", "six.py", "google"):
        if (packages / package).exists():
            (lent / package).symlink_to(packages / package)
    with pytest.MonkeyPatch.context() as patches:
        patches.syspath_prepend(lent)
        patches.setitem(spark.sparkContext.environment, "PYTHONPATH", str(lent))
        importlib.import_module("pandas")  # before a test: what a test imports is forgotten, and numpy loads only once
        yield


@pytest.fixture(autouse=True)
def default_state_store(spark: SparkSession) -> Iterator[None]:
    """Take back the state store that an operator has set."""
    yield
    spark.conf.unset(STATE_STORE)


@pytest.fixture
def name(brokers: Brokers, topic: Topic) -> str:
    """A topic of the clusters east (`a`) and west (`b`), with the records before the migration."""
    name = topic("orders")
    for broker, numbers in zip(brokers, BEFORE.values(), strict=False):
        broker.create_topic(name, 1, {"retention.ms": "-1"})
        produce(broker, name, numbers)
    return name


@pytest.mark.sampled
@pytest.mark.parametrize("operator", NAMED)
def test_operators_agree_with_records_in_order(
    name: str, brokers: Brokers, spark: SparkSession, tmp_path: Path, operator: str
) -> None:
    story = Story(spark, tmp_path, OPERATORS[operator], aligned=True)
    story.metadata.write_text(document(east=at(brokers.a, name), west=at(brokers.b, name)))
    records = {cluster: list(numbers) for cluster, numbers in BEFORE.items()}
    with story.start() as run:
        run.wait_until(lambda: bool(story.batches), "the first batch")
        run.wait_until(lambda: story.result() == story.operator.wanted(records), "the records before the migration")
        run.query.processAllAvailable()

    # When west leaves, and south is announced before it has its topic
    produce(brokers.a, name, AFTER["east"])
    late = f"{name}-late"
    south = at(brokers.c, late, state="Announced")
    story.metadata.write_text(document(east=at(brokers.a, name), south=south))
    with story.start() as run:
        run.wait_report(lambda report: report.get("clockWaitsFor") == ["south"], "the wait for south")

        # When its records come, and the next batch fails
        story.fails_at = max(story.batches) + 1
        brokers.c.create_topic(late, 1, {"retention.ms": "-1"})
        produce(brokers.c, late, AFTER["south"])
        run.wait_failed()
    story.fails_at = -1

    # Then the operator has what it would have of one cluster
    for cluster, numbers in AFTER.items():
        records.setdefault(cluster, []).extend(numbers)
    with story.start() as run:
        run.wait_until(lambda: story.result() == story.operator.wanted(records), "all records")
        run.wait_committed()
    assert story.result() == story.operator.wanted(records)


@pytest.mark.sampled
@pytest.mark.parametrize("operator", NAMED)
def test_without_alignment_operators_lose_rows(
    name: str, brokers: Brokers, spark: SparkSession, tmp_path: Path, operator: str
) -> None:
    story = Story(spark, tmp_path, OPERATORS[operator], aligned=False)
    story.metadata.write_text(document(east=at(brokers.a, name), west=at(brokers.b, name)))
    with story.start() as run:
        run.query.processAllAvailable()
    assert story.result() < story.operator.wanted({cluster: list(numbers) for cluster, numbers in BEFORE.items()})
