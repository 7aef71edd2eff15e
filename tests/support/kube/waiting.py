"""Waiting for what cannot be watched: a process to get ready."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.support.kube.errors import KubeError

_POLL_SECONDS = 0.05


def wait_until(
    done: Callable[[], object], what: str, *, check: Callable[[], None] | None = None, timeout: float = 90.0
) -> None:
    """Return as soon as `done` is true; `check` raises when it cannot become so. Raises `KubeError` in the end."""
    deadline = time.monotonic() + timeout
    while not done():
        if check is not None:
            check()
        if time.monotonic() > deadline:
            raise KubeError(f"Waited {timeout:.0f} s in vain: {what}.")
        time.sleep(_POLL_SECONDS)
