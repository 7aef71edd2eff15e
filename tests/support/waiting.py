"""Wait for a state that sends no event: poll until it is there, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

POLL_S = 0.02

T = TypeVar("T")


def wait_until(
    done: Callable[[], T | None],
    what: str,
    *,
    timeout_s: float = 90.0,
    failed: Callable[[], str | None] | None = None,
    details: Callable[[], object] | None = None,
    pause: Callable[[float], object] = time.sleep,
    error: type[Exception] = AssertionError,
) -> T:
    """Return what `done()` returns, as soon as it is true.

    Args:
        what: what is awaited, for the error.
        failed: returns why `done()` cannot become true any more, such as the end of a process; None while it still can.
        details: what the error shows beside `what`, such as the last lines of a log.
        pause: waits between two polls, at most so many seconds.
        error: the type of the error.

    Raises:
        error: the time is over, or `failed()` gave a reason.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        reason = failed() if failed is not None else None
        if reason is None and time.monotonic() > deadline:
            reason = f"not within {timeout_s:g} s"
        # `done` comes last: it may have come true right before the end that `failed` reports.
        if result := done():
            return result
        if reason is not None:
            more = f"; {details()}" if details is not None else ""
            raise error(f"waited in vain for {what}: {reason}{more}")
        pause(POLL_S)


def eventually(done: Callable[[], object], timeout_s: float = 20.0) -> bool:
    """Return whether `done()` becomes true in time."""
    try:
        wait_until(done, "a condition", timeout_s=timeout_s)
    except AssertionError:
        return False
    return True
