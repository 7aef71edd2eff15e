"""Retries of calls while a leader or coordinator moves. Driver and executors; blocks the calling thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from dynamic_kafka.kafka.errors import is_transient

T = TypeVar("T")
PAUSE_S = 0.1
"""Seconds before a call with a transient error is retried."""
USED_CLIENT_S = 10.0
"""Longest wait for an answer over a client's old connections, before a new client is tried."""
IDLE_ADVICE = "If this recurs after pauses, a NAT or proxy drops idle connections; lower kafka.connections.max.idle.ms"
LONGEST_CALL_S = 3600.0
"""The longest deadline that librdkafka's admin calls accept, in seconds. `readTimeout` may be longer."""


def used_client_s(left_s: float) -> float:
    """Return the part of the seconds left that a used client gets: its connections may have been dropped in silence."""
    return min(left_s / 2, USED_CLIENT_S)


def retry_while_transient(ask: Callable[[float], T], deadline_s: float) -> T:
    """Call `ask`, and retry after each transient error until the deadline.

    Args:
        ask: gets the seconds that are left for its answer. Any other error ends the retries at once.
        deadline_s: seconds for all attempts together. After them the last transient error is raised.
    """
    deadline = time.monotonic() + deadline_s
    while True:
        try:
            return ask(max(0.1, deadline - time.monotonic()))
        except Exception as raised:
            if not is_transient(raised) or time.monotonic() + PAUSE_S > deadline:
                raise
        time.sleep(PAUSE_S)
