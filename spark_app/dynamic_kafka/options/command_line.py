"""Command lines: what is not known is refused with the nearest known name. Driver and operator; pure."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence


def parse_flags(
    parser: argparse.ArgumentParser, given: Sequence[str], command: argparse.ArgumentParser | None = None
) -> argparse.Namespace:
    """`given` as `parser` reads it. `command`: whose flags they are, if the parser has commands.

    Exits with 2, as argparse does, at anything that is not known.
    """
    parsed, unknown = parser.parse_known_args(given)
    if unknown:
        asked = command or parser
        flags = re.findall(r"(?<!\S)--[a-z][a-z-]*", asked.format_help())
        near = difflib.get_close_matches(unknown[0].partition("=")[0], flags, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        asked.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    return parsed
