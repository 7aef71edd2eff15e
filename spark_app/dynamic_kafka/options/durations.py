"""Durations in options and in resources: `10s`, `5m`, `7d`, `500ms`, `1h`, or plain milliseconds.

Pure. The parser of options, the application's configuration and the operator use it.
"""

from __future__ import annotations

import re

from dynamic_kafka.errors import OptionError

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+) ?([a-z]*)", re.ASCII)

MAX_MS = 36_500 * _UNITS_MS["d"]
"""A hundred years. A longer duration overflows the timers that use it."""


def parse_duration_ms(text: str, *, where: str) -> int:
    """Return the milliseconds of a duration. Units are those of Spark's time strings; only whole numbers count.

    Raises:
        OptionError: not a duration, negative, or longer than a hundred years; the message names `where`.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    unit = match.group(2) or "ms" if match else ""
    if match is None or unit not in _UNITS_MS:
        raise OptionError(
            f"{where} is '{text}', which is not a duration; write a whole number with a unit"
            " (500ms, 10s, 5m, 1h, 7d), or plain milliseconds, not negative"
        )
    # Check the number of digits first: Python refuses to convert thousands of digits to a number.
    if len(match.group(1)) > 18 or (duration := int(match.group(1)) * _UNITS_MS[unit]) > MAX_MS:
        raise OptionError(f"{where} is '{text}', longer than a hundred years; the maximum is {MAX_MS} ms (36500d)")
    return duration


def unit_warning(text: str, *, where: str) -> str | None:
    """Return a warning about a duration below a second without a unit: whoever wrote it may have meant seconds."""
    if not text.isdecimal() or len(text) > 3 or int(text) == 0:
        return None
    return f"{where} is '{text}' without a unit, which means {text} ms; write {text}s for seconds, else {text}ms"
