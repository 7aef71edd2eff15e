"""Planning: from the call of `latestOffset` to the new document, over clusters with 2,000 partitions each.

Each repetition adds a record to every partition, so that each plan advances, encodes and compares all splits.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

from dynamic_kafka.driver.enumerator import Enumerator
from dynamic_kafka.options import parse_options
from dynamic_kafka.spark.planner_process import set_up_planner_process
from tests.bench.clusters import TOPIC, clusters, document
from tests.bench.report import Report, spread
from tests.support.kafka import KafkaCluster

CLUSTERS, PARTITIONS, REPEATS = 5, 2000, 15
CURVE, CURVE_REPEATS = (1, 5, 10, 25), 5


def run(report: Report) -> None:
    """Measure the first plan, plans with new records in every split, plans without any, and the tasks of a batch."""
    set_up_planner_process()
    with clusters(CLUSTERS, PARTITIONS) as brokers:
        _measure(report, brokers, REPEATS)


def curve(report: Report) -> None:
    """Measure the same over more and more of the same clusters, up to 50,000 splits."""
    set_up_planner_process()
    with clusters(CURVE[-1], PARTITIONS) as brokers:
        for count in CURVE:
            _measure(report, brokers[:count], CURVE_REPEATS)


def _measure(report: Report, brokers: Sequence[KafkaCluster], repeats: int) -> None:
    options = {
        "metadataService": "static",
        "metadataDocument": document(brokers),
        "streamIds": "orders",
        "startingOffsets": "earliest",
    }
    splits = len(brokers) * PARTITIONS
    enumerator = Enumerator(parse_options(options, mode="streaming"))
    try:
        saved, first, cpu = _plan(enumerator, {"version": 2})
        what = f"{splits:,} splits, first plan (connections, topics, first offsets)"
        report.row(what=what, **spread([first]), cpu_s=cpu)
        news: list[tuple[float, float]] = []
        tasks: list[float] = []
        complete = 0
        for _ in range(repeats):
            for broker in brokers:
                _one_record_each(broker.bootstrap)
            before = saved
            saved, wall, cpu = _plan(enumerator, before)
            news.append((wall, cpu))
            began = time.perf_counter()
            planned = len(enumerator.tasks(before, saved))
            tasks.append(time.perf_counter() - began)
            complete += planned == splits
        idle = [_plan(enumerator, saved)[1:] for _ in range(repeats)]
    finally:
        enumerator.stop()
    for what, measured in (("with news", news), ("nothing new", idle)):
        cpu = statistics.median(found[1] for found in measured)
        report.row(what=f"{splits:,} splits, {what}", **spread([found[0] for found in measured]), cpu_s=round(cpu, 4))
    # On a busy machine, a cluster may answer too late for a plan, and is part of the next one.
    report.row(what=f"tasks of {splits:,} ranges", **spread(tasks), plans=repeats, with_every_cluster=complete)


def _plan(enumerator: Enumerator, saved: dict[str, Any]) -> tuple[dict[str, Any], float, float]:
    began, cpu = time.perf_counter(), time.process_time()
    # As in Spark, the document is passed as text.
    text = json.dumps(enumerator.latest(json.loads(json.dumps(saved))))
    return json.loads(text), time.perf_counter() - began, round(time.process_time() - cpu, 4)


def _one_record_each(bootstrap: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, b"x", partition=partition)
    producer.flush(60)
