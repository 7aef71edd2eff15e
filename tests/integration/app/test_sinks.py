"""What a sink's query does with its checkpoint and with what its sink has already, in one Spark session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dynamic_kafka.app.checkpoints import Checkpoint
from dynamic_kafka.app.config import load_config
from dynamic_kafka.app.sinks import start_query
from dynamic_kafka.app.supervisor import make_listener
from dynamic_kafka.errors import OptionError, StaleCheckpointError
from dynamic_kafka.source import register
from tests.integration.app.driving import write_app
from tests.support.fixtures import Brokers
from tests.support.streams import assert_rows, cluster, last_batch, parquet_rows, produce, stream, write_metadata

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(spark: SparkSession, config_file: Path) -> None:
    """Run the only sink's query to its end."""
    register(spark)
    config = load_config(config_file)
    query = start_query(spark, config, config.sink())
    query.awaitTermination()


def forget_commit(checkpoint: Path, batch: int) -> None:
    """As if the driver had died after the sink's commit and before Spark's."""
    (checkpoint / "commits" / str(batch)).unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def test_a_batch_that_the_sink_has_does_not_come_again_although_its_cluster_was_away(
    spark: SparkSession, brokers: Brokers, topic: Callable[[str], str], tmp_path: Path
) -> None:
    name = topic("delivered")
    for at in brokers[:2]:
        at.create_topic(name)
    wanted = produce("a", brokers.a, name, 10) + produce("b", brokers.b, name, 10)
    both = (cluster("a", brokers.a, [name]), cluster("b", brokers.b, [name]))
    metadata = write_metadata(tmp_path / "streams.json", stream("st", *both))
    config = write_app(tmp_path, trigger={"availableNow": True})
    run(spark, config)
    forget_commit(tmp_path / "checkpoints" / "lake", 0)
    assert Checkpoint(str(tmp_path / "checkpoints" / "lake")).pending == 0
    write_metadata(metadata, stream("st", both[0]))
    run(spark, config)
    write_metadata(metadata, stream("st", *both))
    wanted += produce("b", brokers.b, name, 5)
    run(spark, config)
    assert_rows(parquet_rows(tmp_path / "lake"), wanted)


def test_a_checkpoint_that_is_older_than_its_files_is_refused(
    spark: SparkSession, brokers: Brokers, topic: Callable[[str], str], tmp_path: Path
) -> None:
    name = topic("old")
    brokers.a.create_topic(name)
    produce("a", brokers.a, name, 10)
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name])))
    run(spark, write_app(tmp_path, trigger={"availableNow": True}))
    anew = write_app(tmp_path, checkpoint=str(tmp_path / "another"), trigger={"availableNow": True})
    with pytest.raises(StaleCheckpointError, match="has no batch yet, but the log of the sink"):
        run(spark, anew)


def test_a_kafka_sink_without_sparks_connector_says_what_to_add(
    spark: SparkSession, brokers: Brokers, topic: Callable[[str], str], tmp_path: Path
) -> None:
    name = topic("out")
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name])))
    out = {"kafka.bootstrap.servers": brokers.b.bootstrap, "topic": name}
    config = write_app(tmp_path, sinks=[{"name": "out", "type": "kafka", "options": out}])
    with pytest.raises(OptionError, match="spark-sql-kafka-0-10"):
        run(spark, config)


def test_when_a_progress_event_arrives_spark_has_committed_its_batch(
    spark: SparkSession, brokers: Brokers, topic: Callable[[str], str], tmp_path: Path
) -> None:
    name = topic("event")
    brokers.a.create_topic(name)
    produce("a", brokers.a, name, 50)
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name])))
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 10}
    config = write_app(tmp_path, name="events", trigger={"availableNow": True}, options=options)
    seen: list[tuple[int, int]] = []

    def told(_: str, event: Any) -> None:
        seen.append((event["batchId"], last_batch(tmp_path / "checkpoints" / "lake" / "commits")))

    listener = make_listener(["events.lake"], told)
    spark.streams.addListener(listener)
    try:
        run(spark, config)
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[attr-defined,union-attr]
    finally:
        spark.streams.removeListener(listener)
    assert len(seen) >= 5
    assert all(committed >= batch for batch, committed in seen)
