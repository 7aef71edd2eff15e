"""How a planner's process is set up: what it says without logging of its own, its collector, and what it gives back."""

from __future__ import annotations

import ctypes
import gc
import io
import logging
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from dynamic_kafka.options import parse_options
from dynamic_kafka.spark.planner_process import TRIM_EVERY, HeapTrim, set_up_planner_process, show_driver_log
from dynamic_kafka.spark.stream_reader import DynamicKafkaStreamReader


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


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def test_what_was_freed_between_things_that_stay_is_given_back_after_so_many_rounds() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(40_000) for _ in range(2_000)]
    for block in blocks:
        ctypes.memset(block, 1, 40_000)
    for block in blocks[:-1]:  # the last one keeps the C library from giving back the rest by itself
        libc.free(block)
    trim, full = HeapTrim(), resident_mb()
    for _ in range(TRIM_EVERY - 1):
        trim.round_is_over()
    assert resident_mb() > full - 10, "not after each round: that would cost more than it gives"
    trim.round_is_over()
    assert resident_mb() < full - 50
    libc.free(blocks[-1])


def test_each_plan_of_a_stream_counts_as_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[str] = []

    class Planner:
        def latest(self, start: dict[str, Any], *, unlimited: bool) -> dict[str, Any]:
            assert unlimited
            return start

    monkeypatch.setattr(HeapTrim, "round_is_over", lambda _: rounds.append("round"))
    options = {"metadataService": "static", "metadataDocument": "{}", "streamIds": "orders"}
    reader = DynamicKafkaStreamReader(parse_options(options, mode="streaming"))
    reader._made = Planner()  # type: ignore[assignment]
    for _ in range(3):
        reader.latestOffset({"version": 2}, ReadAllAvailable())
    assert rounds == ["round"] * 3
