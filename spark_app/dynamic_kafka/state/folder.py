"""A folder of small JSON files, each written once, on any file system that pyarrow reaches.

Driver, executors and tools. `stateLocation` is a local path, or a file, s3, gs, abfs or hdfs URI. Every file is written
whole, under a name that describes it, and never changed: a crash leaves either the file or nothing.

A write ends when the file is durable. A local file is flushed, renamed, and its folder flushed; in HDFS it is renamed;
S3, GCS and ABFS show an object once its stream is closed. ABFS, and file systems mounted without an atomic rename, may
leave an empty file if the process dies meanwhile. The caller has not relied on such a file yet: each is written before
the step that needs it. So an empty file counts as absent. A file with half an object is damaged instead, except for a
report of an executor: its task did not end, so none of its rows counted, and the next attempt writes it anew.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import uuid
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow import fs

from dynamic_kafka.errors import DynamicKafkaError, OffsetDocumentError, OptionError
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.state.file_systems import open_folder

TOPIC_ID = "topic-id"
"""The kind of a report about a range of which an executor read nothing: another topic has the name. `topicId` is its
id, `planned` that of the range."""
STOP_RECORD = "stop-record"
"""The kind of a report that a record ends a split: `offset` is the record's, `topicId` that of its topic."""
RANGE_END = "range-end"
"""The kind of the report about each range of a batch in which executors look for times of records: also where it ends
(`ends`), and its `time`."""

log = logging.getLogger(__name__)

_READERS = 16
"""The files that are read side by side, where there are more."""
_PERMANENT = (PermissionError, NotADirectoryError, IsADirectoryError, FileExistsError)
"""File system errors that a retry cannot fix."""


class StateFile(NamedTuple):
    """A file of the state. `changed_s` is its time stamp, seconds since the epoch; None if the store has none."""

    name: str
    changed_s: float | None


class Seen(NamedTuple):
    """A report of an executor about one split of a batch. `driver` is the one whose task it was, where that counts."""

    kind: str
    split: Split
    content: Mapping[str, Any]
    driver: str = ""


