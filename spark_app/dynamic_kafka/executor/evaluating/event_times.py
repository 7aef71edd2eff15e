"""The times of records by the option `timestampAssigner`: a field of the value, or code of the user's.

Runs on executors. `evaluation` loads an assigner, and `record_evaluation` ends ranges by its times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dynamic_kafka.errors import RecordEvaluationError
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.user_code import error_text

ASSIGNER = "timestampAssigner"
_IN_A_SECOND = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}
_MILLISECONDS, _SHOWN = pa.timestamp("ms", tz="UTC"), pa.timestamp("us", tz="UTC")


class TimestampAssigner:
    """A base class for timestamp assigners: `extract_timestamps` returns the times of a batch of rows.

    It gives the same times for the same rows: Spark may read a record several times.

    Args:
        options: all options of the source, without regard to letter case.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    def extract_timestamps(self, batch: pa.RecordBatch) -> Any:
        """Return one time for each row: timestamps, or milliseconds since 1970; null for a row without a time.

        Args:
            batch: rows of one split, with the source's columns; with `value.format`, `value` is a struct.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define extract_timestamps")


@dataclass(frozen=True)
class EventTimes:
    """A loaded assigner.

    Attributes:
        name: its name, for errors.
        extract: as `TimestampAssigner.extract_timestamps`.
        shows_all: whether it gets all columns; a field of the value needs the value alone.
    """

    name: str
    extract: Callable[[pa.RecordBatch], Any]
    shows_all: bool = True

    @classmethod
    def of_field(cls, name: str) -> EventTimes:
        """Return the assigner of a field, `value.<field>`."""
        _, *path = name.split(".")
        return cls(name, lambda batch: pc.struct_field(batch.column("value"), path), shows_all=False)

    def of(self, batch: pa.RecordBatch, split: Split) -> pa.TimestampArray:
        """Return the times of rows as Spark has them: microseconds, in UTC.

        Raises:
            RecordEvaluationError: the assigner fails, or returns something else.
        """
        try:
            return _times(self.extract(batch), len(batch))
        except Exception as error:
            offsets = batch.column("offset") if "offset" in batch.schema.names and len(batch) else None
            where = f"the records {offsets[0]} to {offsets[-1]} of {split}" if offsets is not None else f"{split}"
            raise RecordEvaluationError(
                f"{ASSIGNER} {self.name} fails for {where}: {error_text(error)}. The batch is not committed: correct"
                " it, or let it return null for a record without a time, and start again"
            ) from None


def _times(answer: Any, count: int) -> pa.TimestampArray:
    if isinstance(answer, pa.ChunkedArray):
        answer = answer.combine_chunks()
    if not isinstance(answer, pa.Array):
        answer = pa.array(answer)
    if len(answer) != count:
        raise TypeError(f"it returns {len(answer)} times for {count} records")
    if pa.types.is_null(answer.type) or pa.types.is_integer(answer.type):
        answer = answer.cast(pa.int64()).cast(_MILLISECONDS)
    if not pa.types.is_timestamp(answer.type):
        raise TypeError(f"it returns values of type {answer.type}, not timestamps or milliseconds since 1970")
    number, in_a_second = answer.cast(pa.int64()), _IN_A_SECOND[answer.type.unit]
    if in_a_second < _IN_A_SECOND["us"]:
        most = (2**63 - 1) // (_IN_A_SECOND["us"] // in_a_second)
        fits = pc.and_(pc.greater_equal(number, -most), pc.less_equal(number, most))
        number = pc.if_else(fits, number, pa.scalar(None, pa.int64()))
    return number.cast(pa.timestamp(answer.type.unit, tz="UTC")).cast(_SHOWN, safe=False)


def milliseconds(time: pa.TimestampScalar) -> int | None:
    """Return a time in milliseconds since the epoch, rounded down."""
    return None if time.value is None else int(time.value) // 1000
