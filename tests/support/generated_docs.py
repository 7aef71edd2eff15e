"""Write the tables of docs/ that are generated from tables in code. `make docs` runs it.

A generated part stands between two comments, of which the first has its name. In a table in code, links begin at the
top of the repository; in a page, they are relative to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from dynamic_kafka.contract.exit_codes import MEANINGS
from kafkastream_operator.models.reasons import OF_STREAMS, OF_SUBSCRIPTIONS, Row
from tests.support.places import ROOT

_PART = re.compile(r"(<!-- `make docs` writes ([^\n]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def with_parts(page: Path) -> str:
    """Return the text of a page with all its generated parts written anew.

    Raises:
        KeyError: no table has the name of a part.
    """
    text = page.read_text(encoding="utf-8")
    return _PART.sub(lambda part: part[1] + _relative(_TABLES[part[2]](), page) + part[3], text)


def pages() -> list[Path]:
    """Return the pages that have a generated part."""
    return [page for page in sorted((ROOT / "docs").rglob("*.md")) if _PART.search(page.read_text(encoding="utf-8"))]


def _conditions(table: Mapping[str, tuple[Row, ...]]) -> str:
    rows = [
        (f"`{kind}`" if row is of_kind[0] else "", _reasons(row), row.status, row.meaning, row.remedy or "–")
        for kind, of_kind in table.items()
        for row in of_kind
    ]
    return _table(("Type", "Reason", "Status", "It means", "Remedy"), rows)


def _reasons(row: Row) -> str:
    return ", ".join(f"`{reason}`" for reason in row.reasons.split(", ")) if row.reasons else "any other"


def _exit_codes() -> str:
    rows = [(str(int(code)), meaning.words, meaning.again) for code, meaning in MEANINGS.items()]
    return _table(("Code", "Meaning", "Start again?"), rows)


def _remedies() -> str:
    rows = [(str(int(code)), meaning.data, meaning.do) for code, meaning in MEANINGS.items()]
    return _table(("Code", "Data", "Do"), rows)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    head, *body = (f"| {' | '.join(cells)} |\n" for cells in (heads, *rows))
    return f"{head}|{'---|' * len(heads)}\n{''.join(body)}"


def _relative(text: str, page: Path) -> str:
    """Return the text with links that are relative to the page."""

    def link(target: re.Match[str]) -> str:
        file, anchor = ROOT / target[1], target[2]
        return f"]({anchor if file == page else os.path.relpath(file, page.parent) + anchor})"

    return re.sub(r"\]\(([^)#:]+)((?:#[^)]*)?)\)", link, text)


_TABLES: Mapping[str, Callable[[], str]] = {
    "the conditions of a KafkaStreamSubscription": lambda: _conditions(OF_SUBSCRIPTIONS),
    "the conditions of a KafkaStream": lambda: _conditions(OF_STREAMS),
    "the exit codes": _exit_codes,
    "the remedies of the exit codes": _remedies,
}

if __name__ == "__main__":
    for page_with_parts in pages():
        page_with_parts.write_text(with_parts(page_with_parts), encoding="utf-8")
