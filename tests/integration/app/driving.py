"""Runs of the application as processes of their own, under python and under spark-submit, for tests.

A run has a token in its environment, so that a test can find processes that it left behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.places import ROOT
from tests.support.spark import spark_environment, spark_settings
from tests.support.streams import Rows, assert_rows, last_batch, parquet_rows
from tests.support.waiting import wait_until

DEADLINE_S = 240.0
"""A run starts a JVM and Python workers of its own, which takes a minute on a machine that is busy."""
TOKEN = "DYNAMIC_KAFKA_TEST_RUN"
PYTHON = (sys.executable, "-m", "dynamic_kafka.app")
MAIN = ROOT / "spark_app" / "dynamic_kafka" / "app" / "__main__.py"


def spark_submit(folder: Path) -> tuple[str, ...]:
    """The application's command under a real spark-submit."""
    settings = [part for key, value in spark_settings(folder).items() for part in ("--conf", f"{key}={value}")]
    return (str(Path(sys.executable).parent / "spark-submit"), *settings, str(MAIN))


def write_app(folder: Path, **fields: Any) -> Path:
    """An app.yaml in `folder`, with Spark settings that keep all it writes there, and a Parquet sink `lake`."""
    # The application itself switches Spark's progress bar off.
    settings = {key: value for key, value in spark_settings(folder).items() if "showConsoleProgress" not in key}
    lake = {"name": "lake", "type": "parquet", "options": {"path": str(folder / "lake")}}
    content = {
        "name": "test",
        "metadata": str(folder / "streams.json"),
        "streams": {"ids": ["st"]},
        "options": {"startingOffsets": "earliest", "metadataDiscoveryInterval": "1s"},
        "trigger": {"interval": "200ms"},
        "checkpoint": str(folder / "checkpoints"),
        "sinks": [lake],
        "spark": settings,
        **fields,
    }
    path = folder / "app.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


class AppRun:
    """One run of the application.

    Args:
        config: its app.yaml.
        command: what runs it.
        environment: variables beside those of the test.
        arguments: of `run`, after the file.
    """

    def __init__(
        self,
        config: Path,
        command: tuple[str, ...] = PYTHON,
        environment: Mapping[str, str] | None = None,
        arguments: tuple[str, ...] = (),
    ) -> None:
        self.config, self.folder = config, config.parent
        self.log = self.folder / "app.log"
        self._seen = len(self.log.read_text()) if self.log.exists() else 0
        self.token = uuid.uuid4().hex
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, "run", str(config), *arguments],
                cwd=self.folder,
                env={
                    **os.environ,
                    **spark_environment(),
                    TOKEN: self.token,
                    "PYTHONFAULTHANDLER": "1",
                    **(environment or {}),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    # -- what it did ---------------------------------------------------------------------------------------------

    def rows(self, sink: str = "lake") -> Rows:
        """Return the rows of a Parquet sink, by the sink's own log."""
        return parquet_rows(self.folder / sink)

    def text(self) -> str:
        """Return all that this run has written to its log so far."""
        return self.log.read_text(errors="replace")[self._seen :]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the JSON lines of one kind of event."""
        # The last line may be incomplete; all lines before it must parse.
        complete = self.text().rpartition("\n")[0].split("\n")
        lines = [json.loads(line) for line in complete if '"event": ' in line]
        return [line for line in lines if line["event"] == kind]

    def left(self) -> list[int]:
        """Return the processes of this run that still exist."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and self.token.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found

    # -- waiting -------------------------------------------------------------------------------------------------

    def wait_until(self, done: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
        """Wait for a state of the run; fail if the run ends before."""

        def ended() -> str | None:
            return None if self.process.poll() is None else f"ended with {self.process.returncode}"

        wait_until(done, what, timeout_s=timeout_s, failed=ended, details=self.last_lines)

    def wait_rows(self, wanted: Rows, sink: str = "lake") -> None:
        """Wait for at least as many rows as wanted."""
        self.wait_until(lambda: self.rows(sink).total() >= wanted.total(), f"{wanted.total()} rows")

    def wait_exit(self, timeout_s: float = DEADLINE_S) -> int:
        """Return the exit code. No process of the run may be left."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {timeout_s:g} s:\n{self.last_lines()}") from None
        wait_until(lambda: not self.left(), "the end of all processes of the run", timeout_s=10, details=self.left)
        return code

    def terminate(self) -> None:
        """Send SIGTERM to the process that was started: Python itself, or spark-submit's JVM."""
        self.process.send_signal(signal.SIGTERM)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let all processes of the run stand still (SIGSTOP) for a while."""
        processes = self.left()
        for each in processes:
            os.kill(each, signal.SIGSTOP)
        try:
            yield
        finally:
            for each in processes:
                os.kill(each, signal.SIGCONT)

    def committed_batch(self, sink: str = "lake") -> int:
        """Return the last batch in the checkpoint's commit log."""
        return last_batch(self.folder / "checkpoints" / sink / "commits")

    def planned_batch(self, sink: str = "lake") -> int:
        """Return the last batch in the checkpoint's offset log."""
        return last_batch(self.folder / "checkpoints" / sink / "offsets")

    def last_lines(self, lines: int = 60) -> str:
        """Return the end of the run's log."""
        return "\n".join(self.text().splitlines()[-lines:])

    def __enter__(self) -> AppRun:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def run_to_end(config: Path, wanted: Rows, command: tuple[str, ...] = PYTHON, sink: str = "lake") -> AppRun:
    """Run an application that ends by itself; check for exit code 0 and exactly the wanted rows."""
    with AppRun(config, command) as run:
        code = run.wait_exit()
        assert code == 0, run.last_lines()
        assert_rows(run.rows(sink), wanted)
    return run
