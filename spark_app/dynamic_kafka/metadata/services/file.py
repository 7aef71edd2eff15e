"""Metadata from a mounted file or folder. Driver.

In a ConfigMap's volume the kubelet writes a new folder and then swaps the link `..data`, so a reader sees the old
document or the new one, never a mixture. A plain file may be read while somebody writes it. So the content of a changed
file counts only if the file stays the same for a moment after it was read. A half-written file that looks settled is an
invalid document, and the last good metadata stays in force.
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
"""The possible names of the document in a mounted folder. Exactly one of them must be there."""

_KUBELET_LINK = "..data"
_GZIP_MAGIC = b"\x1f\x8b"
_SETTLE_ATTEMPTS = 10
_CHECK = "check that it is mounted, and the path (`metadata` in app.yaml, else the option `metadataPath`)"

_Signature = tuple[str, int, int, int, int]
"""Resolved path, device, inode, time of change in ns, size: another version of the file has another signature."""


class FileMetadataService(KafkaMetadataService):
    """The service of a mounted document.

    `path` is a file in either form, as YAML or JSON, gzip or not, or a folder with one of `FILE_NAMES`.

    Args:
        settle_s: seconds for which a changed plain file must stay the same after it was read.
    """

    def __init__(self, path: str | os.PathLike[str], *, settle_s: float = 0.2) -> None:
        self._path = Path(path).absolute()  # messages name it, and a reader may not know the working directory
        self._settle_s = settle_s
        self._seen: _Signature | None = None
        self._digest: bytes | None = None
        self._document: MetadataDocument | None = None
        self._closed = threading.Event()

    def get_all_streams(self) -> list[KafkaStream]:
        return list(self._look_up().streams.values())

    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        streams = self._look_up().streams
        return {name: streams[name] for name in stream_ids if name in streams}

    @property
    def revision(self) -> Revision | None:
        return self._document.revision if self._document else None

    def changed(self) -> bool:
        """Return whether the file changed since the last lookup; False while it is missing: a lookup reports that."""
        try:
            return self._sign(self._locate()) != self._seen
        except (OSError, MetadataUnavailableError, MetadataInvalidError):
            return False

    def close(self) -> None:
        self._closed.set()

    def _look_up(self) -> MetadataDocument:
        try:
            resolved_path, data = self._read()
        except OSError as error:
            raise MetadataUnavailableError(f"{self._path}: cannot be read: {error.strerror}; {_CHECK}") from error
        digest = hashlib.sha256(data).digest()
        if self._document is None or digest != self._digest:
            shown = str(self._path / resolved_path.name if self._path.is_dir() else self._path)
            self._document = parse_document(_text(data, shown), source=shown)
            self._digest = digest
        return self._document

    def _read(self) -> tuple[Path, bytes]:
        """Return the file, with all links resolved, and its content at a moment when nobody was writing it."""
        gone = False
        for _ in range(_SETTLE_ATTEMPTS):
            try:
                resolved_path = self._locate()
                before = self._sign(resolved_path)
                data = _bytes(resolved_path)
                if before != self._seen and not _is_swapped_whole(resolved_path):
                    self._closed.wait(self._settle_s)
                settled = self._sign(self._locate()) == before
            except FileNotFoundError:
                # The file was swapped or renamed between two of these calls. If it stays away, that is an error.
                if gone:
                    raise
                gone = True
                self._closed.wait(self._settle_s)
                continue
            if settled:
                # Before parsing, so that the next probe does not report an invalid file as changed.
                self._seen = before
                return resolved_path, data
        raise MetadataInvalidError(
            f"{self._path}:1: the file is being written all the time; replace it by renaming a new one over it"
        )

    def _locate(self) -> Path:
        """Return the file with all links resolved, so that a swap does not disturb reading it."""
        if not self._path.is_dir():
            return self._path.resolve(strict=True)
        # Through `..data`, since the kubelet updates the links beside it only after the swap.
        linked = self._path / _KUBELET_LINK
        folder = (linked if linked.is_dir() else self._path).resolve(strict=True)
        present = [name for name in FILE_NAMES if (folder / name).is_file()]
        if not present:
            raise MetadataUnavailableError(f"{self._path}: holds none of {', '.join(FILE_NAMES)}; {_CHECK}")
        if len(present) > 1:
            raise MetadataInvalidError(f"{self._path}:1: holds {' and '.join(present)}; keep one of them")
        return (folder / present[0]).resolve(strict=True)

    def _sign(self, resolved_path: Path) -> _Signature:
        status = resolved_path.stat()
        return str(resolved_path), status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _is_swapped_whole(resolved_path: Path) -> bool:
    """Return whether the file lies in a folder of the kubelet, which writes nothing there once it is linked."""
    return resolved_path.parent.name.startswith("..")


def _bytes(resolved_path: Path) -> bytes:
    # One byte more than allowed, to notice a file that is too large.
    with resolved_path.open("rb") as file:
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
            f"{shown}:1: larger than {MAX_DOCUMENT_BYTES >> 20} MiB unpacked; read fewer streams from one document"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise MetadataInvalidError(f"{shown}:{line}: not UTF-8; save the file in that encoding") from None
