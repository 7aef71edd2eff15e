"""The log filter for librdkafka's repeated lines."""

from __future__ import annotations

import logging

import pytest

from dynamic_kafka.app.cli import main
from dynamic_kafka.kafka.background import REPEAT_S, RepeatFilter, quiet_logger

LINE = (
    "FAIL [rdkafka#producer-{client}] [thrd:e:{port}/bootstrap]: e:{port}: Connect failed: refused (after {ms}ms{more})"
)


def line(client: int = 1, port: int = 9092, ms: int = 0, more: str = "") -> logging.LogRecord:
    text = LINE.format(client=client, port=port, ms=ms, more=more)
    return logging.LogRecord("dynamic_kafka.librdkafka", logging.ERROR, "", 0, "%s", (text,), None)


def test_a_repeated_line_is_logged_seldom_with_its_count() -> None:
    now = 0.0
    repeats = RepeatFilter(lambda: now)
    first = line()
    assert repeats.filter(first)
    assert first.getMessage().endswith("(after 0ms)")
    again = [line(ms=3), line(client=7), line(more=" in state CONNECT, 30 identical error(s) suppressed")]
    assert not any(repeats.filter(record) for record in again)
    assert repeats.filter(line(port=9093))  # of another broker
    now = REPEAT_S
    later = line(ms=5)
    assert repeats.filter(later)
    assert later.getMessage().endswith("(after 5ms) (repeated 3 times)")
    now = 2 * REPEAT_S
    last = line()
    assert repeats.filter(last) and last.getMessage().endswith("(after 0ms)")


def test_the_logger_has_one_filter() -> None:
    quiet_logger()
    assert [type(log_filter) for log_filter in quiet_logger().filters].count(RepeatFilter) == 1


def test_the_tools_do_not_log_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = quiet_logger()
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    assert main(["validate", "/nowhere/app.yaml"]) == 2
    try:
        assert not logger.isEnabledFor(logging.ERROR)
    finally:
        logger.setLevel(logging.NOTSET)
