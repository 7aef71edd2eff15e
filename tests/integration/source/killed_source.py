"""The source, in which a process is killed with -9 once, at the step that the file `kill` beside the metadata names.

Executors and the planner import it, `killed_story` starts it. Beside the metadata, the file `reads` has a line for each
attempt to read a range. Nothing is planned while the file `held` exists, and no range is read while `held-ranges` does.
The file `holding` shows that a process waits for one of these. With the file `shared`, a few ranges share two tasks.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from dynamic_kafka import DynamicKafkaDataSource
from dynamic_kafka.driver import changed_topics
from dynamic_kafka.executor.evaluating.dead_letters import DeadLetters
from dynamic_kafka.executor.read_task import BatchReports, ReadTask
from dynamic_kafka.executor.reading import range_reader
from dynamic_kafka.planning import splits
from dynamic_kafka.spark.stream_reader import DynamicKafkaStreamReader
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import pyarrow as pa


def die(story: Path, step: str) -> None:
    """Kill this process, its executor or the whole driver, if this is the step and nothing was killed yet."""
    who, _, when = (story / "kill").read_text().partition(" ")
    if when != step or (story / "killed").exists():
        return
    (story / "killed").touch()
    if who == "driver":
        os.killpg(int((story / "driver").read_text()), signal.SIGKILL)
    if who == "executor":
        os.kill(executor_pid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def executor_pid() -> int:
    """Return the process id of the executor's JVM, whose daemon is the parent of this Python worker."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])


@contextmanager
def killed_around(story: Path, what: str, place: Any, name: str) -> Iterator[None]:
    """Let this process be killed before or after a function of a module or class is called."""
    call = getattr(place, name)

    def killed(*given: Any, **named: Any) -> Any:
        die(story, f"before the {what}")
        result = call(*given, **named)
        die(story, f"after the {what}")
        return result

    setattr(place, name, killed)
    try:
        yield
    finally:
        setattr(place, name, call)


class KilledReader(DynamicKafkaStreamReader):
    """The streaming reader, with the killer."""

    @property
    def story(self) -> Path:
        return Path(self.options.metadata_path or "").parent

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if (self.story / "held").exists():
            (self.story / "holding").touch()
            return start
        with killed_around(self.story, "planner's verdict", changed_topics, "save_change"):
            planned = super().latestOffset(start, limit)
        if planned.get("over"):
            die(self.story, "before the last document")
        return planned

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if end.get("over"):
            die(self.story, "after the last document")
        if (self.story / "shared").exists():
            splits.LEAST_TASKS = 2
        return super().partitions(start, end)

    def read_task(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        story, part = self.story, task.part
        read = {"executor": executor_pid(), "split": str(part.split), "start": part.start, "at": time.time()}
        with (story / "reads").open("a") as reads:
            reads.write(json.dumps(read) + "\n")

        if (story / "held-ranges").exists():
            (story / "holding").touch()
            wait_until(lambda: not (story / "held-ranges").exists(), "the release of the ranges")
        range_reader.MAX_ROWS = 2  # so that a range has several batches
        with (
            killed_around(story, "report", BatchReports, "save_stop_record"),
            killed_around(story, "executor's verdict", BatchReports, "save_verdict"),
            killed_around(story, "letters", DeadLetters, "write"),
        ):
            for batch in super().read_task(task):
                yield batch
                die(story, f"in the middle of {part.split}")


class KilledSource(DynamicKafkaDataSource):
    """The data source, with that reader."""

    def streamReader(self, schema: StructType) -> DynamicKafkaStreamReader:
        made = super().streamReader(schema)
        assert isinstance(made, DynamicKafkaStreamReader)
        return KilledReader(made.options, made.evaluation)
