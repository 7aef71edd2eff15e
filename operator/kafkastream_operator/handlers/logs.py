"""The log of the operator's process, as text or as JSON. Called at the start."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from dynamic_kafka.wording import without_secrets

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


class MaskedText(logging.Formatter):
    """Lines of text, without secrets: an error may quote what another program has written."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of one record."""
        return without_secrets(super().format(record))


class MaskedJson(logging.Formatter):
    """One JSON object a line, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one record."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
        }
        if record.exc_info:
            fields["exception"] = without_secrets(self.formatException(record.exc_info))
        return json.dumps(fields, ensure_ascii=False)


def start_logging(shape: str, level: str) -> None:
    """Log to stderr in one of the `FORMATS`, from one of the `LEVELS` on.

    The clients' logs stay at their levels: at `DEBUG` they have the content of all objects.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(MaskedJson() if shape == "json" else MaskedText())
    own = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(logging.INFO, own), handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel(max(logging.WARNING, own))
    logging.getLogger("kafkastream_operator").setLevel(own)
