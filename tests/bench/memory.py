"""Memory: the planner with 10,000 splits over many metadata changes, and a worker that reads a large backlog.

Each runs in a separate process, as in Spark, but without Spark: the processes of planner and worker contain only
Python, pyspark, Arrow and the Kafka client.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.clusters import clusters, document, fill
from tests.bench.report import Report, heap_in_use_mb, peak_rss_mb, rss_mb
from tests.support.places import ROOT

CLUSTERS, PARTITIONS, CHANGES = 5, 2000, 360
"""360 changes are an hour of them at the default discovery interval of 10 s."""

BACKLOGS = ((600_000, 1024), (600, 1_000_000))
"""Records and their size in bytes: 600 MB each."""


def planner(report: Report) -> None:
    """Measure a planner over 10,000 splits, while metadata removes and adds clusters 360 times."""
    with clusters(CLUSTERS, PARTITIONS) as brokers, tempfile.TemporaryDirectory() as folder:
        documents = [document(brokers)]
        # One change removes a cluster, and the next one adds it back.
        documents += [document([*brokers[:gone], *brokers[gone + 1 :]]) for gone in range(1, CLUSTERS)]
        arguments = {"folder": folder, "documents": documents, "changes": CHANGES}
        for figures in _child("plan_through_changes", arguments):
            report.row(**figures)


def reading_worker() -> Iterator[dict[str, Any]]:
    """Yield the memory of a worker that reads one range of 600 MB, with the default batch sizes."""
    for records, size in BACKLOGS:
        with clusters(1, 1) as (broker,):
            fill(broker, 1, records=records, size=size)
            for figures in _child("read_backlog", {"documents": [document([broker])]}):
                yield {"records": records, "bytes_each": size, **figures}


def plan_through_changes(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Plan in the child process, and yield its memory."""
    from dynamic_kafka.driver.enumerator import Enumerator
    from dynamic_kafka.driver.heap_trim import HeapTrimmer
    from dynamic_kafka.options import parse_options
    from dynamic_kafka.spark.planner_process import set_up_planner_process

    set_up_planner_process()
    path = Path(given["folder"]) / "streams.json"
    _put(path, given["documents"][0])
    options = {
        "metadataPath": str(path),
        "streamIds": "orders",
        "startingOffsets": "earliest",
        "metadataDiscoveryInterval": "20ms",
        "stateLocation": f"{given['folder']}/state",
    }
    imported = rss_mb()
    trim = HeapTrimmer()
    enumerator = Enumerator(parse_options(options, mode="streaming"))
    saved: dict[str, Any] = {"version": 2}
    saved = json.loads(json.dumps(enumerator.latest(saved)))
    yield {"when": "imported", "rss_mb": imported}
    yield {"when": "first plan", "rss_mb": rss_mb(), "peak_mb": peak_rss_mb(), "heap_in_use_mb": heap_in_use_mb()}
    documents = given["documents"]
    for change in range(1, given["changes"] + 1):
        index = 0 if change % 2 == 0 else 1 + change // 2 % (len(documents) - 1)
        _put(path, documents[index])
        wanted = len(json.loads(documents[index])["streams"]["orders"]["clusters"])
        deadline = time.monotonic() + 30
        while len(saved["clusters"]) != wanted:
            assert time.monotonic() < deadline, "a change did not take effect"
            saved = json.loads(json.dumps(enumerator.latest(saved)))
            trim.count_round()
        enumerator.report()
        if change in (10, 60) or change % 120 == 0:
            figures = {"rss_mb": rss_mb(), "peak_mb": peak_rss_mb(), "heap_in_use_mb": heap_in_use_mb()}
            yield {"when": f"{change} changes", **figures}
    enumerator.stop()


def read_backlog(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Read in the child process, and yield its memory. As in Spark, only one batch is kept at a time."""
    from dynamic_kafka.driver.enumerator import Enumerator
    from dynamic_kafka.executor.reading.range_reader import read_range
    from dynamic_kafka.options import parse_options

    options = {"metadataService": "static", "metadataDocument": given["documents"][0], "streamIds": "orders"}
    enumerator = Enumerator(parse_options({**options, "startingOffsets": "earliest"}, mode="streaming"))
    start: dict[str, Any] = {"version": 2}
    (task,) = enumerator.tasks(start, enumerator.latest(start))
    enumerator.stop()
    imported = rss_mb()
    quarter, rows, marks = task.part.size // 4, 0, [imported]
    for batch in read_range(task):
        rows += batch.num_rows
        if rows >= quarter * len(marks):
            marks.append(rss_mb())
    yield {
        "rows": rows,
        "imported_mb": imported,
        "by_quarter_mb": [round(mark) for mark in marks[1:]],
        "peak_mb": peak_rss_mb(),
    }


def _put(path: Path, text: str) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)


def _child(function: str, given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.bench.memory", function, json.dumps(given)]
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'spark_app'}"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for line in child.stdout:
            yield json.loads(line)
    if child.returncode:
        raise RuntimeError(f"{function} ended with {child.returncode}")


if __name__ == "__main__":
    # Spark's worker has imported this before our code runs.
    import pyspark.sql.worker.plan_data_source_read  # noqa: F401

    for found in globals()[sys.argv[1]](json.loads(sys.argv[2])):
        print(json.dumps(found), flush=True)
