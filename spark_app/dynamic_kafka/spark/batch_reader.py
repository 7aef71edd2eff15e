"""The batch edge of the source: `spark.read.format("dynamic-kafka")`, one plan without a checkpoint.

`partitions` runs once on the driver, `read` in executors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from dynamic_kafka.errors import DataLossError
from dynamic_kafka.executor.reader import read_range
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.codec import decode, encode
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.spark.planner_process import set_up_planner_process
from dynamic_kafka.spark.stream_reader import TaskPartition, in_this_attempt

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


def check_complete(document: OffsetDocument, *, fail: bool) -> None:
    """A batch read that was asked for more than there is must not end with less, and not a word.

    Raises:
        DataLossError: splits do not reach their ending offsets, and `fail` is set.
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
    text = f"data loss: {'; '.join(short[:10])}{f' and {len(short) - 10} more' if len(short) > 10 else ''}"
    if fail:
        raise DataLossError(f"{text}. Choose endingOffsets that exist, or set failOnDataLoss=false")
    log.warning("%s: reading what is there", text)


class DynamicKafkaReader(DataSourceReader):
    """Reads from the starting to the ending offsets of all clusters, as they are when the plan is made."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the whole read; its end document is the last word, as in a bounded stream."""
        from dynamic_kafka.driver.enumerator import Enumerator

        set_up_planner_process()
        enumerator = Enumerator(self.options)
        try:
            start = encode(OffsetDocument())
            end = enumerator.latest(start, unlimited=True)
            check_complete(decode(end), fail=self.options.fail_on_data_loss)
            return [TaskPartition(task) for task in enumerator.tasks(start, end)]
        finally:
            enumerator.stop()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Executor: the records of one task. Spark makes one task without a value where there is nothing to read."""
        return read_range(in_this_attempt(partition.task)) if isinstance(partition, TaskPartition) else iter(())
