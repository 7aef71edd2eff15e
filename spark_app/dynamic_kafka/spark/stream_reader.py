"""The streaming edge of the source: Spark's calls on one side, the enumerator on the other.

`latestOffset`, `partitions` and `commit` run in one long-lived Python process on the driver; `read` runs in executors,
on a pickled copy. Spark therefore constructs a reader twice, and a constructor may do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reader import read_range
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.codec import encode
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.spark.planner_process import HeapTrim, set_up_planner_process, stop_when_terminated

if TYPE_CHECKING:
    import pyarrow as pa

    from dynamic_kafka.driver.enumerator import Enumerator

NO_LIMIT = (1 << 63) - 1
RETRY_TIMEOUT_S = 5.0


class TaskPartition(InputPartition):
    """One Spark task: one range of one split."""

    def __init__(self, task: ReadTask) -> None:
        super().__init__(task)
        self.task = task


class DynamicKafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads all clusters of the subscription as one stream."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._made: Enumerator | None = None
        self._trim: HeapTrim | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_made": None, "_trim": None}

    def initialOffset(self) -> dict[str, Any]:
        """The empty document: where a query starts is decided, once, in its first plan."""
        return encode(OffsetDocument())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Rates are ours to share; the limit only tells `Trigger.Once`, which ignores them, from the others."""
        limited = self.options.max_offsets_per_trigger or self.options.min_offsets_per_trigger
        return ReadMaxRows(self.options.max_offsets_per_trigger or NO_LIMIT) if limited else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Plan the next batch."""
        planned = dict(self._enumerator().latest(start, unlimited=isinstance(limit, ReadAllAvailable)))
        self._trim = self._trim or HeapTrim()
        self._trim.round_is_over()
        return planned

    def reportLatestOffset(self) -> dict[str, Any]:
        """A small summary per cluster, for the progress event."""
        return self._enumerator().report()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the ends of a `Trigger.AvailableNow` run."""
        self._enumerator().prepare_available_now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch; a replay gets the same ones."""
        return [TaskPartition(task) for task in self._enumerator().tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Executor: the records of one task."""
        assert isinstance(partition, TaskPartition)
        batches = read_range(in_this_attempt(partition.task))
        if self.options.read_reports is None:
            return batches
        from dynamic_kafka.executor.metrics_sender import ReportAddress, reporting

        return reporting(batches, partition.task.part.split, ReportAddress.parse(self.options.read_reports))

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has committed the batch that ended here; it says so when it constructs the next one."""
        self._enumerator().committed(end)

    def stop(self) -> None:
        """End of the query, on the driver."""
        if self._made is not None:
            self._made.stop()
            self._made = None

    def _enumerator(self) -> Enumerator:
        if self._made is None:
            # Imported here: executors read without planning.
            from dynamic_kafka.driver.enumerator import Enumerator

            set_up_planner_process()
            self._made = Enumerator(self.options)
            if ":" in self.options.service:  # a class of the user's, which may have something to let go of
                stop_when_terminated(self._made.end)
        return self._made


def in_this_attempt(task: ReadTask) -> ReadTask:
    """A task that Spark tries again waits less: `readTimeout` bounds the batch, not each of its four attempts."""
    context = TaskContext.get()
    if context is None or context.attemptNumber() == 0:
        return task
    return replace(task, read_timeout_s=min(task.read_timeout_s, RETRY_TIMEOUT_S))
