"""Planning: from the call of `latestOffset` to the new document, over clusters with 2,000 partitions each.

Every plan with news starts from the same document, behind which each split has one record: it advances, encodes and
compares all splits. The brokers run on the same machine, so their CPU time is stated beside ours.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from dynamic_kafka.driver.enumerator import Enumerator
from dynamic_kafka.options import parse_options
from dynamic_kafka.spark.planner_process import set_up_planner_process
from tests.bench.clusters import TOPIC, clusters, create_topics, document, one_record_each
from tests.bench.processes import cpu_seconds
from tests.bench.report import Report, spread
from tests.support.kafka import KafkaCluster

CLUSTERS, PARTITIONS, REPEATS = 5, 2000, 15
CURVE, CURVE_REPEATS = (5, 10, 25), 5
FEW, FEW_PARTITIONS = "few", 1000
WARM_UP = 10
"""Plans before the measured ones. A broker that has answered few requests takes several times as much CPU for one."""


@dataclass(frozen=True)
class Measured:
    """One plan: its document, its seconds, the CPU seconds of this process and of the brokers."""

    document: dict[str, Any]
    wall_s: float
    cpu_s: float
    brokers_cpu_s: float


class Splits:
    """The splits of one topic of some clusters, and the document of the first plan, made while they were empty."""

    def __init__(self, brokers: Sequence[KafkaCluster], topic: str, partitions: int) -> None:
        self.brokers, self.count = brokers, len(brokers) * partitions
        options = {"metadataService": "static", "metadataDocument": document(brokers, topic), "streamIds": "orders"}
        # A plan that looks for new partitions asks each cluster once more. How many do depends on the plans' duration.
        self._options = {**options, "startingOffsets": "earliest", "partitionDiscoveryInterval": "1h"}
        self._saved: dict[str, Any] = {"version": 2}
        self._name = f"{self.count:,} splits"

    def aligned(self) -> Splits:
        """Return the same splits, behind the first batch of a query that aligns them."""
        same = copy(self)
        same._options = {**self._options, "watermarkAlignmentMaxDrift": "1m"}
        same._name = f"{self._name}, aligned"
        enumerator = same._enumerator()
        try:
            same._saved = same._plan(enumerator, self._saved).document
        finally:
            enumerator.stop()
        return same

    def first_plan(self, report: Report) -> None:
        """Measure the first plan."""
        enumerator = self._enumerator()
        try:
            first = self._plan(enumerator, self._saved)
        finally:
            enumerator.stop()
        self._saved = first.document
        self._row(report, "first plan (connections, topics, first offsets)", [first])

    def plans(self, report: Report, repeats: int) -> float:
        """Measure plans with a record in each split, the tasks of their batches, and plans without news.

        Only plans in which every cluster answered count; others are counted as `incomplete`.

        Returns:
            The median seconds of the plans with news.
        """
        enumerator = self._enumerator()
        news: list[Measured] = []
        tasks: list[float] = []
        idle: list[Measured] = []
        incomplete = 0
        try:
            for _ in range(WARM_UP):
                self._plan(enumerator, self._saved)
            while len(news) < repeats and incomplete < 3 * repeats:
                measured = self._plan(enumerator, self._saved)
                began = time.perf_counter()
                if len(enumerator.tasks(self._saved, measured.document)) == self.count:
                    tasks.append(time.perf_counter() - began)
                    news.append(measured)
                else:
                    incomplete += 1
            if not news:
                raise RuntimeError(f"every plan of {self.count:,} splits lacked a cluster: the machine is too busy")
            idle = [self._plan(enumerator, news[-1].document) for _ in news]
        finally:
            enumerator.stop()
        self._row(report, "with news", news, plans=len(news), incomplete=incomplete)
        self._row(report, "nothing new", idle)
        report.row(what=f"{self._name}, tasks of all ranges", **spread(tasks))
        return statistics.median(plan.wall_s for plan in news)

    def _enumerator(self) -> Enumerator:
        return Enumerator(parse_options(self._options, mode="streaming"))

    def _plan(self, enumerator: Enumerator, saved: dict[str, Any]) -> Measured:
        brokers, began, cpu = self._brokers_cpu(), time.perf_counter(), time.process_time()
        # As in Spark, the document is passed as text.
        text = json.dumps(enumerator.latest(json.loads(json.dumps(saved))))
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        return Measured(json.loads(text), wall_s, cpu_s, self._brokers_cpu() - brokers)

    def _brokers_cpu(self) -> float:
        return sum(cpu_seconds(cluster.broker.pid) for cluster in self.brokers)

    def _row(self, report: Report, what: str, made: Sequence[Measured], **more: int) -> None:
        cpu = round(statistics.median(plan.cpu_s for plan in made), 4)
        brokers = round(statistics.median(plan.brokers_cpu_s for plan in made), 2)
        walls = spread([plan.wall_s for plan in made])
        report.row(what=f"{self._name}, {what}", **walls, cpu_s=cpu, brokers_cpu_s=brokers, **more)


def run(report: Report) -> None:
    """Measure the first plan, plans with new records in every split, plans without any, and the tasks of a batch."""
    set_up_planner_process()
    with clusters(CLUSTERS, PARTITIONS, in_memory=True) as brokers:
        splits = Splits(brokers, TOPIC, PARTITIONS)
        splits.first_plan(report)
        one_record_each(brokers, TOPIC, PARTITIONS)
        splits.plans(report, REPEATS)
        aligned = splits.aligned()
        one_record_each(brokers, TOPIC, PARTITIONS)
        aligned.plans(report, REPEATS)


def curve(report: Report) -> None:
    """Measure the same for 1,000 splits and up to 50,000, and compare each with 10,000."""
    set_up_planner_process()
    with clusters(CURVE[-1], PARTITIONS, in_memory=True) as brokers:
        create_topics(brokers[:1], FEW, FEW_PARTITIONS)
        sizes = [Splits(brokers[:1], FEW, FEW_PARTITIONS)]
        sizes += [Splits(brokers[:count], TOPIC, PARTITIONS) for count in CURVE]
        for splits in sizes:
            splits.first_plan(report)
        one_record_each(brokers[:1], FEW, FEW_PARTITIONS)
        one_record_each(brokers, TOPIC, PARTITIONS)
        medians = {splits.count: splits.plans(report, CURVE_REPEATS) for splits in sizes}
    whole = medians[CLUSTERS * PARTITIONS]
    for count, median_s in medians.items():
        report.row(what=f"{count:,} splits, with news", times_of_10_000=round(median_s / whole, 2))
