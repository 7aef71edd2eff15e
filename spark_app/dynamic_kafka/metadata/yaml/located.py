"""Values of a document with their lines, and problems that name the line. Driver, tools and operator; pure.

`reader.py` returns a `Located`. Every check of a file that users write by hand reports `Problem`s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynamic_kafka.errors import MetadataInvalidError

Path = tuple[str | int, ...]
"""Keys and list indexes from the document down to a value."""

MAX_PROBLEMS = 50
"""Problems that one error lists. A wrong generator makes the same mistake thousands of times."""

_PLAIN_NAME = re.compile(r"[\w-]+\Z")


@dataclass(frozen=True)
class Problem:
    """One mistake: its place in the document, and a text that says what is wrong and what to do.

    Attributes:
        line: where the path alone does not give the line, as for a duplicate key.
    """

    path: Path
    text: str
    line: int | None = None


class Findings(ValueError):
    """The error of a check that finds one or several problems in a value; their paths start at that value."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{_dotted(problem.path)}{problem.text}" for problem in self.problems))


@dataclass
class Located:
    """A document as plain values (dict, list, str, int, float, bool, None), with the line of each.

    Attributes:
        problems: mistakes of the text itself that did not stop the reader, such as duplicate keys.
        lines: {id of a dict or list: the lines of its items}, by key or index; empty when the lines are unknown.
        first_line: the line of the document itself.
    """

    value: Any
    problems: list[Problem] = field(default_factory=list)
    lines: dict[int, dict[str, int] | list[int]] = field(default_factory=dict, repr=False)
    first_line: int = 1

    def line_of(self, path: Path) -> int:
        """Return the line (from 1) of the value at `path`, or of the nearest value around it that exists."""
        value, line = self.value, self.first_line
        for step in path:
            lines = self.lines.get(id(value))
            try:
                line = lines[step]  # type: ignore[index]  # a step of the wrong type raises as a missing one does
                value = value[step]
            except (KeyError, IndexError, TypeError):
                break
        return line

    def report(self, problems: Sequence[Problem], source: str) -> MetadataInvalidError:
        """Return one error with all `problems` in the order of their lines, each as `source:line: path: text`."""
        placed = [(p.line if p.line is not None else self.line_of(p.path), p) for p in problems]
        placed.sort(key=lambda item: item[0])
        lines = [f"{source}:{line}: {_dotted(p.path)}{p.text}" for line, p in placed[:MAX_PROBLEMS]]
        if len(placed) > MAX_PROBLEMS:
            lines.append(f"{source}: and {len(placed) - MAX_PROBLEMS} more problems")
        head = "" if len(lines) == 1 else f"{len(placed)} problems in {source}:\n  "
        return MetadataInvalidError(head + "\n  ".join(lines), tuple(lines))


def _dotted(path: Path) -> str:
    """Return `streams.orders.clusters."a:9092".topics[0]: `, or an empty text for the document itself."""
    dotted = ""
    for step in path:
        if isinstance(step, int):
            dotted += f"[{step}]"
        else:
            name = step if _PLAIN_NAME.match(step) else json.dumps(step[:80], ensure_ascii=False)
            dotted += f".{name}" if dotted else name
    return f"{dotted}: " if dotted else ""
