"""Reading: rows a second and CPU per row, by the reader alone and by Spark with a sink that drops all rows.

The reader alone reads without a record evaluator, with one for batches of rows, and with one for each record.

CPU time includes the client's threads. Other load on the machine affects it less than the wall clock.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dynamic_kafka import Record, RecordEvaluator
from tests.bench.clusters import clusters, document, fill
from tests.bench.report import Report
from tests.support.places import ROOT
from tests.support.spark_kafka import SPARK42_PYTHON, connector_jars

PARTITIONS, TURNS = 6, 3
SIZES = ((100, 2_000_000), (1024, 500_000))
"""Bytes of a record's value, and number of records."""
EVALUATORS = {"reader alone": "", "evaluator of batches": "NeverInBatch", "evaluator of records": "never"}
"""The record evaluator of each measurement, which looks at all values and ends no split."""


def never(record: Record) -> bool:
    """Look at a record's value, and end nothing."""
    return record.value == b"end of day"


class NeverInBatch(RecordEvaluator):
    """The same for a batch of rows."""

    def end_of_stream_mask(self, batch: pa.RecordBatch) -> Any:
        return pc.equal(batch.column("value"), b"end of day")


def run(report: Report) -> None:
    """Measure the reader alone, then Spark's own source and ours by turns, over the same records."""
    for size, records in SIZES:
        with clusters(1, PARTITIONS) as (broker,):
            fill(broker, PARTITIONS, records=records, size=size)
            for turn in range(TURNS):
                for what, evaluator in EVALUATORS.items():  # by turns, since other load comes and goes
                    given = json.dumps({"document": document([broker]), "evaluator": evaluator})
                    report.row(what=what, bytes_each=size, turn=turn, **_child("alone", given))
            if SPARK42_PYTHON.exists():
                for figures in _spark(broker.bootstrap):
                    report.row(bytes_each=size, **figures)


def alone(text: str) -> dict[str, Any]:
    """Read all ranges once, one after another, in this process, with an evaluator or without one."""
    from dynamic_kafka.driver.enumerator import Enumerator
    from dynamic_kafka.executor.evaluation import Evaluation
    from dynamic_kafka.executor.range_reader import read_range
    from dynamic_kafka.options import parse_options

    given = json.loads(text)
    options = {"metadataService": "static", "metadataDocument": given["document"], "streamIds": "orders"}
    if given["evaluator"]:
        options["recordEvaluator"] = f"tests.bench.reading:{given['evaluator']}"
    enumerator = Enumerator(parse_options({**options, "startingOffsets": "earliest"}, mode="streaming"))
    evaluation = Evaluation.of(enumerator.options, {})
    start: dict[str, Any] = {"version": 2}
    tasks = enumerator.tasks(start, enumerator.latest(start))
    enumerator.stop()
    began, cpu, rows = time.perf_counter(), time.process_time(), 0
    for task in tasks:
        rows += sum(batch.num_rows for batch in read_range(task, evaluation))
    wall, used = time.perf_counter() - began, time.process_time() - cpu
    return {"rows": rows, "rows_per_s": round(rows / wall), "cpu_us_per_row": round(used / rows * 1e6, 2)}


SPARK = """
import json, os, sys, time
from pathlib import Path
from dynamic_kafka import register
from tests.support.spark import start_spark
from tests.support.spark_kafka import connector_jars

bootstrap, turns = sys.argv[1], int(sys.argv[2])
spark = start_spark("bench", {"spark.jars": ",".join(map(str, connector_jars()))}, short_lived=False)
register(spark)

def cpu():
    # All processes of this session: the JVM and the Python workers. Parents include their ended children.
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[3] == str(os.getsid(0)):
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")

for turn in range(-1, turns):  # the first turn is a warm-up
    for name in ("kafka", "dynamic-kafka"):
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "orders"}
        frame = spark.read.format(name).options(**options).load()
        began, used = time.perf_counter(), cpu()
        frame.write.format("noop").mode("overwrite").save()
        wall, used = time.perf_counter() - began, cpu() - used
        if turn >= 0:
            print("BENCH", json.dumps({"what": name, "turn": turn, "wall_s": round(wall, 2), "cpu_s": round(used, 2)}),
                  flush=True)
spark.stop()
"""


def _spark(bootstrap: str) -> list[dict[str, Any]]:
    connector_jars()
    done = subprocess.run(
        [SPARK42_PYTHON, "-c", SPARK, bootstrap, str(TURNS)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'spark_app'}"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=True,
    )
    return [json.loads(line.removeprefix("BENCH ")) for line in done.stdout.splitlines() if line.startswith("BENCH ")]


def _child(function: str, given: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.reading", function, given]
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'spark_app'}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    figures = globals()[sys.argv[1]](sys.argv[2])
    figures["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
    print(json.dumps(figures))
