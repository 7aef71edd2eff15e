"""Format tables and times for the output of tools. Tools only; pure but for the clock."""

from __future__ import annotations

import time
from collections.abc import Sequence

from dynamic_kafka.wording import utc

_STEPS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as text. None is shown as a dash, and columns of numbers are aligned to the right."""
    shown = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    numbers = [
        any(isinstance(row[column], int) for row in rows)
        and all(row[column] is None or isinstance(row[column], int) for row in rows)
        for column in range(len(titles))
    ]
    widths = [max(len(titles[column]), *(len(row[column]) for row in shown), 0) for column in range(len(titles))]

    def line(cells: Sequence[str]) -> str:
        aligned = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numbers, strict=True)
        ]
        return "  ".join(aligned).rstrip()

    return "\n".join(line(row) for row in ([title.upper() for title in titles], *shown))


def shown_time(at_ms: int, now_ms: int | None = None) -> str:
    """Return a time, in milliseconds since the epoch, as UTC with its distance: `2026-11-28 02:10:07Z (in 7 d)`."""
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    text = utc(at_ms)
    seconds = round(abs(at_ms - now) / 1000)
    # Rounded: a retention of 7 d is 7 d a moment later, too. Hence from 95 % of a unit on, its number is 1.
    count, unit = next(((round(seconds / size), unit) for size, unit in _STEPS if seconds >= 0.95 * size), (0, "s"))
    return f"{text} (in {count} {unit})" if at_ms >= now else f"{text} ({count} {unit} ago)"
