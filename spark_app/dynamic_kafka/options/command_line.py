"""Strict command lines: an unknown flag is refused with the nearest known one.

Pure. The command lines of the application and of the operator use it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from dynamic_kafka.wording import did_you_mean


def parse_flags(
    parser: argparse.ArgumentParser, given: Sequence[str], command: argparse.ArgumentParser | None = None
) -> argparse.Namespace:
    """Parse `given`, or exit with code 2 at an unknown argument, as argparse does.

    Args:
        parser: the parser of the whole command line.
        command: the parser of the chosen command, whose flags the error suggests; None for a parser without commands.
    """
    parsed, unknown = parser.parse_known_args(given)
    if unknown:
        asked = command or parser
        flags = re.findall(r"(?<!\S)--[a-z][a-z-]*", asked.format_help())
        hint = did_you_mean(unknown[0].partition("=")[0], flags)
        asked.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    return parsed
