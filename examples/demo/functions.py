"""The user's code in the application, which app.yaml names: a `foreachBatch` function and the record evaluator."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from dynamic_kafka import RecordEvaluator


class EndOfDay(RecordEvaluator):
    """An evaluator that ends a split at the producers' last record, `settings.END_OF_DAY`.

    This file imports no other one of the demo: the end-to-end tests mount it alone.
    """

    def end_of_stream_mask(self, batch: pa.RecordBatch) -> Any:
        """Return for each row whether it is that record."""
        return pc.equal(batch.column("value"), b"end of day")


def publish(counts: DataFrame, batch: int) -> None:
    """Write the counts so far to the file `AGGREGATE_FILE`. A repeated batch writes the same content."""
    target = Path(os.environ["AGGREGATE_FILE"])
    by_cluster = {row["kafka_cluster"]: row["count"] for row in counts.collect()}
    draft = target.with_suffix(".draft")
    draft.write_text(json.dumps({"batch": batch, "counts": by_cluster}))
    draft.replace(target)
