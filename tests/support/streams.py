"""Streams for tests: metadata files, queries on the source, and what they delivered, row by row.

The test's process is Spark's driver. A query reads the streams of a metadata file that `write_metadata` replaces
atomically. The delivered records are a multiset of `Row`, which is compared with the one that `produce` returned.
`source_run.py` drives the same source without Spark.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlparse

from confluent_kafka import KafkaError, KafkaException
from pyarrow import parquet

from dynamic_kafka.planning.document.codec import decode
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.spark.source import register
from tests.support.kafka import KafkaCluster
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DEADLINE_S = 90.0
"""The deadline of every wait; generous, since a wait ends with its event."""
POLL_S = 0.05


class Row(NamedTuple):
    """The fields of a delivered record that identify it. `cluster` is the user's id."""

    cluster: str
    topic: str
    partition: int
    offset: int
    value: str


Rows = Counter[Row]


# -- metadata ----------------------------------------------------------------------------------------------------------


def cluster(cluster_id: str, at: KafkaCluster | str, topics: Sequence[str], **more: Any) -> dict[str, Any]:
    """One cluster of a stream in the list form; `more` are fields such as `properties` or `startingOffsets`."""
    servers = at if isinstance(at, str) else at.bootstrap
    return {"clusterId": cluster_id, "bootstrapServers": servers, "topics": list(topics), **more}


def stream(stream_id: str, *clusters: Mapping[str, Any]) -> dict[str, Any]:
    """One stream in the list form."""
    return {"streamId": stream_id, "clusterMetadataList": list(clusters)}


def write_metadata(path: Path, *streams: Mapping[str, Any]) -> Path:
    """Put a document of these streams in place, whole: readers see the old one or the new one. Returns `path`."""
    return write_text(path, json.dumps(streams, indent=1))


def write_text(path: Path, text: str) -> Path:
    """Put any text in place, whole."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text)
    draft.replace(path)
    return path


# -- records -----------------------------------------------------------------------------------------------------------


def produce(
    cluster_id: str, at: KafkaCluster, topic: str, count: int, *, partition: int = 0, prefix: str = "v"
) -> Rows:
    """Send `count` records to one partition and return them as the rows they must become, once each."""
    first = _end_offset(at, topic, partition)
    values = [f"{prefix}-{topic}-{partition}-{first + n}" for n in range(count)]
    at.produce(topic, values, partition=partition)
    return Rows(Row(cluster_id, topic, partition, first + n, value) for n, value in enumerate(values))


def _end_offset(at: KafkaCluster, topic: str, partition: int) -> int:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return at.end_offsets(topic)[partition]
        except KafkaException as error:
            # The metadata names the leader of a new partition a moment before the leader serves it.
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)


def renamed(rows: Rows, cluster_id: str) -> Rows:
    """Return the same records, read under another cluster id."""
    return Rows({row._replace(cluster=cluster_id): count for row, count in rows.items()})


def difference(rows: Rows, wanted: Rows) -> str:
    """Return the missing and the surplus rows as text; empty if both are the same multiset."""
    missing, extra = wanted - rows, rows - wanted
    if not missing and not extra:
        return ""
    sides = ((missing, "missing"), (extra, "too much"))
    return "; ".join(f"{side.total()} {what}, such as {sorted(side)[:5]}" for side, what in sides if side)


def assert_rows(rows: Rows, wanted: Rows) -> None:
    """Exactly the wanted rows, each as often as wanted."""
    problem = difference(rows, wanted)
    assert not problem, problem


# -- queries -----------------------------------------------------------------------------------------------------------


class Collected:
    """A `foreachBatch` sink in this process: the rows of every batch, and an event for each."""

    def __init__(self) -> None:
        self.batches: dict[int, Rows] = {}
        self._changed = threading.Condition()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Take a batch; the same one again replaces what an earlier attempt left, as an idempotent sink does."""
        rows = collect(frame)
        with self._changed:
            self.batches[batch] = rows
            self._changed.notify_all()

    def rows(self) -> Rows:
        """All rows so far."""
        with self._changed:
            return sum(self.batches.values(), Rows())

    def wait(self, timeout_s: float) -> None:
        """Wait for the next batch, or until the time is over."""
        with self._changed:
            self._changed.wait(timeout_s)


