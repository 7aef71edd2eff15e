"""Plain tables for tools: columns as wide as what they hold, numbers to the right. Tools only; pure."""

from __future__ import annotations

from collections.abc import Sequence


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table as text; None is a dash. Columns that hold numbers only are set to the right."""
    shown = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    numbers = [
        any(isinstance(row[column], int) for row in rows)
        and all(row[column] is None or isinstance(row[column], int) for row in rows)
        for column in range(len(titles))
    ]
    widths = [max(len(titles[column]), *(len(row[column]) for row in shown), 0) for column in range(len(titles))]

    def line(cells: Sequence[str]) -> str:
        set_ = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numbers, strict=True)
        ]
        return "  ".join(set_).rstrip()

    return "\n".join(line(row) for row in ([title.upper() for title in titles], *shown))
