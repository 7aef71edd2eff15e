"""The record of what a person did to a query's state: who, when, what, before and after. Tools that write only.

Written before what it tells of: a record without its effect is harmless, an effect without a record is not.
"""

from __future__ import annotations

import getpass
import socket
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.errors import OptionError


def record(state: StateLocation, tool: str, *, what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Write `audit/<time>-<tool>.json`; returns that path."""
    at = stamp()
    path = f"audit/{at}-{tool}.json"
    state.write(
        path, {"who": who(), "when": at, "tool": tool, "what": what, "before": dict(before), "after": dict(after)}
    )
    return path


def who() -> str:
    """`user@host` of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def stamp(now_ns: int | None = None) -> str:
    """`20261121T021007.123456Z`: sorts by time, and may stand in a file's name."""
    now = time.time_ns() if now_ns is None else now_ns
    return f"{datetime.fromtimestamp(now // 1_000_000_000, UTC):%Y%m%dT%H%M%S}.{now // 1000 % 1_000_000:06d}Z"


def confirm(question: str, *, yes: bool) -> None:
    """Let a person say yes, at the terminal or by `--yes`.

    Raises:
        OptionError: the answer was another, or there is nobody to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise OptionError("nothing was changed: there is no terminal to ask at; add --yes if this is what you want")
    if input(f"{question} Type yes to go on: ").strip().lower() != "yes":
        raise OptionError("nothing was changed")
