"""The status of a sink's query while it has no batch; `test_metrics.py` has its metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dynamic_kafka.driver.report.sink_status import StatusBoard
from dynamic_kafka.planning.document.codec import encode
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.splits import Split

OLD = Split("east", "old", 0)


def document(number: int, next_offset: int) -> OffsetDocument:
    east = ClusterProgress({"old": TopicProgress("orders", {0: next_offset})}, "K")
    return OffsetDocument("q", number, clusters={"east": east})


def noted(reached: OffsetDocument | None) -> dict[str, Any]:
    """Return Spark's progress of a trigger without news."""
    wire = None if reached is None else encode(reached)
    latest = {"clusters": {}, "document": 1, "revision": "17"}
    return {
        "sources": [{"endOffset": {"t": {"0": 1}}}, {"startOffset": wire, "endOffset": wire, "latestOffset": latest}]
    }


def test_idle_progress_replaces_an_unreadable_checkpoint() -> None:
    board = StatusBoard(["lake"])
    board.idle("lake", noted(document(3, 9)))
    assert board.sinks()["lake"].document.next_of(OLD) == 9


def test_how_far_a_query_is_by_its_batches_is_not_told_again() -> None:
    board = StatusBoard(["lake"])
    board.restored("lake", [document(3, 9)], 1.0)
    before = board.sinks()["lake"].document
    board.idle("lake", noted(document(3, 9)))
    assert board.sinks()["lake"].document is before


def test_a_batch_is_counted_by_its_event_only() -> None:
    board = StatusBoard(["lake"])
    event = noted(document(3, 9))
    event["sources"][1]["startOffset"] = encode(document(2, 4))
    board.idle("lake", event)
    assert board.sinks()["lake"].document.is_initial
    board.progress("lake", {"batchId": 0, **event}, 1.0)
    assert board.sinks()["lake"].records == {OLD: 5}


def test_a_late_event_takes_nothing_back() -> None:
    # Given a query whose end has shown its last batch before the event of the one before arrives
    board = StatusBoard(["lake"])
    last, late = noted(document(3, 9)), noted(document(2, 4))
    last["sources"][1]["startOffset"] = encode(document(2, 4))
    late["sources"][1]["startOffset"] = encode(document(1, 1))
    board.progress("lake", {"batchId": 1, **last}, 1.0)
    board.update("lake", state="finished")

    # Then its records count, and the log has its number
    status = board.progress("lake", {"batchId": 0, "numInputRows": 3, **late}, 2.0)
    assert status is not None and (status.batch, status.rows) == (0, 3)
    shown = board.sinks()["lake"]
    assert (shown.document.number, shown.batch, shown.records) == (3, 1, {OLD: 8})


def test_a_query_that_has_never_had_a_batch_is_nowhere() -> None:
    board = StatusBoard(["lake"])
    board.idle("lake", noted(None))
    assert board.sinks()["lake"].document.is_initial


def test_what_executors_have_read_counts_not_what_was_planned() -> None:
    # Given batches of which executors end the ranges early
    board = StatusBoard(["lake"])
    planned = [replace(document(number, 9), by_value=1) for number in (2, 3)]
    board.restored("lake", planned[:1], 1.0)
    board.read_up_to("lake", [replace(document(2, 4), by_value=0)], 2.0)
    assert board.sinks()["lake"].next_offsets == {OLD: 4}

    # When the next one has ended
    event = noted(planned[1])
    event["sources"][1]["startOffset"] = encode(planned[0])
    board.progress("lake", {"batchId": 1, **event}, 3.0)
    board.read_up_to("lake", [replace(document(3, 6), by_value=0)], 3.0)

    # Then two records were read
    status = board.sinks()["lake"]
    assert (status.next_offsets, status.records, status.advanced_at) == ({OLD: 6}, {OLD: 2}, {OLD: 3.0})
    assert status.documents == (planned[1],)
