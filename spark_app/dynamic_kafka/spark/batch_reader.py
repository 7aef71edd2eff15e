"""The batch reader, for `spark.read.format("dynamic-kafka")`: one plan, without a checkpoint.

Spark calls `partitions` once on the driver, and `read` on executors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from dynamic_kafka.errors import DataLossError
from dynamic_kafka.executor.evaluating.evaluation import Evaluation
from dynamic_kafka.executor.reading.attempts import read_attempt
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.document.codec import decode, encode
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.spark.shown_errors import WithoutFrames
from dynamic_kafka.spark.stream_reader import TaskPartition, task_partitions
from dynamic_kafka.wording import first_few

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


def check_complete(document: OffsetDocument, *, fail: bool) -> None:
    """Check that a batch reaches its ending offsets: it must not read less than the user asked for without a message.

    Raises:
        DataLossError: a split ends before its ending offset, and `fail` is set.
    """
    short = [
        f"{cluster}/{name}[{p}] ends at {topic.next[p]}, before {topic.stops[p]}"
        for cluster, progress in document.clusters.items()
        for name, topic in progress.topics.items()
        for p in topic.next
        if not topic.finished(p)
    ]
    if not short:
        return
    text = f"data loss: {first_few(short, separator='; ')}"
    if fail:
        raise DataLossError(f"{text}. Choose endingOffsets that exist, or set failOnDataLoss=false")
    log.warning("%s; the batch reads the records that exist (failOnDataLoss=false)", text)


class DynamicKafkaReader(DataSourceReader):
    """A reader from the starting to the ending offsets of all clusters, as they are at the time of the plan."""

    def __init__(self, options: SourceOptions, evaluation: Evaluation | None = None) -> None:
        self.options, self.evaluation = options, evaluation

    @WithoutFrames()
    def partitions(self) -> Sequence[InputPartition]:
        """Plan the whole read, in one batch."""
        from dynamic_kafka.driver.enumerator import Enumerator
        from dynamic_kafka.spark.planner_process import set_up_planner_process

        set_up_planner_process()
        enumerator = Enumerator(self.options)
        try:
            start = encode(OffsetDocument())
            end = enumerator.latest(start, unlimited=True)
            check_complete(decode(end), fail=self.options.fail_on_data_loss)
            return task_partitions(enumerator.tasks(start, end), self.options)
        finally:
            enumerator.stop()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of one Spark task, on an executor."""
        if not isinstance(partition, TaskPartition):  # Spark's only partition when `partitions` returns none
            return
        with WithoutFrames():
            for task in partition.tasks:
                yield from read_attempt(task, self.evaluation)
