"""Queries without Spark, for breadth: real brokers and the source's own reader, called in Spark's order.

`Query` plays the part of Spark's micro-batch engine: it logs each planned document as text before anything is read,
pickles the tasks as Spark does, and tells the source of a batch when it makes the next one. It calls the data source
itself: options as text, read limits, columns. Crashes between any two steps are `SourceRun`'s (`tests/support`), which
drives the enumerator behind it. Where Spark's own behaviour matters, tests run Spark.
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
from dynamic_kafka.planning.codec import decode
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.spark.stream_reader import DynamicKafkaStreamReader
from tests.support.kafka import KafkaCluster

Row = dict[str, Any]


def document(stream: str = "orders", /, **clusters: Mapping[str, Any]) -> str:
    """A metadata document of one stream: `document("orders", east=at(cluster, "orders-1"))`."""
    return json.dumps({"streams": {stream: {"clusters": clusters}}})


def at(cluster: KafkaCluster, *topics: str, **more: Any) -> dict[str, Any]:
    """What a document says of a cluster: its plaintext servers, its topics, and whatever else it names."""
    return {"bootstrapServers": cluster.bootstrap, "topics": list(topics), **more}


def static(text: str, **options: Any) -> dict[str, str]:
    """Options of a query over a document that stands in the options; ids are those of all its streams."""
    streams = ";".join(json.loads(text)["streams"])
    given = {"metadataService": "static", "metadataDocument": text, "streamIds": streams}
    return given | {key.replace("__", "."): str(value) for key, value in options.items()}


def values(rows: Iterable[Row]) -> Counter[bytes | None]:
    """The rows' values as a multiset."""
    return Counter(row["value"] for row in rows)


def at_offsets(rows: Iterable[Row]) -> Counter[tuple[str, str, int, int]]:
    """(cluster, topic, partition, offset) of the rows as a multiset."""
    return Counter((row["kafka_cluster"], row["topic"], row["partition"], row["offset"]) for row in rows)


def numbered(count: int, prefix: str = "r") -> list[str]:
    """`count` values that tell themselves apart."""
    return [f"{prefix}{number}" for number in range(count)]


class Query:
    """One streaming query: its options and its offset log outlive the process that runs it (`restart`).

    Attributes:
        log: the offset log: the text of each planned document.
        committed: how many batches Spark has committed.
        sizes: tasks of each batch that was read.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)
        self.log: list[str] = []
        self.committed = 0
        self.sizes: list[int] = []
        self.reader = self._made()

    def plan(self, limit: ReadLimit | None = None) -> bool:
        """Plan and log the next batch; False when the source has nothing new, to the letter."""
        # Spark asks twice before the first batch.
        start = self.log[-1] if self.log else [json.dumps(self.reader.initialOffset()) for _ in range(2)][-1]
        end = json.dumps(self.reader.latestOffset(json.loads(start), limit or self.reader.getDefaultReadLimit()))
        if end == start:
            return False
        self.log.append(end)
        if self.committed:
            # One batch late, and never while there is nothing new.
            self.reader.commit(json.loads(self.log[self.committed - 1]))
        return True

    def run(self) -> list[Row]:
        """Read the batch that was logged last, and commit it."""
        rows = self.read()
        self.committed = len(self.log)
        return rows

    def read(self) -> list[Row]:
        """Read the batch that was logged last without committing it, as a run that dies does."""
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
        """One trigger: the rows of the next batch, none when there is nothing new."""
        return self.run() if self.plan() else []

    def drain(self, most: int = 100) -> list[list[Row]]:
        """Triggers until there is nothing new: the rows of each batch."""
        batches = []
        while self.plan():
            batches.append(self.run())
            assert len(batches) < most, "the source plans batches without end"
        return batches

    def once(self) -> list[Row]:
        """`Trigger.Once`."""
        return self.run() if self.plan(ReadAllAvailable()) else []

    def restart(self, **changed: Any) -> Query:
        """Another process on the same checkpoint, with options changed: a batch that was not committed is replayed
        by `run`."""
        self.stop()
        self.options |= {key.replace("__", "."): str(value) for key, value in changed.items()}
        self.reader = self._made()
        return self

    @property
    def saved(self) -> OffsetDocument:
        """The document that was logged last."""
        return decode(self.log[-1])

    def offsets(self) -> dict[tuple[str, str], dict[int, int]]:
        """{(cluster, topic): {partition: next offset}} of the saved document."""
        return {
            (cluster, name): dict(topic.next)
            for cluster, progress in self.saved.clusters.items()
            for name, topic in progress.topics.items()
        }

    def stop(self) -> None:
        """End of the run."""
        self.reader.stop()

    def _made(self) -> DynamicKafkaStreamReader:
        source = DynamicKafkaDataSource(dict(self.options))
        reader = source.streamReader(source.schema())
        assert isinstance(reader, DynamicKafkaStreamReader)
        return reader


@contextmanager
def query(options: Mapping[str, str]) -> Iterator[Query]:
    """A `Query` that is stopped at the end."""
    made = Query(options)
    try:
        yield made
    finally:
        made.stop()


def read_batch(options: Mapping[str, str]) -> list[Row]:
    """A batch read, `spark.read`, without Spark."""
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
