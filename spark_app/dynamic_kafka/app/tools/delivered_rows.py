"""The last rows that a Parquet sink has of each split, from its own files. Tools only; reads files.

Spark's file sink logs the files of each batch in `_spark_metadata`; files that the log does not name do not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs, parquet

from dynamic_kafka.errors import OffsetDocumentError, OptionError
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.state.file_systems import open_folder
from dynamic_kafka.state.sink_log import SINK_LOG, newest_of

COLUMNS = ("kafka_cluster", "topic", "partition", "offset")
"""The columns by which a row is a record of one split; the transformation must have left them as they are."""
TIMESTAMP = "timestamp"
"""The column that shows whether a topic still has the record, if the transformation has kept it."""


class LastRow(NamedTuple):
    """The row with the highest offset of a split: that offset, and the record's timestamp in ms if the row has it."""

    offset: int
    timestamp_ms: int | None

    def order(self) -> int:
        """Return the offset: the key by which rows of one split are compared."""
        return self.offset


def last_rows(folder: str) -> dict[Split, LastRow]:
    """Return for each split the last row that the sink has.

    Raises:
        OptionError: the folder cannot be opened from here, or its rows do not have the columns.
        OffsetDocumentError: the sink's log is damaged.
    """
    files, root = open_folder(folder, "the sink path")
    by_split: dict[Split, LastRow] = {}
    for path in _logged_files(files, root, folder):
        try:
            with (
                files.open_input_file(path) as source,
                parquet.ParquetFile(source, coerce_int96_timestamp_unit="ms") as rows,
            ):
                there = rows.schema_arrow
                table = rows.read(columns=[name for name in (*COLUMNS, TIMESTAMP) if name in there.names])
        except FileNotFoundError:
            raise OffsetDocumentError(f"{folder}: its log names the file {path}, which does not exist") from None
        except (OSError, pa.ArrowException) as error:
            raise OptionError(f"{folder}: {path} cannot be read: {error}") from None
        if missing := [name for name in COLUMNS if name not in there.names]:
            raise OptionError(
                f"{folder}: its rows have no column {', '.join(missing)}, so they do not show which records were"
                " delivered: choose another source with --from"
            )
        keep_nulls = pc.ScalarAggregateOptions(skip_nulls=False)
        groups = _with_milliseconds(table).sort_by("offset").group_by(list(COLUMNS[:3]), use_threads=False)
        last = groups.aggregate([(name, "last", keep_nulls) for name in ("offset", TIMESTAMP)])
        for row in last.to_pylist():
            split = Split(str(row["kafka_cluster"]), str(row["topic"]), int(row["partition"]))
            added = LastRow(int(row["offset_last"]), row[f"{TIMESTAMP}_last"])
            by_split[split] = max(by_split.get(split, added), added, key=LastRow.order)
    return by_split


def _with_milliseconds(table: pa.Table) -> pa.Table:
    """Return the table with its timestamps in ms since the epoch; nulls if it has none, or a column of another type."""
    times = pa.nulls(len(table), pa.int64())
    if TIMESTAMP in table.column_names:
        column = table[TIMESTAMP]
        table = table.drop_columns([TIMESTAMP])
        if pa.types.is_timestamp(column.type):
            times = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False).cast(pa.int64())
    return table.append_column(TIMESTAMP, times)


def _logged_files(files: fs.FileSystem, root: str, folder: str) -> Iterator[str]:
    """Yield the paths of the files in the sink's log, from the last compaction on."""
    log = f"{root}/{SINK_LOG}"
    names = {info.base_name for info in files.get_file_info(fs.FileSelector(log, allow_not_found=True)) if info.is_file}
    newest = newest_of(names)
    if newest is None:
        raise OptionError(f"{folder} has no log {SINK_LOG} with a batch: choose another source with --from")
    for batch in range(newest, -1, -1):
        compacted = f"{batch}.compact" in names
        name = f"{batch}.compact" if compacted else str(batch)
        if name not in names:
            raise OffsetDocumentError(
                f"{log} has batch {newest}, but neither batch {batch} nor a later compaction: the rows of the missing"
                " batches would not count. Choose another source with --from"
            )
        with files.open_input_stream(f"{log}/{name}") as stream:
            version, *lines = bytes(stream.read()).decode(errors="replace").splitlines() or [""]
        try:
            if version != "v1":
                raise ValueError(f"it is in form {version[:20]!r}; this version reads v1")
            for added in map(json.loads, lines):
                parsed = urlparse(added["path"])
                yield unquote(parsed.path if isinstance(files, fs.LocalFileSystem) else parsed.netloc + parsed.path)
        except (ValueError, KeyError, TypeError) as error:
            raise OffsetDocumentError(f"{log}/{name} is damaged: {error}") from None
        if compacted:
            return
