"""Phrases that many messages share: a list cut to its first items, the nearest known name, and a command to copy.

Pure; the source, the application and the operator use it.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable


def first_few(items: Iterable[object], limit: int = 10, *, separator: str = ", ") -> str:
    """Return the first `limit` items as text, followed by "and N more" when there are more.

    >>> first_few(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    texts = [str(item) for item in items]
    more = f" and {len(texts) - limit} more" if len(texts) > limit else ""
    return separator.join(texts[:limit]) + more


def tool_command(tool: str, argument: str = "", *, flag: str = "") -> str:
    """Return a command of the application's tools, in backticks, as a user copies it into a shell.

    Names come from metadata and from brokers, and may hold any character. The shell and the tool take each of them as
    one plain argument, even one like a flag.

    Args:
        argument: the value of the flag, or the tool's own argument.

    >>> tool_command("accept", "a;b=Qx", flag="--identity")
    "`python -m dynamic_kafka.app accept app.yaml --identity 'a;b=Qx'`"
    >>> tool_command("abandon", "-a")
    '`python -m dynamic_kafka.app abandon app.yaml -- -a`'
    """
    words = ["python", "-m", "dynamic_kafka.app", tool, "app.yaml", flag, argument]
    if argument.startswith("-"):
        words[-2:] = [f"{flag}={argument}"] if flag else ["--", argument]
    return f"`{shlex.join(filter(None, words))}`"


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
