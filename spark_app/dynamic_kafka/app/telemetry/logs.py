"""The application's log: lines of text on a terminal, one JSON object a line elsewhere. Driver; `run` sets it up.

A JSON line has `time`, `level`, `logger` and `message`. An event adds `event` and fields of its own. Its cause is in
the field `reason`, and not in the message as well. No line holds a secret, since options are never logged and errors
carry none.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from dynamic_kafka.driver.driver_log import StandardErrorHandler

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """A formatter that writes each record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
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
    """A formatter for people. The field `reason` of an event ends the line, except where the last event repeats it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line without its traceback."""
        reason = getattr(record, "reason", None) if getattr(record, "event", None) != "failed" else None
        return super().formatMessage(record) + (f": {reason}" if reason else "")


def set_up_logs(form: str, *, quiet_batches: bool = False) -> None:
    """Make this package's loggers write to standard error.

    Args:
        form: `json` or `text`.
        quiet_batches: whether to leave out the event of each batch, which a live table shows already.
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
