"""What the planner says on standard error, in a process without logging of its own."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dynamic_kafka.stream_reader import show_driver_log


@contextmanager
def a_process_without_logging(*handlers: logging.Handler) -> Iterator[logging.Logger]:
    """The package's logger while nobody has set it up, and the root logger has only these handlers."""
    root, logger, librdkafka = (logging.getLogger(name) for name in (None, "dynamic_kafka", "dynamic_kafka.librdkafka"))
    saved = root.handlers, logger.handlers, logger.level, librdkafka.level
    root.handlers, logger.handlers = list(handlers), []
    try:
        yield logger
    finally:
        root.handlers, logger.handlers = saved[:2]
        logger.setLevel(saved[2])
        librdkafka.setLevel(saved[3])


def test_it_goes_to_standard_error_also_when_that_was_exchanged_and_the_first_one_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = io.StringIO(), io.StringIO()
    with a_process_without_logging() as logger:
        monkeypatch.setattr(sys, "stderr", first)
        show_driver_log()
        logger.info("planned")
        assert first.getvalue().endswith(" INFO dynamic_kafka: planned\n")
        first.close()
        monkeypatch.setattr(sys, "stderr", second)
        logger.info("planned again")
        assert second.getvalue().endswith(" INFO dynamic_kafka: planned again\n")
        assert second.getvalue().count("\n") == 1


def test_a_users_own_handlers_are_left_alone() -> None:
    with a_process_without_logging(logging.NullHandler()) as logger:
        show_driver_log()
        assert logger.handlers == []
