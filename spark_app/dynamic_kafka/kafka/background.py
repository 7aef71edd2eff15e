"""What every Kafka client of ours needs: a quiet log, and an end that holds nobody up. Driver and executors."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)


REPEAT_S = 300.0
"""How often librdkafka may say the same."""
_VARYING = re.compile(r"rdkafka#\w+-\d+|\(after [^()]*(?:\(s\)[^()]*)?\)")
"""The number of the client, how long it took: the same line has others each time. Addresses and ports stay."""
KEPT = 1000
"""Texts that are remembered."""


class RepeatFilter(logging.Filter):
    """Lets each text pass once in `REPEAT_S`: librdkafka goes on trying, and says so several times a second.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is news; what is said again tells how often it was not."""
        text = record.getMessage()
        key, now = _VARYING.sub("", text), self._clock()
        at, held_back = self._said.get(key, (-REPEAT_S, 0))
        if now - at < REPEAT_S:
            self._said[key] = (at, held_back + 1)
            return False
        if len(self._said) >= KEPT:
            self._said.clear()
        self._said[key] = (now, 0)
        if held_back:
            record.msg, record.args = f"{text} (repeated {held_back} times)", None
        return True


def quiet_logger() -> logging.Logger:
    """Where librdkafka's own log lines go: a logger of ours instead of the standard error of an executor."""
    logger = logging.getLogger("dynamic_kafka.librdkafka")
    if _SELDOM not in logger.filters:
        logger.addFilter(_SELDOM)
    return logger


_SELDOM = RepeatFilter()


def drop_in_background(resources: list[Any], name: str) -> None:
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
