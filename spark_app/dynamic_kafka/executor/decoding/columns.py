"""Decoded values as Arrow arrays of a Spark type. Runs on executors; `json_decoder` calls it.

The decoded values are Python's: objects with the attributes `f0`, `f1`, … for structs, lists, dictionaries for maps.
Leaves may still be texts, which are read here, many at once where that is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, tzinfo
from decimal import Decimal
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from dynamic_kafka.executor.decoding.json_scalars import MISFIT, binary_of, decimal_of, is_between_floats
from dynamic_kafka.executor.decoding.json_text import Number, Text
from dynamic_kafka.executor.decoding.times import days_of, micros_of

_SCALARS: Mapping[type, pa.DataType] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", tz="UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
}
_READ_LATER = {
    spark.BinaryType,
    spark.DateType,
    spark.DecimalType,
    spark.FloatType,
    spark.TimestampNTZType,
    spark.TimestampType,
}
"""The types whose values may still be texts, or numbers of 64 bits."""
_DATES = r"^\d{4}-\d\d-\d\d$"
_TIMES = r"^\d{4}-\d\d-\d\d[ T]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"


class UnsureError(Exception):
    """A value needs the exact decoder."""


def arrow_type(kind: spark.DataType) -> pa.DataType:
    """Return the type of Arrow in which Spark takes values of a type."""
    if isinstance(kind, spark.StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in kind.fields])
    if isinstance(kind, spark.ArrayType):
        return pa.list_(arrow_type(kind.elementType))
    if isinstance(kind, spark.MapType):
        return pa.map_(arrow_type(kind.keyType), arrow_type(kind.valueType))
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return _SCALARS[type(kind)]


class Columns:
    """Makes the arrays of one schema.

    Args:
        blanks: for each struct type of the schema, by its identity, a value without any field.
        zone: the zone of timestamps that have none.
    """

    def __init__(self, blanks: Mapping[int, Any], zone: tzinfo) -> None:
        self._blanks, self._zone = blanks, zone

    def array(self, kind: spark.DataType, values: Sequence[Any]) -> pa.Array:
        """Return values as an array.

        Raises:
            UnsureError: a leaf is not of the form that its type usually has.
        """
        if isinstance(kind, spark.StructType):
            return self._structs(kind, values)
        if isinstance(kind, spark.ArrayType):
            items = self.array(kind.elementType, list(chain.from_iterable(filter(None, values))))
            return pa.ListArray.from_arrays(_offsets(values), items, type=arrow_type(kind))
        if isinstance(kind, spark.MapType):
            maps = list(filter(None, values))
            keys = pa.array(list(chain.from_iterable(maps)), pa.string())
            items = self.array(kind.valueType, list(chain.from_iterable(mapping.values() for mapping in maps)))
            return pa.MapArray.from_arrays(_offsets(values), keys, items, type=arrow_type(kind))
        return self._leaves(kind, values)

    def is_sure(self, kind: spark.DataType, value: Any) -> bool:
        """Return whether `array` takes a value. This looks at one record, so no answer depends on its neighbours."""
        if value is None:
            return True
        if isinstance(kind, spark.StructType):
            parts = [(field.dataType, getattr(value, f"f{at}")) for at, field in enumerate(kind.fields)]
        elif isinstance(kind, spark.ArrayType):
            parts = [(kind.elementType, item) for item in value]
        elif isinstance(kind, spark.MapType):
            parts = [(kind.valueType, item) for item in value.values()]
        else:
            return type(kind) not in _READ_LATER or self._takes(kind, value)
        return all(self.is_sure(*part) for part in parts)

    def _takes(self, kind: spark.DataType, value: Any) -> bool:
        try:
            self._leaves(kind, [value])
        except UnsureError:
            return False
        return True

    def _leaves(self, kind: spark.DataType, values: Sequence[Any]) -> pa.Array:
        if isinstance(kind, (spark.DateType, spark.TimestampNTZType, spark.TimestampType)):
            return self._times(kind, values)
        if isinstance(kind, spark.FloatType):
            return _floats(values)
        if isinstance(kind, spark.DecimalType):
            values = [_decimal(value, kind) for value in values]
        elif isinstance(kind, spark.BinaryType):
            values = [_binary(value) for value in values]
        return pa.array(values, arrow_type(kind))

    def _structs(self, kind: spark.StructType, values: Sequence[Any]) -> pa.Array:
        missing = None
        if None in values:
            blank = self._blanks[id(kind)]
            missing = pa.array([value is None for value in values], pa.bool_())
            values = [blank if value is None else value for value in values]
        children = [
            self.array(field.dataType, list(map(attrgetter(f"f{at}"), values))) for at, field in enumerate(kind.fields)
        ]
        return pa.StructArray.from_arrays(children, fields=list(arrow_type(kind)), mask=missing)

    def _times(self, kind: spark.DataType, values: Sequence[Any]) -> pa.Array:
        stored = arrow_type(kind)
        if isinstance(kind, spark.DateType):
            return _read(values, stored, _DATES, days_of, stored)
        if isinstance(kind, spark.TimestampNTZType):
            return _read(values, stored, _TIMES + "$", lambda text: micros_of(text, None), stored)
        first = next((value for value in values if isinstance(value, str)), "")
        if first.endswith("Z"):
            form, fast = _TIMES + "Z$", stored
        elif self._zone is UTC and first[-6:-5] not in ("+", "-"):
            form, fast = _TIMES + "$", pa.timestamp("us")
        else:
            form, fast = _TIMES + r"[+-](0\d|1[0-7]):[0-5]\d$", stored
        return _read(values, stored, form, lambda text: micros_of(text, self._zone), fast)


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Return where each list or map begins in its items, and where the last one ends; null for a value that is null."""
    ends = list(accumulate((len(value) if value is not None else 0 for value in values), initial=0))
    return pa.array([None if value is None else at for value, at in zip([*values, ()], ends, strict=True)], pa.int32())


