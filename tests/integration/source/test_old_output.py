"""A new checkpoint with an old output folder, in the user's own code: Spark's file sink would skip its batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from dynamic_kafka import cause_of, register
from dynamic_kafka.errors import StaleCheckpointError
from tests.support.fixtures import Brokers
from tests.support.streams import cluster, produce, write_metadata


@pytest.fixture
def start(
    spark: SparkSession, brokers: Brokers, topic: Callable[[str], str], tmp_path: Path
) -> Callable[[str, str], StreamingQuery]:
    """A function that starts a query with a checkpoint and an output folder of given names."""
    name = topic("orders")
    brokers.a.create_topic(name)
    produce("a", brokers.a, name, 5)
    listed = {"streamId": "orders", "clusterMetadataList": [cluster("a", brokers.a, [name])]}
    path = write_metadata(tmp_path / "streams.json", listed)
    register(spark)

    def start_query(checkpoint: str, output: str) -> StreamingQuery:
        reader = spark.readStream.format("dynamic-kafka").option("streamIds", "orders")
        frame = reader.option("metadataPath", str(path)).option("startingOffsets", "earliest").load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / checkpoint))
        return writer.trigger(availableNow=True).start(str(tmp_path / output))

    return start_query


def test_a_new_checkpoint_fails_with_an_old_output_folder(
    start: Callable[[str, str], StreamingQuery], spark: SparkSession, tmp_path: Path
) -> None:
    # given an output folder with a batch
    start("checkpoint", "output").awaitTermination()
    assert spark.read.parquet(str(tmp_path / "output")).count() == 5

    # when a query with a new checkpoint writes to it
    with pytest.raises(StreamingQueryException) as raised:
        start("new-checkpoint", "output").awaitTermination()

    # then the cause says what to do, and nothing was planned
    cause = cause_of(raised.value)
    assert isinstance(cause, StaleCheckpointError)
    assert "new-checkpoint has no batch" in str(cause) and "log of the sink" in str(cause)
    assert "write to a new path" in str(cause)
    assert not list((tmp_path / "new-checkpoint").glob("commits/*"))

    # and the old checkpoint goes on, as does the new one in a new folder
    start("checkpoint", "output").awaitTermination()
    start("new-checkpoint", "new-output").awaitTermination()
    assert [spark.read.parquet(str(tmp_path / folder)).count() for folder in ("output", "new-output")] == [5, 5]


def test_a_query_on_another_source_is_left_alone(
    start: Callable[[str, str], StreamingQuery], spark: SparkSession, tmp_path: Path
) -> None:
    log = tmp_path / "output" / "_spark_metadata"
    log.mkdir(parents=True)
    (log / "7").write_text("v1")
    frame = spark.readStream.format("rate").load()
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "output"))
    query.awaitTermination()
    assert query.exception() is None
