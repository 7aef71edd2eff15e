"""The operator's own work in a fleet: its looks and processor seconds for each change, without an API server's time.

The API server is in memory. Each job reads ten streams, and each stream is on two of twenty clusters that all share.
`looks` counts the keys that the queue hands out until nothing is left to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from kafkastream_operator.kube.api import KUBEFLOW_APPLICATIONS
from tests.bench.report import Report
from tests.unit.operator.fleet import RUNNING, Fleet
from tests.unit.operator.world import cluster

SIZES = ((1000, 100), (3000, 300), (10_000, 1000))
"""Streams and jobs."""
CLUSTERS, STREAMS_OF_A_JOB, REPEATS = 20, 10, 5


def run(report: Report) -> None:
    """Measure a cold start, and then single changes, for each size of the fleet."""
    for streams, jobs in SIZES:
        for figures in _measured(streams, jobs):
            report.row(**figures)


def _measured(streams: int, jobs: int) -> Iterator[dict[str, Any]]:
    fleet = Fleet()

    def measured(what: str, change: Callable[[int], object], repeats: int = REPEATS) -> dict[str, Any]:
        looks, written, began = 0, len(fleet.writes), time.process_time()
        for repeat in range(repeats):
            change(repeat)
            looks += fleet.settle()
        return {
            "what": f"{streams:,} streams, {jobs:,} jobs: {what}",
            "cpu_ms": round((time.process_time() - began) / repeats * 1000, 2),
            "looks": round(looks / repeats, 1),
            "writes": round((len(fleet.writes) - written) / repeats, 1),
        }

    for number in range(streams):
        fleet.stream(f"s{number}", [_on(number), _on(number + 7)])
    for number in range(jobs):
        first = number * STREAMS_OF_A_JOB
        fleet.subscription(f"app{number}", ids=[f"s{nth % streams}" for nth in range(first, first + STREAMS_OF_A_JOB)])
        fleet.runs(f"app{number}")
    yield measured("a cold start", lambda _: None, repeats=1)
    yield measured("the first report of each job", lambda _: [fleet.reports(f"app{n}") for n in range(jobs)], repeats=1)
    beats = count(1)
    yield measured("a beat of one job", lambda _: fleet.reports("app3", next(beats)))
    yield measured("a topic more in a stream", lambda n: fleet.stream(f"s{n}", [_on(n), _on(n + 7, f"more{n}")]))
    yield measured("a cluster less in a stream", lambda n: fleet.stream(f"s{n + 50}", [_on(n + 50)]))
    yield measured(
        "an application without streams",
        lambda n: fleet.put(KUBEFLOW_APPLICATIONS, f"batch{n}", {"status": RUNNING}),
    )
    yield measured("a resync", lambda _: fleet.wake_all(), repeats=1)


def _on(number: int, *more: str) -> dict[str, Any]:
    return cluster(f"c{number % CLUSTERS}", f"t{number}", *more)
