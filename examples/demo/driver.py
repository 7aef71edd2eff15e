"""The job as a process: started, killed as a crash would, and watched. Counts its own starts and kills.

`kill -9` has to reach the JVM, the Python driver, the planners and the workers alike. They all live in the session that
the driver was started in (the workers' daemon leaves the process group, but not the session), so that is what dies.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.support.supervise import spawn

_GONE_S = 30.0
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
        return self._kill_session()

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
            self._kill_session()

    def last_words(self, lines: int = 30) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def _kill_session(self) -> int:
        assert self._process is not None
        session, seen = self._process.pid, set(_members(self._process.pid))
        with suppress(ProcessLookupError):
            os.killpg(session, signal.SIGKILL)  # nearly all of them at one stroke; the rest below
        deadline = time.monotonic() + _GONE_S
        # Again until none is left: a process may have forked while we looked.
        while members := set(_members(session)):
            for pid in members:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            seen |= members
            self._process.poll()
            if time.monotonic() > deadline:
                raise DriverError(f"processes {sorted(members)} of the driver do not die")
            time.sleep(0.005)
        self._process.wait()
        return len(seen)


def _members(session: int) -> Iterator[int]:
    """The processes of a session, except those that are dead and only wait to be collected."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            # pid (name) state ppid pgrp session …; the name may hold anything.
            state, _, _, found = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(found) == session and state not in "ZX":
                yield int(entry.name)
