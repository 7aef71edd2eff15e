"""Metadata from a mounted file or folder. Driver.

Made for a ConfigMap's volume, where the kubelet writes a new folder and swaps the link `..data`: such a
change is seen whole or not at all. A plain file may be read while somebody writes it: what changed is read a
second time a moment later, and anything that does not parse by then is an invalid document, which leaves the
last good one in force.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import threading
import zlib
from collections.abc import Collection
from io import BytesIO
from pathlib import Path

from dynamic_kafka.errors import MetadataInvalidError, MetadataUnavailableError
from dynamic_kafka.metadata.document import MAX_DOCUMENT_BYTES, MetadataDocument, parse_document
from dynamic_kafka.metadata.model import KafkaStream, Revision
from dynamic_kafka.metadata.services.service import KafkaMetadataService

FILE_NAMES = tuple(f"streams{ending}{packed}" for ending in (".yaml", ".yml", ".json") for packed in ("", ".gz"))
"""The document's possible names in a mounted folder, of which one must be there."""

_KUBELET_LINK = "..data"
_GZIP_MAGIC = b"\x1f\x8b"
_SETTLE_ATTEMPTS = 10
_CHECK = "check that it is mounted, and the path (`metadata` in app.yaml, else the option `metadataPath`)"

_Signature = tuple[str, int, int, int, int]
"""Resolved path, device, inode, time of change in ns, size: what a `stat` can tell of a file's edition."""


class FileMetadataService(KafkaMetadataService):
    """The document at `path`: a file in either form, YAML or JSON, gzip or not, or a folder that holds one of
    `FILE_NAMES`.

    Args:
        path: the file, or the folder that it is mounted in.
        settle_s: how long a changed plain file must stay the same before it is taken, in seconds.
    """

    def __init__(self, path: str | os.PathLike[str], *, settle_s: float = 0.2) -> None:
        self._path = Path(path).absolute()  # messages name it: relative to what would be a riddle
        self._settle_s = settle_s
        self._seen: _Signature | None = None
        self._digest: bytes | None = None
        self._document: MetadataDocument | None = None
        self._closed = threading.Event()

    def get_all_streams(self) -> list[KafkaStream]:
        return list(self._look_up().streams.values())

    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        streams = self._look_up().streams
        return {each: streams[each] for each in stream_ids if each in streams}

    @property
    def revision(self) -> Revision | None:
        return self._document.revision if self._document else None

    def changed(self) -> bool:
        """Whether the file is another than at the last look-up; False while it is missing, which a look-up
        reports."""
        try:
            return self._sign(self._locate()) != self._seen
        except (OSError, MetadataUnavailableError, MetadataInvalidError):
            return False

    def close(self) -> None:
        self._closed.set()

    def _look_up(self) -> MetadataDocument:
        try:
            found, data = self._read()
        except OSError as error:
            raise MetadataUnavailableError(f"{self._path}: cannot be read: {error.strerror}; {_CHECK}") from error
        digest = hashlib.sha256(data).digest()
        if self._document is None or digest != self._digest:
            shown = str(self._path / found.name if self._path.is_dir() else self._path)
            self._document = parse_document(_text(data, shown), source=shown)
            self._digest = digest
        return self._document

    def _read(self) -> tuple[Path, bytes]:
        """The file, resolved, and its content at a moment when nobody was writing it."""
        gone = False
        for _ in range(_SETTLE_ATTEMPTS):
            try:
                found = self._locate()
                before = self._sign(found)
                data = _bytes(found)
                if before != self._seen and not _is_swapped_whole(found):
                    self._closed.wait(self._settle_s)
                settled = self._sign(self._locate()) == before
            except FileNotFoundError:
                # Swapped or renamed between two of these calls; a file that stays away is an error.
                if gone:
                    raise
                gone = True
                self._closed.wait(self._settle_s)
                continue
            if settled:
                # Before parsing: a file that turns out invalid is not news at the next probe.
                self._seen = before
                return found, data
        raise MetadataInvalidError(
            f"{self._path}:1: the file is being written all the time; replace it by renaming a new one over it"
        )

    def _locate(self) -> Path:
        """The file itself, all links resolved, so that reading it is not disturbed by a swap."""
        if not self._path.is_dir():
            return self._path.resolve(strict=True)
        # Through `..data`, since the kubelet puts the links beside it right only after the swap.
        folder = (self._path / _KUBELET_LINK if (self._path / _KUBELET_LINK).is_dir() else self._path).resolve(
            strict=True
        )
        present = [name for name in FILE_NAMES if (folder / name).is_file()]
        if not present:
            raise MetadataUnavailableError(f"{self._path}: holds none of {', '.join(FILE_NAMES)}; {_CHECK}")
        if len(present) > 1:
            raise MetadataInvalidError(f"{self._path}:1: holds {' and '.join(present)}; keep one of them")
        return (folder / present[0]).resolve(strict=True)

    def _sign(self, found: Path) -> _Signature:
        status = found.stat()
        return str(found), status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _is_swapped_whole(found: Path) -> bool:
    """Whether the file lies in one of the kubelet's folders, which are never written to once they are
    linked."""
    return found.parent.name.startswith("..")


def _bytes(found: Path) -> bytes:
    # One byte more than allowed tells that it is too large.
    with found.open("rb") as file:
        return file.read(MAX_DOCUMENT_BYTES + 1)


def _text(data: bytes, shown: str) -> str:
    if data.startswith(_GZIP_MAGIC):
        try:
            with gzip.GzipFile(fileobj=BytesIO(data)) as packed:
                data = packed.read(MAX_DOCUMENT_BYTES + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise MetadataInvalidError(f"{shown}:1: not a whole gzip file: {error}; write it again") from None
    if len(data) > MAX_DOCUMENT_BYTES:
        raise MetadataInvalidError(
            f"{shown}:1: larger than {MAX_DOCUMENT_BYTES >> 20} MiB when unpacked; read fewer streams from one document"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise MetadataInvalidError(f"{shown}:{line}: not UTF-8; save the file in that encoding") from None
