"""A record evaluator that looks at every value and ends nothing, for the reading benchmark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dynamic_kafka import RecordEvaluator


class Never(RecordEvaluator):
    """An evaluator that compares the raw bytes of all values with a text that none of them has."""

    def end_of_stream_mask(self, batch: pa.RecordBatch) -> Any:
        """Return False for every row."""
        return pc.equal(batch.column("value"), b"end of day")
