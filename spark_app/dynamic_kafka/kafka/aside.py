"""What every Kafka client of ours needs: a quiet log, and an end that holds nobody up. Driver and executors."""

from __future__ import annotations

import logging
import threading
from typing import Any

log = logging.getLogger(__name__)


def quiet_logger() -> logging.Logger:
    """Where librdkafka's own log lines go: a logger of ours instead of the standard error of an executor."""
    return logging.getLogger("dynamic_kafka.librdkafka")


def drop_aside(resources: list[Any], name: str) -> None:
    """Drop the last references to Kafka clients in a daemon thread; what goes wrong there is logged, never raised."""

    def drop() -> None:
        try:
            for resource in resources:
                close = getattr(resource, "close", None)
                if close is not None:
                    close()
            resources.clear()
        except Exception as error:
            log.warning("a client did not close cleanly (%s): %s", name, error)

    threading.Thread(target=drop, name=f"dynamic-kafka-{name}", daemon=True).start()
