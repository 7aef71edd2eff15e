"""Patterns over stream ids, in RE2's syntax: it matches any pattern in time linear in the text. Pure.

Python's own expressions backtrack, some of them for ever, and cannot be interrupted: one subscription would hold up all
others. An accepted pattern means the same in RE2 and in Python, so a user can move it to the options of an application.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Protocol

import re2

HOW = (
    "patterns are RE2's (github.com/google/re2/wiki/Syntax): no lookaround, no backreference, no possessive or atomic"
    " group, no repetition beyond 1000; write what should match"
)
_AMBIGUOUS = re.compile(r"\{,\d|\[\[:")
"""Syntax that RE2 and Python read differently: RE2 takes `{,3}` literally, Python takes `[[:alpha:]]` for a set."""


class PatternError(ValueError):
    """A text that is no pattern in Python's or in RE2's syntax."""


class Pattern(Protocol):
    """A compiled pattern."""

    def fullmatch(self, text: str) -> object:
        """Return a true value if the pattern matches the whole text."""


@lru_cache(maxsize=1024)
def pattern_of(text: str) -> Pattern:
    """Compile a pattern.

    Raises:
        PatternError: with the pattern and what to do.
    """
    if ambiguous := _AMBIGUOUS.search(text):
        raise PatternError(f"{text!r} cannot be used: {ambiguous[0]!r} means something else in Python; {HOW}")
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"{text!r} is no regular expression: {error}") from None
    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Pattern = re2.compile(text, options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args else "refused"
        raise PatternError(f"{text!r} cannot be used: {why}; {HOW}") from None
    return compiled
