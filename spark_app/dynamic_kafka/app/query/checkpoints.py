"""Read Spark's checkpoints and the log of its file sinks. Driver and tools; reads only.

A checkpoint is a folder: `offsets/<batch>` is written when a batch is planned, `commits/<batch>` when it is done.
Spark renames whole files into place, so a running query may be read as well.
`offsets/<batch>` is a version, a line of settings, then a line for each source: its JSON or `-` in v1, `<name>:<JSON>`
in v2 (named sources). A file sink keeps `<path>/_spark_metadata/<batch>`, `<batch>.compact` every ten.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from dynamic_kafka.driver.state_store import open_folder
from dynamic_kafka.errors import OffsetDocumentError, StaleCheckpointError
from dynamic_kafka.planning.codec import decode
from dynamic_kafka.planning.progress import OffsetDocument

SINK_LOG = "_spark_metadata"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Logged:
    """One source's end offset in one batch. `name` is its place among the query's sources; `text` None: none yet."""

    name: str
    text: str | None


@dataclass(frozen=True)
class Batches:
    """How far a query is at one moment: numbers of Spark's batches, None where there is none."""

    planned: int | None
    committed: int | None

    @property
    def pending(self) -> int | None:
        """The batch that was planned and is not done: a restart runs it again."""
        return None if self.planned == self.committed else self.planned


class Checkpoint:
    """One query's checkpoint.

    Args:
        uri: its path or URI; it need not exist.

    Raises:
        OptionError: the URI names no file system that is reachable from here.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._fs, self._root = open_folder(uri, "the checkpoint")

    @property
    def planned(self) -> int | None:
        """The number of the last batch that was planned, None if there is none."""
        return newest_batch(self._fs, f"{self._root}/offsets")

    @property
    def committed(self) -> int | None:
        """The number of the last batch that is done, None if there is none."""
        return newest_batch(self._fs, f"{self._root}/commits")

    def batches(self) -> Batches:
        """How far the query is, as of one moment: what a running query does meanwhile does not count."""
        # In this order, so that no batch counts as pending that was committed between the two listings.
        planned, committed = self.planned, self.committed
        return Batches(planned, committed if planned is None or committed is None else min(planned, committed))

    def has(self, name: str) -> bool:
        """Whether there is a folder of this name in it."""
        return bool(self._fs.get_file_info(f"{self._root}/{name}").type == fs.FileType.Directory)

    def looks_like(self) -> str:
        """What is there instead of a checkpoint of a query, in a few words; empty if it may well be one."""
        info = self._fs.get_file_info(self._root)
        if info.type == fs.FileType.NotFound:
            return "does not exist"
        if info.type == fs.FileType.File:
            return "is a file"
        inside = self._fs.get_file_info(fs.FileSelector(self._root))
        names = sorted(each.base_name for each in inside if Checkpoint(f"{self.uri}/{each.base_name}").has("offsets"))
        return f"holds the checkpoints of several sinks: give one of {', '.join(names)} below it" if names else ""

    def quiet_s(self) -> float:
        """Seconds since the query last logged or committed a batch; infinite if it never did."""
        times = [
            info.mtime_ns
            for folder in ("offsets", "commits")
            for info in self._fs.get_file_info(fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True))
            if info.is_file
        ]
        return max(0.0, time.time() - max(times) / 1e9) if times else float("inf")

    def offsets(self, batch: int) -> tuple[Logged, ...]:
        """The end offsets of a batch, one per source of the query.

        Raises:
            OffsetDocumentError: the file cannot be read, or is not in a form that is known.
        """
        where = f"{self.uri}/offsets/{batch}"
        try:
            with self._fs.open_input_stream(f"{self._root}/offsets/{batch}") as stream:
                text = bytes(stream.read()).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise OffsetDocumentError(f"{where} cannot be read: {error}") from None
        version, *lines = text.rstrip("\n").split("\n")
        if version == "v1":
            return tuple(Logged(str(place), _offset(line)) for place, line in enumerate(lines[1:]))
        if version == "v2":
            named = [line.partition(":") for line in lines[1:]]
            return tuple(Logged(name, _offset(offset)) for name, _, offset in named)
        raise OffsetDocumentError(f"{where} is in form {version[:20]!r}; this version reads v1 and v2")

    def document(self, batch: int) -> OffsetDocument | None:
        """The offset document of a batch; None if it was planned without a source of ours.

        Raises:
            OffsetDocumentError: it does not parse, is of a newer version, or is not there.
        """
        wire = self.wire(batch)
        return None if wire is None else decode(wire)

    def wire(self, batch: int) -> dict[str, Any] | None:
        """The same as it was saved."""
        return next(iter(self._wires(batch)), None)

    def _wires(self, batch: int) -> list[dict[str, Any]]:
        found = [our_document(logged.text) for logged in self.offsets(batch) if logged.text is not None]
        return [each for each in found if each is not None]

    def last_committed(self) -> OffsetDocument | None:
        """The document that the query has reached for good, None before the first commit."""
        batch = self.committed
        return None if batch is None else self.document(batch)

    def all_committed(self) -> list[OffsetDocument]:
        """The same of each of its sources of ours: a join of the stream with itself may have two."""
        batch = self.committed
        return [] if batch is None else [decode(wire) for wire in self._wires(batch)]


def our_document(text: str) -> dict[str, Any] | None:
    """A source's offset as saved by dynamic-kafka; None if it is another source's."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return None
    # A topic that Spark's own source reads may be called `version` as well: its value is a mapping.
    ours = isinstance(found, dict) and isinstance(found.get("version"), int)
    return found if ours else None


