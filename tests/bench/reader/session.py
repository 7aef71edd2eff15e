"""The Spark session of the reading benchmark, in which Spark's own source and ours take turns.

Runs as `python -m tests.bench.reader.session <plan>` in `.venv-spark42`, the only Spark for which the connector is to
be had; `run.py` starts it and reads its lines. Both sources share one session, so they share its JVM, its compiled
code, its heap and the state of the machine. Each round begins with another variant.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from dynamic_kafka import register
from tests.bench.processes import session_cpu_seconds
from tests.bench.reader import librdkafka
from tests.bench.reader.cases import (
    CORES,
    IDLE,
    IDLE_PARTITIONS,
    IDLE_SECONDS,
    LATENCY_RECORDS,
    LIBRDKAFKA,
    MARK,
    PARTITIONS,
)
from tests.bench.reader.figures import latencies
from tests.support.spark import start_spark
from tests.support.spark_kafka import connector_jars
from tests.support.waiting import wait_until

SETTINGS = {
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    # By default a batch of Spark's own source takes an older and slower way than its streams: it converts rows twice.
    "spark.sql.sources.useV1SourceList": "",
    # The JVM takes rows of Python workers with less CPU (docs/contributing/performance.md). Spark's has none.
    "spark.python.unix.domain.socket.enabled": "true",
}
LATENCY_TRIGGER, IDLE_TRIGGER = "300 milliseconds", "1 second"
RECORDS_PER_S, WARM_UP_RECORDS = 50, 100
IDLE_SETTLE_S = 5.0

Json = dict[str, Any]


class Session:
    """A Spark session and the broker that it reads."""

    def __init__(self, spark: SparkSession, plan: Json) -> None:
        self.spark, self.plan = spark, plan
        self.bus = spark.sparkContext._jsc.sc().listenerBus()
        self.store = spark.sparkContext._jsc.sc().statusStore()

    def run(self) -> None:
        """Run the whole plan, and print a line for each turn."""
        for case in self.plan["cases"]:
            for turn in range(-1, case["rounds"]):  # the first one warms up, and does not count
                first = turn % len(case["variants"])
                for variant in case["variants"][first:] + case["variants"][:first]:
                    measured = self.librdkafka(case) if variant["reader"] == LIBRDKAFKA else self.read(case, variant)
                    say(kind="turn", case=case["name"], variant=variant["name"], round=turn, **measured)
        for other, turns in self.plan["others"].items():
            for turn, variant in turns:
                topic = other if other == IDLE else f"{other}-{turn}-{variant['name']}"
                say(kind="topic", topic=topic, partitions=IDLE_PARTITIONS if other == IDLE else 1)
                sys.stdin.readline()  # `run.py` has made the topic
                measured = self.idle(variant, topic) if other == IDLE else self.latency(variant, topic)
                say(kind="turn", case=other, variant=variant["name"], round=turn, **measured)

    def read(self, case: Json, variant: Json) -> Json:
        """Read a topic once into a sink that drops everything.

        Raises:
            RuntimeError: Spark has counted another number of records than the topic has.
        """
        frame = self.spark.read.format(variant["reader"]).options(**self.options(variant, case["topic"]["name"])).load()
        if variant["select"]:
            frame = frame.selectExpr(*variant["select"])
        group = f"{case['name']}-{variant['name']}-{time.monotonic_ns()}"
        self.spark.sparkContext.setJobGroup(group, group)
        began, cpu = time.perf_counter(), session_cpu_seconds()
        frame.write.format("noop").mode("overwrite").save()
        wall, cpu = time.perf_counter() - began, session_cpu_seconds() - cpu
        rows, wanted = self.rows_read(group), sum(self.plan["ends"][case["topic"]["name"]])
        if rows != wanted:
            raise RuntimeError(f"{case['name']}: {variant['name']} has read {rows:,} of {wanted:,} records")
        return {"rows": rows, "wall_s": wall, "cpu_s": cpu}

    def rows_read(self, group: str) -> int:
        """Return the number of rows that Spark's tasks of a group of jobs took from their sources."""
        self.bus.waitUntilEmpty()
        tracker = self.spark.sparkContext.statusTracker()
        jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
        stages = [stage for job in jobs for stage in job.stageIds]
        return sum(self.store.lastStageAttempt(stage).inputRecords() for stage in stages)

    def librdkafka(self, case: Json) -> Json:
        """Read a topic with librdkafka alone."""
        topic = case["topic"]["name"]
        given = {"bootstrap": self.plan["bootstrap"], "topic": topic, "ends": self.plan["ends"][topic]}
        return librdkafka.in_a_process(given | {"partitions": PARTITIONS, "consumers": CORES})

    def options(self, variant: Json, topic: str) -> dict[str, str]:
        """Return the options of a read of one topic."""
        return {"kafka.bootstrap.servers": self.plan["bootstrap"], "subscribe": topic, **variant["options"]}

    @contextmanager
    def query(self, variant: Json, topic: str, trigger: str, start: str) -> Iterator[StreamingQuery]:
        """Run a streaming query over a topic into a sink that drops everything, until the block ends."""
        options = {**self.options(variant, topic), "startingOffsets": start}
        stream = self.spark.readStream.format(variant["reader"]).options(**options).load()
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(processingTime=trigger).start()
            try:
                yield query
            finally:
                query.stop()

    def latency(self, variant: Json, topic: str) -> Json:
        """Write records at an even pace, and return the milliseconds from each write to the end of its batch."""
        sent: list[float] = []
        with self.query(variant, topic, LATENCY_TRIGGER, "earliest") as query:
            wait_until(lambda: query.lastProgress is not None, "the first plan of a query", timeout_s=120)
            producer = Producer({"bootstrap.servers": self.plan["bootstrap"], "linger.ms": 0})
            clock = threading.Event()
            for _ in range(WARM_UP_RECORDS + LATENCY_RECORDS):
                sent.append(time.time())
                producer.produce(topic, b"x" * 100, partition=0)
                producer.poll(0)
                clock.wait(1 / RECORDS_PER_S)
            producer.flush(30)
            wait_until(lambda: len(delivered(query)) >= len(sent), "the last record's batch", timeout_s=60)
            seconds = latencies(sent, delivered(query))[WARM_UP_RECORDS:]
        return {"ms": [round(delay * 1000, 1) for delay in seconds]}

    def idle(self, variant: Json, topic: str) -> Json:
        """Run a query over many partitions without news, and return the session's CPU seconds for each second."""
        with self.query(variant, topic, IDLE_TRIGGER, "latest") as query:
            wait_until(lambda: query.lastProgress is not None, "the first plan of an idle query", timeout_s=120)
            threading.Event().wait(IDLE_SETTLE_S)
            began, cpu = time.perf_counter(), session_cpu_seconds()
            threading.Event().wait(IDLE_SECONDS)
            wall, cpu = time.perf_counter() - began, session_cpu_seconds() - cpu
        return {"wall_s": wall, "cpu_s": cpu}


def delivered(query: StreamingQuery) -> list[float]:
    """Return the time at which each row was delivered: the end of its batch."""
    times: list[float] = []
    for progress in query.recentProgress:
        began = datetime.fromisoformat(progress.timestamp).timestamp()
        times += [began + progress.durationMs["triggerExecution"] / 1000] * progress.numInputRows
    return times


def say(**line: Any) -> None:
    """Print a line for `run.py`."""
    print(MARK + json.dumps(line), flush=True)


def main(plan: Mapping[str, Any]) -> None:
    """Run a plan in one session."""
    jars = {"spark.jars": ",".join(map(str, connector_jars()))}
    spark = start_spark("bench", {**jars, **SETTINGS}, short_lived=False)
    register(spark)
    say(kind="session", spark=spark.version)
    Session(spark, dict(plan)).run()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
