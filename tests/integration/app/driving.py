"""Runs of the application for tests: as processes of their own, or in a thread on the tests' Spark session.

A process, under python or spark-submit, costs a JVM, a planner and workers: some eleven seconds of a processor. It has
a token in its environment, so that a test can find processes that it left behind.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pyspark.sql.streaming import StreamingQueryListener, StreamingQueryManager

from dynamic_kafka.app import run as app_run
from dynamic_kafka.app.cli import main
from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.query.sinks import evaluators_of
from dynamic_kafka.app.query.stop_request import StopRequest
from dynamic_kafka.spark.source import register_source
from tests.support.places import ROOT
from tests.support.spark import spark_environment, spark_settings
from tests.support.streams import Rows, assert_rows, last_batch, parquet_rows
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEADLINE_S = 240.0
"""A run starts a JVM and Python workers of its own, which takes a minute on a machine that is busy."""
_EVENTS_MS = 60_000
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


class _Run:
    """A run of the application: what it wrote, and waits for more. Its process, or its thread, is the subclass's.

    Args:
        config: its app.yaml.
    """

    def __init__(self, config: Path) -> None:
        self.config, self.folder = config, config.parent
        self.log = self.folder / "app.log"
        self._seen = len(self.log.read_text()) if self.log.exists() else 0

    def code(self) -> int | None:
        """Return the exit code; None while it runs."""
        raise NotImplementedError

    def terminate(self) -> None:
        """Ask it to stop."""
        raise NotImplementedError

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

    def committed_batch(self, sink: str = "lake") -> int:
        """Return the last batch in the checkpoint's commit log."""
        return last_batch(self.folder / "checkpoints" / sink / "commits")

    def planned_batch(self, sink: str = "lake") -> int:
        """Return the last batch in the checkpoint's offset log."""
        return last_batch(self.folder / "checkpoints" / sink / "offsets")

    def last_lines(self, lines: int = 60) -> str:
        """Return the end of the run's log."""
        return "\n".join(self.text().splitlines()[-lines:])

    # -- waiting -------------------------------------------------------------------------------------------------

    def wait_until(self, done: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
        """Wait for a state of the run; fail if the run ends before."""

        def ended() -> str | None:
            return None if self.code() is None else f"ended with {self.code()}"

        wait_until(done, what, timeout_s=timeout_s, failed=ended, details=self.last_lines)

    def wait_rows(self, wanted: Rows, sink: str = "lake") -> None:
        """Wait for at least as many rows as wanted."""
        self.wait_until(lambda: self.rows(sink).total() >= wanted.total(), f"{wanted.total()} rows")


class AppRun(_Run):
    """One run of the application as processes of its own, for a test of a signal, a kill or the process itself.

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
        super().__init__(config)
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

    def code(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self.process.poll()

    def left(self) -> list[int]:
        """Return the processes of this run that still exist."""
        pids = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and self.token.encode() in (entry / "environ").read_bytes():
                    pids.append(int(entry.name))
        return pids

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
        stopped = set[int]()
        try:
            # Again until none is new: one may end, or start another, while we look.
            while new := set(self.left()) - stopped:
                self._signal(new, signal.SIGSTOP)
                stopped |= new
            yield
        finally:
            self._signal(stopped, signal.SIGCONT)

    def __enter__(self) -> AppRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._signal(self.left(), signal.SIGKILL)
        self.process.wait()

    @staticmethod
    def _signal(processes: Iterable[int], number: signal.Signals) -> None:
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


@contextlib.contextmanager
def own_listeners(spark: SparkSession) -> Iterator[None]:
    """Remove the listeners that are added within: with the application's process they would end, too.

    All events that happened are delivered to them first, so that no late one reaches the log of the next test.
    """
    added, add = list[StreamingQueryListener](), StreamingQueryManager.addListener

    def remember(manager: StreamingQueryManager, listener: StreamingQueryListener) -> None:
        add(manager, listener)
        added.append(listener)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StreamingQueryManager, "addListener", remember)
            yield
    finally:
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_EVENTS_MS)
        for listener in added:
            spark.streams.removeListener(listener)


@contextlib.contextmanager
def own_modules() -> Iterator[None]:
    """Forget the modules of users that are imported within, and their folders, as the end of a process does."""
    path, known = [*sys.path], set(sys.modules)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - known:
            if "/pytest-of-" in (getattr(sys.modules[name], "__file__", None) or ""):
                del sys.modules[name]


class RunHere(_Run):
    """One run of the application in a thread of this process, on the tests' Spark session. It starts no JVM.

    Attributes:
        asked_for_spark: whether the run came as far as to start Spark.

    Args:
        spark: the session. Settings of Spark in the app.yaml have no effect.
        config: its app.yaml.
        arguments: of `run`, after the file.
    """

    def __init__(self, spark: SparkSession, config: Path, arguments: tuple[str, ...] = ()) -> None:
        super().__init__(config)
        self.asked_for_spark = False
        self._request = StopRequest()
        self._code: int | None = None
        self._spark = spark
        self._thread = threading.Thread(target=self._run, args=(["run", str(config), *arguments],), daemon=True)
        self._thread.start()

    def code(self) -> int | None:
        """Return the exit code; None while it runs."""
        return None if self._thread.is_alive() else self._code

    def wait_exit(self, timeout_s: float = DEADLINE_S) -> int | None:
        """Return the exit code."""
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), f"still runs after {timeout_s:g} s:\n{self.last_lines()}"
        return self._code

    def terminate(self) -> None:
        """Ask it to stop, as SIGTERM does."""
        self._request.ask("SIGTERM")

    def _run(self, arguments: Sequence[str]) -> None:
        logger = logging.getLogger("dynamic_kafka")
        with (
            own_modules(),
            pytest.MonkeyPatch.context() as patch,
            self.log.open("a", buffering=1) as output,
            own_listeners(self._spark),
        ):
            patch.chdir(self.folder)
            patch.setattr(sys, "stderr", output)
            for name in ("level", "propagate"):
                patch.setattr(logger, name, getattr(logger, name))
            patch.setattr(logger, "handlers", [*logger.handlers])
            patch.setattr(self._request, "on_signals", lambda: None)
            patch.setattr(self._request, "on_jvm_shutdown", lambda spark, grace_s: None)
            patch.setattr(app_run, "StopRequest", lambda: self._request)
            patch.setattr(app_run, "start_session", self._session)
            patch.setattr(app_run, "stop_session", lambda spark: True)
            self._code = main(arguments)

    def _session(self, config: AppConfig, *, live: bool = False) -> SparkSession:
        self.asked_for_spark = True
        register_source(self._spark, evaluators_of(config))
        return self._spark

    def __enter__(self) -> RunHere:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()
        self._thread.join(DEADLINE_S)


RunApp = Callable[..., RunHere]
"""The fixture `run_app`: from an app.yaml and arguments of `run` to a run."""


def run_to_end(run: AppRun | RunHere, wanted: Rows, sink: str = "lake") -> None:
    """Wait for the end of an application that ends by itself; check for exit code 0 and exactly the wanted rows."""
    with run:
        assert run.wait_exit() == 0, run.last_lines()
        assert_rows(run.rows(sink), wanted)
