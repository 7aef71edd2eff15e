"""Ask a cluster again while a leader or coordinator of it is just moving. Driver; blocks the calling thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from dynamic_kafka.kafka.errors import is_transient

T = TypeVar("T")
PAUSE_S = 0.1
"""Pause before what had a transient answer is asked for again."""
LONGEST_CALL_S = 3600.0
"""librdkafka's admin calls take no longer deadline, and `readTimeout` may be longer."""


def retry_while_transient(ask: Callable[[float], T], deadline_s: float) -> T:
    """Ask, and ask again while the answer is a transient error, until the deadline.

    Args:
        ask: called with the seconds that are left for its answer. What it raises besides is raised at once, and so is
            the last transient error.
        deadline_s: seconds for all of it.
    """
    deadline = time.monotonic() + deadline_s
    while True:
        try:
            return ask(max(0.1, deadline - time.monotonic()))
        except Exception as raised:
            if not is_transient(raised) or time.monotonic() + PAUSE_S > deadline:
                raise
        time.sleep(PAUSE_S)
