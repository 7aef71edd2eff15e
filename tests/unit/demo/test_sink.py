"""The demo reads the sink through its own log, as Spark does."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from demo.sink import Sink, count, read


class FakeSink:
    """A sink like Spark's: Parquet files, and a log whose third entry repeats those before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "_spark_metadata"
        self.log.mkdir(parents=True)
        self.lines: list[str] = []

    def file(self, name: str, *, cluster: str, first: int, rows: int) -> str:
        numbers = range(first, first + rows)
        table = pa.table(
            {
                "kafka_cluster": [cluster] * rows,
                "partition": pa.array([0] * rows, pa.int32()),
                "offset": list(numbers),
                "timestamp": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * rows, pa.timestamp("us", tz="UTC")),
                "value": [json.dumps({"cluster": cluster, "partition": 0, "sequence": n}) for n in numbers],
            }
        )
        pq.write_table(table, self.folder / name)
        return name

    def commit(self, entry: str, *files: str) -> None:
        new = [json.dumps({"path": (self.folder / file).as_uri(), "size": 1, "action": "add"}) for file in files]
        self.lines += new
        kept = self.lines if entry.endswith(".compact") else new
        (self.log / entry).write_text("\n".join(["v1", *kept]))


def test_files_that_no_batch_has_committed_do_not_count(tmp_path: Path) -> None:
    spark = FakeSink(tmp_path / "a sink")
    spark.file("left-by-a-crash.parquet", cluster="A", first=0, rows=3)
    spark.commit("0", spark.file("again.parquet", cluster="A", first=0, rows=3))

    sink = Sink(spark.folder)
    [batch] = sink.follow()

    assert [row.offset for row in read(batch)] == [0, 1, 2]
    assert count(batch) == {"A": 3}
    assert sink.left_behind() == 1


def test_a_compact_entry_adds_only_its_new_files(tmp_path: Path) -> None:
    spark = FakeSink(tmp_path / "sink")
    spark.commit("0", spark.file("a.parquet", cluster="A", first=0, rows=2))
    spark.commit("1", spark.file("b.parquet", cluster="B", first=0, rows=1))
    spark.commit("2.compact", spark.file("c.parquet", cluster="A", first=2, rows=4))
    spark.commit("3", spark.file("d.parquet", cluster="A", first=6, rows=1))

    sink = Sink(spark.folder)
    batches = list(sink.follow())

    assert [(batch.number, sum(count(batch).values())) for batch in batches] == [(0, 2), (1, 1), (2, 4), (3, 1)]
    assert sorted(sink.committed_files()) == sorted(file for batch in batches for file in batch.files)


def test_following_yields_each_batch_once_and_in_order(tmp_path: Path) -> None:
    spark = FakeSink(tmp_path / "sink")
    sink = Sink(spark.folder)
    assert list(sink.follow()) == []

    spark.commit("0", spark.file("a.parquet", cluster="A", first=0, rows=1))
    assert [batch.number for batch in sink.follow()] == [0]

    spark.commit("1")  # a batch without rows
    spark.commit("2", spark.file("b.parquet", cluster="A", first=1, rows=1))
    assert [(batch.number, len(batch.files)) for batch in sink.follow()] == [(1, 0), (2, 1)]
    assert sink.has(2)
    assert not sink.has(3)
