"""How a process is set up that plans and does nothing else: one of Spark's Python workers on the driver."""

from __future__ import annotations

import gc
import logging
import sys
from typing import TextIO

_YOUNG, _MIDDLE, _OLD = 10_000, 10, 10
"""Net new objects until the cyclic collector looks at those, and how many such looks until it looks at older ones."""


def set_up_planner_process() -> None:
    """Let its log be seen, and let it collect less often. Called again, it changes nothing."""
    show_driver_log()
    # A plan makes some hundred thousand objects at once for 10,000 splits, none of them in cycles: by default the
    # collector would look through all there is several times a plan, which is a third of a plan's CPU.
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
    gc.freeze()  # what is imported stays: no look goes through that again


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
