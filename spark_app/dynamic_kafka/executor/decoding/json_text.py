"""The JSON that Spark's parser reads, token by token. Runs on executors; `json_exact` calls it.

Beyond JSON it takes single quotes, `NaN` and infinities, as Spark does by default. Nothing is read behind the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from math import inf, isfinite, isnan, nan
from typing import Any, NamedTuple

_BLANKS = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_PLAIN = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "/": "/", "\\": "\\", "'": "'"}
_HEX = re.compile(r"[0-9a-fA-F]{4}")
WORDS = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": nan,
    "Infinity": inf,
    "+Infinity": inf,
    "+INF": inf,
    "-Infinity": -inf,
    "-INF": -inf,
}
_WORD = re.compile("|".join(map(re.escape, WORDS)))
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_TO_ESCAPE = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_WRITTEN = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


class Number(NamedTuple):
    """A number as written, and whether it has neither fraction nor exponent."""

    text: str
    whole: bool


class NoJsonError(Exception):
    """The text is no JSON; the message says why."""


class Text(str):
    """A JSON string."""


class Opening(str):
    """`{` or `[`, of an object or array whose content is still to be read."""


Token = Any
"""None, a boolean, a float that is not finite, or one of the classes above."""


class JsonReader:
    """The position in one text.

    Attributes:
        misfit: the first value that does not fit its type.
    """

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.misfit: str | None = None

    def skip_blanks(self) -> None:
        self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]  # it always matches

    def token(self) -> Token:
        """Read the next value; of an object or array its first character."""
        self.skip_blanks()
        start = self.text[self.at : self.at + 1]
        if start in _PLAIN:
            return Text(self._string())
        if start and start in "{[":
            self.at += 1
            return Opening(start)
        match = _NUMBER.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
            return Number(match[0], match[1] is None and match[2] is None)
        match = _WORD.match(self.text, self.at)
        if match is None:
            raise self.wrong("a value")
        self.at = match.end()
        return WORDS[match[0]]

    def names(self) -> Iterator[str]:
        """Yield the names of an object's fields; the caller reads the value of each."""
        if self._next("}"):
            return
        while True:
            self.skip_blanks()
            if self.text[self.at : self.at + 1] not in _PLAIN:
                raise self.wrong("the name of a field")
            name = self._string()
            self._expect(":")
            yield name
            if self._next("}"):
                return
            self._expect(",")

    def elements(self) -> Iterator[Token]:
        """Yield the elements of an array, as tokens; the caller reads the content of each."""
        if self._next("]"):
            return
        while True:
            yield self.token()
            if self._next("]"):
                return
            self._expect(",")

    def rest(self, token: Token) -> None:
        """Skip the content of a value, however deep it is."""
        for _ in self.events(token):
            pass

    def events(self, token: Token) -> Iterator[str]:
        """Yield the text of a value anew, in pieces, as Spark writes it for a field of type STRING."""
        closing: list[str] = []
        begins = True  # a value or a closing bracket is next, not a comma
        while True:
            if isinstance(token, Opening):
                yield str(token)
                closing.append("}" if token == "{" else "]")
                begins = True
            else:
                yield _written(token)
                begins = False
            while closing:
                if self._next(closing[-1]):
                    yield closing.pop()
                    begins = False
                    continue
                if not begins:
                    self._expect(",")
                    yield ","
                break
            if not closing:
                return
            if closing[-1] == "}":
                self.skip_blanks()
                if self.text[self.at : self.at + 1] not in _PLAIN:
                    raise self.wrong("the name of a field")
                yield _quoted(self._string()) + ":"
                self._expect(":")
            token = self.token()

    def wrong(self, wanted: str) -> NoJsonError:
        self.skip_blanks()
        there = "its end" if self.at >= len(self.text) else f"character {self.at + 1}"
        return NoJsonError(f"{wanted} is missing at {there}")

    def _next(self, sign: str) -> bool:
        self.skip_blanks()
        if not self.text.startswith(sign, self.at):
            return False
        self.at += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self._next(sign):
            raise self.wrong(f"`{sign}`")

    def _string(self) -> str:
        quote = self.text[self.at]
        self.at += 1
        parts = []
        plain = _PLAIN[quote]
        while True:
            end = plain.match(self.text, self.at).end()  # type: ignore[union-attr]  # it always matches
            parts.append(self.text[self.at : end])
            self.at = end + 1
            sign = self.text[end : end + 1]
            if sign == quote:
                break
            if sign != "\\":
                raise NoJsonError("a string does not end" if not sign else "a string has a control character")
            parts.append(self._escaped())
        return "".join(parts) if len(parts) == 1 else _PAIR.sub(_joined, "".join(parts))

    def _escaped(self) -> str:
        sign = self.text[self.at : self.at + 1]
        self.at += 1
        if sign == "u":
            digits = _HEX.match(self.text, self.at)
            if digits is None:
                raise NoJsonError("an escape has no four hexadecimal digits")
            self.at += 4
            return chr(int(digits[0], 16))
        if sign not in _ESCAPES:
            raise NoJsonError("a string has an unknown escape")
        return _ESCAPES[sign]


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


def _written(token: Token) -> str:
    if isinstance(token, Text):
        return _quoted(token)
    if isinstance(token, Number):
        if token.whole:
            return "0" if token.text == "-0" else token.text
        token = float(token.text)
    if isinstance(token, float):
        return _java(token)
    return {True: "true", False: "false", None: "null"}[token]


def _java(number: float) -> str:
    """Return a number as Java's `Double.toString` writes it; one that is not finite in quotes, as Spark does."""
    if not isfinite(number):
        return '"NaN"' if isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    point = len(digits) + int(exponent) if number else 1  # the place of the point in the digits
    text = "".join(map(str, digits)).rstrip("0") or "0"
    if len(text) == 1:  # Java writes two digits at least, and takes the nearest ones: 4.9E-324
        text = f"{abs(number):.1e}"[:3:2].rstrip("0") or "0"
    minus = "-" if sign else ""
    if number and not 1e-3 <= abs(number) < 1e7:
        return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    text = text.ljust(point, "0")
    return f"{minus}{text[:point]}.{text[point:] or '0'}"


def _quoted(text: str) -> str:
    return '"' + _TO_ESCAPE.sub(lambda sign: _WRITTEN.get(sign[0]) or _in_utf_16(sign[0]), text) + '"'


def _in_utf_16(sign: str) -> str:
    """Return a character as escapes: as Spark does, one for each of its UTF-16 units."""
    return "".join(rf"\u{unit:04X}" for unit in memoryview(sign.encode("utf-16", "surrogatepass")[2:]).cast("H"))
