"""`python -m tests.support.spark_warm_up` (`make setup`): the class archive of this environment's Spark.

Spark is run once, through what most tests do to it, and its JVM dumps the classes it loaded. With them a session starts
in less than half the time and processor time. Tests do without when this never ran. The archive lies in the virtual
environment, since it is only valid for jars at one place.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.spark import class_archive, spark_environment, spark_settings, start_spark


def main() -> None:
    """Write the archive, unless this environment and this JDK have one."""
    archive = class_archive()
    if archive is None or archive.exists():
        return
    print("Preparing Spark")
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        dumped = Path(scratch) / archive.name
        # The JVM outlives the interpreter, and holds its pipe until it has dumped.
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.spark_warm_up", scratch, str(dumped)],
            env=os.environ | spark_environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode != 0 or not dumped.exists():
            sys.exit(f"Spark could not be run once:\n{done.stdout[-4000:]}")
        dumped.rename(archive)


def _run(folder: Path, dumped: Path) -> None:
    settings = spark_settings(folder)
    java = f"{settings['spark.driver.extraJavaOptions']} -XX:ArchiveClassesAtExit={dumped} -Xlog:cds=off"
    spark = start_spark("warm-up", settings | {"spark.driver.extraJavaOptions": f"{java} -Xlog:cds+dynamic=off"})
    from pyspark.sql.functions import udf

    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    frame = frame.where(udf(lambda value: value >= 0, "boolean")("value"))
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(once=True).start(str(folder / "out"))
    query.awaitTermination()
    rows = spark.read.parquet(str(folder / "out")).groupBy("value").count().collect()
    assert len(rows) == 10, rows
    spark.stop()


if __name__ == "__main__":
    _run(*map(Path, sys.argv[1:])) if sys.argv[1:] else main()
