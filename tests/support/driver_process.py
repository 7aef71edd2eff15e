"""A Spark driver as a process of its own, for tests that kill it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from tests.support.places import BUILD, ROOT
from tests.support.spark import spark_environment
from tests.support.waiting import wait_until

DEADLINE_S = 240.0
"""The deadline of every wait: a JVM has to start first, on a machine that may be busy."""


class DriverProcess:
    """A Spark driver in a process group of its own, its JVM and workers with it, to be killed with -9.

    Args:
        script: Python code that runs the query; it finds `arguments` in `sys.argv[1:]`.
        log: where its output goes.
        environment: more variables.
    """

    def __init__(
        self, script: str, arguments: Iterable[str], log: Path, environment: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", script, *arguments],
                cwd=ROOT,
                env={**os.environ, **spark_environment(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait_until(self, done: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
        """Wait until `done()` is true, and fail at once if the driver ends first."""
        wait_until(
            done,
            what,
            timeout_s=timeout_s,
            failed=lambda: None if self._process.poll() is None else "the driver ended",
            details=self.last_words,
        )

    def kill(self) -> None:
        """Kill driver, JVM and their process group with -9, and return when they are gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(BUILD / "spark" / str(self._process.pid), ignore_errors=True)

    def last_words(self, lines: int = 30) -> str:
        """Return the last lines of the driver's output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> DriverProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
