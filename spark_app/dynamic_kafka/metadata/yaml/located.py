"""A document's values with their lines, and findings that name the line. Driver and tools; pure.

What `yaml_text.py` reads, and what every check of a file that users write by hand reports with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dynamic_kafka.errors import MetadataInvalidError

Path = tuple[str | int, ...]
"""Keys and places from the document down to a value."""

MAX_PROBLEMS = 50
"""Findings that one error lists; a wrong generator makes the same mistake thousands of times."""

_PLAIN_NAME = re.compile(r"[\w-]+\Z")


@dataclass(frozen=True)
class Problem:
    """One finding: where in the document, what is wrong there and what to do; `line` if the path does not tell it."""

    path: Path
    text: str
    line: int | None = None


@dataclass
class Located:
    """A document as plain values (dict, list, str, int, float, bool, None), with the line of each.

    Attributes:
        value: the whole document.
        problems: what is wrong with the text itself although it could be read, such as duplicate keys.
        lines: {id of a dict or list: the lines of what it holds}, by key or place; empty if they are not known.
        first_line: the line of the document itself.
    """

    value: Any
    problems: list[Problem] = field(default_factory=list)
    lines: dict[int, dict[str, int] | list[int]] = field(default_factory=dict, repr=False)
    first_line: int = 1

    def line_of(self, path: Path) -> int:
        """The line (from 1) of the value at `path`, or of the nearest value around it that exists."""
        value, line = self.value, self.first_line
        for step in path:
            lines = self.lines.get(id(value))
            try:
                line = lines[step]  # type: ignore[index]  # a wrong kind of step raises as a missing one does
                value = value[step]
            except (KeyError, IndexError, TypeError):
                break
        return line

    def report(self, problems: Sequence[Problem], source: str) -> MetadataInvalidError:
        """All `problems` in the order of their lines, each as `source:line: field.path: text`."""
        placed = [(p.line if p.line is not None else self.line_of(p.path), p) for p in problems]
        placed.sort(key=lambda each: each[0])
        lines = [f"{source}:{line}: {_joined(p.path)}{p.text}" for line, p in placed[:MAX_PROBLEMS]]
        if len(placed) > MAX_PROBLEMS:
            lines.append(f"{source}: and {len(placed) - MAX_PROBLEMS} more problems")
        head = "" if len(lines) == 1 else f"{len(placed)} problems in {source}:\n  "
        return MetadataInvalidError(head + "\n  ".join(lines), tuple(lines))


def _joined(path: Path) -> str:
    """`streams.orders.clusters."a:9092".topics[0]: `, or nothing for the document itself."""
    joined = ""
    for step in path:
        if isinstance(step, int):
            joined += f"[{step}]"
        else:
            name = step if _PLAIN_NAME.match(step) else json.dumps(step[:80], ensure_ascii=False)
            joined += f".{name}" if joined else name
    return f"{joined}: " if joined else ""
