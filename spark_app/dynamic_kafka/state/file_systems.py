"""Folders by path or URI, on any file system that pyarrow reaches. Driver, executors and tools."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from pyarrow import fs

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options.secrets import check_no_credentials

_URI = re.compile(r"(?s:(?:([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?)?(.*))")
"""Scheme, authority and path as Hadoop splits them: `out:/x` has a scheme, `./out:/x` has none."""


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
