"""Rows whose `value` is decoded, and the treatment of malformed records. Runs on executors, for `record_evaluation`.

`ValueFormat` travels with the source's readers. Each Python process makes one `ValueDecoding` of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from dynamic_kafka.errors import OptionError, RecordDecodingError
from dynamic_kafka.executor.decoding.columns import arrow_type
from dynamic_kafka.executor.decoding.decoder import Decoder
from dynamic_kafka.executor.decoding.times import zone_of
from dynamic_kafka.executor.reading.rows import Record, Rows, time_error, time_problem
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.options.value_schema import parse_value_schema
from dynamic_kafka.planning.splits import Split

RefusedRecords = Literal["failfast", "permissive", "dropmalformed", "deadletter"]


@dataclass(frozen=True)
class ValueFormat:
    """The options about values, as text.

    Attributes:
        schema: in Spark's JSON form.
        corrupt: the field that gets the text of a malformed record, if the schema has it.
        zone: the zone of timestamps that have none.
    """

    schema: str
    mode: RefusedRecords
    corrupt: str
    zone: str

    @classmethod
    def of(cls, options: SourceOptions) -> ValueFormat | None:
        """Return the format that the options name; None if values stay bytes."""
        if options.value_format is None or options.value_schema is None:
            return None
        schema = parse_value_schema(options.value_schema, "option 'value.schema'")
        return cls(json.dumps(schema), options.refused_records, options.corrupt_column, options.time_zone)

    @property
    def type(self) -> StructType:
        """Return the type of the column `value`."""
        return StructType.fromJson(json.loads(self.schema))

    def load(self) -> ValueDecoding:
        """Return the decoding of values.

        Raises:
            OptionError: this machine does not have the time zone.
        """
        # Queries without `value.format` need no msgspec.
        from dynamic_kafka.executor.decoding.json_decoder import JsonDecoder

        zone = zone_of(self.zone)
        if zone is None:
            raise OptionError(f"option 'timeZone' is '{self.zone}', which this machine does not have: install tzdata")
        full = self.type
        parsed = StructType([field for field in full.fields if field.name != self.corrupt])
        return ValueDecoding(JsonDecoder(parsed, zone), full, self.mode, self.corrupt)


@dataclass(frozen=True)
class ValueDecoding:
    """A decoder, and how malformed records are treated.

    Attributes:
        full: the type of the column `value`; the decoder does not fill its field `corrupt`.
    """

    decoder: Decoder
    full: StructType
    mode: RefusedRecords
    corrupt: str

    def decode(self, rows: Rows, batch: pa.RecordBatch, untimed: Sequence[int] = ()) -> tuple[TypedRows, list[int]]:
        """Decode the values of a batch of these rows.

        Args:
            untimed: indices of records whose timestamp cannot be shown: they count as malformed.

        Returns:
            The rows, without malformed records unless the mode is `permissive`; and the indices of those left out.
        """
        at = batch.schema.get_field_index("value")
        texts = batch.column(at)
        values, malformed = self.decoder.decode(texts)
        if untimed:
            malformed = pc.or_(malformed, batch.column("timestamp").is_null())
        values = self._with_corrupt(values, malformed, texts)
        batch = batch.set_column(at, pa.field("value", values.type), values)
        refused = [] if self.mode == "permissive" else pc.indices_nonzero(malformed).to_pylist()
        if not refused:
            return TypedRows(rows, range(len(rows)), batch), []
        kept = pc.indices_nonzero(pc.invert(malformed)).to_pylist()
        return TypedRows(rows, kept, batch.filter(pc.invert(malformed))), refused

    def cause(self, rows: Rows, at: int) -> str:
        """Return why a record is malformed."""
        return self._cause_in_value(rows, at) or time_problem(rows, at)

    def error(self, rows: Rows, at: int, split: Split) -> RecordDecodingError:
        """Return the error about a malformed record."""
        cause = self._cause_in_value(rows, at)
        if not cause:
            return RecordDecodingError(
                f"{time_error(rows, at, split)}. Or set mode to deadletter, permissive or dropmalformed"
            )
        offset = rows.offset(at)
        return RecordDecodingError(
            f"record at offset {offset} of {split} is malformed: {cause}; correct value.schema, or set mode=deadletter"
        )

    def _cause_in_value(self, rows: Rows, at: int) -> str:
        value = rows.record(at, headers=False).value
        return self.decoder.cause(value) if value is not None else ""

    def _with_corrupt(self, values: pa.StructArray, malformed: pa.BooleanArray, texts: pa.BinaryArray) -> pa.Array:
        if self.corrupt not in self.full.names:
            return values
        shown = pa.nulls(len(values), pa.string())
        if self.mode == "permissive" and malformed.true_count:
            kept: list[str | None] = [None] * len(values)
            for at in pc.indices_nonzero(malformed).to_pylist():
                text = texts[at].as_py()
                kept[at] = text.decode("utf-8", "replace") if text is not None else None
            shown = pa.array(kept, pa.string())
        fields = values.flatten()
        fields.insert(self.full.names.index(self.corrupt), shown)
        missing = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(fields, fields=list(arrow_type(self.full)), mask=missing)


class TypedRows:
    """Some of the records of a split, in their order, with decoded values. As `Rows`, but there may be none.

    Args:
        rows: the records as Kafka has them.
        kept: the indices of these records in `rows`.
        typed: these records as one batch.
    """

    def __init__(self, rows: Rows, kept: Sequence[int], typed: pa.RecordBatch) -> None:
        self._rows, self._kept, self.typed = rows, kept, typed

    def __len__(self) -> int:
        return len(self._kept)

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the typed batch."""
        return self.typed

    def offset(self, at: int) -> int:
        """Return the offset of the record at an index."""
        return self._rows.offset(self._kept[at])

    def original(self, at: int) -> int:
        """Return the index of the record in the rows as Kafka has them."""
        return self._kept[at]

    def has_value(self, at: int) -> bool:
        """Return whether the record at an index has a value."""
        return self._rows.has_value(self._kept[at])

    def record(self, at: int, *, headers: bool = True) -> Record:
        """Return the record at an index. Its value is a dictionary of the schema's fields, or None."""
        record = self._rows.record(self._kept[at], headers=headers)
        return replace(record, value=self.typed.column("value")[at].as_py())
