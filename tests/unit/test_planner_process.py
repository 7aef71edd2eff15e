"""How a planner's process is set up: what it says on standard error, without logging of its own, and its collector."""

from __future__ import annotations

import gc
import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dynamic_kafka.planner_process import set_up_planner_process, show_driver_log


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


def test_a_planner_does_not_look_for_cycles_several_times_a_plan() -> None:
    looks: list[str] = []

    def heard(phase: str, _: object) -> None:
        looks.append(phase)

    before = gc.get_threshold()
    with a_process_without_logging(logging.NullHandler()):
        set_up_planner_process()
    gc.collect()
    gc.callbacks.append(heard)
    try:
        kept = [[number] for number in range(7_000)]
    finally:
        gc.callbacks.remove(heard)
        gc.set_threshold(*before)
        gc.unfreeze()
    assert (len(kept), looks) == (7_000, [])
