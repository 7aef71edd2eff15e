"""Waiting for what tells nobody when it comes."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(done: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether it becomes true."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