def newest_in_sink(path: str) -> int | None:
    """The last batch in a file sink's own log; None if there is none.

    Raises:
        OptionError: the path is on no file system that is reachable from here.
    """
    files, root = open_folder(path, "the sink path")
    return newest_batch(files, f"{root}/{SINK_LOG}")


def refuse_old_checkpoint(checkpoint: Checkpoint, path: str, *, allowed: bool) -> None:
    """Refuse a checkpoint that is older than what its file sink has.

    Raises:
        StaleCheckpointError: it is, and the user has not allowed it.
    """
    error = find_old_checkpoint(checkpoint, path)
    if error is None:
        return
    if not allowed:
        raise error
    log.warning("%s. The option allowOldCheckpoint is set, so it goes on without them", error)


def find_old_checkpoint(checkpoint: Checkpoint, path: str) -> StaleCheckpointError | None:
    """What is wrong with a checkpoint that is older than the log of the file sink at `path`; None if it is not."""
    delivered, planned = newest_in_sink(path), checkpoint.planned
    if delivered is None or (planned is not None and planned >= delivered):
        return None
    known = "has no batch yet" if planned is None else f"ends at batch {planned}"
    first = 0 if planned is None else planned + 1
    skipped = f"batches {first} to {delivered}" if delivered > first else f"batch {delivered}"
    start = (
        "with the new checkpoint"
        if planned is None
        else "and a new checkpoint, with startingOffsets from what `inspect` shows of this one"
    )
    # allowOldCheckpoint is no way out here: the sink skips by number alone.
    return StaleCheckpointError(
        f"the checkpoint {checkpoint.uri} {known}, but the log of the sink {path} has batch {delivered}: the checkpoint"
        f" was restored from a backup, or is a new one for old files. Restore the newer checkpoint, or write to a new"
        f" path {start}. Here the sink would skip {skipped} as written already, and all records in there,"
        " new ones among them, would be LOST for this sink"
    )


def newest_batch(files: fs.FileSystem, folder: str) -> int | None:
    """The highest number among the file names of one of Spark's logs."""
    found = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    names = [info.base_name.removesuffix(".compact") for info in found if info.is_file]
    return max((int(name) for name in names if name.isdecimal()), default=None)


def _offset(text: str) -> str | None:
    return None if text in ("-", "", "null") else text
