"""The size of batches: Spark's rate options, shared over clusters, and Spark's triggers."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dynamic_kafka import register
from tests.integration.source.simulated_spark import (
    at,
    at_offsets,
    document,
    numbered,
    query,
    read_batch,
    static,
    values,
)
from tests.support.fixtures import Brokers, Topic


def test_a_limit_is_shared_by_lag_and_starves_no_split(brokers: Brokers, topic: Topic) -> None:
    # Given a large cluster, a small one, and a tiny one
    name = topic("orders")
    for cluster, count in zip(brokers, (900, 90, 3), strict=True):
        cluster.create_topic(name)
        cluster.produce(name, numbered(count))
    text = document(big=at(brokers.a, name), small=at(brokers.b, name), tiny=at(brokers.c, name))

    # When each batch may take 100
    with query(static(text, startingOffsets="earliest", maxOffsetsPerTrigger=100)) as reading:
        batches = reading.drain()

    # Then no batch takes more, the first one reads all clusters, and every record is read once
    shares = [Counter(row["kafka_cluster"] for row in batch) for batch in batches]
    assert [len(batch) for batch in batches] == [100] * 9 + [93]
    assert shares[0]["tiny"] >= 1
    assert shares[0]["small"] == pytest.approx(10, abs=2)
    assert shares[0]["big"] == pytest.approx(89, abs=2)
    rows = [row for batch in batches for row in batch]
    assert at_offsets(rows) == Counter(
        (cluster, name, 0, offset)
        for cluster, count in (("big", 900), ("small", 90), ("tiny", 3))
        for offset in range(count)
    )


def test_a_limit_below_the_number_of_splits_gives_each_a_turn(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"), 6)
    for partition in range(6):
        brokers.a.produce(name, numbered(4), partition=partition)

    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", maxOffsetsPerTrigger=2)
    with query(options) as reading:
        first_three = [row for _ in range(3) for row in reading.batch()]
        rest = [row for batch in reading.drain() for row in batch]

    assert {row["partition"] for row in first_three} == set(range(6))
    assert len(at_offsets(first_three + rest)) == len(first_three + rest) == 24


def test_a_batch_waits_for_enough_records_or_for_long_enough(brokers: Brokers, topic: Topic) -> None:
    # Given a query after its first batch, whose next one waits for ten records or half a second
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, ["first"])
    options = static(
        document(east=at(brokers.a, name)),
        startingOffsets="earliest",
        minOffsetsPerTrigger=10,
        maxTriggerDelay="500ms",
    )
    with query(options) as reading:
        began = time.monotonic()
        first = reading.batch()
        brokers.a.produce(name, numbered(4))

        # When there are fewer records, it waits for half a second
        while not reading.plan():
            pass
        waited = time.monotonic() - began
        after_the_delay = reading.run()
        brokers.a.produce(name, numbered(12))
        enough = reading.batch()

    # Then with enough records, it does not wait
    assert (len(first), len(after_the_delay), len(enough)) == (1, 4, 12)
    assert waited >= 0.5


def test_unread_records_are_reported_as_lag(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, ["first"])
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", minOffsetsPerTrigger=10)

    with query(options) as reading:
        reading.batch()
        assert reading.reader.reportLatestOffset()["clusters"]["east"]["lag"] == 0  # the batch has read everything
        brokers.a.produce(name, numbered(4))
        planned = reading.plan()
        report = reading.reader.reportLatestOffset()

    assert planned is False
    assert report["clusters"]["east"]["lag"] == 4


def test_large_ranges_are_cut_into_tasks(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"), 2)
    brokers.a.produce(name, numbered(100), partition=0)
    brokers.a.produce(name, numbered(10), partition=1)
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest")

    sizes = {}
    rows = []
    for option, value in (("maxRecordsPerPartition", 20), ("minPartitions", 11)):
        with query({**options, option: str(value)}) as reading:
            rows.append(at_offsets(reading.batch()))
            sizes[option] = reading.sizes

    assert sizes == {"maxRecordsPerPartition": [6], "minPartitions": [11]}
    everything = Counter(("east", name, p, offset) for p, count in ((0, 100), (1, 10)) for offset in range(count))
    assert rows == [everything, everything]


@pytest.mark.scenario(44)
def test_more_tasks_than_there_are_splits(brokers: Brokers, topic: Topic) -> None:
    # Given one partition with a record, one without, and `minPartitions` far above
    name = brokers.a.create_topic(topic("orders"), 3)
    brokers.a.produce(name, ["only"], partition=1)

    rows = read_batch(static(document(east=at(brokers.a, name)), minPartitions=8))

    assert values(rows) == Counter([b"only"])


def test_trigger_once_ignores_rates(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, numbered(50))

    with query(
        static(document(east=at(brokers.a, name)), startingOffsets="earliest", maxOffsetsPerTrigger=7)
    ) as all_at:
        rows = all_at.once()

    assert len(rows) == 50


def test_available_now_reads_up_to_its_targets(brokers: Brokers, topic: Topic) -> None:
    # Given a run that has set its targets
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, numbered(25))
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", maxOffsetsPerTrigger=10)
    with query(options) as reading:
        reading.reader.prepareForTriggerAvailableNow()

        # When records and partitions are added while it reads
        first = reading.batch()
        brokers.a.produce(name, numbered(25, "late"))
        brokers.a.create_partitions(name, 2)
        brokers.a.produce(name, numbered(5, "new partition"), partition=1)
        rest = reading.drain()

        # Then only the next run reads them
        assert [len(first), *map(len, rest)] == [10, 10, 5]
        assert reading.offsets()["east", name][0] == 25
        reading.restart().reader.prepareForTriggerAvailableNow()
        again = [row for batch in reading.drain() for row in batch]

    assert values(again) == Counter(value.encode() for value in numbered(25, "late") + numbered(5, "new partition"))


def test_available_now_ends_before_an_aborted_transaction(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, numbered(25))
    options = static(
        document(east=at(brokers.a, name)), startingOffsets="earliest", maxOffsetsPerTrigger=10, minOffsetsPerTrigger=8
    )

    with query(options) as reading:
        reading.reader.prepareForTriggerAvailableNow()
        batches = reading.drain()

    assert [len(batch) for batch in batches] == [10, 10, 5]


def test_sparks_available_now_and_once(brokers: Brokers, topic: Topic, spark: SparkSession, tmp_path: Path) -> None:
    # Given records on two clusters
    register(spark)
    name = topic("orders")
    for cluster, prefix in ((brokers.a, "a"), (brokers.b, "b")):
        cluster.create_topic(name, 2)
        cluster.produce(name, numbered(20, prefix))
    options = static(
        document(east=at(brokers.a, name), west=at(brokers.b, name)),
        startingOffsets="earliest",
        maxOffsetsPerTrigger=25,
    )

    def run(**trigger: bool) -> list[int]:
        running = (
            spark.readStream.format("dynamic-kafka")
            .options(**options)
            .load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(**trigger)
            .start()
        )
        assert running.awaitTermination(120)
        return [progress.numInputRows for progress in running.recentProgress if progress.numInputRows]

    # When Spark runs `availableNow`, then `once` after more records
    available = run(availableNow=True)
    brokers.a.produce(name, numbered(60, "more"))
    once = run(once=True)

    # Then the limit applies to the first trigger, not to the second
    assert available == [25, 15]
    assert once == [60]
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    expected = numbered(20, "a") + numbered(20, "b") + numbered(60, "more")
    assert Counter(bytes(row.value).decode() for row in rows) == Counter(expected)
