"""Return freed memory to the system. Runs on the driver, in processes that ask large clusters again and again.

`spark/stream_reader.py` calls it after each plan, and the application's lag prober after each round.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

TRIM_EVERY = 20
"""Rounds between two trims. With 10,000 splits, a round frees about a megabyte, and a trim takes 5 ms."""


class HeapTrimmer:
    """A counter of rounds that calls glibc's `malloc_trim` now and then.

    Threads of the Kafka clients allocate the answers of large clusters, and other threads free them. The C library
    keeps that memory in pieces that rarely fit the next answer. Without a trim, the process grows by up to a megabyte
    with each change of metadata, although its use of memory stays level.
    """

    def __init__(self) -> None:
        self._rounds = 0
        try:
            self._trim: Callable[[int], int] | None = ctypes.CDLL(None).malloc_trim
        except (AttributeError, OSError, TypeError):  # another C library, which returns memory by itself
            self._trim = None

    def count_round(self) -> None:
        """Count a plan or a round of requests; trim after every `TRIM_EVERY`."""
        self._rounds += 1
        if self._rounds % TRIM_EVERY == 0 and self._trim is not None:
            self._trim(0)
