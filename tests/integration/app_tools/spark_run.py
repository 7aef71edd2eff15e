"""One `AvailableNow` run of a query in a process of its own, under whatever Spark its interpreter has.

`run_spark` starts it from a test; as a program it is that process. The sink writes each batch to a folder of its own,
again if it comes again, and can be made to fail.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyarrow import parquet

from tests.support.places import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIMEOUT_S = 240


def run_spark(
    python: Path | str,
    form: str,
    options: Mapping[str, str],
    folder: Path,
    *,
    jars: tuple[Path, ...] = (),
    fails_at: int | None = None,
) -> str:
    """Run a query on `folder/checkpoint` into `folder/output/<batch>` to its end. Returns Spark's version.

    Args:
        python: the interpreter.
        form: the source's name, `kafka` or `dynamic-kafka`.
        fails_at: the batch that fails in the sink, and so stays pending.
    """
    spec = {
        "form": form,
        "options": dict(options),
        "folder": str(folder),
        "jars": [str(jar) for jar in jars],
        "fails_at": fails_at,
    }
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "SPARK"))}
    done = subprocess.run(
        [str(python), "-m", "tests.integration.app_tools.spark_run", json.dumps(spec)],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": f"{ROOT / 'spark_app'}{os.pathsep}{ROOT}"},
        text=True,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.strip().splitlines()[-1]


def delivered(folder: Path, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of all rows below `folder/output`."""
    tables = [parquet.read_table(file, columns=list(columns)) for file in sorted(folder.glob("output/*/*.parquet"))]
    return [row for table in tables for row in zip(*(table[name].to_pylist() for name in columns), strict=True)]


def _run(spec: Mapping[str, Any]) -> None:
    from pyspark.errors import StreamingQueryException

    from dynamic_kafka.spark.source import register
    from tests.support.spark import start_spark

    settings = {"spark.jars": ",".join(spec["jars"])} if spec["jars"] else {}
    spark = start_spark("run", settings)
    if spec["form"] == "dynamic-kafka":
        register(spark)
    frame = spark.readStream.format(spec["form"]).options(**spec["options"]).load()

    def write(batch: DataFrame, number: int) -> None:
        if number == spec["fails_at"]:
            raise RuntimeError("the sink is down")
        batch.write.mode("overwrite").parquet(f"{spec['folder']}/output/{number}")

    writer = frame.writeStream.option("checkpointLocation", f"{spec['folder']}/checkpoint").trigger(availableNow=True)
    try:
        writer.foreachBatch(write).start().awaitTermination()
    except StreamingQueryException as error:
        if "the sink is down" not in str(error):
            raise
    print(spark.version)
    spark.stop()


if __name__ == "__main__":
    _run(json.loads(sys.argv[1]))
