"""A logger without repetitions for librdkafka, and the closing of Kafka clients in the background.

Runs on driver and executors; every module that makes a Kafka client uses it.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from dynamic_kafka.wording import counted

log = logging.getLogger(__name__)

REPEAT_S = 300.0
"""Seconds before the same text of librdkafka is logged again."""
_VARYING = re.compile(r"rdkafka#\w+-\d+|\(after [^()]*(?:\(s\)[^()]*)?\)")
"""Parts in which equal log lines differ: the number of the client, and durations. Addresses and ports count."""
MAX_TEXTS = 1000
"""The number of texts that the filter remembers."""


class RepeatFilter(logging.Filter):
    """A filter that passes each text once per `REPEAT_S`. librdkafka retries and logs several times a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._logged: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log the record. A text that is logged again says how often it was suppressed."""
        text = record.getMessage()
        key, now = _VARYING.sub("", text), self._clock()
        at, suppressed = self._logged.get(key, (-REPEAT_S, 0))
        if now - at < REPEAT_S:
            self._logged[key] = (at, suppressed + 1)
            return False
        if len(self._logged) >= MAX_TEXTS:
            self._logged.clear()
        self._logged[key] = (now, 0)
        if suppressed:
            record.msg, record.args = f"{text} (repeated {counted(suppressed, 'time')})", None
        return True


def quiet_logger() -> logging.Logger:
    """Return the logger for librdkafka's own log lines, which would otherwise go to standard error."""
    logger = logging.getLogger("dynamic_kafka.librdkafka")
    if _REPEATS not in logger.filters:
        logger.addFilter(_REPEATS)
    return logger


_REPEATS = RepeatFilter()


def drop_in_background(resources: list[Any], name: str) -> None:
    """Close Kafka clients and drop their last references in a daemon thread. Errors there are logged, not raised."""

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
