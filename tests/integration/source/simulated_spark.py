"""Streaming queries without Spark: the data source's reader on real brokers, called in Spark's order.

`Query` stands in for Spark's micro-batch engine: it logs each planned document as text before it reads, pickles the
tasks as Spark does, and calls `commit` for a batch when it plans the next one. It uses the data source itself: options
as text, read limits, columns. For crashes between any two steps, use `SourceRun` (`tests/support`), which drives the
enumerator. Tests of Spark's own behaviour run Spark.
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from dynamic_kafka import DynamicKafkaDataSource
from dynamic_kafka.planning.document.codec import decode
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.spark.stream_reader import DynamicKafkaStreamReader
from tests.support.kafka import KafkaCluster

Row = dict[str, Any]


def document(stream: str = "orders", /, **clusters: Mapping[str, Any]) -> str:
    """Return a metadata document of one stream: `document("orders", east=at(cluster, "orders-1"))`."""
    return json.dumps({"streams": {stream: {"clusters": clusters}}})


def at(cluster: KafkaCluster, *topics: str, **more: Any) -> dict[str, Any]:
    """Return a cluster's part of a document: its plaintext servers, its topics and further fields."""
    return {"bootstrapServers": cluster.bootstrap, "topics": list(topics), **more}


def static(text: str, **options: Any) -> dict[str, str]:
    """Return the options of a query over all streams of a document that the options contain."""
    streams = ";".join(json.loads(text)["streams"])
    given = {"metadataService": "static", "metadataDocument": text, "streamIds": streams}
    return given | {key.replace("__", "."): str(value) for key, value in options.items()}


def values(rows: Iterable[Row]) -> Counter[bytes | None]:
    """Return the rows' values as a multiset."""
    return Counter(row["value"] for row in rows)


def at_offsets(rows: Iterable[Row]) -> Counter[tuple[str, str, int, int]]:
    """Return (cluster, topic, partition, offset) of the rows as a multiset."""
    return Counter((row["kafka_cluster"], row["topic"], row["partition"], row["offset"]) for row in rows)


def numbered(count: int, prefix: str = "r") -> list[str]:
    """Return `count` different values."""
    return [f"{prefix}{number}" for number in range(count)]


class Query:
    """One streaming query. Its options and its offset log survive a `restart`.

    Attributes:
        log: the offset log: the text of each planned document.
        committed: number of committed batches.
        sizes: number of tasks of each batch that was read.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)
        self.log: list[str] = []
        self.committed = 0
        self.sizes: list[int] = []
        self.reader = self._made()

    def plan(self, limit: ReadLimit | None = None) -> bool:
        """Plan and log the next batch; return False if the planned document is the last one."""
        # Spark calls initialOffset twice before the first batch.
        start = self.log[-1] if self.log else [json.dumps(self.reader.initialOffset()) for _ in range(2)][-1]
        end = json.dumps(self.reader.latestOffset(json.loads(start), limit or self.reader.getDefaultReadLimit()))
        if end == start:
            return False
        self.log.append(end)
        if self.committed:
            # As in Spark: one batch late, and only if there is a new batch.
            self.reader.commit(json.loads(self.log[self.committed - 1]))
        return True

    def run(self) -> list[Row]:
        """Read the last logged batch, and commit it."""
        rows = self.read()
        self.committed = len(self.log)
        return rows

    def read(self) -> list[Row]:
        """Read the last logged batch without committing it, as before a crash."""
        start = self.log[-2] if len(self.log) > 1 else json.dumps(self.reader.initialOffset())
        partitions = self.reader.partitions(json.loads(start), json.loads(self.log[-1]))
        self.sizes.append(len(partitions))
        executor = pickle.loads(pickle.dumps(self.reader))
        return [
            row
            for partition in partitions
            for batch in executor.read(pickle.loads(pickle.dumps(partition)))
            for row in batch.to_pylist()
        ]

    def batch(self) -> list[Row]:
        """Run one trigger; return the rows of the next batch, or none."""
        return self.run() if self.plan() else []

    def drain(self, most: int = 100) -> list[list[Row]]:
        """Run triggers until no batch is planned; return the rows of each batch."""
        batches = []
        while self.plan():
            batches.append(self.run())
            assert len(batches) < most, "the source plans batches without end"
        return batches

    def once(self) -> list[Row]:
        """Run `Trigger.Once`; return its rows."""
        return self.run() if self.plan(ReadAllAvailable()) else []

    def restart(self, **changed: Any) -> Query:
        """Continue in a new process on the same checkpoint, with changed options."""
        self.stop()
        self.options |= {key.replace("__", "."): str(value) for key, value in changed.items()}
        self.reader = self._made()
        return self

    @property
    def saved(self) -> OffsetDocument:
        """Return the last logged document."""
        return decode(self.log[-1])

    def offsets(self) -> dict[tuple[str, str], dict[int, int]]:
        """Return {(cluster, topic): {partition: next offset}} of the saved document."""
        return {
            (cluster, name): dict(topic.next)
            for cluster, progress in self.saved.clusters.items()
            for name, topic in progress.topics.items()
        }

    def stop(self) -> None:
        """End the query."""
        self.reader.stop()

    def _made(self) -> DynamicKafkaStreamReader:
        source = DynamicKafkaDataSource(dict(self.options))
        reader = source.streamReader(source.schema())
        assert isinstance(reader, DynamicKafkaStreamReader)
        return reader


@contextmanager
def query(options: Mapping[str, str]) -> Iterator[Query]:
    """Yield a `Query`, and stop it at the end."""
    made = Query(options)
    try:
        yield made
    finally:
        made.stop()


def read_batch(options: Mapping[str, str]) -> list[Row]:
    """Return the rows of a batch read, as `spark.read` would."""
    source = DynamicKafkaDataSource(dict(options))
    reader = source.reader(source.schema())
    partitions = reader.partitions()
    executor = pickle.loads(pickle.dumps(reader))
    return [
        row
        for partition in partitions
        for batch in executor.read(pickle.loads(pickle.dumps(partition)))
        for row in batch.to_pylist()
    ]
