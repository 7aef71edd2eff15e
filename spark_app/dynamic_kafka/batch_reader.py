"""The batch edge of the source: `spark.read.format("dynamic-kafka")`, one plan without a checkpoint.

`partitions` runs once on the driver, `read` in executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from dynamic_kafka.kafka.reader import read_range
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.codec import encode
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.stream_reader import TaskPartition, in_this_attempt, show_driver_log

if TYPE_CHECKING:
    import pyarrow as pa


class DynamicKafkaReader(DataSourceReader):
    """Reads from the starting to the ending offsets of all clusters, as they are when the plan is made."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the whole read; its end document is the last word, as in a bounded stream."""
        from dynamic_kafka.enumerator import Enumerator

        show_driver_log()
        enumerator = Enumerator(self.options)
        try:
            start = encode(OffsetDocument())
            return [TaskPartition(task) for task in enumerator.tasks(start, enumerator.latest(start, unlimited=True))]
        finally:
            enumerator.stop()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Executor: the records of one task. Spark makes one task without a value where there is nothing to read."""
        return read_range(in_this_attempt(partition.task)) if isinstance(partition, TaskPartition) else iter(())
