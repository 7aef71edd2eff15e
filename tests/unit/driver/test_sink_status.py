"""The status of a sink's query while it has no batch; `test_metrics.py` has its metrics."""

from __future__ import annotations

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
