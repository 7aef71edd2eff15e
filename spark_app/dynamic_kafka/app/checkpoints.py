"""Read Spark's checkpoints and the log of its file sinks. Driver and tools; reads only.

A checkpoint is a folder: `offsets/<batch>` is written when a batch is planned, `commits/<batch>` when it is done, and
`state` exists for stateful queries. A file sink keeps `<path>/_spark_metadata/<batch>`, `<batch>.compact` every ten.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyarrow import fs

from dynamic_kafka.errors import OffsetDocumentError, OptionError
from dynamic_kafka.planning.codec import decode
from dynamic_kafka.planning.progress import OffsetDocument

SINK_LOG = "_spark_metadata"


class Checkpoint:
    """One query's checkpoint.

    Args:
        uri: its path or URI; it need not exist.

    Raises:
        OptionError: the URI names no file system that is reachable from here.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._fs, self._root = open_folder(uri, "checkpoint")

    @property
    def planned(self) -> int | None:
        """The number of the last batch that was planned, None if there is none."""
        return newest_batch(self._fs, f"{self._root}/offsets")

    @property
    def committed(self) -> int | None:
        """The number of the last batch that is done, None if there is none."""
        return newest_batch(self._fs, f"{self._root}/commits")

    @property
    def pending(self) -> int | None:
        """The batch that was planned and is not done; None if there is none."""
        planned, committed = self.planned, self.committed
        return planned if planned is not None and (committed is None or planned > committed) else None

    @property
    def stateful(self) -> bool:
        """Whether the query keeps state: then a batch that its sink has already still has to run."""
        return bool(self._fs.get_file_info(f"{self._root}/state").type != fs.FileType.NotFound)

    def document(self, batch: int) -> OffsetDocument | None:
        """The offset document of a batch; None if it was planned without a source of ours.

        Raises:
            OffsetDocumentError: it does not parse, is of a newer version, or is not there.
        """
        wire = self.wire(batch)
        return None if wire is None else decode(wire)

    def wire(self, batch: int) -> dict[str, Any] | None:
        """The same as it was saved."""
        where = f"{self.uri}/offsets/{batch}"
        try:
            with self._fs.open_input_stream(f"{self._root}/offsets/{batch}") as stream:
                lines = stream.read().decode().splitlines()
        except OSError as error:
            raise OffsetDocumentError(f"{where} cannot be read: {error}") from None
        # Version, what Spark keeps of the batch, then one line for each source.
        for line in lines[2:]:
            try:
                found = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(found, dict) and "version" in found:
                return found
        return None

    def last_committed(self) -> OffsetDocument | None:
        """The document that the query has reached for good, None before the first commit."""
        batch = self.committed
        return None if batch is None else self.document(batch)


def newest_in_sink(path: str) -> int | None:
    """The last batch in a file sink's own log; None if there is none.

    Raises:
        OptionError: the path is on no file system that is reachable from here.
    """
    files, root = open_folder(path, "sink path")
    return newest_batch(files, f"{root}/{SINK_LOG}")


def newest_batch(files: fs.FileSystem, folder: str) -> int | None:
    """The highest number among the file names of one of Spark's logs."""
    found = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    names = [info.base_name.removesuffix(".compact") for info in found if info.is_file]
    return max((int(name) for name in names if name.isdecimal()), default=None)


def open_folder(uri: str, what: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI as Spark writes it, and the path there.

    Raises:
        OptionError: it is none that is reachable from here.
    """
    if "://" not in uri and not uri.startswith("file:"):
        return fs.LocalFileSystem(), str(Path(uri).absolute())
    if uri.startswith("file:") and not uri.startswith("file://"):
        return fs.LocalFileSystem(), uri.removeprefix("file:")
    try:
        files, root = fs.FileSystem.from_uri(uri.replace("s3a://", "s3://", 1))
    except (OSError, ValueError) as error:
        raise OptionError(f"the {what} {uri!r} cannot be opened: {error}") from None
    return files, root.rstrip("/")
