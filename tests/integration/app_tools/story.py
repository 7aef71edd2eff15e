"""A query of an `app.yaml` in this process, for the tools to work on: real Spark checkpoints, and the tools' output.

Each run is one `AvailableNow` run of the sink's query with the options that the application gives it; a run may be made
to fail in its sink, which leaves a pending batch behind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import yaml

from dynamic_kafka.app.cli import main
from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.spark.source import register
from tests.support.streams import Collected, Rows, cluster, write_metadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.support.kafka import KafkaCluster


class Story:
    """One application with one sink, `out`, over the stream `orders`."""

    def __init__(self, spark: SparkSession, folder: Path, **options: str) -> None:
        self.spark, self.folder = spark, folder
        self.app = folder / "app.yaml"
        self.metadata = folder / "streams.json"
        self.sink = Collected()
        self.app.write_text(
            yaml.safe_dump(
                {
                    "name": "shop",
                    "metadata": str(self.metadata),
                    "streams": {"ids": ["orders"]},
                    "options": {"startingOffsets": "earliest", **options},
                    "checkpoint": str(folder / "checkpoint"),
                    "sinks": [{"name": "out", "type": "console"}],
                }
            )
        )

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint" / "out"

    @property
    def state(self) -> Path:
        return self.checkpoint / "dynamic-kafka"

    def reads(self, topic: str, **clusters: KafkaCluster) -> str:
        """Make the topic on each cluster, and name them in metadata. Returns the topic."""
        for kafka_cluster in clusters.values():
            kafka_cluster.create_topic(topic)
        self.names(*(cluster(name, kafka_cluster, [topic]) for name, kafka_cluster in clusters.items()))
        return topic

    def names(self, *clusters: Mapping[str, Any]) -> None:
        """Replace the metadata."""
        write_metadata(self.metadata, {"streamId": "orders", "clusterMetadataList": list(clusters)})

    def run(self, *, fails: bool = False) -> Rows:
        """One run to the end: what it delivered. With `fails`, its first batch fails in the sink."""
        register(self.spark)
        config = load_config(self.app)
        options = config.reader_options(config.sink())
        taken = self.sink.rows()

        def failing(frame: DataFrame, batch: int) -> None:
            raise RuntimeError("the sink is down")

        frame = self.spark.readStream.format("dynamic-kafka").options(**options).load()
        writer = frame.writeStream.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        query = writer.foreachBatch(failing if fails else self.sink).start()
        try:
            query.awaitTermination(90)
        except Exception:
            if not fails:
                raise
        finally:
            query.stop()
        return self.sink.rows() - taken


class MakeStory(Protocol):
    """Makes a story with options of the source."""

    def __call__(self, **options: str) -> Story:
        """In the test's own folder."""


class Tools:
    """The tools, called as from a command line."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured
        self.output = ""
        self.errors = ""

    def __call__(self, *arguments: object) -> int:
        """Run one tool and return its exit code. Its standard output is in `output`, its standard error in `errors`."""
        self._captured.readouterr()
        code = main([str(argument) for argument in arguments])
        self.output, self.errors = self._captured.readouterr()
        return code

    def json(self, *arguments: object, code: int = 0) -> Any:
        """Run one with `--json`; returns what it printed."""
        assert self(*arguments, "--json") == code, self.output + self.errors
        return json.loads(self.output)


def contents(folder: Path) -> list[Any]:
    """The JSON files of a folder, by name."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def every_file(folder: Path) -> dict[str, bytes]:
    """All files below a folder, to see that nothing changed."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
