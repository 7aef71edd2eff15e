"""The base of all servers of tests and of the demo: a folder of logs, which stays after a failure."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.folders import remove_folder


class Server:
    """Something with logs. The context manager closes it at the end; when its block raises, the logs stay.

    Attributes:
        name: how messages and its folder call it.
        folder: its logs; and in `data`, which never stays, all else.
    """

    name: str
    folder: Path

    def close(self, *, keep_logs: bool = False) -> None:
        """Stop it for good and delete its folder; with `keep_logs` only `data` in it."""
        self._end()
        remove_folder(self.folder, keep_logs=keep_logs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(keep_logs=error is not None)
        if error is not None:
            error.add_note(f"Logs of {self._called()}: {self.folder}")

    def _end(self) -> None:
        """Kill all that runs."""
        raise NotImplementedError

    def _called(self) -> str:
        """Return the server's name in messages."""
        return self.name
