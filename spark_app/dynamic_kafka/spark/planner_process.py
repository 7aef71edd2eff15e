"""How one of Spark's Python workers is set up that plans, and how processes that ask large clusters stay small."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TextIO

TRIM_EVERY = 20
"""Rounds between two returns of memory: each frees a megabyte or so for 10,000 splits, and returning it takes 5 ms."""

_YOUNG, _MIDDLE, _OLD = 10_000, 10, 10
"""Net new objects until the cyclic collector looks at those, and how many such looks until it looks at older ones."""


def set_up_planner_process() -> None:
    """Let its log be seen, and let it collect less often. Called again, it changes nothing."""
    show_driver_log()
    # A plan makes some hundred thousand objects at once for 10,000 splits, none of them in cycles: by default the
    # collector would look through all there is several times a plan, which is a third of a plan's CPU.
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
    gc.freeze()  # what is imported stays: no look goes through that again


def stop_when_terminated(stop: Callable[[], None], timeout_s: float = 2.0) -> None:
    """Let a planner's end be told: Spark ends its process by SIGTERM when the query stops, without a call of `stop`.

    `stop` runs aside, since the signal may have come while the main thread holds a lock, and has `timeout_s`. Changes
    nothing outside the main thread, or where somebody has a handler of their own.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return

    def terminated(_signal: int, _frame: object) -> None:
        stopping = threading.Thread(target=stop, name="terminated", daemon=True)
        stopping.start()
        stopping.join(timeout_s)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, terminated)


class HeapTrim:
    """Gives memory back to the system that a process has freed, every so many rounds of asking clusters.

    The answers of large clusters are allocated by the clients' threads and freed by others, a little differently each
    time. The C library keeps such memory, in pieces that fit the next answer badly: what is in use stays level while
    what the process holds goes on growing, by up to a megabyte with each change of metadata.
    """

    def __init__(self) -> None:
        self._rounds = 0
        try:
            self._trim: Callable[[int], int] | None = ctypes.CDLL(None).malloc_trim
        except (AttributeError, OSError, TypeError):  # not glibc: it has ways of its own
            self._trim = None

    def round_is_over(self) -> None:
        """A plan was made, or a round of listing is over."""
        self._rounds += 1
        if self._rounds % TRIM_EVERY == 0 and self._trim is not None:
            self._trim(0)


class StandardError(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is when a line comes: a live table puts itself there, to be drawn below it, and a
    test runner exchanges it."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        self.stream = sys.stderr  # not setStream, which flushes the one before: that may be closed
        super().emit(record)


def show_driver_log() -> None:
    """Let what the planner says reach the driver's log: its process has no logging of its own, Spark passes on what it
    writes to standard error. A user's own handlers are left alone."""
    logger = logging.getLogger("dynamic_kafka")
    if not logger.handlers and not logging.getLogger().handlers:
        handler = StandardError()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logging.getLogger("dynamic_kafka.librdkafka").setLevel(logging.ERROR)
