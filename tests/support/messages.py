"""All messages of a package, read from its source, and `python -m tests.support.messages` (`make messages`).

A message is a text of three words or more: in errors, logs, conditions, or what a tool prints. Its values are shown as
`{}`. `tests/unit/messages` holds the messages of each package, so that a change of wording is seen and reviewed. Other
tests pin an error's class, its fields and the values in its text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from tests.support.places import ROOT

PACKAGES = {"dynamic_kafka": "spark_app", "kafkastream_operator": "operator"}
"""Each package, and the folder that it lies in."""
_SPACES = 2
_ELSEWHERE = ("definitions.py", "reasons.py", "reference.py")
"""Ends of the names of modules whose texts are descriptions: generated files under `docs/` have them."""


def saved_messages(package: str) -> Path:
    """Return the file that holds a package's messages."""
    return ROOT / "tests" / "unit" / "messages" / f"{package}.txt"


def listed_messages(package: str) -> str:
    """Return the messages of a package: each module, and below it its texts, indented, in their order."""
    folder = ROOT / PACKAGES[package] / package
    lines = []
    for module in sorted(folder.rglob("*.py")):
        name = module.relative_to(folder)
        texts = [] if name.name.endswith(_ELSEWHERE) else messages_in(module.read_text(encoding="utf-8"))
        lines += [str(name), *(f"    {line}" for text in texts for line in text.splitlines())] if texts else []
    return "\n".join(lines) + "\n"


def messages_in(source: str) -> list[str]:
    """Return the messages of one module, without repetitions that follow each other."""
    tree = ast.parse(source)
    texts = sorted((node.lineno, node.col_offset, text) for node, text in _texts(tree) if _is_message(text))
    return [text for text, _ in groupby(text for _, _, text in texts)]


def _is_message(text: str) -> bool:
    return text.count(" ") >= _SPACES and any(map(str.isalpha, text))


def _texts(node: ast.AST) -> Iterable[tuple[ast.expr, str]]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        yield node, "".join(map(str, parts))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node, node.value
    for child in [] if isinstance(node, ast.JoinedStr) else ast.iter_child_nodes(node):
        yield from _texts(child)


if __name__ == "__main__":
    for package in PACKAGES:
        saved_messages(package).write_text(listed_messages(package), encoding="utf-8")
