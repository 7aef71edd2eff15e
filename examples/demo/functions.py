"""The user's function in the application, which app.yaml names as `foreachBatch`."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pyspark.sql import DataFrame


def publish(counts: DataFrame, batch: int) -> None:
    """Write the counts so far to the file `AGGREGATE_FILE`. A repeated batch writes the same content."""
    target = Path(os.environ["AGGREGATE_FILE"])
    found = {row["kafka_cluster"]: row["count"] for row in counts.collect()}
    draft = target.with_suffix(".draft")
    draft.write_text(json.dumps({"batch": batch, "counts": found}))
    draft.replace(target)
