"""Patterns over stream ids: RE2's, which match in time linear in the text, whatever somebody has written. Pure.

Python's own expressions backtrack, some of them without end, and nothing can interrupt that: one subscription would
hold up all others. What is accepted means the same in both, so that a pattern can be moved to an application's options.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Protocol

import re2

HOW = (
    "patterns are RE2's (github.com/google/re2/wiki/Syntax): no lookaround, no backreference, no possessive or atomic"
    " group, no repetition beyond 1000; write what shall match"
)
_OTHERWISE = re.compile(r"\{,\d|\[\[:")
"""What both read, and each otherwise: `{,3}` is a text for RE2, `[[:alpha:]]` a set of characters for Python."""


class PatternError(ValueError):
    """A pattern that is none, or not one that RE2 takes."""


class Pattern(Protocol):
    """A compiled pattern."""

    def fullmatch(self, text: str) -> object:
        """Something true if it matches the whole text."""


@lru_cache(maxsize=1024)
def pattern_of(text: str) -> Pattern:
    """Compile a pattern.

    Raises:
        PatternError: naming it, and what to do.
    """
    if other := _OTHERWISE.search(text):
        raise PatternError(f"{text!r} cannot be used: {other[0]!r} would not mean what it means in Python; {HOW}")
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"{text!r} is no regular expression: {error}") from None
    options = re2.Options()
    options.log_errors = False
    try:
        found: Pattern = re2.compile(text, options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args else "refused"
        raise PatternError(f"{text!r} cannot be used: {why}; {HOW}") from None
    return found
