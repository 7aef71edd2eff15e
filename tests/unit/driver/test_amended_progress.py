"""Ranges that a batch left out are not committed to the consumer groups."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from dynamic_kafka.app.query.sink_query import SinkQuery
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.store import StateLocation

OLD = Split("east", "old", 0)


def document(number: int, following: int, previous: str = "") -> OffsetDocument:
    east = ClusterProgress({"old": TopicProgress("orders", {0: following})}, "K")
    return OffsetDocument("q", number, previous, clusters={"east": east})


def leave_out(state: str, of: OffsetDocument, start: int, end: int) -> None:
    part = SplitRange(OLD, start, end)
    StateLocation(state).save_amendment(
        Amendment(of.query, of.number, of.previous, fingerprint(of), (part,), {"east": "unreachable"}, 1)
    )


@pytest.fixture
def committed() -> list[int | None]:
    return []


@pytest.fixture
def query(tmp_path: Path, committed: list[int | None]) -> SinkQuery:
    made = SinkQuery.__new__(SinkQuery)
    made._changelog = None
    made._progress, made._committed_before = {}, []
    options = SimpleNamespace(state_location=str(tmp_path / "state"), record_evaluator=None)
    made.options = options  # type: ignore[assignment]
    made.sink = SimpleNamespace(name="lake")  # type: ignore[assignment]
    made.committer = SimpleNamespace(commit=lambda reached: committed.append(reached.next_of(OLD)))  # type: ignore[assignment]
    return made


@pytest.mark.parametrize("late", [1, 4], ids=["an event from long before", "the last event"])
def test_a_range_left_out_is_committed_only_after_it_is_read(
    *, query: SinkQuery, tmp_path: Path, committed: list[int | None], monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    # Given a query that has read up to 5, and starts again with a batch up to 9
    before = document(4, 5)
    repeated = document(5, 9, fingerprint(before))
    checkpoint = SimpleNamespace(committed=3, documents=lambda batch: [before])
    monkeypatch.setattr(SinkQuery, "checkpoint", checkpoint)
    query.starting()
    query.started(SimpleNamespace())  # type: ignore[arg-type]
    query.commit(document(late, late + 1))  # its progress event comes only now
    leave_out(str(tmp_path / "state"), repeated, 5, 9)

    # When that batch is done without its range, and the next one reads it
    query.commit(repeated)
    query.commit(document(6, 9, fingerprint(repeated)))

    # Then
    assert committed == [late + 1, 5, 9]


def test_a_commit_never_passes_a_stop_record(query: SinkQuery, tmp_path: Path, committed: list[int | None]) -> None:
    query.options.record_evaluator = "m:f"  # type: ignore[misc]
    documents = [document(number, following) for number, following in ((1, 5), (2, 9), (3, 14))]
    report = {"offset": 11, "topicId": None}
    StateLocation(str(tmp_path / "state")).save_seen("q", fingerprint(documents[2]), "stop-record", OLD, report)
    for offset_document in documents:
        query.commit(offset_document)
    assert committed == [5, 9, 11]


def test_nothing_is_committed_while_the_state_is_unreadable(
    query: SinkQuery, tmp_path: Path, committed: list[int | None], caplog: pytest.LogCaptureFixture
) -> None:
    damaged = tmp_path / "state" / "q" / "amendments" / "000000000002-x-y-z.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{")
    query._committed_before = [1]
    query.commit(document(2, 9))
    assert committed == []
    assert re.search(r"sink lake: .*not committed", caplog.text)
