"""Ask for consent, and record changes to a query's state: who, when, what, before and after. Tools that write.

The record is written before the change. A record without its change is harmless; a change without a record is not.
"""

from __future__ import annotations

import getpass
import socket
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dynamic_kafka.errors import OptionError
from dynamic_kafka.state.store import StateLocation


def record(state: StateLocation, tool: str, *, what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Write the record `audit/<time>-<tool>.json`, and return this path. `what` is the change in a sentence."""
    at = stamp()
    path = f"audit/{at}-{tool}.json"
    content = {"who": who(), "when": at, "tool": tool, "what": what, "before": dict(before), "after": dict(after)}
    state.write(path, content)
    return path


def who() -> str:
    """Return `user@host` of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a container, the user may have no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def stamp(now_ns: int | None = None) -> str:
    """Return the time as a sortable part of a file's name: `20261121T021007.123456Z`."""
    now = time.time_ns() if now_ns is None else now_ns
    return f"{datetime.fromtimestamp(now // 1_000_000_000, UTC):%Y%m%dT%H%M%S}.{now // 1000 % 1_000_000:06d}Z"


def confirm(question: str, *, yes: bool) -> None:
    """Ask the user at the terminal to type yes, unless `--yes` was given.

    Raises:
        OptionError: the answer was not yes, or there is no terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise OptionError("nothing was changed: there is no terminal to ask at; add --yes to agree")
    if input(f"{question} Type yes to continue: ").strip().lower() != "yes":
        raise OptionError("nothing was changed: the answer was not yes")
