"""Durations as users write them: `10s`, `5m`, `7d`, `500ms`, `1h`, or plain milliseconds. Pure."""

from __future__ import annotations

import re

from dynamic_kafka.errors import OptionError

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+) ?([a-z]*)", re.ASCII)

MAX_MS = 36_500 * _UNITS_MS["d"]
"""A hundred years: anything longer overflows the timers it would end up in."""


def parse_duration_ms(text: str, *, where: str) -> int:
    """Milliseconds of a duration. Units as in Spark's own time strings, whole numbers only.

    Raises:
        OptionError: not a duration, negative, or longer than a hundred years; names `where`.
    """
    found = _DURATION.fullmatch(text.strip().lower())
    unit = found.group(2) or "ms" if found else ""
    if found is None or unit not in _UNITS_MS:
        raise OptionError(
            f"{where} is '{text}', which is not a duration; write a whole number with a unit"
            " (500ms, 10s, 5m, 1h, 7d), or plain milliseconds, not negative"
        )
    # The digits are counted first: Python refuses to turn thousands of them into a number.
    if len(found.group(1)) > 18 or (duration := int(found.group(1)) * _UNITS_MS[unit]) > MAX_MS:
        raise OptionError(f"{where} is '{text}', longer than a hundred years; the most is {MAX_MS} ms (36500d)")
    return duration
