"""The option `value.schema`: Spark's DDL, or Spark's JSON form of a schema, as the latter. Pure.

Executors and the driver's Python have no JVM, and the tools and the operator no Spark. Hence this parser. It takes what
Spark's parser takes for the types that a typed value can have, and refuses the rest by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.strict_json import load_json
from dynamic_kafka.wording import did_you_mean

Wire = dict[str, Any]
"""A type in Spark's JSON form is a text, or one of these."""

_SCALARS: Mapping[str, str] = {
    "boolean": "boolean",
    "tinyint": "byte",
    "byte": "byte",
    "smallint": "short",
    "short": "short",
    "int": "integer",
    "integer": "integer",
    "bigint": "long",
    "long": "long",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
"""Names of the DDL, and those of the JSON form."""
_DECIMALS = ("decimal", "dec", "numeric")
_NESTED = ("struct", "array", "map")
_TYPES = (*_SCALARS, *_DECIMALS, *_NESTED)
_MAX_DIGITS = 38
_MAX_DEPTH = 50
"""Levels of nested types. Each is a level of Python's stack when a record is decoded."""

_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([<>(),:]))", re.DOTALL)
_DECIMAL = re.compile(r"decimal(?:\(\s*(\d{1,3})\s*,\s*(-?\d{1,3})\s*\))?")


def parse_value_schema(text: str, where: str) -> Wire:
    """Return a schema in Spark's JSON form, with all fields nullable.

    Args:
        where: the option's name in messages.

    Raises:
        OptionError: it is neither DDL nor JSON, or has a type that a typed value cannot have.
    """
    try:
        if not text.lstrip().startswith("{"):
            return _Ddl(text).schema()
        try:
            wire = load_json(text)
        except ValueError as error:
            raise _Wrong(f"it is no JSON: {error}") from None
        return _checked_struct(wire, 0)
    except _Wrong as wrong:
        raise OptionError(
            f"{where} is no schema: {wrong}. Write DDL such as `id BIGINT, tags ARRAY<STRING>`, or the JSON that"
            " `df.schema.json()` returns"
        ) from None


def check_value_schema(text: str, where: str) -> None:
    """Refuse a text that is no schema."""
    parse_value_schema(text, where)


class _Wrong(Exception):
    """The schema is wrong; the text says how."""


