"""Record evaluators and deserialisers for tests. Executors import them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dynamic_kafka import Record, RecordEvaluator

END = "end of day"


def is_end(record: Record) -> bool:
    """End a split at the text `END`."""
    return record.value == END.encode()


class EndMask(RecordEvaluator):
    """The same for a batch."""

    def end_of_stream_mask(self, batch: pa.RecordBatch) -> Any:
        return pc.equal(batch.column("value"), END.encode())