def _read(
    values: Sequence[Any], kind: pa.DataType, form: str, read: Callable[[str], int | None], fast: pa.DataType
) -> pa.Array:
    """Return an array of numbers and of texts that stand for numbers.

    Args:
        form: a regular expression for texts that Arrow reads as Spark does, as the type `fast`.
        read: reads any text; None if it is wrong.
    """
    numbers = pa.array([None if isinstance(value, str) else value for value in values], _STORED[kind]).cast(kind)
    texts = pa.array([value if isinstance(value, str) else None for value in values], pa.string())
    if texts.null_count == len(texts):
        return numbers
    try:
        if not pc.all(pc.match_substring_regex(texts, form)).as_py():
            raise pa.ArrowInvalid
        parsed = texts.cast(fast).cast(kind)
    except pa.ArrowInvalid:
        each_read = [None if text is None else read(text) for text in texts.to_pylist()]
        parsed = pa.array(each_read, _STORED[kind]).cast(kind)
        if parsed.null_count > texts.null_count:
            raise UnsureError from None
    return pc.coalesce(numbers, parsed) if numbers.null_count < len(numbers) else parsed


_STORED = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64(), pa.timestamp("us", tz="UTC"): pa.int64()}


def _floats(values: Sequence[Any]) -> pa.Array:
    """Return numbers of 32 bits. One that is half-way between two of them may have been rounded before."""
    whole = pa.array(values, pa.float64())
    narrowed = whole.cast(pa.float32(), safe=False)
    rounded = whole.filter(pc.not_equal(narrowed.cast(pa.float64()), whole))
    if any(is_between_floats(number) for number in rounded.to_pylist()):
        raise UnsureError
    return narrowed


def _decimal(value: Any, kind: spark.DecimalType) -> Any:
    """Return a decimal. From the fast decoder it is the JSON of a value."""
    if value is None or isinstance(value, Decimal):
        return value
    try:
        text = bytes(value).decode()
    except UnicodeDecodeError:
        raise UnsureError from None
    if text == "null":
        return None
    if text[0] in "{[tf" or "\\" in text:
        raise UnsureError
    decimal = decimal_of(Text(text[1:-1]) if text[0] == '"' else Number(text, whole=False), kind)
    if decimal is MISFIT:
        raise UnsureError
    return decimal


def _binary(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    decoded = binary_of(Text(value))
    if decoded is MISFIT:
        raise UnsureError
    return decoded
