"""The streaming job of the demo, as a user would write it. A process of its own, started and killed by `driver.py`.

    python -m demo.job FOLDER

`FOLDER/streams.yaml` is the metadata; the job writes `FOLDER/sink` (Parquet), `FOLDER/aggregate.json` (records per
cluster so far), and below `FOLDER/checkpoint`. SIGTERM ends it in order.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery

from demo.settings import AGGREGATE_TRIGGER_S, DISCOVERY_S, STREAM, TRIGGER_S
from dynamic_kafka import register
from tests.support.spark import spark_environment, spark_settings

HISTORY = {
    # So that the report can tell of each batch afterwards what it read and when: Spark forgets old ones otherwise.
    "spark.sql.streaming.minBatchesToRetain": "100000",
    "spark.sql.streaming.fileSink.log.deletion": "false",
}


SMALL_MACHINE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Starting Spark is mostly compiling on two cores: half of it is saved, and a short life never earns the rest."""


def main(folder: Path) -> None:
    """Run both queries until SIGTERM, or until one of them fails."""
    spark = _session(folder)
    register(spark)
    rows = (
        spark.readStream.format("dynamic-kafka")
        .option("streamIds", STREAM)
        .option("metadataPath", str(folder / "streams.yaml"))
        .option("metadataDiscoveryInterval", f"{DISCOVERY_S:g}s")
        .option("startingOffsets", "earliest")
        .option("stateLocation", str(folder / "state"))
        .load()
    )
    queries = [_to_parquet(rows, folder), _to_aggregate(rows, folder)]

    asked = threading.Event()
    # Not from the handler itself: it interrupts a call to the JVM, and a second one in the middle of it breaks both.
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    while not asked.wait(0.2) and all(query.isActive for query in queries):
        pass
    for query in queries:
        query.stop()
        if error := query.exception():
            raise error
    spark.stop()


def _to_parquet(rows: DataFrame, folder: Path) -> StreamingQuery:
    """Exactly once: the sink's own log says which files count."""
    numbered = rows.select("kafka_cluster", "partition", "offset", "timestamp", col("value").cast("string"))
    return (
        numbered.writeStream.queryName("parquet")
        .format("parquet")
        .option("path", str(folder / "sink"))
        .option("checkpointLocation", str(folder / "checkpoint" / "parquet"))
        .trigger(processingTime=f"{TRIGGER_S:g} seconds")
        .start()
    )


def _to_aggregate(rows: DataFrame, folder: Path) -> StreamingQuery:
    """A running count in Spark's state store, which a crash must not bend either."""
    target = folder / "aggregate.json"

    def publish(counts: DataFrame, batch: int) -> None:
        found = {row["kafka_cluster"]: row["count"] for row in counts.collect()}
        draft = target.with_suffix(".draft")
        draft.write_text(json.dumps({"batch": batch, "counts": found}))
        draft.replace(target)

    return (
        rows.groupBy("kafka_cluster")
        .count()
        .writeStream.queryName("aggregate")
        .outputMode("complete")
        .foreachBatch(publish)
        .option("checkpointLocation", str(folder / "checkpoint" / "aggregate"))
        .trigger(processingTime=f"{AGGREGATE_TRIGGER_S:g} seconds")
        .start()
    )


def _session(folder: Path) -> SparkSession:
    os.environ.update(spark_environment())
    scratch = folder / "spark" / str(os.getpid())
    scratch.mkdir(parents=True)
    builder = SparkSession.builder.appName("demo")
    settings = spark_settings(scratch) | HISTORY
    settings["spark.driver.extraJavaOptions"] += f" {SMALL_MACHINE}"
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
