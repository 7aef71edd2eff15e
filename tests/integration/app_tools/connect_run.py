"""`AvailableNow` runs of a query over Spark Connect: this process is the client, and the query runs in the server.

Runs as `python -m tests.integration.app_tools.connect_run <url> <folder> <options> …`, a run for each mapping of
options, one after the other on one checkpoint. It delivers to `folder/output`, a table of Parquet files with Spark's
own log, and prints how many rows the table has after each.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from dynamic_kafka.spark.source import register


def main(url: str, folder: str, *runs: str) -> None:
    """Run the query to its end, as many times."""
    spark = SparkSession.builder.remote(url).getOrCreate()
    assert type(spark).__module__ == "pyspark.sql.connect.session"
    register(spark)
    for options in runs:
        frame = spark.readStream.format("dynamic-kafka").options(**json.loads(options)).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
        writer.trigger(availableNow=True).start(f"{folder}/output").awaitTermination()
        print(spark.read.parquet(f"{folder}/output").count())
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
