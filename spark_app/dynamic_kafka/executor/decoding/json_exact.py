"""JSON texts to values of a Spark schema, one by one, with the answers of Spark's `from_json`. Runs on executors.

Slow and exact: `json_decoder` asks it about the records that its fast way is not sure of. A value that does not fit its
type is null, and so are an array and a map around it; the rest of the record stays. A record that is no JSON has no
values at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import tzinfo
from typing import Any

from pyspark.sql import types as spark

from dynamic_kafka.executor.decoding.json_scalars import MISFIT, Scalar, scalar_of, without_surrogates
from dynamic_kafka.executor.decoding.json_text import JsonReader, NoJsonError, Opening, Text, Token

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
Converter = Callable[[JsonReader, Token], Any]


class ExactDecoder:
    """The exact decoder of one schema.

    Args:
        makers: for each struct type of the schema, by its identity, the function that makes a value of its fields.
        zone: the zone of timestamps that have none.
    """

    def __init__(self, schema: spark.StructType, makers: Mapping[int, Callable[..., Any]], zone: tzinfo) -> None:
        self._makers, self._zone = makers, zone
        self._nothing = makers[id(schema)]
        self._convert = self._converter(schema)

    def decode(self, value: bytes) -> tuple[Any, str | None]:
        """Return the struct of a record, and why it is malformed.

        The struct is None for a blank text, which is not malformed. A malformed record keeps the values that fit.
        """
        reader = JsonReader(_text(value))
        try:
            reader.skip_blanks()
            if reader.at == len(reader.text):
                return None, None
            token = reader.token()
            if not isinstance(token, Opening) or token != "{":
                return self._nothing(), "it is no JSON object"
            return self._convert(reader, token), reader.misfit
        except NoJsonError as wrong:
            return self._nothing(), f"it is no JSON: {wrong}"

    def _converter(self, kind: spark.DataType) -> Converter:
        if isinstance(kind, spark.StructType):
            return self._struct(kind)
        if isinstance(kind, spark.ArrayType):
            return _array(self._converter(kind.elementType))
        if isinstance(kind, spark.MapType):
            return _map(self._converter(kind.valueType))
        if isinstance(kind, spark.StringType):
            return _string
        return _scalar(scalar_of(kind, self._zone))

    def _struct(self, kind: spark.StructType) -> Converter:
        make, count = self._makers[id(kind)], len(kind.fields)
        fields = {field.name: (at, self._converter(field.dataType)) for at, field in enumerate(kind.fields)}
        shown = {field.name: f"`{field.name}` is no {field.dataType.simpleString()[:100]}" for field in kind.fields}

        def convert(reader: JsonReader, token: Token) -> Any:
            if token != "{" or not isinstance(token, Opening):
                return _misfit(reader, token)
            values: list[Any] = [None] * count
            for name in reader.names():
                field = fields.get(name)
                token = reader.token()
                if field is None:
                    reader.rest(token)
                    continue
                at, converter = field
                value = None if token is None else converter(reader, token)
                if value is not MISFIT:
                    values[at] = value
                elif reader.misfit is None:
                    reader.misfit = shown[name]
            return make(*values)

        return convert


def _text(value: bytes) -> str:
    """Return bytes as text, as Java reads them: one U+FFFD for each error, and for each half of a surrogate pair."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xef\xbf\xbd", value).decode("utf-8", "replace")


def _scalar(convert: Scalar) -> Converter:
    def checked(reader: JsonReader, token: Token) -> Any:
        return _misfit(reader, token) if isinstance(token, Opening) else convert(token)

    return checked


def _array(element: Converter) -> Converter:
    def convert(reader: JsonReader, token: Token) -> Any:
        if token != "[" or not isinstance(token, Opening):
            return _misfit(reader, token)
        values = [None if node is None else element(reader, node) for node in reader.elements()]
        return MISFIT if any(value is MISFIT for value in values) else values

    return convert


def _map(value: Converter) -> Converter:
    def convert(reader: JsonReader, token: Token) -> Any:
        if token != "{" or not isinstance(token, Opening):
            return _misfit(reader, token)
        values, fits = {}, True
        for name in reader.names():
            first = reader.token()
            converted = None if first is None else value(reader, first)
            fits = fits and converted is not MISFIT
            values[without_surrogates(name)] = converted
        return values if fits else MISFIT

    return convert


def _string(reader: JsonReader, token: Token) -> Any:
    if isinstance(token, Text):
        return without_surrogates(token)
    return without_surrogates("".join(reader.events(token)))


def _misfit(reader: JsonReader, token: Token) -> Any:
    """Skip the content of a value that does not fit."""
    reader.rest(token)
    return MISFIT
