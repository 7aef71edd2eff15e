"""Records as JSON, decoded into values of a Spark schema with the answers of Spark's `from_json`. Runs on executors.

The fast way is msgspec. It is strict: it takes only what Spark takes, too, and gives the same value. Each record that
it refuses goes to the exact decoder, which takes 15 to 50 times as long. The cost is linear in the bytes in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from pyspark.sql import types as spark

from dynamic_kafka.executor.decoding.columns import Columns, UnsureError, arrow_type
from dynamic_kafka.executor.decoding.json_exact import ExactDecoder

_BITS = {spark.ByteType: 8, spark.ShortType: 16, spark.IntegerType: 32, spark.LongType: 64}
_HINTS: Mapping[type, Any] = {
    spark.BooleanType: bool,
    spark.FloatType: float,
    spark.DoubleType: float,
    **{
        kind: Annotated[int, msgspec.Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]
        for kind, bits in _BITS.items()
    },
}
"""The Python types of JSON values; of all others, a text or a number is read later."""
_FEW = 256
"""Records that are tried one by one, rather than halved once more."""


class JsonDecoder:
    """The decoder of one schema. As `Decoder`.

    Args:
        zone: the zone of timestamps that have none.
    """

    def __init__(self, schema: spark.StructType, zone: tzinfo) -> None:
        self.type = arrow_type(schema)
        self._schema = schema
        self._plain = True
        self._classes: dict[int, type[msgspec.Struct]] = {}
        row = self._class_of(schema)
        self._fast: Callable[[bytes], Any] = msgspec.json.Decoder(row).decode if self._plain else _refuse
        self._exact = ExactDecoder(schema, self._classes, zone)
        self._columns = Columns({key: made() for key, made in self._classes.items()}, zone)

    def decode(self, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the decoded values, and for each whether it is malformed."""
        texts = values.to_pylist()
        rows: list[Any] = [None] * len(texts)
        malformed = [False] * len(texts)
        for at, text in enumerate(texts):
            if text is not None:
                try:
                    rows[at] = self._fast(text)
                except (msgspec.MsgspecError, ValueError, RecursionError):
                    rows[at], cause = self._exact.decode(text)
                    malformed[at] = cause is not None
        chunks = self._arrays(texts, rows, malformed, 0, len(texts))
        return pa.concat_arrays(chunks), pa.array(malformed, pa.bool_())

    def cause(self, value: bytes) -> str:
        """Return why a value is malformed."""
        return self._exact.decode(value)[1] or ""

    def _arrays(
        self, texts: Sequence[bytes | None], rows: list[Any], malformed: list[bool], start: int, end: int
    ) -> list[pa.Array]:
        """Return the arrays of a part of the rows. Halves it as long as a value in it needs the exact decoder."""
        try:
            return [self._columns.array(self._schema, rows[start:end])]
        except UnsureError:
            if end - start > _FEW:
                middle = (start + end) // 2
                return [
                    *self._arrays(texts, rows, malformed, start, middle),
                    *self._arrays(texts, rows, malformed, middle, end),
                ]
        for at in range(start, end):
            text = texts[at]
            if text is not None and not self._columns.is_sure(self._schema, rows[at]):
                rows[at], cause = self._exact.decode(text)
                malformed[at] = cause is not None
        return [self._columns.array(self._schema, rows[start:end])]

    def _class_of(self, kind: spark.StructType) -> type[msgspec.Struct]:
        fields = []
        for at, field in enumerate(kind.fields):
            hint = self._hint(field.dataType)
            optional = hint if hint is msgspec.Raw else hint | None
            fields.append((f"f{at}", optional, msgspec.field(default=None, name=field.name)))
        try:
            made = msgspec.defstruct("Row", fields, gc=False)
        except ValueError:
            # msgspec takes no quotes, backslashes or control characters in names: such a schema has no fast way.
            made = msgspec.defstruct("Row", [(name, Any, None) for name, _, _ in fields], gc=False)
            self._plain = False
        self._classes[id(kind)] = made
        return made

    def _hint(self, kind: spark.DataType) -> Any:
        if isinstance(kind, spark.StructType):
            return self._class_of(kind)
        if isinstance(kind, spark.ArrayType):
            return list[self._element(kind.elementType)]  # type: ignore[misc]  # made at run time
        if isinstance(kind, spark.MapType):
            return dict[str, self._element(kind.valueType)]  # type: ignore[misc]
        return msgspec.Raw if isinstance(kind, spark.DecimalType) else _HINTS.get(type(kind), str)

    def _element(self, kind: spark.DataType) -> Any:
        hint = self._hint(kind)
        return hint if hint is msgspec.Raw else hint | None


def _refuse(_: bytes) -> Any:
    raise ValueError
