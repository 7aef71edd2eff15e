"""The source, in which a process is killed with -9 once, at the step that the file `kill` beside the metadata names.

Executors and the planner import it; `test_killed_at_stop_records` uses it. Beside the metadata, the file `reads` has a
line for each attempt to read a range, and nothing is planned while the file `held` exists.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from dynamic_kafka import DynamicKafkaDataSource
from dynamic_kafka.executor import range_reader
from dynamic_kafka.executor.read_task import BatchReports
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.spark.stream_reader import DynamicKafkaStreamReader, TaskPartition

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


class KilledReader(DynamicKafkaStreamReader):
    """The streaming reader, with the killer."""

    @property
    def story(self) -> Path:
        return Path(self.options.metadata_path or "").parent

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if (self.story / "held").exists():
            return start
        planned = super().latestOffset(start, limit)
        if planned.get("over"):
            die(self.story, "before the last document")
        return planned

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if end.get("over"):
            die(self.story, "after the last document")
        return super().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPartition)
        story, part, save = self.story, partition.task.part, BatchReports.save_stop_record
        read = {"executor": executor_pid(), "split": str(part.split), "start": part.start, "at": time.time()}
        with (story / "reads").open("a") as reads:
            reads.write(json.dumps(read) + "\n")

        def killed(reports: BatchReports, split: Split, offset: int, topic_id: str | None) -> None:
            die(story, "before the report")
            save(reports, split, offset, topic_id)
            die(story, "after the report")

        BatchReports.save_stop_record = killed  # type: ignore[method-assign]
        range_reader.MAX_ROWS = 2  # so that a range has several batches
        try:
            for batch in super().read(partition):
                yield batch
                die(story, f"in the middle of {part.split}")
        finally:
            BatchReports.save_stop_record = save  # type: ignore[method-assign]


class KilledSource(DynamicKafkaDataSource):
    """The data source, with that reader."""

    def streamReader(self, schema: StructType) -> DynamicKafkaStreamReader:
        made = super().streamReader(schema)
        assert isinstance(made, DynamicKafkaStreamReader)
        return KilledReader(made.options, made.evaluation)
