"""The rows' schema: Spark's Kafka columns, then ours; with Spark, also by SQL and a metadata file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from dynamic_kafka import register
from tests.integration.source.simulated_spark import at, document, numbered, static
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import Record

SPARKS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]
HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)
OURS = [StructField("kafka_cluster", StringType()), StructField("kafka_stream", StringType())]
NOWHERE = static(document(east={"bootstrapServers": "127.0.0.1:1", "topics": ["t"]}))


@pytest.mark.parametrize(("headers", "fields"), [("false", [*SPARKS, *OURS]), ("TRUE", [*SPARKS, HEADERS, *OURS])])
def test_the_schema_is_known_without_any_cluster(spark: SparkSession, headers: str, fields: list[StructField]) -> None:
    register(spark)

    batch = spark.read.format("dynamic-kafka").options(**NOWHERE, includeHeaders=headers).load()
    stream = spark.readStream.format("dynamic-kafka").options(**NOWHERE, includeHeaders=headers).load()

    assert batch.schema == stream.schema == StructType(fields)


def test_rows_in_spark_have_the_values_that_were_produced(brokers: Brokers, topic: Topic, spark: SparkSession) -> None:
    # Given a record with all fields set, and one with none
    register(spark)
    name = brokers.a.create_topic(topic("orders"), config={"retention.ms": "-1"})
    moment = datetime(2026, 11, 1, 12, 0, 0, 123000, tzinfo=UTC)
    stamp = int(moment.timestamp() * 1000)
    full = Record(b"\x00\xff", key=b"k", timestamp_ms=stamp, headers=[("h", b"1"), ("h", None)])
    brokers.a.produce(name, [full, Record(None, timestamp_ms=stamp)])

    # When Spark reads them
    frame = (
        spark.read.format("dynamic-kafka")
        .options(**static(document(east=at(brokers.a, name))))
        .option("includeHeaders", "true")
    )
    rows = [row.asDict(recursive=True) for row in frame.load().orderBy("offset").collect()]

    # Then the rows have all values
    naive = moment.replace(tzinfo=None)
    everywhere = {"topic": name, "partition": 0, "timestampType": 0, "kafka_cluster": "east", "kafka_stream": "orders"}
    for row in rows:
        row["timestamp"] = row["timestamp"].astimezone(UTC).replace(tzinfo=None)
        row["key"], row["value"] = (None if row[c] is None else bytes(row[c]) for c in ("key", "value"))
    assert rows == [
        everywhere
        | {"offset": 0, "key": b"k", "value": b"\x00\xff", "timestamp": naive}
        | {"headers": [{"key": "h", "value": bytearray(b"1")}, {"key": "h", "value": None}]},
        everywhere | {"offset": 1, "key": None, "value": None, "timestamp": naive, "headers": None},
    ]


def test_sql_reads_the_source_through_a_view(brokers: Brokers, topic: Topic, spark: SparkSession) -> None:
    register(spark)
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, numbered(4))
    spark.sql(
        f"""CREATE OR REPLACE TEMPORARY VIEW orders_view USING `dynamic-kafka`
        OPTIONS (`kafka.bootstrap.servers` '{brokers.a.bootstrap}', subscribe '{name}')"""
    )

    rows = spark.sql("SELECT CAST(value AS STRING) v FROM orders_view WHERE `offset` >= 2 ORDER BY v").collect()

    assert [row.v for row in rows] == ["r2", "r3"]


def test_a_job_needs_only_a_metadata_file_in_flinks_form(
    brokers: Brokers, topic: Topic, spark: SparkSession, tmp_path: Path
) -> None:
    # Given the list form of Flink's YAML metadata service
    register(spark)
    name = topic("orders")
    for cluster in (brokers.a, brokers.b):
        cluster.create_topic(name)
        cluster.produce(name, numbered(3))
    path = tmp_path / "streams.yaml"
    path.write_text(
        f"""
- streamId: orders
  clusterMetadataList:
    - clusterId: east
      bootstrapServers: {brokers.a.bootstrap}
      topics: [{name}]
    - bootstrapServers: {brokers.b.bootstrap}
      topics: [{name}]
"""
    )

    frame = spark.read.format("dynamic-kafka").option("streamIds", "orders").option("metadataPath", str(path)).load()
    counts = {row.kafka_cluster: row["count"] for row in frame.groupBy("kafka_cluster").count().collect()}

    # Then a cluster without an id gets its servers as id
    assert counts == {"east": 3, brokers.b.bootstrap: 3}
