"""What the application says: lines for people on a terminal, one JSON object a line elsewhere. Driver.

A JSON line has `time`, `level`, `logger`, `message`, and where it tells of an event, `event` and the event's fields.
Why something happened is the field `reason`, and not in the message too.
No secret is in any of them: options are never logged, and errors carry none.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from dynamic_kafka.driver.driver_log import StandardErrorHandler

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One event a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """A line for people; the field `reason` of an event ends it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line; tracebacks follow it."""
        reason = getattr(record, "reason", None)
        return super().formatMessage(record) + (f": {reason}" if reason else "")


def set_up_logs(form: str, *, quiet_batches: bool = False) -> None:
    """Let this package's loggers write to standard error.

    Args:
        form: `json` or `text`.
        quiet_batches: leave out the event of each batch, which a live display shows already.
    """
    handler = StandardErrorHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    if quiet_batches:
        handler.addFilter(lambda record: getattr(record, "event", None) != "batch")
    logger = logging.getLogger("dynamic_kafka")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logging.getLogger("dynamic_kafka.librdkafka").setLevel(logging.ERROR)
