"""Record evaluators and deserialisers for tests. Executors import them."""

from __future__ import annotations

import json
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


def seconds_of_number(batch: pa.RecordBatch) -> Any:
    """Give a value that ends with a number the time of so many seconds, and others none."""
    numbers = pc.extract_regex(batch.column("value").cast(pa.string()), r"-(?P<number>\d+)$").field("number")
    return pc.multiply(pc.cast(numbers, pa.int64()), 1000)


def never(record: Record) -> bool:
    """End no split."""
    return False


def always(record: Record) -> bool:
    """End each split at once."""
    return True


def fails(record: Record) -> bool:
    """Fail at the text `END`."""
    if is_end(record):
        raise ValueError("cannot ask https://shop:s3cret@rules/")
    return False


def read_json(record: Record) -> Any:
    """Read a value as JSON."""
    return json.loads(record.value or b"")


def is_end_of_json(value: Any) -> bool:
    """End a split at the JSON text `END`."""
    return bool(value == END)


def refuse_bad(record: Record) -> str:
    """Return a value as text, unless it begins with `bad`."""
    text = (record.value or b"").decode()
    if text.startswith("bad"):
        raise ValueError(f"{text[:5]} is no order")
    return text


def is_end_of_text(value: Any) -> bool:
    """End a split at the text `END`."""
    return bool(value == END)


def is_last(record: Record) -> bool:
    """End a split at a decoded value whose `last` is true."""
    return record.value is not None and record.value["last"] is True


class LastMask(RecordEvaluator):
    """The same for a batch."""

    def end_of_stream_mask(self, batch: pa.RecordBatch) -> Any:
        return pc.struct_field(batch.column("value"), "last")
