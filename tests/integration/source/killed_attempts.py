"""The source, in which a process is killed with -9 once, at the step that the file `kill` beside the metadata names.

Executors and the planner import it; `test_record_evaluator` uses it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from dynamic_kafka import DynamicKafkaDataSource
from dynamic_kafka.executor.read_task import BatchReports
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.spark.stream_reader import DynamicKafkaStreamReader

if TYPE_CHECKING:
    import pyarrow as pa


def die(story: Path, step: str) -> None:
    """Kill this process, or the whole driver, if this is the step and nothing was killed yet."""
    who, _, when = (story / "kill").read_text().partition(" ")
    if when != step or (story / "killed").exists():
        return
    (story / "killed").touch()
    if who == "driver":
        os.killpg(int((story / "driver").read_text()), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class KilledReader(DynamicKafkaStreamReader):
    """The streaming reader, with the killer."""

    @property
    def story(self) -> Path:
        return Path(self.options.metadata_path or "").parent

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        planned = super().latestOffset(start, limit)
        if planned.get("over"):
            die(self.story, "before the last document")
        return planned

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if end.get("over"):
            die(self.story, "after the last document")
        return super().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        story, save = self.story, BatchReports.save_stop_record

        def killed(reports: BatchReports, split: Split, offset: int, topic_id: str | None) -> None:
            die(story, "before the report")
            save(reports, split, offset, topic_id)
            die(story, "after the report")

        BatchReports.save_stop_record = killed  # type: ignore[method-assign]
        try:
            yield from super().read(partition)
        finally:
            BatchReports.save_stop_record = save  # type: ignore[method-assign]


class KilledSource(DynamicKafkaDataSource):
    """The data source, with that reader."""

    def streamReader(self, schema: StructType) -> DynamicKafkaStreamReader:
        made = super().streamReader(schema)
        assert isinstance(made, DynamicKafkaStreamReader)
        return KilledReader(made.options, made.evaluation)
