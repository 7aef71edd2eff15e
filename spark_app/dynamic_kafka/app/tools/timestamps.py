"""Times as tools show them: in UTC to the second, with how far off they are. Tools only."""

from __future__ import annotations

import time
from datetime import UTC, datetime

_STEPS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def shown_time(at_ms: int, now_ms: int | None = None) -> str:
    """`2026-11-28 02:10:07Z (in 6 d)`, of milliseconds since the epoch."""
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    text = f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
    seconds = abs(at_ms - now) // 1000
    count, unit = next(((seconds // size, unit) for size, unit in _STEPS if seconds >= size), (0, "s"))
    return f"{text} (in {count} {unit})" if at_ms >= now else f"{text} ({count} {unit} ago)"


def stamp(now_ns: int | None = None) -> str:
    """`20261121T021007.123456Z`: sorts by time, and may stand in a file's name."""
    now = time.time_ns() if now_ns is None else now_ns
    return f"{datetime.fromtimestamp(now // 1_000_000_000, UTC):%Y%m%dT%H%M%S}.{now // 1000 % 1_000_000:06d}Z"
