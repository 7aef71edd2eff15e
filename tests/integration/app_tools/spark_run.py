"""One `AvailableNow` run of a query in a process of its own, under whatever Spark its interpreter has.

`run_spark` starts it from a test; as a program it is that process. The sink is Parquet, or one that fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.places import ROOT

TIMEOUT_S = 240


def run_spark(
    python: Path | str,
    form: str,
    options: Mapping[str, str],
    folder: Path,
    *,
    jars: tuple[Path, ...] = (),
    fails: bool = False,
) -> str:
    """Run a query on `folder/checkpoint` into `folder/output` to its end. Returns Spark's version.

    Args:
        python: the interpreter.
        form: the source's name, `kafka` or `dynamic-kafka`.
        fails: let the sink fail, so that its batch stays pending.
    """
    spec = {
        "form": form,
        "options": dict(options),
        "folder": str(folder),
        "jars": [str(jar) for jar in jars],
        "fails": fails,
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


def _run(spec: Mapping[str, Any]) -> None:
    from pyspark.errors import StreamingQueryException

    from dynamic_kafka.source import register
    from tests.support.spark import start_spark

    settings = {"spark.jars": ",".join(spec["jars"])} if spec["jars"] else {}
    spark = start_spark("run", settings)
    if spec["form"] == "dynamic-kafka":
        register(spark)
    frame = spark.readStream.format(spec["form"]).options(**spec["options"]).load()
    writer = frame.writeStream.option("checkpointLocation", f"{spec['folder']}/checkpoint").trigger(availableNow=True)
    if spec["fails"]:
        query = writer.foreachBatch(_failing).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if "the sink is down" not in str(error):
                raise
    else:
        writer.format("parquet").option("path", f"{spec['folder']}/output").start().awaitTermination()
    print(spark.version)
    spark.stop()


def _failing(frame: object, batch: int) -> None:
    raise RuntimeError("the sink is down")


if __name__ == "__main__":
    _run(json.loads(sys.argv[1]))
