"""A query of `killed_source` whose processes are killed with -9, for tests: its files, its drivers and its rows.

A test starts the driver that is killed as a process of its own. The driver after that may be the tests' Spark session:
`start_query` finds the same checkpoint in the story's folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pyspark

from tests.integration.source.evaluators import END
from tests.support.driver_process import DriverProcess
from tests.support.fixtures import Brokers
from tests.support.object_store import BUCKET
from tests.support.streams import Rows, cluster, parquet_rows, produce, stream, write_metadata

DRIVER = """
import os
import sys
from pathlib import Path

from dynamic_kafka import cause_of, stop_when_finished
from tests.integration.source.killed_source import KilledSource
from tests.support.spark import start_spark

story, master, options = Path(sys.argv[1]), sys.argv[2], dict(pair.split("=", 1) for pair in sys.argv[3:])
spark = start_spark("killed", {"spark.master": master, "spark.executor.memory": "512m"})
(story / "driver").write_text(str(os.getpid()))
spark.dataSource.register(KilledSource)
frame = spark.readStream.format("dynamic-kafka").options(**options).load()
writer = frame.writeStream.format("parquet").option("path", str(story / "query-output"))
writer = writer.option("checkpointLocation", str(story / "query-checkpoint"))
query = writer.trigger(processingTime="100 milliseconds").start()
try:
    assert stop_when_finished(query)
except Exception as error:
    (story / "failed").write_text(str(cause_of(error)))
    raise
(story / "ended").touch()
"""


class KilledStory:
    """One query, whose processes can be killed. Its files are in one folder, as `killed_source` wants them.

    Args:
        topic: a topic of the clusters.
        options: more options of the source.
    """

    def __init__(self, folder: Path, brokers: Brokers, topic: str, **options: str) -> None:
        self.folder, self.brokers, self.topic = folder, brokers, topic
        self.killed = folder / "killed"
        self.held, self.held_ranges, self.holding = folder / "held", folder / "held-ranges", folder / "holding"
        self.options: dict[str, object] = {
            "streamIds": "orders",
            "metadataPath": folder / "streams.json",
            "metadataDiscoveryInterval": "200ms",
            "startingOffsets": "earliest",
            "stateLocation": folder / "state",
            **options,
        }
        self.environment: dict[str, str] = {}
        self._drivers = 0
        self.kill("nobody")

    def name(self, *clusters: str, pins: Mapping[str, str] = MappingProxyType({})) -> None:
        """Let metadata name these clusters. `pins` has the id of the topic on some of them."""
        more = {site: {"topicIds": {self.topic: topic_id}} for site, topic_id in pins.items()}
        named = (cluster(site, getattr(self.brokers, site), [self.topic], **more.get(site, {})) for site in clusters)
        write_metadata(self.folder / "streams.json", stream("orders", *named))

    def keep_state_in(self, store: Mapping[str, str]) -> None:
        """Keep the state in an object store instead of the folder.

        Args:
            store: the environment with its address and log-in.
        """
        self.environment |= store
        self.options["stateLocation"] = f"s3a://{BUCKET}/{self.folder.name}"

    def kill(self, what: str) -> None:
        """Name the next process to kill once, and its step."""
        (self.folder / "kill").write_text(what)
        self.killed.unlink(missing_ok=True)

    def produce(self, cluster_id: str, count: int, *, partition: int = 0, end: bool = False) -> Rows:
        """Send records, with `end` the record that ends the split and three more. Return the rows that they become."""
        at = getattr(self.brokers, cluster_id)
        rows = produce(cluster_id, at, self.topic, count, partition=partition)
        if end:
            at.produce(self.topic, [END, "late", "late", "late"], partition=partition)
        return rows

    def start(self, master: str) -> DriverProcess:
        """Start a driver. The executors of `local-cluster` run in a folder of the story, not in the package's."""
        home = self.folder / "spark-home"
        home.mkdir(exist_ok=True)
        if not self._drivers:
            for part in Path(pyspark.__file__).parent.iterdir():
                (home / part.name).symlink_to(part)
        self._drivers += 1
        given = [str(self.folder), master, *(f"{name}={value}" for name, value in self.options.items())]
        log = self.folder / f"driver-{self._drivers}.log"
        return DriverProcess(DRIVER, given, log, environment={"SPARK_HOME": str(home), **self.environment})

    def failure(self) -> str:
        """Return why the query of a driver process has failed; empty if it has not."""
        file = self.folder / "failed"
        return file.read_text() if file.exists() else ""

    def rows(self) -> Rows:
        output = self.folder / "query-output"
        return parquet_rows(output) if (output / "_spark_metadata").exists() else Rows()

    def reads(self) -> list[Mapping[str, object]]:
        """All attempts to read a range so far."""
        file = self.folder / "reads"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
