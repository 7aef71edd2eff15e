"""The user's own code in the application: what app.yaml names as `foreachBatch`."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pyspark.sql import DataFrame


def publish(counts: DataFrame, batch: int) -> None:
    """Replace the file that `AGGREGATE_FILE` names by the counts so far. A batch that comes again writes the same."""
    target = Path(os.environ["AGGREGATE_FILE"])
    found = {row["kafka_cluster"]: row["count"] for row in counts.collect()}
    draft = target.with_suffix(".draft")
    draft.write_text(json.dumps({"batch": batch, "counts": found}))
    draft.replace(target)
