"""Log lines of this package on standard error. Driver: used by the application and by Spark's planner process."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.wording import first_few

log = logging.getLogger(__name__)


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


def log_restored(document: OffsetDocument) -> None:
    """Log the offsets that a start finds in its checkpoint."""
    for cluster, progress in sorted(document.clusters.items()):
        for name, topic in sorted(progress.topics.items()):
            offsets = first_few((f"{p}: {topic.next[p]}" for p in sorted(topic.next)), 32)
            log.info("restored offsets of %s/%s: {%s}", cluster, name, offsets)
    for cluster, parked in sorted(document.parked.items()):
        log.info("restored parked topics of %s: %s", cluster, ", ".join(sorted(parked.topics)))
