"""A file that another process appends to, and that is renamed when it is large, as the kubelet does with logs."""

from __future__ import annotations

import os
from pathlib import Path


class FollowedFile:
    """The lines that come to a file after this object was made."""

    def __init__(self, path: Path) -> None:
        """Begin at the end of the file, which exists. Raises `OSError`."""
        self._path = path
        self._stream = path.open("rb")
        self._stream.seek(0, os.SEEK_END)
        self._rest = b""

    def lines(self) -> list[str]:
        """Return the whole lines that have come since the last call."""
        # The order matters: what comes to the old file before it is renamed is read before the new one.
        renamed = self._is_renamed()
        data = self._rest + self._stream.read()
        if renamed:
            self._stream.close()
            self._stream = self._path.open("rb")
            data += self._stream.read()
        *whole, self._rest = data.split(b"\n")
        return [line.decode(errors="replace") for line in whole]

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _is_renamed(self) -> bool:
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False  # the new one comes in a moment
        return there.st_ino != os.fstat(self._stream.fileno()).st_ino
