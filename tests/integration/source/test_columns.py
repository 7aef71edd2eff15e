"""The option `columns` in Spark: rows are those of a `select` from the full read, by each reader and with JSON."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from dynamic_kafka import register
from dynamic_kafka.options.columns import COLUMNS
from tests.integration.source.simulated_spark import at, document, static
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import Record
from tests.support.kafka.dead_letters import dead_letters

MODULE = "tests.integration.source.evaluators"
READERS = ("native", "python")
BAD = ("no json", '{"id": "x"}')
SCHEMA = "id INT, last BOOLEAN, _corrupt_record STRING"
JSON = {"value__format": "json", "value__schema": SCHEMA, "recordEvaluator": f"{MODULE}:LastMask"}
"""The record evaluator sees a decoded value, also where no row has it."""


@pytest.fixture
def given(brokers: Brokers, topic: Topic, spark: SparkSession, tmp_path: Path) -> dict[str, str]:
    """Return the options of a stream of two clusters, whose records differ in all that a record has."""
    register(spark)
    name = topic("orders")
    for cluster in (brokers.a, brokers.b):
        cluster.create_topic(name, partitions=2, config={"retention.ms": "-1"})
        for partition in (0, 1):
            values = ('{"id": 1}', BAD[0], None, '{"id": 2, "last": false}', BAD[1], '{"last": true}', '{"id": 3}')
            records = [
                Record(
                    value, key=str(n) if n % 2 else None, timestamp_ms=1_700_000_000_000 + n, headers=[("h", str(n))]
                )
                for n, value in enumerate(values)
            ]
            cluster.produce(name, records, partition=partition)
    clusters = document(east=at(brokers.a, name), west=at(brokers.b, name))
    return static(clusters, startingOffsets="earliest", stateLocation=tmp_path / "state")


def rows_of(frame: DataFrame) -> Counter[str]:
    """Return the rows of a batch as a multiset."""
    return Counter(repr(row) for row in frame.collect())


def streamed(frame: DataFrame, folder: Path) -> Counter[str]:
    """Return what a stream writes to Parquet, up to now."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()
    return rows_of(frame.sparkSession.read.schema(frame.schema).parquet(str(folder / "out")))


@pytest.mark.deep("a matrix of columns and readers")
@pytest.mark.parametrize("columns", ["value,timestamp", "headers,kafka_stream,key", "offset", ",".join(COLUMNS[::-1])])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.sampled
def test_rows_are_those_of_a_select(given: dict[str, str], spark: SparkSession, reader: str, columns: str) -> None:
    source = spark.read.format("dynamic-kafka").options(**given, reader=reader)
    whole = source.option("includeHeaders", "true").load().select(*columns.split(","))
    some = spark.read.format("dynamic-kafka").options(**given, reader=reader, columns=columns).load()

    assert some.schema == whole.schema and some.columns == columns.split(",")
    assert rows_of(some) == rows_of(whole) and some.count() == 28


@pytest.mark.parametrize(
    ("reader", "mode", "columns"),
    [
        ("native", "permissive", "value,timestamp"),
        ("python", "permissive", "timestamp,value"),
        ("native", "deadletter", "timestampType,offset,partition"),
        ("python", "dropmalformed", "key,kafka_cluster"),
    ],
)
def test_a_stream_of_typed_values_reads_them_alike(
    *,
    given: dict[str, str],
    brokers: Brokers,
    topic: Topic,
    spark: SparkSession,
    tmp_path: Path,
    reader: str,
    mode: str,
    columns: str,
) -> None:
    # Given malformed values, a stop record and a topic for dead letters
    options = given | static(given["metadataDocument"], **JSON) | {"reader": reader, "mode": mode}
    dead = brokers.b.create_topic(topic("dead"), config={"cleanup.policy": "compact"})
    if mode == "deadletter":
        options["deadLetters"] = json.dumps({"topic": dead, "cluster": "west"})

    # When one query reads some columns, with reports for metrics, and another one selects them
    def stream(name: str, **more: Any) -> DataFrame:
        state = {"stateLocation": str(tmp_path / name / "state")}
        return spark.readStream.format("dynamic-kafka").options(**options | state | more).load()

    some, whole = (
        stream("some", columns=columns, readReports="127.0.0.1:1/k"),
        stream("whole").select(*columns.split(",")),
    )
    assert some.schema == whole.schema
    read = streamed(some, tmp_path / "some")
    letters = set(dead_letters(brokers.b, dead))

    # Then both have the same rows and the same dead letters, up to the stop records
    assert read == streamed(whole, tmp_path / "whole")
    assert read.total() == 4 * (5 if mode == "permissive" else 3)
    assert letters == set(dead_letters(brokers.b, dead))
    assert {letter.value for letter in letters} == (set(BAD) if mode == "deadletter" else set())
    assert len(letters) == (8 if mode == "deadletter" else 0)


def test_a_view_has_the_columns_of_its_option(given: dict[str, str], spark: SparkSession) -> None:
    options = ", ".join(f"`{name}` '{value}'" for name, value in (given | {"columns": "offset,value"}).items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW some_columns USING `dynamic-kafka` OPTIONS ({options})")

    assert spark.sql("SELECT * FROM some_columns").columns == ["offset", "value"]
    assert spark.sql("SELECT count(*) AS n FROM some_columns WHERE value IS NULL").collect()[0].n == 4
