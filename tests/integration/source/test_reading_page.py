"""The examples of docs/how-to/reading.md run as they stand there, on a broker."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dynamic_kafka import register
from tests.support.fixtures import Brokers
from tests.support.places import ROOT
from tests.support.streams import cluster, produce, stream, write_metadata

PAGE = (ROOT / "docs" / "how-to" / "reading.md").read_text(encoding="utf-8")


@pytest.fixture
def orders(topic: Callable[[str], str]) -> str:
    """The topic of the stream in both clusters."""
    return topic("orders")


@pytest.fixture
def example(spark: SparkSession, brokers: Brokers, orders: str, tmp_path: Path) -> Callable[[str], str]:
    """A function that returns the example of a section, on a stream of seven records in two clusters."""
    name = orders
    for broker, records in ((brokers.a, 4), (brokers.b, 3)):
        broker.create_topic(name)
        produce(broker.name, broker, name, records)
    named = [cluster(broker.name, broker, [name]) for broker in (brokers.a, brokers.b)]
    path = write_metadata(tmp_path / "streams.json", stream("orders", *named))
    register(spark)

    def text(heading: str) -> str:
        section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        code, *_ = re.findall(r"^```\w+\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        assert len(code.splitlines()) <= 20
        return str(code.replace("/etc/kafkastreams/streams.yaml", str(path)).replace("/data", str(tmp_path)))

    return text


def test_the_sql_counts_records(example: Callable[[str], str], spark: SparkSession) -> None:
    create, select, _ = example("SQL").split(";")
    spark.sql(create)
    try:
        assert sorted(map(tuple, spark.sql(select).collect())) == [("a", 4), ("b", 3)]
    finally:
        spark.catalog.dropTempView("orders")


def test_the_batch_counts_records(example: Callable[[str], str], spark: SparkSession, tmp_path: Path) -> None:
    exec(example("A batch"), {"spark": spark})
    rows = spark.read.parquet(str(tmp_path / "counts")).select("kafka_cluster", "count").collect()
    assert sorted(map(tuple, rows)) == [("a", 4), ("b", 3)]


def test_a_second_run_up_to_now_adds_nothing(
    example: Callable[[str], str], spark: SparkSession, tmp_path: Path
) -> None:
    for _ in range(2):
        exec(example("Everything up to now, then end"), {"spark": spark})
        assert spark.read.parquet(str(tmp_path / "orders")).count() == 7


def test_a_query_with_an_evaluator_ends_at_the_records(
    example: Callable[[str], str], spark: SparkSession, brokers: Brokers, orders: str, tmp_path: Path
) -> None:
    for broker in (brokers.a, brokers.b):
        broker.produce(orders, ["end of day", "tomorrow"])
    exec(example("End by a record"), {"spark": spark})
    assert spark.read.parquet(str(tmp_path / "orders")).count() == 7
    register(spark)
