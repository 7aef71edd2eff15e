"""The state location: a query's amendments and acceptances, beside Spark's checkpoint.

Driver and tools. `stateLocation` is a folder on any file system that pyarrow reaches (local paths; file, s3, gs, abfs
or hdfs URIs). Every file is written once, whole, under a name that describes it, and never changed: a crash leaves
either the file or nothing.

    <stateLocation>/<query>/amendments/<number>-<start>-<end>-<mark>.json
    <stateLocation>/<query>/undone/<mark>.json
    <stateLocation>/<query>/accepted/<number>-<what>.json
    <stateLocation>/audit/<time>-<tool>.json
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyarrow import fs

from dynamic_kafka.errors import DynamicKafkaError, OffsetDocumentError, OptionError
from dynamic_kafka.options.secrets import check_no_credentials
from dynamic_kafka.planning.acceptance import AcceptedLoss
from dynamic_kafka.planning.amendments import Amendment
from dynamic_kafka.planning.splits import Split

_PERMANENT = (PermissionError, NotADirectoryError, IsADirectoryError, FileExistsError)
"""File system errors that a retry cannot fix."""


_URI = re.compile(r"(?s:(?:([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?)?(.*))")
"""Scheme, authority and path as Hadoop splits them: `out:/x` has a scheme, `./out:/x` has none."""


class StateLocation:
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

    def write(self, path: str, content: Mapping[str, Any]) -> None:
        """Write a file whole or not at all, and durably. Writing the same file again changes nothing for readers."""
        data = json.dumps(content, sort_keys=True, indent=1).encode()
        full = f"{self._root}/{path}"
        folder, _, name = full.rpartition("/")
        with self._explain_failure("written", path):
            self._fs.create_dir(folder, recursive=True)
            if isinstance(self._fs, fs.LocalFileSystem):
                _write_local(Path(folder), name, data)
                return
            # An object store shows an object only when its stream is closed; a file system needs the rename.
            draft = f"{folder}/.{name}.{uuid.uuid4().hex}"
            renames = isinstance(self._fs, fs.HadoopFileSystem)
            with self._fs.open_output_stream(draft if renames else full) as stream:
                stream.write(data)
            if renames:
                self._fs.move(draft, full)

    def read_folder(self, path: str) -> dict[str, dict[str, Any]]:
        """Return {file name: content} of all JSON files of a folder, by name; empty if it does not exist.

        Raises:
            OffsetDocumentError: a file does not hold a JSON object.
        """
        contents = {}
        with self._explain_failure("read", path):
            selector = fs.FileSelector(f"{self._root}/{path}", allow_not_found=True)
            files = [found for found in self._fs.get_file_info(selector) if found.is_file]
            for found in sorted(files, key=lambda info: info.base_name):
                name = found.base_name
                if name.startswith(".") or not name.endswith(".json"):
                    continue
                with self._fs.open_input_stream(found.path) as stream:
                    data = stream.read()
                with self._explain_damage(f"{path}/{name}"):
                    contents[name] = json.loads(data)
                    if not isinstance(contents[name], dict):
                        raise ValueError("it is not a JSON object")
        return contents

    def amendments(self, query: str) -> list[Amendment]:
        """Return all amendments of a query that were not undone, by batch; those of one batch in any order."""
        folder, found = f"{query}/amendments", []
        for name, wire in self.read_folder(folder).items():
            with self._explain_damage(f"{folder}/{name}"):
                found.append(Amendment.from_wire(wire))
        undone = self._marks(query) if found else ()
        return [amendment for amendment in found if _digest(amendment) not in undone]

    def undo_amendments(self, query: str, undone: Collection[Amendment]) -> None:
        """Make these void: a user restored a checkpoint from before their batches. The same may be made again later."""
        marks = sorted(map(_digest, undone))
        name = hashlib.sha256("".join(marks).encode()).hexdigest()[:16]
        self.write(f"{query}/undone/{name}.json", {"version": 1, "amendments": marks})

    def _marks(self, query: str) -> set[str]:
        marks: set[str] = set()
        for name, wire in self.read_folder(f"{query}/undone").items():
            with self._explain_damage(f"{query}/undone/{name}"):
                marks.update(map(str, wire["amendments"]))
        return marks

    def save_amendment(self, amendment: Amendment) -> None:
        """Make an amendment durable. Its batch may run only after this."""
        content = amendment.to_wire()
        # One batch may need several, one for each replay that found more ranges to leave out.
        mark = hashlib.sha256(json.dumps(content["leftOut"]).encode()).hexdigest()[:8]
        name = f"{amendment.number:012d}-{amendment.start}-{amendment.end}-{mark}.json"
        self.write(f"{amendment.query}/amendments/{name}", content)

    def accepted_identities(self, query: str) -> dict[str, str]:
        """Return {cluster id: Kafka `cluster.id`} that a user accepted, the newest where there are several."""
        return self._accepted(query)[0]

    def accepted_losses(self, query: str) -> dict[Split, AcceptedLoss]:
        """Return the data losses that a user accepted, the newest of each split."""
        return self._accepted(query)[1]

    def _accepted(self, query: str) -> tuple[dict[str, str], dict[Split, AcceptedLoss]]:
        folder = f"{query}/accepted"
        identities: dict[str, str] = {}
        losses: dict[Split, AcceptedLoss] = {}
        for name, wire in self.read_folder(folder).items():
            with self._explain_damage(f"{folder}/{name}"):
                if wire["kind"] == "identity":
                    identities[str(wire["cluster"])] = str(wire["kafkaId"])
                elif wire["kind"] == "data-loss":
                    split = Split(str(wire["cluster"]), str(wire["topic"]), int(wire["partition"]))
                    losses[split] = AcceptedLoss(
                        int(wire["from"]), wire.get("topicId"), wire.get("to"), wire.get("document"), wire.get("epoch")
                    )
                else:
                    raise ValueError(f"kind {wire['kind']!r} is unknown")
        return identities, losses

    @contextmanager
    def _explain_failure(self, done: str, path: str) -> Iterator[None]:
        """Add to an error of the file system where it happened and what to do."""
        try:
            yield
        except OSError as error:
            text = f"stateLocation: {self.uri}/{path} cannot be {done}: {error}"
            if isinstance(error, _PERMANENT):
                raise OptionError(f"{text}; name a folder that this user may read and write") from error
            raise DynamicKafkaError(f"{text}; check that the file system is available, and start again") from error

    @contextmanager
    def _explain_damage(self, path: str) -> Iterator[None]:
        """Add to an error about a damaged or too new file its path and what to do."""
        try:
            yield
        except (OffsetDocumentError, LookupError, TypeError, ValueError) as error:
            text = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise OffsetDocumentError(
                f"{self.uri}/{path} is damaged: {text}; restore the file, or read it with the version that wrote it"
            ) from None


def _digest(amendment: Amendment) -> str:
    """Return a digest of one amendment; the same amendment made at another time has another one."""
    return hashlib.sha256(json.dumps(amendment.to_wire(), sort_keys=True).encode()).hexdigest()


def has_scheme(uri: str) -> bool:
    """Return whether a path names its file system."""
    parts = _URI.fullmatch(uri)
    return parts is not None and parts.group(1) is not None


def canonical_uri(uri: str) -> str:
    """Return the canonical form of a path or URI: paths of one folder have equal forms, as far as text shows."""
    parts = _URI.fullmatch(uri)
    scheme, authority, path = parts.groups() if parts else (None, None, uri)
    if scheme in (None, "file"):
        return os.path.realpath(path)
    return f"{'s3' if scheme == 's3a' else scheme}://{authority or ''}{os.path.normpath(path or '/')}"


def open_folder(uri: str, what: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI as Spark writes it, and the path there. `s3a:` is pyarrow's `s3:`.

    Args:
        what: the setting that holds the URI, for errors.

    Raises:
        OptionError: the file system is not reachable from here, or the URI holds a password.
    """
    check_no_credentials(uri, what)
    parts = _URI.fullmatch(uri)
    scheme, authority, path = parts.groups() if parts else (None, None, uri)
    if scheme is None:
        return fs.LocalFileSystem(), str(Path(uri).absolute())
    if not authority and not path.startswith("/"):
        raise OptionError(f"{what} {uri!r} cannot be opened: write {scheme}: and an absolute path")
    if scheme == "file" and not authority:  # for Hadoop, `%` is a plain character; pyarrow would decode it
        return fs.LocalFileSystem(), path.rstrip("/") or "/"
    try:
        # Hadoop reads `hdfs:/x` as `hdfs:///x`; pyarrow understands only the second.
        files, root = fs.FileSystem.from_uri(f"{'s3' if scheme == 's3a' else scheme}://{authority or ''}{path}")
    except (OSError, ValueError) as error:
        known = "; known are file:, s3:, s3a:, gs:, abfs:, hdfs:, or a path" if "Unrecognized" in str(error) else ""
        raise OptionError(f"{what} {uri!r} cannot be opened: {error}{known}") from None
    return files, root.rstrip("/")


