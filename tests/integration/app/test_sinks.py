"""The start of a sink's query with a checkpoint and a sink that has batches already, in one Spark session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.query.sinks import start_query
from dynamic_kafka.app.query.supervisor import make_listener
from dynamic_kafka.errors import OptionError, StaleCheckpointError
from dynamic_kafka.spark.source import register
from tests.integration.app.driving import write_app
from tests.support.fixtures import Brokers, Topic
from tests.support.streams import (
    assert_rows,
    cluster,
    last_batch,
    last_document,
    parked_offsets,
    parquet_rows,
    produce,
    stream,
    write_metadata,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(spark: SparkSession, config_file: Path) -> None:
    """Run the only sink's query to its end."""
    register(spark)
    config = load_config(config_file)
    query = start_query(spark, config, config.sink())
    query.awaitTermination()


SHAPES = """
from pathlib import Path

from pyspark.sql import functions as F


def plain(frame):
    return dies_before_commit(frame)


def shuffled(frame):
    other = frame.sparkSession.range(4).hint("merge")
    return dies_before_commit(frame.join(other, frame["partition"] == other["id"]).drop("id"))


def stateful(frame):
    return dies_before_commit(frame.withColumn("mark", F.expr("uuid()")).dropDuplicates(["mark"]).drop("mark"))


def dies_before_commit(frame):
    folder = Path(__file__).parent
    order, commits = folder / "die", folder / "checkpoints" / "lake" / "commits"

    def put_a_file_where_the_commit_log_is(value):
        try:
            order.unlink()
        except FileNotFoundError:
            return value
        commits.rename(commits.with_name("commits-away"))
        commits.touch()
        return value

    dies = F.udf(put_a_file_where_the_commit_log_is, "binary", useArrow=False)
    return frame.withColumn("value", dies("value"))
"""
"""Queries of all kinds; a file `die` makes one die in its next batch, after the sink's log and before Spark's own."""


@pytest.mark.deep("checkpoints and files that do not fit")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("shape", ["plain", "shuffled", "stateful"])
def test_a_delivered_batch_is_not_read_from_a_removed_cluster(  # noqa: PLR0917
    spark: SparkSession,
    brokers: Brokers,
    topic: Topic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shape: str,
) -> None:
    # given a batch over two clusters that is in the sink's log, but without Spark's commit
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{shape}_shape.py").write_text(SHAPES)
    name, checkpoint, sink = topic("skipped"), tmp_path / "checkpoints" / "lake", tmp_path / "lake"
    for at in brokers[:2]:
        at.create_topic(name)
    wanted = produce("a", brokers.a, name, 10) + produce("b", brokers.b, name, 10)
    both = (cluster("a", brokers.a, [name]), cluster("b", brokers.b, [name]))
    metadata = write_metadata(tmp_path / "streams.json", stream("st", *both))
    function = f"{shape}_shape:{shape}"
    config = write_app(tmp_path, trigger={"availableNow": True}, transformation={"function": function})
    (tmp_path / "die").touch()
    with pytest.raises(StreamingQueryException):
        run(spark, config)
    (checkpoint / "commits").unlink()
    (checkpoint / "commits-away").rename(checkpoint / "commits")
    assert (last_batch(checkpoint / "offsets"), last_batch(checkpoint / "commits")) == (0, -1)
    assert last_batch(sink / "_spark_metadata") == 0
    assert (checkpoint / "state").exists() == (shape == "stateful")
    assert_rows(parquet_rows(sink), wanted)

    # when one of the clusters is removed before the restart
    write_metadata(metadata, stream("st", both[0]))
    run(spark, config)

    # then nothing is left out of the batch: the cluster is parked at the offsets after it
    assert last_batch(checkpoint / "commits") >= 0
    assert not list(checkpoint.glob("dynamic-kafka/*/amendments/*"))
    assert parked_offsets(last_document(checkpoint)) == {("b", name): {0: 10}}

    # and when the cluster is back, it is read on from there
    write_metadata(metadata, stream("st", *both))
    wanted += produce("b", brokers.b, name, 5)
    run(spark, config)
    assert_rows(parquet_rows(sink), wanted)


@pytest.mark.deep("checkpoints and files that do not fit")
def test_a_checkpoint_that_is_older_than_its_files_is_refused(
    spark: SparkSession, brokers: Brokers, topic: Topic, tmp_path: Path
) -> None:
    name = brokers.a.create_topic(topic("old"))
    produce("a", brokers.a, name, 10)
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name])))
    run(spark, write_app(tmp_path, trigger={"availableNow": True}))
    anew = write_app(tmp_path, checkpoint=str(tmp_path / "another"), trigger={"availableNow": True})
    with pytest.raises(StaleCheckpointError, match="has no batch yet"):
        run(spark, anew)


def test_a_kafka_sink_without_sparks_connector_says_what_to_add(
    spark: SparkSession, brokers: Brokers, topic: Topic, tmp_path: Path
) -> None:
    name = topic("out")
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name])))
    out = {"kafka.bootstrap.servers": brokers.b.bootstrap, "topic": name}
    config = write_app(tmp_path, sinks=[{"name": "out", "type": "kafka", "options": out}])
    with pytest.raises(OptionError, match="spark-sql-kafka-0-10"):
        run(spark, config)


def test_spark_commits_a_batch_before_its_progress_event(
    spark: SparkSession, brokers: Brokers, topic: Topic, tmp_path: Path
) -> None:
    name = brokers.a.create_topic(topic("event"))
    produce("a", brokers.a, name, 50)
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name])))
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 10}
    config = write_app(tmp_path, name="events", trigger={"availableNow": True}, options=options)
    seen: list[tuple[int, int]] = []

    def on_progress(_: str, event: Any) -> None:
        seen.append((event["batchId"], last_batch(tmp_path / "checkpoints" / "lake" / "commits")))

    listener = make_listener(["events.lake"], on_progress)
    spark.streams.addListener(listener)
    try:
        run(spark, config)
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[attr-defined,union-attr]
    finally:
        spark.streams.removeListener(listener)
    assert len(seen) >= 5
    assert all(committed >= batch for batch, committed in seen)
