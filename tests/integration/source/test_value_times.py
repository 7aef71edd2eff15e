"""Times in the records' values, on real brokers: executors find them, and the clock follows one batch behind."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from dynamic_kafka import register, stop_when_finished, watermark
from dynamic_kafka.planning.document.codec import decode
from tests.integration.source.simulated_spark import Query, at, document, query, static
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import Record

T0 = 1_700_000_000_000
COUNT = 100
AHEAD_S = {"east": 0, "west": 50, "south": 300}
"""How many seconds the records of each cluster are newer than those of the first one."""
FIELD = {
    "value.format": "json",
    "value.schema": "id BIGINT, ordered_at BIGINT",
    "timestampAssigner": "value.ordered_at",
}


def first_digits(batch: pa.RecordBatch) -> Any:
    """Return the times of records that are JSON, without decoding it."""
    return (
        pc.extract_regex(batch.column("value").cast(pa.string()), r'"ordered_at": (?P<at>\d+)')
        .field("at")
        .cast("int64")
    )


@pytest.fixture
def clusters(brokers: Brokers, topic: Topic) -> dict[str, Any]:
    """Three clusters, each with one record a second by its value. Kafka's timestamps are those of the test."""
    name = topic("orders")
    for broker, ahead in zip(brokers, AHEAD_S.values(), strict=True):
        broker.create_topic(name, 1)
        times = [T0 + (ahead + second) * 1000 for second in range(COUNT)]
        values = [json.dumps({"id": at, "ordered_at": time}).encode() for at, time in enumerate(times)]
        broker.produce(name, [Record(value, partition=0) for value in values])
    return {cluster: at(broker, name) for cluster, broker in zip(AHEAD_S, brokers, strict=True)}


def options(clusters: dict[str, Any], folder: Path, drift: str = "10s", **more: str) -> dict[str, str]:
    clock = {"watermarkAlignmentMaxDrift": drift, "idleTimeout": "1ms", "stateLocation": str(folder / "state")}
    return static(document(**clusters), startingOffsets="earliest", **clock, **more)


def times(rows: list[dict[str, Any]]) -> list[int]:
    return [int(row["kafka_event_time"].timestamp() * 1000) for row in rows]


def read_to_the_end(reading: Query, *, restarts: bool) -> list[dict[str, Any]]:
    """Read all batches; no row may be behind a watermark with the drift as its delay."""
    rows: list[dict[str, Any]] = []
    mark, empty = 0, 0
    while empty < 3:
        if not reading.plan():
            empty += 1
            continue
        empty = 0
        batch = reading.read()
        if restarts:
            # A batch that is read twice, by two drivers, has the same rows
            reading.restart()
            assert reading.run() == batch
        else:
            assert reading.run() == batch
        assert [time for time in times(batch) if time <= mark] == []
        mark = max([mark, *(time - 10_000 for time in times(batch))])
        rows += batch
    return rows


@pytest.mark.parametrize(
    ("given", "restarts"),
    [
        (FIELD, False),
        pytest.param({"timestampAssigner": f"{__name__}:first_digits"}, True, marks=pytest.mark.deep("restarts")),
    ],
    ids=["field", "function"],
)
def test_no_row_is_late_by_its_value(
    clusters: dict[str, Any], tmp_path: Path, given: dict[str, str], restarts: bool
) -> None:
    with query(options(clusters, tmp_path, **given, maxOffsetsPerTrigger="90")) as reading:
        rows = read_to_the_end(reading, restarts=restarts)
        assert reading.saved.clock_ms is not None
    assert Counter(row["kafka_cluster"] for row in rows) == dict.fromkeys(AHEAD_S, COUNT)
    for name, ahead in AHEAD_S.items():
        own = [row for row in rows if row["kafka_cluster"] == name]
        assert [row["offset"] for row in own] == list(range(COUNT))
        assert times(own) == [T0 + (ahead + second) * 1000 for second in range(COUNT)]


