"""The source, with a reader whose task fails in attempts of a script. Executors import it; `test_attempts` uses it.

Attempt 0 asks for a paused cluster, and its process is killed, as for lack of memory. Attempts 1 and 2 read. Attempt 3
asks for the cluster to go on before it reads. Test and reader meet at files beside the metadata.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from dynamic_kafka import DynamicKafkaDataSource
from dynamic_kafka.executor.reading import attempts
from dynamic_kafka.spark.stream_reader import DynamicKafkaStreamReader
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import pyarrow as pa

attempts.RETRY_TIMEOUT_S = 1.0


class FailingReader(DynamicKafkaStreamReader):
    """The streaming reader, with the script."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        story = Path(self.options.metadata_path or "").parent
        context = TaskContext.get()
        assert context is not None
        attempt = context.attemptNumber()
        if attempt == 0:
            (story / "folder").write_text(os.environ["SPARK_LOCAL_DIRS"])
            _meet(story / "planned", story / "paused")
            os.kill(os.getpid(), signal.SIGKILL)
        if attempt == 3:
            _meet(story / "hung", story / "resumed")
        try:
            yield from super().read(partition)
        except Exception as error:
            with (story / "errors").open("a") as file:
                file.write(f"attempt {attempt}: {error}\n")
            raise


class FailingSource(DynamicKafkaDataSource):
    """The data source, with that reader."""

    def streamReader(self, schema: StructType) -> DynamicKafkaStreamReader:
        made = super().streamReader(schema)
        assert isinstance(made, DynamicKafkaStreamReader)
        return FailingReader(made.options)


def _meet(mine: Path, theirs: Path) -> None:
    mine.touch()
    wait_until(theirs.exists, f"the test to write {theirs.name}")