class _Ddl:
    """A parser of Spark's DDL."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._at = 0
        self._depth = 0

    def schema(self) -> Wire:
        if self._word(self._at).lower() == "struct" and self._is("<", self._at + 1):
            wire: Any = self._type()
        else:
            wire = _struct(list(self._fields()))
        if self._at < len(self._tokens):
            raise _Wrong(f"{self._shown(self._at)} is not understood")
        return dict(wire)

    def _split(self) -> list[tuple[str, str, int]]:
        """Return (kind, text, place) of each token; the kind is `name` (quoted), `word`, `text` or `sign`."""
        tokens, at = [], 0
        end = len(self._text.rstrip())
        while at < end:
            match = _TOKEN.match(self._text, at)
            if match is None:
                raise _Wrong(f"{self._text[at : at + 20].strip()!r} is not understood")
            kind = ("name", "word", "text", "sign")[match.lastindex - 1]  # type: ignore[operator]  # one has matched
            tokens.append((kind, match[match.lastindex].replace("``", "`"), match.start()))  # type: ignore[index]
            at = match.end()
        return tokens

    def _word(self, at: int) -> str:
        return self._tokens[at][1] if at < len(self._tokens) and self._tokens[at][0] == "word" else ""

    def _is(self, sign: str, at: int | None = None) -> bool:
        at = self._at if at is None else at
        return at < len(self._tokens) and self._tokens[at][:2] == ("sign", sign)

    def _shown(self, at: int) -> str:
        if at >= len(self._tokens):
            return "its end"
        return repr(self._text[self._tokens[at][2] :].strip()[:20])

    def _take(self, sign: str) -> None:
        if not self._is(sign):
            raise _Wrong(f"{self._shown(self._at)} stands where {sign!r} is expected")
        self._at += 1

    def _fields(self) -> Iterator[Wire]:
        while True:
            kind, name, _ = self._tokens[self._at] if self._at < len(self._tokens) else ("", "", 0)
            if kind not in ("name", "word"):
                raise _Wrong(f"{self._shown(self._at)} stands where the name of a field is expected")
            self._at += 1
            if self._is(":"):
                self._at += 1
            yield _field(name, self._type())
            if self._word(self._at).lower() == "not" and self._word(self._at + 1).lower() == "null":
                self._at += 2  # any field of a record may be missing
            if self._word(self._at).lower() == "comment" and self._at + 1 < len(self._tokens):
                self._at += 2
            if not self._is(","):
                return
            self._at += 1

    def _type(self) -> Any:
        name = self._word(self._at).lower()
        if not name:
            raise _Wrong(f"{self._shown(self._at)} stands where a type is expected")
        self._at += 1
        if name in _SCALARS:
            return _SCALARS[name]
        if name in _DECIMALS:
            return self._decimal()
        if name not in _NESTED:
            raise _unknown_type(name)
        self._take("<")
        self._depth += 1
        _check_depth(self._depth)
        wire: Wire
        if name == "struct":
            wire = _struct(list(self._fields()))
        elif name == "array":
            wire = {"type": "array", "elementType": self._type(), "containsNull": True}
        else:
            key = self._type()
            self._take(",")
            wire = _map(key, self._type())
        self._take(">")
        self._depth -= 1
        return wire

    def _decimal(self) -> str:
        if not self._is("("):
            return _decimal(10, 0)
        self._at += 1
        precision, scale = self._number(), 0
        if self._is(","):
            self._at += 1
            scale = self._number()
        self._take(")")
        return _decimal(precision, scale)

    def _number(self) -> int:
        word = self._word(self._at)
        if not re.fullmatch(r"\d{1,3}", word, re.ASCII):
            raise _Wrong(f"{self._shown(self._at)} stands where a number is expected")
        self._at += 1
        return int(word)


def _checked(wire: Any, depth: int) -> Any:
    """Return a type of the JSON form, checked."""
    _check_depth(depth)
    if isinstance(wire, str):
        match = _DECIMAL.fullmatch(wire)
        if match is not None:
            return _decimal(int(match[1] or 10), int(match[2] or 0))
        if wire not in _SCALARS.values():
            raise _unknown_type(wire)
        return wire
    kinds: Mapping[str, Callable[[], Wire]] = {
        "struct": lambda: _checked_struct(wire, depth),
        "array": lambda: (
            {"type": "array", "elementType": _checked(wire.get("elementType"), depth + 1)} | {"containsNull": True}
        ),
        "map": lambda: _map(_checked(wire.get("keyType"), depth + 1), _checked(wire.get("valueType"), depth + 1)),
    }
    kind = wire.get("type") if isinstance(wire, dict) else None
    if not isinstance(kind, str):
        raise _Wrong(f"{wire!r} is no type")
    if kind not in kinds:
        raise _unknown_type(kind)
    return kinds[kind]()


def _checked_struct(wire: Any, depth: int) -> Wire:
    if not isinstance(wire, dict) or wire.get("type") != "struct" or not isinstance(wire.get("fields"), list):
        raise _Wrong('the JSON must be {"type": "struct", "fields": [...]}')
    fields = []
    for field in wire["fields"]:
        if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
            raise _Wrong("each field needs a `name` and a `type`")
        fields.append(_field(field["name"], _checked(field["type"], depth + 1)))
    return _struct(fields)


def _field(name: str, kind: Any) -> Wire:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _struct(fields: list[Wire]) -> Wire:
    names = [field["name"] for field in fields]
    twice = [name for name in names if names.count(name) > 1]
    if not names or twice:
        raise _Wrong(f"the field {twice[0]!r} is there twice" if twice else "a struct has no field")
    return {"type": "struct", "fields": fields}


def _map(key: Any, value: Any) -> Wire:
    if key != "string":
        raise _Wrong("the keys of a map must be of type STRING")
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def _decimal(precision: int, scale: int) -> str:
    if not 1 <= precision <= _MAX_DIGITS or not 0 <= scale <= precision:
        raise _Wrong(
            f"DECIMAL({precision}, {scale}) has a precision outside 1 to {_MAX_DIGITS}, or a scale outside 0 to it"
        )
    return f"decimal({precision},{scale})"


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise _Wrong(f"its types are nested deeper than {_MAX_DEPTH} levels")


def _unknown_type(name: str) -> _Wrong:
    return _Wrong(f"{name!r} is no type that a value can have{did_you_mean(name.lower(), _TYPES)}")
