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


def publish(windows: DataFrame, batch: int) -> None:
    """Put a batch's windows, with their counts so far, into the file `AGGREGATE_FILE`; add up the rows by cluster.

    A repeated batch writes the same content.
    """
    target = Path(os.environ["AGGREGATE_FILE"])
    known = json.loads(target.read_text())["windows"] if target.exists() else {}
    for row in windows.collect():
        known.setdefault(row["kafka_cluster"], {})[str(row["start"])] = [row["count"], row["late"]]
    counts, late = (
        {cluster: sum(window[place] for window in by_start.values()) for cluster, by_start in known.items()}
        for place in (0, 1)
    )
    draft = target.with_suffix(".draft")
    draft.write_text(json.dumps({"batch": batch, "counts": counts, "late": late, "windows": known}))
    draft.replace(target)
