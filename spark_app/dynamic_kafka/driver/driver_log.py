"""Log lines of this package on standard error. Driver: used by the application and by Spark's planner process."""

from __future__ import annotations

import logging
import sys
from typing import TextIO


class StandardErrorHandler(logging.StreamHandler[TextIO]):
    """A handler that looks up `sys.stderr` for each line.

    A live table replaces it, to draw itself below the lines; test runners replace it, too.
    """

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr  # setStream would flush the old stream, which may be closed
        super().emit(record)


def log_to_standard_error() -> None:
    """Write this package's log lines to standard error, unless the user has handlers.

    Spark's planner process has no logging of its own. Spark copies its standard error to the driver's log.
    """
    logger = logging.getLogger("dynamic_kafka")
    if not logger.handlers and not logging.getLogger().handlers:
        handler = StandardErrorHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logging.getLogger("dynamic_kafka.librdkafka").setLevel(logging.ERROR)
