"""A line for users who wait: which clusters have not answered yet. Tools only."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future

from dynamic_kafka.planning.observation import ClusterObservation

ANNOUNCE_AFTER_S = 3.0
"""After this time, the tool prints which clusters it is waiting for."""


@contextlib.contextmanager
def announced_waits(pending: Mapping[str, Future[ClusterObservation]]) -> Iterator[None]:
    """Print to standard error which clusters have not answered, if that takes long."""

    def announce() -> None:
        waiting = ", ".join(cluster for cluster, future in pending.items() if not future.done())
        if waiting:
            print(f"asking {waiting} …", file=sys.stderr, flush=True)

    timer = threading.Timer(ANNOUNCE_AFTER_S, announce)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
