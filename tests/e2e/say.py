"""Lines of progress, with the seconds since the beginning."""

from __future__ import annotations

import time

_BEGAN = time.monotonic()


def say(text: str) -> None:
    """Print one line of progress."""
    print(f"[{time.monotonic() - _BEGAN:6.1f} s] {text}", flush=True)
