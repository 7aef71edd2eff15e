"""JSON tokens to scalars of Spark's types, with the answers of Spark's `from_json`. Runs on executors; pure."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Mapping
from datetime import tzinfo
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from math import inf, isfinite, nextafter
from typing import Any

from pyspark.sql import types as spark

from dynamic_kafka.executor.decoding.json_text import WORDS, Number, Text, Token
from dynamic_kafka.executor.decoding.times import days_of, micros_of

MISFIT: Any = type("Misfit", (), {"__repr__": lambda _: "MISFIT"})()
"""Stands for a value that does not fit its type."""
Scalar = Callable[[Token], Any]

_FLOAT_TEXTS = {word: value for word, value in WORDS.items() if isinstance(value, float)}
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_EXACT = Context(prec=80, rounding=ROUND_HALF_UP, Emax=MAX_EMAX, Emin=MIN_EMIN)
_BASE64 = re.compile(
    r"[\x00-\x20]*(?:(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)[\x00-\x20]*)*", re.ASCII
)
_PADDED = re.compile(r"[^=]+=*")
_LONE = re.compile("[\ud800-\udfff]")


def scalar_of(kind: spark.DataType, zone: tzinfo) -> Scalar:
    """Return the conversion of a token to a type that is not nested. It gets no null, object or array.

    Args:
        zone: the zone of timestamps that have none.
    """
    if isinstance(kind, spark.TimestampType):
        return lambda token: _timestamp(token, zone)
    if isinstance(kind, spark.DecimalType):
        return lambda token: decimal_of(token, kind)
    return _SCALARS[type(kind)]


def without_surrogates(text: str) -> str:
    """Return a text as UTF-8 can hold it: Java writes `?` for half of a pair."""
    return _LONE.sub("?", text)


def _boolean(token: Token) -> Any:
    return token if isinstance(token, bool) else MISFIT


def _whole(low: int, high: int, *, wrap: int = 0) -> Scalar:
    def convert(token: Token) -> Any:
        if not isinstance(token, Number) or not token.whole or len(token.text) > 20:
            return MISFIT
        number = int(token.text)
        if not low <= number <= high:
            return MISFIT
        return number - wrap if wrap and number >= wrap // 2 else number

    return convert


_long = _whole(-(2**63), 2**63 - 1)


def _double(token: Token) -> Any:
    if isinstance(token, Number):
        return float(token.text) if token.text != "-0" else 0.0
    return _FLOAT_TEXTS.get(token, MISFIT) if isinstance(token, Text) else token if isinstance(token, float) else MISFIT


def _float(token: Token) -> Any:
    """Return the nearest number of 32 bits. By way of 64 bits, the second rounding may go the wrong way."""
    number = _double(token)
    if number is MISFIT or not isfinite(number):
        return number
    if isinstance(token, Number) and is_between_floats(number):
        exact = Decimal(token.text)
        if exact != Decimal(number):
            number = nextafter(number, inf if exact > Decimal(number) else -inf)
    try:
        return struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return inf if number > 0 else -inf


def is_between_floats(number: float) -> bool:
    """Return whether a number may be half-way between two numbers of 32 bits."""
    if not isfinite(number):
        return False
    return 0 < abs(number) < 2.0**-126 or struct.unpack("<Q", struct.pack("<d", number))[0] & 0x1FFFFFFF == 0x10000000


def decimal_of(token: Token, kind: spark.DecimalType) -> Any:
    """Return a number or a text as a decimal, rounded to its scale; MISFIT if it is none or too large."""
    if isinstance(token, Number):
        text = token.text
    elif isinstance(token, Text):
        text = token.replace(",", "")
        if not _DECIMAL.fullmatch(text):
            return MISFIT
    else:
        return MISFIT
    try:
        rounded = Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
    except InvalidOperation:
        return MISFIT
    return rounded if len(rounded.as_tuple().digits) <= kind.precision else MISFIT


def _date(token: Token) -> Any:
    days = days_of(token) if isinstance(token, Text) else None
    return MISFIT if days is None else days


def _timestamp(token: Token, zone: Any) -> Any:
    if isinstance(token, Number):
        seconds = _long(token)
        return MISFIT if seconds is MISFIT else (seconds * 1_000_000 + 2**63) % 2**64 - 2**63  # Java's overflow
    micros = micros_of(token, zone) if isinstance(token, Text) else None
    return MISFIT if micros is None else micros


def _timestamp_ntz(token: Token) -> Any:
    micros = micros_of(token, None) if isinstance(token, Text) else None
    return MISFIT if micros is None else micros


def binary_of(token: Token) -> Any:
    """Return the bytes of a text in base64. Padding is needed; blanks may stand between groups of four, also padded."""
    if not isinstance(token, Text) or not _BASE64.fullmatch(token):
        return MISFIT
    plain = "".join(character for character in token if character > " ")
    return b"".join(base64.b64decode(part) for part in _PADDED.findall(plain))


_SCALARS: Mapping[type, Scalar] = {
    spark.BooleanType: _boolean,
    spark.ByteType: _whole(-128, 255, wrap=256),
    spark.ShortType: _whole(-(2**15), 2**15 - 1),
    spark.IntegerType: _whole(-(2**31), 2**31 - 1),
    spark.LongType: _long,
    spark.FloatType: _float,
    spark.DoubleType: _double,
    spark.BinaryType: binary_of,
    spark.DateType: _date,
    spark.TimestampNTZType: _timestamp_ntz,
}
