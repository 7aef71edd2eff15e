"""A reader of the Parquet sink that, like Spark, uses only the files that the sink's log (`_spark_metadata`) names.

A crash leaves files that no batch has committed; a reader of the whole folder would see records twice. The log has one
entry per batch, and each tenth (`9.compact`) repeats all entries before it. The job's settings keep the old entries, so
that each row can be traced to its batch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from demo.proof import Delivered


@dataclass(frozen=True)
class SinkBatch:
    """One batch as the sink has committed it.

    Attributes:
        visible_at: time of its log entry, in seconds since the epoch: from then on, readers see its rows.
        files: the Parquet files that it added.
    """

    number: int
    visible_at: float
    files: tuple[Path, ...]


class Sink:
    """The folder of Spark's file sink, while a query writes to it."""

    def __init__(self, folder: Path) -> None:
        """Read the sink in `folder`, which need not exist yet."""
        self.folder = folder
        self.log = folder / "_spark_metadata"
        self._next = 0
        self._known: set[Path] = set()

    def has(self, batch: int) -> bool:
        """Return whether the sink has committed `batch`."""
        return self._entry(batch) is not None

    def follow(self) -> Iterator[SinkBatch]:
        """Yield the batches that were committed since the last call, in order."""
        while entry := self._entry(self._next):
            files = [file for file in _named(entry) if file not in self._known]
            self._known.update(files)
            yield SinkBatch(self._next, entry.stat().st_mtime, tuple(files))
            self._next += 1

    def committed_files(self) -> list[Path]:
        """Return all committed files, as Spark does: from the newest compact entry and the plain ones after it."""
        entries = {_number(entry): entry for entry in self.log.glob("[0-9]*")}
        compact = max((number for number, entry in entries.items() if entry.suffix), default=-1)
        first = [entries[compact]] if compact >= 0 else []
        later = [entry for number, entry in sorted(entries.items()) if number > compact]
        return [file for entry in first + later for file in _named(entry)]

    def left_behind(self) -> int:
        """Return how many Parquet files no batch has committed: the traces of crashes."""
        return len(set(self.folder.glob("*.parquet")) - set(self.committed_files()))

    def _entry(self, batch: int) -> Path | None:
        for name in (str(batch), f"{batch}.compact"):
            if (self.log / name).exists():
                return self.log / name
        return None


def count(batch: SinkBatch) -> Counter[str]:
    """Return the number of rows of each cluster in a batch."""
    columns = [pq.read_table(file, columns=["kafka_cluster"], partitioning=None) for file in batch.files]
    return Counter(name for table in columns for name in table.column(0).to_pylist())


def read(batch: SinkBatch) -> Iterator[Delivered]:
    """Yield the rows of a batch. Raises ValueError if a value is not one of the demo's records."""
    for file in batch.files:
        yield from read_file(file, batch.number)


def read_file(file: Path, batch: int) -> Iterator[Delivered]:
    """Yield the rows of one file, which belongs to `batch`."""
    columns = pq.read_table(file, partitioning=None).to_pydict()
    stamps = columns["timestamp"]
    rows = zip(columns["kafka_cluster"], columns["partition"], columns["offset"], stamps, columns["value"], strict=True)
    for cluster, partition, offset, stamp, value in rows:
        record = json.loads(value)
        yield Delivered(
            cluster,
            partition,
            offset,
            record["cluster"],
            record["partition"],
            record["sequence"],
            stamp.timestamp(),
            batch,
        )


def _named(entry: Path) -> list[Path]:
    lines = entry.read_text().splitlines()[1:]  # the first is the format's version
    entries = [json.loads(line) for line in lines if line]
    return [Path(unquote(urlparse(line["path"]).path)) for line in entries if line["action"] == "add"]


def _number(entry: Path) -> int:
    return int(entry.name.removesuffix(".compact"))
