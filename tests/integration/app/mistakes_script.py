"""A user's script that makes one mistake after the other, in one Spark: what it prints ends as an own script would.

Runs as `python -m tests.integration.app.mistakes_script SERVERS TOPIC FOLDER`. A line `=== name` on standard error
begins each mistake. The exception goes to `sys.excepthook`, as it would if it ended the script.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from dynamic_kafka import register
from tests.support.spark import start_spark
from tests.support.streams import cluster, stream, write_metadata


class Script:
    """The steps of the script, with the options that are right."""

    def __init__(self, spark: SparkSession, servers: str, topic: str, folder: Path) -> None:
        self.spark, self.folder, self.servers, self.topic = spark, folder, servers, topic
        path = self.metadata("streams", servers, topic)
        self.right = {"streamIds": "orders", "metadataPath": path, "startingOffsets": "earliest"}

    def metadata(self, name: str, servers: str, topic: str) -> str:
        """Write a document with one cluster; return its path."""
        listed = stream("orders", cluster("east", servers, [topic]))
        return str(write_metadata(self.folder / f"{name}.json", listed))

    def read(self, **options: str) -> DataFrame:
        """Return the stream with these options beside the right ones."""
        return self.spark.readStream.format("dynamic-kafka").options(**self.right | options).load()

    def start(self, name: str, output: str | None = None, **options: str) -> StreamingQuery:
        """Start a query that ends when it has read everything."""
        writer = self.read(**options).writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoints" / name))
        if output is None:
            return writer.format("noop").start()
        return writer.format("parquet").start(str(self.folder / output))

    def option(self) -> None:
        self.read(streamIdz="orders")

    def stall_without_state(self) -> None:
        self.read(clusterFailurePolicy="stall")

    def server(self) -> None:
        path = self.metadata("server", "127.0.0.1:1", self.topic)
        self.start("server", metadataPath=path, readTimeout="1s").awaitTermination()

    def topic_name(self) -> None:
        path = self.metadata("topic", self.servers, f"{self.topic}-mistyped")
        self.start("topic", metadataPath=path).awaitTermination()

    def sparks_checkpoint(self) -> None:
        checkpoint = self.folder / "checkpoints" / "sparks"
        for folder in ("offsets", "commits"):
            (checkpoint / folder).mkdir(parents=True)
        (checkpoint / "metadata").write_text('{"id":"5f1c0e9a-7b3d-4c62-a1e0-8d3f6b7c9d10"}')
        settings = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
        (checkpoint / "offsets" / "0").write_text(f'v1\n{settings}\n{{"{self.topic}":{{"0":1}}}}')
        (checkpoint / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
        self.start("sparks").awaitTermination()

    def secret_reference(self) -> None:
        login = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "me"}
        login |= {"kafka.sasl.password": "${file:/no/such/file:password}", "allowedServers": self.servers}
        self.start("secret", **login).awaitTermination()

    def shared_group(self) -> None:
        # In several batches: Spark passes a committed batch to the source when it plans the next one.
        group = {"kafka.group.id": f"group-{self.topic}", "maxOffsetsPerTrigger": "1"}
        self.start("first-of-group", **group).awaitTermination()
        self.start("second-of-group", **group).awaitTermination()

    def output_folder(self) -> None:
        self.start("first-output", "output").awaitTermination()
        self.start("second-output", "output").awaitTermination()

    def missing_file(self) -> None:
        self.start("missing", metadataPath=str(self.folder / "missing.yaml")).awaitTermination()


def main(servers: str, topic: str, folder: str) -> None:
    """Make all mistakes, the last one without a handler."""
    spark = start_spark("mistakes")
    register(spark)
    script = Script(spark, servers, topic, Path(folder))
    steps: list[Callable[[], None]] = [
        script.option,
        script.stall_without_state,
        script.server,
        script.topic_name,
        script.sparks_checkpoint,
        script.secret_reference,
        script.shared_group,
        script.output_folder,
    ]
    for step in steps:
        print(f"=== {step.__name__}", file=sys.stderr, flush=True)
        try:
            step()
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
    print("=== missing_file", file=sys.stderr, flush=True)
    script.missing_file()


if __name__ == "__main__":
    main(*sys.argv[1:])
