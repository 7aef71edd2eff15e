"""Read Spark's checkpoints and the logs of its file sinks, and compare them. Driver and tools; reads only.

A checkpoint is a folder. Spark writes `offsets/<batch>` when it plans a batch, and `commits/<batch>` when the batch is
done. It renames whole files into place, so the checkpoint of a running query can be read too.

`offsets/<batch>` has a version, a line of settings, then a line for each source: its JSON or `-` in v1, `<name>:<JSON>`
in v2 (named sources). `state/sink_log.py` describes the log of a file sink.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from dynamic_kafka.errors import OffsetDocumentError, StaleCheckpointError
from dynamic_kafka.planning.document.codec import decode
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.state.file_systems import open_folder
from dynamic_kafka.state.sink_log import SINK_LOG, newest_of, old_checkpoint_error

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Logged:
    """The end offset of one source in one batch, as Spark logged it.

    Attributes:
        name: the source's place among the query's sources, or its name.
        text: the offset; None if the source has none yet.
    """

    name: str
    text: str | None


@dataclass(frozen=True)
class Batches:
    """The numbers of the last planned and the last committed batch at one moment; None if there is none."""

    planned: int | None
    committed: int | None

    @property
    def pending(self) -> int | None:
        """The batch that is planned but not committed, which a restart runs again; None if there is none."""
        return None if self.planned == self.committed else self.planned


class Checkpoint:
    """The checkpoint of one query.

    Args:
        uri: its path or URI; it need not exist.

    Raises:
        OptionError: pyarrow cannot reach the URI's file system from here.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._fs, self._root = open_folder(uri, "the checkpoint")

    @property
    def planned(self) -> int | None:
        """The number of the last planned batch; None if there is none."""
        return newest_batch(self._fs, f"{self._root}/offsets")

    @property
    def committed(self) -> int | None:
        """The number of the last committed batch; None if there is none."""
        return newest_batch(self._fs, f"{self._root}/commits")

    def planned_before(self, batch: int) -> int | None:
        """Return the number of the last planned batch before this one; None if there is none. Spark may skip some."""
        infos = self._fs.get_file_info(fs.FileSelector(f"{self._root}/offsets", allow_not_found=True))
        names = (info.base_name for info in infos if info.is_file)
        return newest_of(name for name in names if name.isdecimal() and int(name) < batch)

    def batches(self) -> Batches:
        """Return the last planned and committed batch as of one moment, also while the query runs."""
        # Offsets are listed first. A batch that is planned and committed between the two listings does not count.
        planned, committed = self.planned, self.committed
        return Batches(planned, committed if planned is None or committed is None else min(planned, committed))

    def has_folder(self, name: str) -> bool:
        """Return whether the checkpoint has a folder of this name."""
        return bool(self._fs.get_file_info(f"{self._root}/{name}").type == fs.FileType.Directory)

    def why_unusable(self) -> str:
        """Return, as the end of a sentence, why this is no query's checkpoint; empty if it may be one."""
        info = self._fs.get_file_info(self._root)
        if info.type == fs.FileType.NotFound:
            return "does not exist"
        if info.type == fs.FileType.File:
            return "is a file"
        inside = self._fs.get_file_info(fs.FileSelector(self._root))
        names = sorted(
            entry.base_name for entry in inside if Checkpoint(f"{self.uri}/{entry.base_name}").has_folder("offsets")
        )
        what = "the checkpoints of several sinks: give one of" if len(names) > 1 else "the checkpoint of a sink: give"
        return f"holds {what} {', '.join(names)} below it" if names else ""

    def quiet_s(self) -> float:
        """Return the seconds since the query last planned or committed a batch; infinite if it never did."""
        times = [
            info.mtime_ns
            for folder in ("offsets", "commits")
            for info in self._fs.get_file_info(fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True))
            if info.is_file
        ]
        return max(0.0, time.time() - max(times) / 1e9) if times else float("inf")

    def offsets(self, batch: int) -> tuple[Logged, ...]:
        """Return the end offsets of a batch, one per source of the query.

        Raises:
            OffsetDocumentError: the file cannot be read, or has an unknown form.
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

    def documents(self, batch: int | None) -> list[OffsetDocument]:
        """Return the document of each of our sources after a batch: a join of a stream with itself has two.

        Args:
            batch: None if there is none, as for a new query.

        Raises:
            OffsetDocumentError: a document is missing, damaged or of a newer version.
        """
        return [] if batch is None else [decode(wire) for wire in self._wires(batch)]

    def _wires(self, batch: int) -> list[dict[str, Any]]:
        documents = [our_document(logged.text) for logged in self.offsets(batch) if logged.text is not None]
        return [checkpoint for checkpoint in documents if checkpoint is not None]

    def query_ids(self) -> list[str]:
        """Return the id of each of our sources, from the last planned batch; empty before the first."""
        batch = self.planned
        return [] if batch is None else [str(wire.get("query", "")) for wire in self._wires(batch)]


def our_document(text: str) -> dict[str, Any] | None:
    """Return a logged offset as our offset document; None if it belongs to another kind of source."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        return None
    # Spark's own source logs topics as keys. One may be called `version`, but its value is then a mapping.
    ours = isinstance(document, dict) and isinstance(document.get("version"), int)
    return document if ours else None


def newest_in_sink(path: str) -> int | None:
    """Return the number of the last batch in a file sink's log; None if there is none.

    Raises:
        OptionError: pyarrow cannot reach the path's file system from here.
    """
    files, root = open_folder(path, "the sink path")
    return newest_batch(files, f"{root}/{SINK_LOG}")


def refuse_old_checkpoint(checkpoint: Checkpoint, path: str, *, allowed: bool) -> None:
    """Refuse a checkpoint that is older than the log of its file sink.

    Spark's file sink skips a batch whose number is in its log already. That is right for the one batch that was written
    but not committed, and silently loses records after a checkpoint was restored from a backup or begun anew.

    Raises:
        StaleCheckpointError: the checkpoint is older, and the option `allowOldCheckpoint` does not allow it.
    """
    error = find_old_checkpoint(checkpoint, path)
    if error is None:
        return
    if not allowed:
        raise error
    log.warning("%s. The query starts all the same, since the option allowOldCheckpoint is set", error)


def find_old_checkpoint(checkpoint: Checkpoint, path: str) -> StaleCheckpointError | None:
    """Return the error for a checkpoint that is older than the log of the file sink at `path`; None if it is not."""
    return old_checkpoint_error(checkpoint.uri, checkpoint.planned, path, newest_in_sink(path))


def newest_batch(files: fs.FileSystem, folder: str) -> int | None:
    """Return the highest batch number among the files of one of Spark's logs; None if there is none."""
    infos = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return newest_of(info.base_name for info in infos if info.is_file)


def _offset(text: str) -> str | None:
    return None if text in ("-", "", "null") else text