def check_writable(uri: str, what: str) -> str:
    """Check that files can be written below a folder, which need not exist yet. Leaves nothing behind.

    Only local folders are tried.

    Returns:
        The finding as a short text.

    Raises:
        OptionError: the path is no folder, or cannot be made or written; or as `open_folder`.
    """
    files, root = open_folder(uri, what)
    if not isinstance(files, fs.LocalFileSystem):
        return f"{uri} can be opened"
    folder = Path(root)
    there = next(path for path in (folder, *folder.parents) if path.exists())
    wrong = None if there.is_dir() else "not a folder"
    try:
        # A file without a name, so that nobody sees it. Access rights alone do not show the answer, as below /proc.
        if wrong is None:
            tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        wrong = f"not writable ({error.strerror})"
    if wrong is None:
        return f"{folder} can be written" if there == folder else f"{folder} does not exist yet, can be made"
    where = "it is" if there == folder else f"{there} is"
    raise OptionError(
        f"{what} {str(folder)!r} cannot be written: {where} {wrong}; name a folder that this user may write"
    )


def _write_local(folder: Path, name: str, data: bytes) -> None:
    draft = folder / f".{name}.{uuid.uuid4().hex}"
    with draft.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(folder / name)
    # The rename itself has to survive a power cut, too.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
