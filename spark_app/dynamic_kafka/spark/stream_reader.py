"""The streaming reader, for `spark.readStream.format("dynamic-kafka")`: Spark's calls, passed to the enumerator.

Spark calls `latestOffset`, `partitions` and `commit` in one long-lived Python process on the driver. It calls `read` on
executors, with a pickled copy. Hence the constructor must not start anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from dynamic_kafka.driver.heap_trim import HeapTrimmer
from dynamic_kafka.executor.evaluating.evaluation import Evaluation
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading.attempts import read_attempt
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.document.codec import encode
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.splits import group_ranges
from dynamic_kafka.spark.shown_errors import WithoutFrames

if TYPE_CHECKING:
    import pyarrow as pa

    from dynamic_kafka.driver.enumerator import Enumerator

NO_LIMIT = (1 << 63) - 1
"""The largest limit that Spark takes, which limits nothing."""


class TaskPartition(InputPartition):
    """One Spark task, which reads one range of one split, or several small ones of a cluster, one after another."""

    def __init__(self, tasks: tuple[ReadTask, ...]) -> None:
        super().__init__(tasks)
        self.tasks = tasks


def task_partitions(tasks: Sequence[ReadTask], options: SourceOptions) -> list[InputPartition]:
    """Return the Spark tasks for the read tasks of a batch."""
    by_part = {task.part: task for task in tasks}
    most = options.max_records_per_partition
    groups = group_ranges(list(by_part), min_partitions=options.min_partitions, max_records=most)
    return [TaskPartition(tuple(by_part[part] for part in group)) for group in groups]


class DynamicKafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader of all clusters of the subscription, as one stream."""

    def __init__(self, options: SourceOptions, evaluation: Evaluation | None = None) -> None:
        self.options, self.evaluation = options, evaluation
        self._enumerator: Enumerator | None = None
        self._heap_trimmer: HeapTrimmer | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "evaluation": self.evaluation, "_enumerator": None, "_heap_trimmer": None}

    def initialOffset(self) -> dict[str, Any]:
        """Return the empty document. The query's first plan decides where it starts."""
        return encode(OffsetDocument())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return a limit if the options set one.

        The enumerator applies the limit itself. Spark passes this limit to `latestOffset`, except for `Trigger.Once`:
        that ignores limits, and passes `ReadAllAvailable`.
        """
        limited = self.options.max_offsets_per_trigger or self.options.min_offsets_per_trigger
        return ReadMaxRows(self.options.max_offsets_per_trigger or NO_LIMIT) if limited else ReadAllAvailable()

    @WithoutFrames()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Plan the next batch, and return its end."""
        planned = dict(self._started().latest(start, unlimited=isinstance(limit, ReadAllAvailable)))
        self._heap_trimmer = self._heap_trimmer or HeapTrimmer()
        self._heap_trimmer.count_round()
        return planned

    @WithoutFrames()
    def reportLatestOffset(self) -> dict[str, Any]:
        """Return a summary of each cluster, for Spark's progress event."""
        return self._started().report()

    @WithoutFrames()
    def prepareForTriggerAvailableNow(self) -> None:
        """Set the targets of a `Trigger.AvailableNow` run."""
        self._started().prepare_available_now()

    @WithoutFrames()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch; a replay gets the same ones."""
        return task_partitions(self._started().tasks(start, end), self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of one Spark task, on an executor."""
        assert isinstance(partition, TaskPartition)
        for task in partition.tasks:
            yield from self.read_task(task)

    def read_task(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range."""
        batches = read_attempt(task, self.evaluation)
        if self.options.read_reports is not None:
            from dynamic_kafka.executor.metrics_sender import ReportAddress, with_report

            address = ReportAddress.parse(self.options.read_reports)
            batches = with_report(batches, task, address)
        with WithoutFrames():
            yield from batches

    @WithoutFrames()
    def commit(self, end: dict[str, Any]) -> None:
        """Commit the offsets of a batch that Spark has committed. Spark calls it while it plans the next batch."""
        self._started().committed(end)

    def stop(self) -> None:
        """Stop planning, at the end of the query."""
        if self._enumerator is not None:
            self._enumerator.stop()
            self._enumerator = None

    def _started(self) -> Enumerator:
        if self._enumerator is None:
            # Imported here, since executors do not plan.
            from dynamic_kafka.driver.enumerator import Enumerator
            from dynamic_kafka.spark.planner_process import set_up_planner_process, stop_when_terminated

            set_up_planner_process()
            self._enumerator = Enumerator(self.options, self.evaluation)
            if ":" in self.options.service:  # a user's class, which may have to close something
                stop_when_terminated(self._enumerator.end)
        return self._enumerator
