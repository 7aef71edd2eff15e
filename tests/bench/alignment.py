"""Alignment: a backlog of two clusters, read in many batches with and without `watermarkAlignmentMaxDrift`, in turn.

One cluster's records are an hour behind those of the other. All ways read the same records in one Spark session, with
the same limit for a batch, and drop the rows. By value, each batch spans one drift: with an hour, they are as large.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from dynamic_kafka import register
from tests.bench.clusters import SECONDS, TOPIC, clusters, document, json_values
from tests.bench.reader.figures import spread
from tests.bench.report import Report
from tests.support.kafka import KafkaCluster
from tests.support.spark import start_spark

PARTITIONS, RECORDS, SIZE = 6, 2_000_000, 100
"""Partitions and records of each cluster, and the bytes of a record."""
BATCH = 195_000
"""The limit of a batch. The backlog is 20.5 of them: for a whole number, the last batch alone would decide."""
SPAN_MS, BEHIND_MS = 86_400_000, 3_600_000
ROUNDS = 5
NOT_ALIGNED = "not aligned"
WAYS = {
    NOT_ALIGNED: {},
    "aligned": {"watermarkAlignmentMaxDrift": "5m", "idleTimeout": "2m"},
    "aligned by value": {
        "watermarkAlignmentMaxDrift": "1h",
        "idleTimeout": "1ms",
        "timestampAssigner": f"{__name__}:kafka_time",
    },
}


def kafka_time(batch: pa.RecordBatch) -> pa.Array:
    """Return the times that Kafka has: what is measured is the way of a time, not the decoding of a value."""
    return batch.column("timestamp")


def run(report: Report) -> None:
    """Measure all ways in turn, and the ratio of their throughputs to that without alignment in each round."""
    with clusters(2, PARTITIONS) as brokers:
        end_ms = int(time.time() * 1000) - BEHIND_MS
        for number, cluster in enumerate(brokers):
            _fill(cluster, end_ms - SPAN_MS - number * BEHIND_MS)
        spark = start_spark("bench-alignment", short_lived=False)
        register(spark)
        rates: dict[str, list[float]] = {way: [] for way in WAYS}
        for turn in range(-1, ROUNDS):  # the first one warms up, and does not count
            for way in list(WAYS) if turn % 2 else list(WAYS)[::-1]:
                rate = _rows_per_s(spark, brokers, WAYS[way])
                if turn >= 0:
                    rates[way].append(rate)
        spark.stop()
    for way, measured in rates.items():
        report.row(what=f"{way}, rows a second", **spread(list(map(round, measured)), digits=0))
    without = rates.pop(NOT_ALIGNED)
    for way, measured in rates.items():
        ratios = [rate / base for rate, base in zip(measured, without, strict=True)]
        report.row(what=f"{way} to {NOT_ALIGNED}, in one round", **spread(ratios, digits=3))


def _fill(cluster: KafkaCluster, start_ms: int) -> None:
    """Write the records of a cluster, with times that grow evenly over the span."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 50, "batch.size": 1_000_000})
    values = json_values(SIZE, 1000)
    for number in range(RECORDS):
        while len(producer) > 90_000:
            producer.poll(0.01)
        at_ms = start_ms + number * SPAN_MS // RECORDS
        producer.produce(TOPIC, values[number % len(values)], partition=number % PARTITIONS, timestamp=at_ms)
    if producer.flush(SECONDS):
        raise RuntimeError(f"the broker of {cluster.name} did not take all records in {SECONDS:g} s")


def _rows_per_s(spark: SparkSession, brokers: Sequence[KafkaCluster], more: dict[str, str]) -> float:
    """Read all records once, and return the rows per second of the batches."""
    options = {"metadataService": "static", "metadataDocument": document(brokers), "streamIds": TOPIC}
    options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(BATCH), **more}
    with tempfile.TemporaryDirectory() as checkpoint:
        stream = spark.readStream.format("dynamic-kafka").options(**options, stateLocation=f"{checkpoint}/state").load()
        writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        batches = query.recentProgress
    rows = sum(batch.numInputRows for batch in batches)
    if rows != len(brokers) * RECORDS:
        raise RuntimeError(f"the query has read {rows:,} of {len(brokers) * RECORDS:,} records")
    return rows / (sum(batch.durationMs["triggerExecution"] for batch in batches) / 1000)
