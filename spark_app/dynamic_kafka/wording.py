"""Phrases that many messages share: a list cut to its first items, and the nearest known name.

Pure; the source, the application and the operator use it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def first_few(items: Iterable[object], limit: int = 10, *, separator: str = ", ") -> str:
    """Return the first `limit` items as text, followed by "and N more" when there are more.

    >>> first_few(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    texts = [str(item) for item in items]
    more = f" and {len(texts) - limit} more" if len(texts) > limit else ""
    return separator.join(texts[:limit]) + more


def nearest_names(name: str, known: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the known names most like `name`, best first. Letter case and the kind of separator do not count."""

    def plain(text: str) -> str:
        return re.sub(r"[._\s-]", "", text).lower()

    by_plain = {plain(each): each for each in sorted(known)}
    return [by_plain[each] for each in difflib.get_close_matches(plain(name), by_plain, n=count, cutoff=cutoff)]


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is most like `name`, or None when none is alike enough."""
    return next(iter(nearest_names(name, known, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'X'?" for the nearest known name, or an empty text."""
    found = nearest(name, known)
    return f"; did you mean {found!r}?" if found is not None else ""
