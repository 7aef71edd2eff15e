"""Compare our source with Spark's own `kafka` source: run the same jobs over both, in a separate driver.

Runs as `python -m tests.integration.source.compare_sources <runs> <results>` in `.venv-spark42`, since the connector
needs that version of Spark. The result of a run has its schema, its rows (as plain values, in order) and the outcome of
a small job; or the text of the error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dynamic_kafka import register
from tests.support.spark import start_spark
from tests.support.spark_kafka import connector_jars


def outcome(spark: SparkSession, name: str, run: dict[str, Any]) -> dict[str, Any]:
    """Return the result of one run. Only the format and the options differ between the two sources."""
    try:
        if run["mode"] == "batch":
            frame = spark.read.format(run["format"]).options(**run["options"]).load().cache()
            return {"schema": frame.schema.jsonValue(), "rows": plain(frame), "job": job(frame)}
        stream = spark.readStream.format(run["format"]).options(**run["options"]).load()
        table = name.replace("-", "_")
        writer = stream.writeStream.format("memory").queryName(table).trigger(availableNow=True)
        query = writer.start()
        query.awaitTermination(60)
        frame = spark.table(table)
        batches = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
        return {"schema": stream.schema.jsonValue(), "rows": plain(frame), "job": job(frame), "batches": batches}
    except Exception as error:
        return {"refused": str(error)}


def plain(frame: DataFrame) -> list[list[Any]]:
    """Return Spark's columns of all rows as JSON values, sorted."""
    headers = ["to_json(headers)"] if "headers" in frame.columns else []
    chosen = frame.selectExpr(
        "topic",
        "partition",
        "offset",
        "hex(key)",
        "hex(value)",
        "unix_micros(timestamp)",
        "timestampType",
        *headers,
    )
    return sorted(list(row) for row in chosen.collect())


def job(frame: DataFrame) -> list[list[Any]]:
    """Return the outcome of a typical job: decode, filter, group by time and partition."""
    frame.createOrReplaceTempView("job_input")
    counted = frame.sparkSession.sql(
        """SELECT CAST(window.start AS STRING), partition, count(*), count(DISTINCT CAST(value AS STRING))
        FROM job_input WHERE key IS NOT NULL GROUP BY window(timestamp, '10 seconds'), partition ORDER BY 1, 2"""
    )
    return [list(row) for row in counted.collect()]


def main(runs: Path, results: Path) -> None:
    """Run all jobs in one session, and write their results."""
    spark = start_spark("both sources", {"spark.jars": ",".join(map(str, connector_jars()))})
    register(spark)
    outcomes = {name: outcome(spark, name, run) for name, run in json.loads(runs.read_text()).items()}
    results.write_text(json.dumps({"version": spark.version, "outcomes": outcomes}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