@pytest.mark.deep("a run in Spark that ends by itself")
def test_a_bounded_stream_ends_after_its_last_row(
    clusters: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    register(spark)
    given = options(clusters, tmp_path, "40s", **FIELD, endingOffsets="latest")
    rows = spark.readStream.format("dynamic-kafka").options(**given).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    run = writer.trigger(processingTime="100 milliseconds").start(str(tmp_path / "rows"))
    try:
        assert stop_when_finished(run, timeout_s=90)
    finally:
        run.stop()
    assert spark.read.parquet(str(tmp_path / "rows")).count() == COUNT * len(AHEAD_S)


@pytest.mark.deep("windows in Spark by a field of the value")
def test_windows_by_the_value_have_every_row(clusters: dict[str, Any], spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    given = options(clusters, tmp_path, "40s", **FIELD)
    rows = watermark(spark.readStream.format("dynamic-kafka").options(**given).load(), "40s")
    counts = rows.groupBy(f.window("kafka_event_time", "10 seconds"), "kafka_cluster").count()
    found: dict[tuple[Any, str], int] = {}

    def deliver(batch: DataFrame, number: int) -> None:
        found.update({(row["window"]["start"], row["kafka_cluster"]): row["count"] for row in batch.collect()})

    # A run that ends by itself goes on until all is read, though each batch ends early
    writer = counts.writeStream.foreachBatch(deliver).outputMode("update").trigger(availableNow=True)
    run = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert run.awaitTermination(120)
    by_cluster: Counter[str] = Counter()
    for (_, cluster), count in found.items():
        by_cluster[cluster] += count
    assert by_cluster == dict.fromkeys(AHEAD_S, COUNT)
    operators = [operator for progress in run.recentProgress for operator in progress.stateOperators]
    assert sum(operator.numRowsDroppedByWatermark for operator in operators) == 0


@pytest.mark.deep("runs in Spark, one of which commits batches without reading them")
def test_a_batch_that_spark_does_not_read_counts_as_read(
    clusters: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    register(spark)
    given = options(clusters, tmp_path, "40s", **FIELD)
    rows = spark.readStream.format("dynamic-kafka").options(**given).load()
    read: list[int] = []

    def first_row(batch: DataFrame, number: int) -> None:
        read.extend(len(batch.limit(1).collect()) for _ in range(number % 2))

    writer = rows.writeStream.foreachBatch(first_row).trigger(availableNow=True)
    run = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert run.awaitTermination(120)
    assert set(read) == {1}
    last = decode(run.lastProgress.sources[0].endOffset)
    assert {
        cluster: topic.next[0] for cluster, progress in last.clusters.items() for topic in progress.topics.values()
    } == dict.fromkeys(AHEAD_S, COUNT)


def test_a_start_finds_the_ends_that_no_task_has_reported(
    clusters: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with query(options(clusters, tmp_path, **FIELD)) as reading:
        for _ in range(4):
            # Given a batch that Spark has committed and read nothing of
            assert reading.plan()
            reading.committed = len(reading.log)
            # When the query starts again
            reading.restart()
        rows = read_to_the_end(reading, restarts=False)
    # Then the others are read in order, from where that batch ends
    assert "no task has read all of" in caplog.text
    for name, ahead in AHEAD_S.items():
        own = times([row for row in rows if row["kafka_cluster"] == name])
        assert own == [T0 + (ahead + second) * 1000 for second in range(COUNT - len(own), COUNT)]
    assert Counter(row["kafka_cluster"] for row in rows)["east"] == COUNT - 30


@pytest.mark.deep("the same, with a cluster that is away meanwhile")
def test_ends_of_a_removed_cluster_are_not_looked_for(clusters: dict[str, Any], tmp_path: Path) -> None:
    given = options(clusters, tmp_path, **FIELD)
    others = {name: cluster for name, cluster in clusters.items() if name != "east"}
    with query(given) as reading:
        # Given a batch that Spark has committed without reading it
        first = [reading.batch() for _ in range(3)][-1]
        assert reading.plan()
        reading.committed = len(reading.log)
        # When one of its clusters leaves before the next start, then the others go on
        reading.restart(metadataDocument=document(**others))
        assert reading.plan()
        assert {row["kafka_cluster"] for row in reading.run()} <= set(others)
        # And its rows come when it is back, from the start of the range on
        reading.restart(metadataDocument=document(**clusters))
        rows = read_to_the_end(reading, restarts=False)
    east = [row["offset"] for row in rows if row["kafka_cluster"] == "east"]
    assert east == list(range(len([row for row in first if row["kafka_cluster"] == "east"]) + 10, COUNT))
