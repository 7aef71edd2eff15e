"""The job as a process: started, killed as a crash would, and watched. Counts its own starts and kills.

`kill -9` has to reach the JVM, the Python driver, the planners and the workers alike. They all live in the session that
the driver was started in (the workers' daemon leaves the process group, but not the session), so that is what dies.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.support.supervise import kill_session, spawn

_STOP_S = 30.0


class DriverError(Exception):
    """The job ended though nobody asked it to, or would not end."""


class Driver:
    """One job over its lives.

    Attributes:
        log: what all its processes print.
        starts: process ids, one per life.
        kills: how many lives ended by our `kill`.
    """

    def __init__(self, folder: Path) -> None:
        """The job of `folder`; starts nothing."""
        self.log = folder / "driver.log"
        self.starts: list[int] = []
        self.kills = 0
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def restarts_beyond_kills(self) -> int:
        """Starts that no kill explains: 0 when every change was taken live."""
        return len(self.starts) - self.kills - 1

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; returns at once."""
        self._process = spawn([sys.executable, "-m", "demo.job", str(self._folder)], self.log)
        self.starts.append(self._process.pid)

    def check(self) -> None:
        """Raises `DriverError` with the end of its log when it does not run."""
        if not self.running:
            code = self._process.returncode if self._process else None
            raise DriverError(f"the driver ended by itself (exit {code}); log: {self.log}\n{self.last_words()}")

    def kill(self) -> int:
        """kill -9 to everything it consists of; returns how many processes, once all are gone."""
        self.check()
        self.kills += 1
        assert self._process is not None
        return kill_session(self._process)

    def stop(self) -> None:
        """SIGTERM, and wait. Raises `DriverError` when it fails on the way or does not end in time."""
        self.check()
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            raise DriverError(f"the driver did not stop within {_STOP_S:.0f} s; log: {self.log}") from None
        if code != 0:
            raise DriverError(f"the driver stopped with exit {code}; log: {self.log}\n{self.last_words()}")

    def close(self) -> None:
        """Leave nothing behind."""
        if self._process is not None:
            kill_session(self._process)

    def last_words(self, lines: int = 30) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""
