"""The planner process: its garbage collection, and its trims of the heap."""

from __future__ import annotations

import gc
import logging
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from dynamic_kafka.driver.heap_trim import HeapTrimmer
from dynamic_kafka.metadata import discovery
from dynamic_kafka.options import parse_options
from dynamic_kafka.spark.planner_process import set_up_planner_process
from dynamic_kafka.spark.stream_reader import DynamicKafkaStreamReader


def test_the_objects_of_a_plan_cause_no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.NullHandler()])
    collections: list[str] = []

    def count(phase: str, _: object) -> None:
        collections.append(phase)

    before = gc.get_threshold()
    set_up_planner_process()
    gc.collect()
    gc.callbacks.append(count)
    try:
        kept = [[number] for number in range(400_000)]
    finally:
        gc.callbacks.remove(count)
        gc.set_threshold(*before)
        gc.unfreeze()
    assert (len(kept), collections) == (400_000, [])


def test_each_plan_of_a_stream_counts_for_the_heap_trim(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[str] = []

    class Planner:
        def latest(self, start: dict[str, Any], *, unlimited: bool) -> dict[str, Any]:
            assert unlimited
            return start

    monkeypatch.setattr(HeapTrimmer, "count_round", lambda _: rounds.append("round"))
    options = {"metadataService": "static", "metadataDocument": "{}", "streamIds": "orders"}
    reader = DynamicKafkaStreamReader(parse_options(options, mode="streaming"))
    reader._enumerator = Planner()  # type: ignore[assignment]
    for _ in range(3):
        reader.latestOffset({"version": 2}, ReadAllAvailable())
    assert rounds == ["round"] * 3


def test_new_metadata_is_logged_once_by_the_planner(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The line about metadata in force follows at once."""
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    logger = logging.getLogger(discovery.__name__)
    monkeypatch.setattr(logger, "filters", [])
    set_up_planner_process()
    with caplog.at_level(logging.INFO):
        logger.info(discovery.WAS_READ, "sha256:1", "east")
        logger.info("another line")
    assert [record.message for record in caplog.records] == ["another line"]
