"""Record evaluators and deserialisers: the user's own code that decides where a split ends (FLIP-208).

Runs on executors. `evaluation` loads them, and `record_evaluation` applies them to a range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dynamic_kafka.errors import RecordEvaluationError
from dynamic_kafka.executor.decoding.typed_rows import ValueDecoding
from dynamic_kafka.executor.evaluating.event_times import EventTimes
from dynamic_kafka.executor.reading.rows import Record, Rows, UnreadableHeadersError
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.user_code import error_text

EVALUATOR, DESERIALIZER = "recordEvaluator", "recordDeserializer"
_BOOLEANS = ("bool", "bool_")
"""The names of Python's and NumPy's boolean types. Anything else, such as None, would silently never end a split."""


class RecordEvaluator:
    """A base class for record evaluators: `is_end_of_stream` ends the split of a record.

    A derived class with the method `end_of_stream_mask(batch)` decides about many records at once instead: it gets
    rows of one split as a `pyarrow.RecordBatch` with the source's columns, and returns one boolean for each.

    An evaluator sees records of many splits, in any order of the splits. It keeps no state, and gives one answer for
    one record: Spark may read a record several times.

    Args:
        options: all options of the source, without regard to letter case.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    def is_end_of_stream(self, record: Any) -> bool:
        """Return whether the split ends at this record, which is not read any more.

        Args:
            record: what `recordDeserializer` returns, None for a record without a value; a `Record` without it.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither is_end_of_stream nor end_of_stream_mask")


@dataclass(frozen=True)
class Evaluator:
    """A loaded evaluator.

    Attributes:
        name, deserializer_name: their names, for errors.
        is_end: answers for one record; None if `mask` answers for a batch, or if no record ends a split.
        mask: answers for a batch of rows.
        deserialize: makes of a record what `is_end` gets.
        values: decodes the values before that; None if they stay bytes.
        times: the timestamp assigner; None if a row's time is its Kafka timestamp.
    """

    name: str
    deserializer_name: str
    is_end: Callable[[Any], Any] | None
    mask: Callable[[pa.RecordBatch], Any] | None
    deserialize: Callable[[Record], Any] | None
    values: ValueDecoding | None = None
    times: EventTimes | None = None

    @property
    def ends_splits(self) -> bool:
        """Whether it may end a split; a deserialiser alone only refuses records."""
        return self.is_end is not None or self.mask is not None

    @property
    def needs_all_columns(self) -> bool:
        """Whether the user's code gets batches with all columns."""
        return self.mask is not None or (self.times is not None and self.times.shows_all)

    @property
    def needs_records(self) -> bool:
        """Whether the user's code looks at single records, with their headers."""
        return self.is_end is not None or self.deserialize is not None

    def first_end(
        self,
        rows: Rows,
        batch: pa.RecordBatch,
        split: Split,
        refused: dict[int, str] | None = None,
    ) -> int | None:
        """Return the index of the first record that ends the split, None if there is none.

        Args:
            rows: records of the split, in their order.
            batch: the same as one batch.
            refused: gets {index: cause} of the records before it that the deserialiser refuses; without it they are
                an error.

        Raises:
            RecordEvaluationError: the evaluator or the deserialiser fails.
        """
        if not len(rows) or not (self.ends_splits or self.deserialize):
            return None
        if self.mask is not None:
            return self._first_of_mask(batch, split)
        return next((at for at in range(len(rows)) if self._ends(rows, at, split, refused)), None)

    def _first_of_mask(self, batch: pa.RecordBatch, split: Split) -> int | None:
        offsets = batch.column("offset")
        where = f"the records {offsets[0]} to {offsets[-1]} of {split}"
        assert self.mask is not None
        try:
            answer = self.mask(batch)
            if not isinstance(answer, (pa.Array, pa.ChunkedArray)):
                answer = pa.array(answer)
            if not pa.types.is_boolean(answer.type) or len(answer) != len(batch):
                raise TypeError(f"its mask has {len(answer)} values of type {answer.type}, not {len(batch)} booleans")
        except Exception as error:
            raise self._failure(EVALUATOR, self.name, where, error) from None
        first: int = pc.index(answer, True).as_py()
        return first if first >= 0 else None

    def _ends(self, rows: Rows, at: int, split: Split, refused: dict[int, str] | None) -> bool:
        seen: Any = None
        if self.deserialize is None:
            seen = _record(rows, at, split)
        elif rows.has_value(at):
            try:
                seen = self.deserialize(_record(rows, at, split))
            except Exception as error:
                if refused is None:
                    where = _where(rows, at, split)
                    raise self._failure(DESERIALIZER, self.deserializer_name, where, error) from None
                refused[at] = error_text(error)
                return False
        if self.is_end is None:
            return False
        try:
            answer = self.is_end(seen)
            if type(answer).__name__ not in _BOOLEANS:
                raise TypeError(f"it returns {type(answer).__name__}, not True or False")
        except Exception as error:
            raise self._failure(EVALUATOR, self.name, _where(rows, at, split), error) from None
        return bool(answer)

    def _failure(self, what: str, name: str, where: str, error: Exception) -> RecordEvaluationError:
        todo = (
            "let it return a value for such a record, which the evaluator then gets, or set mode=deadletter"
            if what == DESERIALIZER
            else "correct it"
        )
        why = error_text(error)
        return RecordEvaluationError(
            f"{what} {name} fails for {where}: {why}. The batch is not committed: {todo}, and start again"
        )


def _where(rows: Rows, at: int, split: Split) -> str:
    return f"the record at offset {rows.offset(at)} of {split}"


def _record(rows: Rows, at: int, split: Split) -> Record:
    try:
        return rows.record(at)
    except UnreadableHeadersError as error:
        where = _where(rows, at, split)
        raise RecordEvaluationError(
            f"{where} has a header key that is not UTF-8: define end_of_stream_mask, and set includeHeaders=false"
        ) from error
    except (ValueError, OverflowError) as error:  # a year that Python's dates do not have
        where = _where(rows, at, split)
        raise RecordEvaluationError(
            f"the evaluator cannot get {where}: {error}. Define end_of_stream_mask, which gets Arrow's timestamps"
        ) from None
