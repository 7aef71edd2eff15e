"""The offsets that a Parquet sink has delivered, from its own files. Tools only; reads files.

Spark's file sink logs the files of each batch in `_spark_metadata`; files that the log does not name do not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import unquote, urlparse

import pyarrow as pa
from pyarrow import fs, parquet

from dynamic_kafka.driver.sink_log import SINK_LOG, newest_of
from dynamic_kafka.errors import OffsetDocumentError, OptionError
from dynamic_kafka.executor.file_systems import open_folder
from dynamic_kafka.planning.splits import Split

COLUMNS = ("kafka_cluster", "topic", "partition", "offset")
"""The columns by which a row is a record of one split; the transformation must have left them as they are."""


def delivered_ends(folder: str) -> dict[Split, int]:
    """Return for each split the offset after the last row that the sink has.

    Raises:
        OptionError: the folder cannot be opened from here, or its rows do not have the columns.
        OffsetDocumentError: the sink's log is damaged.
    """
    files, root = open_folder(folder, "the sink path")
    ends: dict[Split, int] = {}
    for path in _logged_files(files, root, folder):
        try:
            with files.open_input_file(path) as source, parquet.ParquetFile(source) as rows:
                missing = [name for name in COLUMNS if name not in rows.schema_arrow.names]
                table = rows.read(columns=[name for name in COLUMNS if name not in missing])
        except FileNotFoundError:
            raise OffsetDocumentError(f"{folder}: its log names the file {path}, which does not exist") from None
        except (OSError, pa.ArrowException) as error:
            raise OptionError(f"{folder}: {path} cannot be read: {error}") from None
        if missing:
            raise OptionError(
                f"{folder}: its rows have no column {', '.join(missing)}, so they do not show which records were"
                " delivered: choose another source with --from"
            )
        last = table.group_by(list(COLUMNS[:3])).aggregate([("offset", "max")])
        for row in last.to_pylist():
            split = Split(str(row["kafka_cluster"]), str(row["topic"]), int(row["partition"]))
            ends[split] = max(ends.get(split, 0), int(row["offset_max"]) + 1)
    return ends


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
