"""Alignment by the times of records, on real brokers: no row of the cluster that lags is late in Spark."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from dynamic_kafka import register, watermark
from dynamic_kafka.errors import OptionError
from tests.integration.source.simulated_spark import Row, at, document, query, static
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import KafkaCluster, Record
from tests.support.kafka.dead_letters import dead_letters
from tests.support.waiting import wait_until

T0 = 1_700_000_000_000
COUNT = 200
AHEAD_S = {"east": 0, "west": 100, "south": 400}
"""How many seconds the records of each cluster are newer than those of the first one."""


@pytest.fixture
def clusters(brokers: Brokers, topic: Topic) -> dict[str, Any]:
    """Three clusters, each with one record a second."""
    name = topic("orders")
    made: dict[str, KafkaCluster] = dict(zip(AHEAD_S, brokers, strict=True))
    for cluster, broker in made.items():
        broker.create_topic(name, 1, {"retention.ms": "-1"})
        produce(broker, name, cluster, range(COUNT))
    return {cluster: at(broker, name) for cluster, broker in made.items()}


def produce(broker: KafkaCluster, name: str, cluster: str, seconds: range) -> None:
    times = [T0 + (AHEAD_S[cluster] + second) * 1000 for second in seconds]
    broker.produce(name, [Record(b"%d" % time, partition=0, timestamp_ms=time) for time in times])


def time_ms(row: Row) -> int:
    return int(row["timestamp"].timestamp() * 1000)


def test_no_batch_gets_ahead_of_a_cluster_that_lags(clusters: dict[str, Any]) -> None:
    options = {"startingOffsets": "earliest", "watermarkAlignmentMaxDrift": "10s", "maxOffsetsPerTrigger": 60}
    rows: list[Row] = []
    watermark = 0
    with query(static(document(**clusters), **options)) as reading:
        for number in range(100):
            batch = reading.batch()
            if not batch:
                break
            late = [row for row in batch if time_ms(row) <= watermark]
            assert late == [], f"batch {number}"
            watermark = max(watermark, *(time_ms(row) - 10_000 for row in batch))
            rows += batch
            if number == 3:
                reading.restart()
        clock, held_by = reading.saved.clock_ms, reading.reader.reportLatestOffset()["clockHeldBy"]
    # East is not idle yet, and holds the others back, at its last record.
    assert clock == T0 + (COUNT - 1) * 1000
    assert held_by == {"cluster": "east", "topic": clusters["east"]["topics"][0], "partition": 0}
    assert Counter(row["kafka_cluster"] for row in rows) == {"east": COUNT, "west": COUNT - 91}


def test_an_announced_cluster_joins_with_old_records(clusters: dict[str, Any], brokers: Brokers, topic: Topic) -> None:
    options = {"startingOffsets": "earliest", "watermarkAlignmentMaxDrift": "10s", "idleTimeout": "1ms"}
    others = {name: clusters[name] for name in ("west", "south")}
    with query(static(document(west=others["west"]), **options)) as reading:
        reading.drain()
        clock = reading.saved.clock_ms
        assert clock == T0 + (AHEAD_S["west"] + COUNT - 1) * 1000

        # Given a cluster that is announced before it has its topic, and one that joins with it
        name = topic("late")
        late = at(brokers.a, name, state="Announced")
        reading.restart(metadataDocument=document(**others, late=late))
        # Then no record of the others is read that is newer than clock and drift
        assert reading.drain() == [[]]
        assert reading.reader.reportLatestOffset()["clockWaitsFor"] == ["late"]

        # When its records come, then none of them is late
        brokers.a.create_topic(name, 1, {"retention.ms": "-1"})
        times = range(clock, clock + 90_000, 1000)
        brokers.a.produce(name, [Record(b"late", partition=0, timestamp_ms=time) for time in times])
        reading.restart()
        watermark, rows = 0, Counter[str]()
        while batch := reading.batch():
            assert [row for row in batch if time_ms(row) <= watermark] == []
            watermark = max(watermark, *(time_ms(row) - 10_000 for row in batch))
            rows += Counter(row["kafka_cluster"] for row in batch)
        assert rows["late"] == len(times)
        assert "clockWaitsFor" not in reading.reader.reportLatestOffset()


def test_rows_older_than_the_clock_are_marked(clusters: dict[str, Any], brokers: Brokers) -> None:
    # Given a cluster with older and newer records that metadata name late, without an announcement
    produce(brokers.a, clusters["east"]["topics"][0], "east", range(COUNT, 2 * COUNT))
    mode = {"watermarkMode": "periodic", "watermarkAlignmentMaxDrift": "10s", "idleTimeout": "1ms"}
    options = static(document(west=clusters["west"]), startingOffsets="earliest", **mode)
    with query(options) as reading:
        assert not any(row["kafka_late"] for batch in reading.drain() for row in batch)
        reading.restart(metadataDocument=document(west=clusters["west"], east=clusters["east"]))
        marked: list[Row] = []
        while True:
            clock = reading.saved.clock_ms
            if not reading.plan():
                break
            # Then the rows that are older than the clock at the batch's start are late, in a replay, too
            batch = reading.read()
            reading.restart()
            assert reading.run() == batch
            assert clock is not None
            assert [row["kafka_late"] for row in batch] == [time_ms(row) < clock for row in batch]
            marked += batch
    assert {row["kafka_cluster"] for row in marked} == {"east"}
    assert COUNT <= sum(row["kafka_late"] for row in marked) < len(marked)


@pytest.mark.deep("late rows as dead letters")
def test_late_rows_and_the_others_are_all_records(clusters: dict[str, Any], brokers: Brokers, topic: Topic) -> None:
    dead = brokers.c.create_topic(topic("dead"), config={"cleanup.policy": "compact"})
    options = {"watermarkMode": "periodic", "watermarkAlignmentMaxDrift": "10s", "lateRows": "deadletter"}
    letters = json.dumps({"topic": dead, "cluster": "south"})
    named = document(west=clusters["west"], south=clusters["south"])
    with query(static(named, startingOffsets="earliest", deadLetters=letters, **options)) as reading:
        rows = [row for batch in reading.drain() for row in batch]
        assert dead_letters(brokers.c, dead) == []
        reading.restart(metadataDocument=document(**clusters))
        while reading.plan():
            reading.read()  # a batch that is read twice has each dead letter under one key
            rows += reading.run()
    assert not any(row["kafka_late"] for row in rows)
    written = set(dead_letters(brokers.c, dead))
    assert {letter.cluster for letter in written} == {"east"} and {letter.cause[:8] for letter in written} == {
        "late by "
    }
    places = {(letter.cluster, letter.offset) for letter in written}
    assert len(places) == len(written) == COUNT
    assert not places & {(row["kafka_cluster"], row["offset"]) for row in rows}


@pytest.mark.deep("the times of a batch that is repeated")
def test_ingestion_time_is_one_value_for_each_batch(
    clusters: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    register(spark)
    options = static(document(**clusters), startingOffsets="earliest", maxOffsetsPerTrigger=300)
    rows = spark.readStream.format("dynamic-kafka").options(**options).load()
    timed = rows.withColumn("ingested_at", f.current_timestamp()).withWatermark("ingested_at", "1 minute")
    seen: list[tuple[int, set[Any]]] = []

    def fail_first(batch: DataFrame, number: int) -> None:
        seen.append((number, {row[0] for row in batch.select("ingested_at").distinct().collect()}))
        if len(seen) == 1:
            raise RuntimeError("killed")

    for _ in range(2):
        writer = timed.writeStream.foreachBatch(fail_first).trigger(availableNow=True)
        run = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        with pytest.raises(StreamingQueryException) if not seen else nullcontext():
            run.awaitTermination(60)
    (number, times), again, *more = seen
    assert again == (number, times) and len(times) == 1
    assert [len(times) for _, times in more] == [1] and more[0][1] != times


@pytest.mark.deep("the brokers' answers while a transaction is open")
def test_an_open_transaction_stops_no_split(clusters: dict[str, Any], brokers: Brokers) -> None:
    options = {"startingOffsets": "earliest", "watermarkAlignmentMaxDrift": "10s"}
    options["kafka.isolation.level"] = "read_committed"
    [name] = clusters["east"]["topics"]
    newest = Record(b"open", partition=0, timestamp_ms=T0 + COUNT * 1000)
    with query(static(document(**clusters), **options)) as reading:
        with brokers.a.transaction() as transaction:
            transaction.produce(name, [newest])
            # The broker does not name its newest record, so the plan finds a time by halves.
            times = [time_ms(row) for row in reading.batch()]
            assert max(times) >= T0 + (COUNT - 1) * 1000
            assert reading.saved.clock_ms is not None
            assert reading.saved.clock_ms >= T0 + (COUNT - 1) * 1000 - 2500
        wait_until(lambda: b"open" in [row["value"] for row in reading.batch()], "the committed record")


@pytest.mark.deep("windows in Spark, with and without alignment")
@pytest.mark.parametrize(("drift", "lost"), [("10s", False), (None, True)], ids=["aligned", "not aligned"])
def test_windows_have_every_row(
    clusters: dict[str, Any], spark: SparkSession, tmp_path: Path, drift: str | None, lost: bool
) -> None:
    register(spark)
    options = static(document(**clusters), startingOffsets="earliest", maxOffsetsPerTrigger=90)
    if drift is not None:
        options["watermarkAlignmentMaxDrift"] = drift
    name = f"windows_{'aligned' if drift else 'free'}"
    rows = spark.readStream.format("dynamic-kafka").options(**options).load()
    with nullcontext() if drift is not None else pytest.raises(OptionError, match="watermarkAlignmentMaxDrift"):
        rows = watermark(rows, "10s")
    counts = (
        (rows if drift is not None else rows.withWatermark("timestamp", "10 seconds"))
        .groupBy(f.window("timestamp", "10 seconds"), "kafka_cluster")
        .count()
    )
    sink = counts.writeStream.format("memory").queryName(name).outputMode("update")
    run = sink.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert run.awaitTermination(120)

    found = spark.table(name).groupBy("window", "kafka_cluster").agg(f.max("count").alias("count"))
    by_cluster = {
        row["kafka_cluster"]: row["sum(count)"] for row in found.groupBy("kafka_cluster").sum("count").collect()
    }
    assert by_cluster["south"] == COUNT
    assert (by_cluster == dict.fromkeys(AHEAD_S, COUNT)) is not lost
    assert not lost or by_cluster["east"] < COUNT / 2


@pytest.mark.deep("what Spark drops of late rows")
def test_spark_drops_no_row_that_is_not_late(clusters: dict[str, Any], spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    given = {"startingOffsets": "earliest", "watermarkAlignmentMaxDrift": "10s", "watermarkMode": "periodic"}
    dropped = 0
    for named in (("west",), ("west", "east")):
        options = static(document(**{name: clusters[name] for name in named}), **given)
        rows = watermark(spark.readStream.format("dynamic-kafka").options(**options).load(), "10s")
        counts = rows.groupBy(f.window("timestamp", "10 seconds"), "kafka_late").count()
        runs = [
            frame.writeStream.trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / f"checkpoint of {sink}"))
            .start(str(tmp_path / sink), format=sink, outputMode=mode)
            for sink, frame, mode in (("parquet", rows, "append"), ("noop", counts, "update"))
        ]
        assert all(run.awaitTermination(120) for run in runs)
        for progress in runs[1].recentProgress:
            dropped += sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
    late = spark.read.parquet(str(tmp_path / "parquet")).where("kafka_late")
    assert {row["kafka_cluster"] for row in late.select("kafka_cluster").distinct().collect()} == {"east"}
    assert 0 < dropped <= late.count() == COUNT
