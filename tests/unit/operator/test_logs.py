"""The operator's log: text or JSON, masked, and without the content of objects."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from kafkastream_operator.handlers.logs import FORMATS, start_logging

SECRET = "refused: sasl.password=hunter2, of https://bob:hunter2@registry"


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(logger_name) for logger_name in ("", "kopf", "kafkastream_operator")]
    handlers, levels = logging.getLogger().handlers[:], [logger.level for logger in loggers]
    yield
    logging.getLogger().handlers[:] = handlers
    for changed_logger, level in zip(loggers, levels, strict=True):
        changed_logger.setLevel(level)


def fail(log: logging.Logger) -> None:
    """Log an error of the program, whose text has a secret."""
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        log.warning("%s: failed: %s", "kss/app", error, exc_info=True)


def test_each_line_is_a_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("json", "info")
    log = logging.getLogger("kafkastream_operator.handlers.queue")
    log.info('a "quoted" text\nin two lines')
    fail(log)
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert first.pop("time").endswith("+00:00")
    assert first == {"level": "INFO", "logger": log.name, "message": 'a "quoted" text\nin two lines'}
    assert second["level"] == "WARNING" and "Traceback" in second["exception"]


@pytest.mark.parametrize("shape", FORMATS)
def test_no_format_shows_a_secret(shape: str, capsys: pytest.CaptureFixture[str]) -> None:
    start_logging(shape, "debug")
    fail(logging.getLogger("kafkastream_operator"))
    shown = capsys.readouterr().err
    assert "Traceback" in shown and "***" in shown
    assert "hunter2" not in shown


def test_a_level_leaves_out_the_lower_ones(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("text", "error")
    for name in ("kafkastream_operator.kube.api", "kopf.reactor", "asyncio"):
        logging.getLogger(name).warning("left out")
        logging.getLogger(name).error("kept")
    shown = capsys.readouterr().err
    assert shown.count("kept") == 3 and "left out" not in shown


def test_debug_leaves_out_the_content_of_objects(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("text", "debug")
    for name in ("kubernetes.client.rest", "urllib3.connectionpool", "kopf.objects"):
        logging.getLogger(name).debug("response body: {'data': {}}")
    logging.getLogger("kafkastream_operator.kube.api").debug("GET /api/v1/pods: 200")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(" DEBUG kafkastream_operator.kube.api: GET /api/v1/pods: 200")