class StateFolder:
    """A folder of small write-once JSON files.

    Args:
        uri: a path or URI; made on the first write.

    Raises:
        OptionError: the URI names no reachable file system. Every method raises it, too, if the path is no folder, or
            may not be read or written.
        DynamicKafkaError: every method raises it if the file system fails for a reason that may be temporary.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._fs, self._root = open_folder(uri, "stateLocation")

    def write(self, path: str, content: Mapping[str, Any], *, replace: bool = True) -> None:
        """Write a file whole or not at all, and durably.

        Args:
            replace: whether it replaces an existing one; in HDFS the first one stays in any case. Without, an object
                store replaces one that was written at the same moment: the caller reads the file afterwards. A file
                without a whole JSON object is a write that did not end: it is replaced in any case.
        """
        data = json.dumps(content, sort_keys=True, indent=1).encode()
        full = f"{self._root}/{path}"
        folder, _, name = full.rpartition("/")
        if not replace and (old_data := self._read(path)) is not None and not _is_whole(old_data):
            log.warning("%s/%s is incomplete: a write did not end; the file is replaced", self.uri, path)
            self.delete(path)
        with self.explain_failure("written", path):
            self._fs.create_dir(folder, recursive=True)
            if isinstance(self._fs, fs.LocalFileSystem):
                _write_local(Path(folder), name, data, replace=replace)
                return
            if not replace and self._fs.get_file_info(full).is_file:
                return
            # An object store shows an object only when its stream is closed; a file system needs the rename.
            draft = f"{folder}/.{name}.{uuid.uuid4().hex}"
            if not isinstance(self._fs, fs.HadoopFileSystem):
                with self._fs.open_output_stream(full) as stream:
                    stream.write(data)
                return
            try:
                with self._fs.open_output_stream(draft) as stream:
                    stream.write(data)
                if not self._fs.get_file_info(full).is_file:  # HDFS refuses to rename onto a file
                    self._fs.move(draft, full)
            finally:
                with suppress(OSError):
                    self._fs.delete_file(draft)

    def read_folder(
        self, path: str, names: Collection[str] | None = None, *, skip_damaged: bool = False
    ) -> dict[str, dict[str, Any]]:
        """Return {file name: content} of the JSON files of a folder, by name; empty if it does not exist.

        Args:
            names: the files to read; by default all. One that does not exist any more is left out.
            skip_damaged: log files that do not hold a JSON object, and leave them out: writes that did not end.

        Raises:
            OffsetDocumentError: a file does not hold a JSON object.
        """
        chosen = sorted(name for name, _ in self.list_folder(path)) if names is None else sorted(names)
        contents = {}
        for name, data in self._read_all(path, chosen):
            if not data:  # see the module: a write that did not end
                continue
            if skip_damaged and not _is_whole(data):
                log.warning("%s/%s/%s is incomplete: a write did not end; it counts as absent", self.uri, path, name)
                continue
            with self.explain_damage(f"{path}/{name}"):
                contents[name] = json.loads(data)
                if not isinstance(contents[name], dict):
                    raise ValueError("it is not a JSON object")
        return contents

    def list_folder(self, path: str) -> list[StateFile]:
        """Return the JSON files of a folder by name, without empty ones; none if the folder does not exist."""
        with self.explain_failure("read", path):
            selector = fs.FileSelector(f"{self._root}/{path}", allow_not_found=True)
            infos = [info for info in self._fs.get_file_info(selector) if info.is_file and info.size != 0]
        files = [StateFile(info.base_name, info.mtime_ns / 1e9 if info.mtime_ns else None) for info in infos]
        return sorted(file for file in files if file.name.endswith(".json") and not file.name.startswith("."))

    def list_folders(self, path: str) -> list[str]:
        """Return the names of the folders in a folder; none if it does not exist."""
        with self.explain_failure("read", path):
            selector = fs.FileSelector(f"{self._root}/{path}", allow_not_found=True)
            return sorted(info.base_name for info in self._fs.get_file_info(selector) if not info.is_file)

    def delete(self, path: str) -> None:
        """Delete a file. That one is gone already is no error."""
        with self.explain_failure("deleted", path):
            try:
                self._fs.delete_file(f"{self._root}/{path}")
            except FileNotFoundError:
                return

    def delete_folder(self, path: str) -> None:
        """Delete a folder with its files. That it is gone already is no error."""
        with self.explain_failure("deleted", path):
            try:
                self._fs.delete_dir(f"{self._root}/{path}")
            except FileNotFoundError:
                return

    def drivers(self, query: str) -> list[str]:
        """Return the drivers that have started on the query's checkpoint, the newest last."""
        return [file.name.removesuffix(".json") for file in self.list_folder(f"{query}/drivers")]

    def save_seen(
        self,
        query: str,
        batch: str,
        kind: str,
        split: Split,
        content: Mapping[str, Any],
        *,
        replace: bool = True,
        driver: str = "",
    ) -> None:
        """Make durable what an executor saw in a range. A task calls it before it ends, and only if there is something.

        Each attempt of a task writes the same file, so a driver has one report of a kind for each split.

        Args:
            batch: fingerprint of the batch's end document.
            kind: the kind of the report, a word.
            replace: as for `write`.
            driver: the driver of the task, if only its attempts obey the report; empty for a report to all.
        """
        of_driver = {"driver": driver} if driver else {}
        wire = {"version": 1, "split": list(split), **of_driver, **content}
        self.write(f"{query}/seen/{batch}/{_report_name(kind, split, driver)}", wire, replace=replace)

    def seen_of(self, query: str, batch: str, kind: str, split: Split, driver: str = "") -> Mapping[str, Any] | None:
        """Return a driver's report of a kind about one split, None if there is none. Raises as `seen`."""
        name = _report_name(kind, split, driver)
        return self.read_folder(f"{query}/seen/{batch}", [name], skip_damaged=True).get(name)

    def seen(self, query: str, batch: str) -> list[Seen]:
        """Return the reports about a batch, in any order. One that cannot be read counts as never written.

        Raises:
            OffsetDocumentError: a report is of a newer version.
        """
        folder, reports = f"{query}/seen/{batch}", []
        for name, wire in self.read_folder(folder, skip_damaged=True).items():
            with self.explain_damage(f"{folder}/{name}"):
                cluster, topic, partition = wire["split"]
                split = Split(str(cluster), str(topic), int(partition))
                kind = name.partition(".")[0].rpartition("-")[0]
                reports.append(Seen(kind, split, wire, str(wire.get("driver", ""))))
        return reports

    def check_writable(self, query: str) -> None:
        """Write and delete a file, to find out at the start whether reports can be kept here.

        Raises:
            OptionError, DynamicKafkaError: they cannot.
        """
        path = f"{query}/seen/check-{uuid.uuid4().hex}.json"
        self.write(path, {"version": 1})
        self.delete(path)

    def _read_all(self, path: str, names: list[str]) -> Iterator[tuple[str, bytes | None]]:
        """Read files of a folder; many of them side by side, since an object store takes its time for each."""
        paths = [f"{path}/{name}" for name in names]
        if len(names) <= _READERS:
            yield from zip(names, map(self._read, paths), strict=True)
            return
        with ThreadPoolExecutor(_READERS) as readers:
            yield from zip(names, readers.map(self._read, paths), strict=True)

    def _read(self, path: str) -> bytes | None:
        with self.explain_failure("read", path):
            try:
                with self._fs.open_input_stream(f"{self._root}/{path}") as stream:
                    return bytes(stream.read())
            except FileNotFoundError:  # purged since it was listed
                return None

    @contextmanager
    def explain_failure(self, done: str, path: str) -> Iterator[None]:
        """Add to an error of the file system where it happened and what to do."""
        try:
            yield
        except OSError as error:
            text = f"stateLocation: {self.uri}/{path} cannot be {done}: {error}"
            if isinstance(error, _PERMANENT) or "AWS Error ACCESS_DENIED" in str(error):
                raise OptionError(f"{text}; name a folder that this user may read and write") from error
            raise DynamicKafkaError(f"{text}; check that the file system is available, and start again") from error

    @contextmanager
    def explain_damage(self, path: str) -> Iterator[None]:
        """Add to an error about a damaged or too new file its path and what to do."""
        try:
            yield
        except (OffsetDocumentError, LookupError, TypeError, ValueError) as error:
            text = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise OffsetDocumentError(
                f"{self.uri}/{path} is damaged: {text}; restore the file, or read it with the version that wrote it"
            ) from None


def _report_name(kind: str, split: Split, driver: str) -> str:
    mark = hashlib.sha256(json.dumps(split).encode()).hexdigest()[:16]
    return f"{kind}-{mark}.{driver}.json" if driver else f"{kind}-{mark}.json"


def _is_whole(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def _write_local(folder: Path, name: str, data: bytes, *, replace: bool) -> None:
    draft = folder / f".{name}.{uuid.uuid4().hex}"
    try:
        with draft.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if replace or not _link(draft, folder / name):
            draft.replace(folder / name)
    finally:
        draft.unlink(missing_ok=True)
    # The rename itself has to survive a power cut, too.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _link(draft: Path, target: Path) -> bool:
    """Put a file in place unless another one is there; return False where the file system has no such operation."""
    try:
        os.link(draft, target)
    except FileExistsError:
        pass
    except OSError:
        return target.exists()
    return True
