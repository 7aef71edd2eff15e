"""The source without Spark, on real brokers: what Spark calls, in Spark's order, with a crash wherever a test wants it.

One `SourceRun` is one query over all its restarts: the offset log, the commit log and the sink outlive a crash, the
enumerator does not. Offsets pass through JSON text and tasks through pickle, as they do in Spark. The sink takes each
batch once, by its number, as an idempotent `foreachBatch` does. The order of steps is MicroBatchExecution's; tests on a
real Spark pin that (`test_crashes.py`).
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from dynamic_kafka.driver.enumerator import Enumerator
from dynamic_kafka.executor.evaluating.evaluation import Evaluation
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading.range_reader import read_range
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.document.codec import decode, encode
from dynamic_kafka.planning.document.progress import OffsetDocument
from tests.support.streams import Row, Rows, assert_rows, next_offsets, parked_offsets
from tests.support.waiting import wait_until

CrashPoint = Literal["planned", "logged", "partitioned", "reading", "read", "sunk", "committed"]
CRASH_POINTS: tuple[CrashPoint, ...] = ("planned", "logged", "partitioned", "reading", "read", "sunk", "committed")
"""After `latestOffset`, the offset log, `partitions`, the first record, the last one, the sink, the commit log."""
DEADLINE_S = 60.0
_PAUSE_S = 0.05


class SourceRun:
    """One query. `with` stops it at the end.

    Attributes:
        offsets: the offset log, JSON text per batch.
        commits: how many batches are committed.
        delivered: the sink: rows per batch.
        tasks: what the last batch was made of.
    """

    def __init__(self, **options: object) -> None:
        self.options = {"metadataDiscoveryInterval": "100ms", "startingOffsets": "earliest"}
        self.offsets: list[str] = []
        self.commits = 0
        self.delivered: dict[int, Rows] = {}
        self.tasks: list[ReadTask] = []
        self._enumerator: Enumerator | None = None
        self._acknowledged = 0
        self.configure(**options)

    # -- life ----------------------------------------------------------------------------------------------------------

    def configure(self, **options: object) -> None:
        """Set options, from the next restart on; None takes one away."""
        self.options.update({name: str(value) for name, value in options.items() if value is not None})
        for name in [name for name, value in options.items() if value is None]:
            self.options.pop(name, None)

    @property
    def enumerator(self) -> Enumerator:
        """The planner of this run; a restart makes another."""
        if self._enumerator is None:
            given = {name.lower(): value for name, value in self.options.items()}  # as they arrive from Spark
            self._enumerator = Enumerator(parse_options(given, mode="streaming"))
        return self._enumerator

    @property
    def evaluation(self) -> Evaluation | None:
        """The record evaluator of the options."""
        return Evaluation.of(self.enumerator.options, {})

    def restart(self, **options: object) -> None:
        """End this run wherever it is, and begin another on the same logs, with changed options."""
        self.stop()
        self.configure(**options)

    def stop(self) -> None:
        """End this run."""
        if self._enumerator is not None:
            self._enumerator.stop()
            self._enumerator = None

    def __enter__(self) -> SourceRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- batches -------------------------------------------------------------------------------------------------------

    def batch(self, crash: CrashPoint | None = None) -> bool:
        """Run one batch, the pending one first. False if there was nothing to do.

        Args:
            crash: end the run right after this step, as a crash would.
        """
        number = len(self.offsets)
        if number == self.commits:
            if not self._plan(number, crash):
                return False
        else:
            number -= 1
        done = len(self.offsets) > number and self._run(number, crash)
        if not done:
            self.stop()
        return True

    def until(self, done: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
        """Run batches until something is true."""
        wait_until(
            done,
            what,
            timeout_s=timeout_s,
            details=lambda: f"saved: {self.document}",
            pause=self._batch_or_pause,
        )

    def _batch_or_pause(self, _: float) -> None:
        if not self.batch():
            time.sleep(_PAUSE_S)

    def until_fails(self, kind: type[Exception]) -> str:
        """Run batches until one fails with this kind of error; end the run, and return the error's text."""

        def failure() -> str | None:
            try:
                self.batch()
            except kind as error:
                return str(error)
            return None

        text = wait_until(failure, f"a {kind.__name__}", timeout_s=DEADLINE_S)
        self.stop()
        return text

    def until_rows(self, wanted: Rows) -> None:
        """Run batches until so many rows are delivered, and nothing is left to read; they must be the wanted ones."""
        self.until(lambda: self.rows().total() >= wanted.total(), f"{wanted.total()} rows, not {self.rows().total()}")
        while self.batch():
            pass
        assert_rows(self.rows(), wanted)

    def _plan(self, number: int, crash: CrashPoint | None) -> bool:
        start = self._saved(number - 1)
        end = self.enumerator.latest(start)
        if json.dumps(end) == json.dumps(start):
            return False
        if crash != "planned":
            self.offsets.append(json.dumps(end))
            if number > self._acknowledged:
                self.enumerator.committed(start)
                self._acknowledged = number
        return True

    def _run(self, number: int, crash: CrashPoint | None) -> bool:
        if crash == "logged":
            return False
        planned = self.enumerator.tasks(self._saved(number - 1), self._saved(number))
        self.tasks = [pickle.loads(pickle.dumps(task)) for task in planned]
        if crash == "partitioned":
            return False
        rows = Rows()
        for task in self.tasks:
            for row in read(task, self.evaluation):
                rows[row] += 1
                if crash == "reading":
                    return False
        if crash in ("reading", "read"):
            return False
        self.delivered.setdefault(number, rows)
        if crash == "sunk":
            return False
        self.commits = number + 1
        return crash != "committed"

    def _saved(self, number: int) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.offsets[number]) if number >= 0 else encode(OffsetDocument())
        return document

    # -- what came of it -----------------------------------------------------------------------------------------------

    def rows(self) -> Rows:
        """All that the sink has."""
        return sum(self.delivered.values(), Rows())

    @property
    def document(self) -> OffsetDocument:
        """The last saved offset document, committed or not."""
        return decode(self._saved(len(self.offsets) - 1))

    @property
    def next(self) -> dict[tuple[str, str], dict[int, int]]:
        """The saved offsets of active splits: {(cluster, topic): {partition: next offset}}."""
        return next_offsets(self.document)

    @property
    def parked(self) -> dict[tuple[str, str], dict[int, int]]:
        """The saved offsets of parked splits, in the same form."""
        return parked_offsets(self.document)

    def report(self) -> Mapping[str, Any]:
        """Return the summary that progress events show."""
        return self.enumerator.report()


@contextmanager
def reading(path: Path, **options: object) -> Iterator[SourceRun]:
    """Yield a query on the stream `orders` of a metadata file, with a state location beside the file."""
    given: dict[str, object] = {"streamIds": "orders", "metadataPath": path, "stateLocation": path.parent / "state"}
    with SourceRun(**(given | options)) as run:
        yield run


def amendments(path: Path) -> list[dict[str, Any]]:
    """Return the amendments of the state location beside a metadata file, in the order of writing."""
    files = (path.parent / "state").glob("*/amendments/*.json")
    return [json.loads(file.read_text()) for file in sorted(files, key=lambda file: file.stat().st_mtime_ns)]


def read(task: ReadTask, evaluation: Evaluation | None = None) -> Iterator[Row]:
    """Yield the records of one task, as an executor reads them."""
    for batch in read_range(task, evaluation):
        yield from rows_of(batch)


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield the rows of one Arrow batch."""
    columns = (batch.column(name).to_pylist() for name in ("kafka_cluster", "topic", "partition", "offset", "value"))
    for cluster, topic, partition, offset, value in zip(*columns, strict=True):
        text = value.decode() if isinstance(value, bytes) else json.dumps(value)
        yield Row(cluster, topic, partition, offset, text)
