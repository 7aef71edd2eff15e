"""The planner's log lines reach standard error, unless the user has handlers."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dynamic_kafka.driver.driver_log import log_to_standard_error


@contextmanager
def process_without_logging(*handlers: logging.Handler) -> Iterator[logging.Logger]:
    """Yield the package's logger, without handlers; the root logger has only these handlers."""
    root, logger, librdkafka = (logging.getLogger(name) for name in (None, "dynamic_kafka", "dynamic_kafka.librdkafka"))
    saved = root.handlers, logger.handlers, logger.level, librdkafka.level
    root.handlers, logger.handlers = list(handlers), []
    try:
        yield logger
    finally:
        root.handlers, logger.handlers = saved[:2]
        logger.setLevel(saved[2])
        librdkafka.setLevel(saved[3])


def test_lines_follow_a_replaced_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = io.StringIO(), io.StringIO()
    with process_without_logging() as logger:
        monkeypatch.setattr(sys, "stderr", first)
        log_to_standard_error()
        logger.info("planned")
        assert first.getvalue().endswith(" INFO dynamic_kafka: planned\n")
        first.close()
        monkeypatch.setattr(sys, "stderr", second)
        logger.info("planned again")
        assert second.getvalue().endswith(" INFO dynamic_kafka: planned again\n")
        assert second.getvalue().count("\n") == 1


def test_a_users_own_handlers_are_left_alone() -> None:
    with process_without_logging(logging.NullHandler()) as logger:
        log_to_standard_error()
        assert logger.handlers == []
