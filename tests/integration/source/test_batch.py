"""Batch reads: `spark.read` over many clusters, and the options that Spark's own source refuses there."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dynamic_kafka import register
from dynamic_kafka.errors import DataLossError, OptionError, TopicIntegrityError
from tests.integration.source.simulated_spark import at, at_offsets, document, numbered, read_batch, static, values
from tests.support.fixtures import Brokers, Topic


def test_a_batch_reads_from_earliest_to_latest_by_default(brokers: Brokers, topic: Topic) -> None:
    name = topic("orders")
    for cluster in (brokers.a, brokers.b):
        cluster.create_topic(name, 2)
        cluster.produce(name, numbered(10), partition=0)
        cluster.produce(name, numbered(5), partition=1)

    rows = read_batch(static(document(east=at(brokers.a, name), west=at(brokers.b, name))))

    assert at_offsets(rows) == Counter(
        (cluster, name, partition, offset)
        for cluster in ("east", "west")
        for partition, count in ((0, 10), (1, 5))
        for offset in range(count)
    )


def test_a_batch_with_nothing_to_read(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"), 2)

    assert read_batch(static(document(east=at(brokers.a, name)))) == []


def test_a_batch_reads_no_other_topic_than_the_pinned_one(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, ["x"])
    pinned = at(brokers.a, name, topicIds={name: brokers.a.topic_id(name)})
    assert values(read_batch(static(document(east=pinned)))) == {b"x": 1}

    pinned["topicIds"] = {name: "AbCdEfGhIjKlMnOpQrStUQ"}
    with pytest.raises(TopicIntegrityError, match=r"id=AbCdEfGhIjKlMnOpQrStUQ now=\S+\] .*re-created"):
        read_batch(static(document(east=pinned)))


def test_a_topic_that_two_streams_share_is_read_once(brokers: Brokers, topic: Topic) -> None:
    name, other = (brokers.a.create_topic(topic(prefix)) for prefix in ("shared", "other"))
    for given in (name, other):
        brokers.a.produce(given, ["x"])
    text = json.dumps(
        {
            "streams": {
                "payments": {"clusters": {"east": at(brokers.a, name, other)}},
                "orders": {"clusters": {"east": at(brokers.a, name)}},
            }
        }
    )

    rows = read_batch(static(text))

    # It belongs to the first stream id in order.
    assert Counter((row["topic"], row["kafka_stream"]) for row in rows) == {(name, "orders"): 1, (other, "payments"): 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets"),
        ({"endingOffsets": "earliest"}, "endingOffsets"),
        ({"startingOffsets": '{"east":{"t":{"0":-1}}}'}, "startingOffsets"),
        ({"endingOffsets": '{"east":{"t":{"0":-2}}}'}, "endingOffsets"),
    ],
)
def test_options_that_spark_refuses_in_a_batch_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_batch(static(document(east={"bootstrapServers": "127.0.0.1:1", "topics": ["t"]})) | options)


@pytest.mark.parametrize("asked", [6, 100])
def test_a_batch_short_of_its_ending_offset_is_data_loss(brokers: Brokers, topic: Topic, asked: int) -> None:
    # Given five records, and an ending offset behind them
    name = brokers.a.create_topic(topic("orders"), 2)
    brokers.a.produce(name, numbered(5), partition=0)
    ends = {"east": {name: {"0": asked, "1": -1}}}
    options = static(document(east=at(brokers.a, name)), endingOffsets=json.dumps(ends))

    # When data loss fails the query, and when it does not
    with pytest.raises(DataLossError, match=rf"east/{name}\[0\] ends at 5, before {asked}"):
        read_batch(options)
    rows = read_batch(options | {"failOnDataLoss": "false"})

    # Then the read is only shorter if the user has accepted it
    assert values(rows) == Counter(v.encode() for v in numbered(5))


@pytest.mark.parametrize("asked", [0, 3, 5])
def test_a_batch_ends_at_its_ending_offsets(brokers: Brokers, topic: Topic, asked: int) -> None:
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, numbered(5))

    rows = read_batch(
        static(document(east=at(brokers.a, name)), endingOffsets=json.dumps({"east": {name: {"0": asked}}}))
    )

    assert values(rows) == Counter(v.encode() for v in numbered(asked))


def test_spark_reads_a_batch_with_all_columns(brokers: Brokers, topic: Topic, spark: SparkSession) -> None:
    # Given records on two clusters
    register(spark)
    name = topic("orders")
    for cluster, count in ((brokers.a, 30), (brokers.b, 20)):
        cluster.create_topic(name, 3)
        cluster.produce(name, numbered(count))
    options = static(document(east=at(brokers.a, name), west=at(brokers.b, name)), maxRecordsPerPartition=7)

    # When Spark counts them twice, and takes a few
    frame = spark.read.format("dynamic-kafka").options(**options).load()
    counts = {row.kafka_cluster: row["count"] for row in frame.groupBy("kafka_cluster").count().collect()}
    again = frame.count()
    few = frame.limit(3).collect()

    # Then each job reads them
    assert counts == {"east": 30, "west": 20}
    assert again == 50
    assert len(few) == 3


def test_spark_shows_the_error_of_a_batch(spark: SparkSession) -> None:
    register(spark)
    options = static(document(east={"bootstrapServers": "127.0.0.1:1", "topics": ["t"]}), startingOffsets="latest")

    with pytest.raises(PySparkException, match="can't be latest in a batch read"):
        spark.read.format("dynamic-kafka").options(**options).load().count()


def test_the_same_read_gives_the_same_rows(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"), 3)
    brokers.a.produce(name, numbered(100))
    options = static(document(east=at(brokers.a, name)))

    assert values(read_batch(options)) == values(read_batch(options)) == Counter(v.encode() for v in numbered(100))