def collect(frame: DataFrame) -> Rows:
    """Return the rows of a batch frame."""
    chosen = frame.selectExpr("kafka_cluster", "topic", "partition", "offset", "CAST(value AS STRING)")
    return Rows(Row(*row) for row in chosen.collect())


class RunningQuery:
    """A streaming query on `dynamic-kafka`, its sink and its checkpoint."""

    def __init__(self, query: StreamingQuery, checkpoint: Path, sink: Collected | None, output: Path) -> None:
        self.query, self.checkpoint, self.sink, self.output = query, checkpoint, sink, output

    def rows(self) -> Rows:
        """Return the delivered rows: of the collecting sink, or of Parquet by the sink's own log."""
        return parquet_rows(self.output) if self.sink is None else self.sink.rows()

    def wait_rows(self, wanted: Rows | int, timeout_s: float = DEADLINE_S) -> Rows:
        """Wait until at least so many rows were delivered, then let the batch be committed. The wanted ones exactly."""
        count = wanted if isinstance(wanted, int) else wanted.total()
        self.wait_until(lambda: self.rows().total() >= count, f"{count} rows", timeout_s)
        self.wait_committed(timeout_s)
        rows = self.rows()
        if not isinstance(wanted, int):
            assert_rows(rows, wanted)
        return rows

    def wait_committed(self, timeout_s: float = DEADLINE_S) -> None:
        """Wait until Spark has committed every batch that it has planned so far."""
        planned = last_batch(self.checkpoint / "offsets")
        self.wait_until(lambda: last_batch(self.checkpoint / "commits") >= planned, f"commit {planned}", timeout_s)

    def wait_document(
        self, done: Callable[[OffsetDocument], bool], what: str, timeout_s: float = DEADLINE_S
    ) -> OffsetDocument:
        """Wait until the last saved offset document is as wanted, and its batch committed; returns it."""
        self.wait_until(lambda: (d := self.document()) is not None and done(d), what, timeout_s)
        self.wait_committed(timeout_s)
        document = self.document()
        assert document is not None
        return document

    def wait_report(
        self, done: Callable[[Mapping[str, Any]], bool], what: str, timeout_s: float = DEADLINE_S
    ) -> Mapping[str, Any]:
        """Wait until the summary in Spark's progress events is as wanted; returns it."""
        self.wait_until(lambda: done(self.report()), what, timeout_s)
        return self.report()

    def wait_until(self, done: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
        """Wait for something to come true while the query runs. Fails at once when the query does."""
        wait_until(
            done,
            what,
            timeout_s=timeout_s,
            failed=lambda: None if self.query.isActive else f"the query ended: {self.error()}",
            details=self.details,
            pause=self.sink.wait if self.sink is not None else time.sleep,
        )

    def details(self) -> str:
        """Return how far the query has come, for the error of a wait."""
        planned, committed = (last_batch(self.checkpoint / log) for log in ("offsets", "commits"))
        status, progress = self.query.status, self.query.lastProgress
        took = progress.durationMs if progress is not None else None
        return (
            f"delivered: {self.rows().total()}; planned: {planned}, committed: {committed}; {status}; last: {took};"
            f" {self.report()}"
        )

    def wait_failed(self, timeout_s: float = DEADLINE_S) -> str:
        """Wait until the query has failed; returns the error's text."""
        wait_until(lambda: not self.query.isActive, "the query's failure", timeout_s=timeout_s)
        text = self.error()
        assert text, "the query ended without an error"
        return text

    def error(self) -> str:
        """Return the text of the error that ended the query; empty if none did."""
        raised = self.query.exception()
        return "" if raised is None else str(raised)

    def document(self) -> OffsetDocument | None:
        """Return the last offset document that Spark has saved, committed or not."""
        return last_document(self.checkpoint)

    def report(self) -> Mapping[str, Any]:
        """Return the summary of the last progress event; empty before the first."""
        progress = self.query.lastProgress
        latest = json.loads(progress.json)["sources"][0].get("latestOffset") if progress is not None else None
        return latest if isinstance(latest, dict) else {}

    def stop(self) -> None:
        """Stop the query."""
        self.query.stop()

    def __enter__(self) -> RunningQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_query(
    spark: SparkSession,
    options: Mapping[str, object],
    folder: Path,
    *,
    sink: Collected | str = "collect",
    trigger: Mapping[str, Any] | None = None,
    name: str = "query",
) -> RunningQuery:
    """Start a query on `dynamic-kafka`; the same `folder` and `name` again is its restart.

    Args:
        options: the source's options.
        folder: for the checkpoint and the output.
        sink: `collect` (rows in this process; a `Collected` of an earlier run goes on) or `parquet`.
        trigger: arguments of `DataStreamWriter.trigger`; by default a batch every 100 ms.
    """
    register(spark)
    frame = spark.readStream.format("dynamic-kafka").options(**{k: str(v) for k, v in options.items()}).load()
    checkpoint, output = folder / f"{name}-checkpoint", folder / f"{name}-output"
    collected = sink if isinstance(sink, Collected) else Collected() if sink == "collect" else None
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(**(dict(trigger) if trigger else {"processingTime": "100 milliseconds"}))
    writer = writer.foreachBatch(collected) if collected else writer.format("parquet").option("path", str(output))
    return RunningQuery(writer.start(), checkpoint, collected, output)


def parquet_rows(output: Path) -> Rows:
    """Return the rows that a Parquet sink has committed: only of the files that its own log names."""
    log = output / "_spark_metadata"
    last = last_batch(log)
    rows = Rows()
    for batch in range(last, -1, -1):
        compact = log / f"{batch}.compact"
        lines = (compact if compact.exists() else log / str(batch)).read_text().splitlines()[1:]
        for added in map(json.loads, lines):
            rows.update(_file_rows(Path(unquote(urlparse(added["path"]).path))))
        if compact.exists():
            break
    return rows


def _file_rows(file: Path) -> Iterator[Row]:
    table = parquet.read_table(file, columns=["kafka_cluster", "topic", "partition", "offset", "value"])
    for name, topic, partition, offset, value in zip(*(column.to_pylist() for column in table.columns), strict=True):
        yield Row(name, topic, partition, offset, value.decode())


# -- checkpoints -------------------------------------------------------------------------------------------------------


def last_batch(log: Path) -> int:
    """Return the number of the last batch in a log of Spark's (`offsets`, `commits`, `_spark_metadata`); -1 if none."""
    names = (path.name.removesuffix(".compact") for path in log.iterdir()) if log.is_dir() else ()
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def saved_offset(checkpoint: Path, batch: int) -> dict[str, Any]:
    """Return the offset document of one batch, as Spark saved it: the last line of its offset log's file."""
    offset: dict[str, Any] = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1])
    return offset


def last_document(checkpoint: Path) -> OffsetDocument | None:
    """Return the last offset document in a checkpoint, None if there is none."""
    batch = last_batch(checkpoint / "offsets")
    return decode(saved_offset(checkpoint, batch)) if batch >= 0 else None


def next_offsets(document: OffsetDocument | None) -> dict[tuple[str, str], dict[int, int]]:
    """Return the saved offsets of all active splits: {(cluster, topic): {partition: next offset}}."""
    clusters = document.clusters if document else {}
    return {(c, t): dict(topic.next) for c, progress in clusters.items() for t, topic in progress.topics.items()}


def parked_offsets(document: OffsetDocument | None) -> dict[tuple[str, str], dict[int, int]]:
    """Return the saved offsets of all parked splits, in the same form."""
    clusters = document.parked if document else {}
    return {(c, t): dict(topic.progress.next) for c, parked in clusters.items() for t, topic in parked.topics.items()}
