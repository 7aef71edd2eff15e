"""A query with two sources of one stream, such as a self-join: its progress is that of the slower source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.app.telemetry.metrics import PREFIX, AppCollector
from dynamic_kafka.driver.report.drain_tracker import ClusterListing, DrainTracker
from dynamic_kafka.driver.report.reporter import CommittedProgress
from dynamic_kafka.driver.report.sink_status import StatusBoard
from dynamic_kafka.metadata.discovery_state import DiscoveryStatus
from dynamic_kafka.planning.document.codec import encode
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.state.checkpoints import Checkpoint

OLD = {"east": frozenset({"old"})}


def document(query: str, following: int) -> OffsetDocument:
    east = ClusterProgress({"old": TopicProgress("orders", {0: following}, starts={0: 0})}, "K")
    return OffsetDocument(query, 1, clusters={"east": east})


def source(reached: OffsetDocument, begun: OffsetDocument | None = None) -> dict[str, Any]:
    return {"startOffset": begun and encode(begun), "endOffset": encode(reached), "latestOffset": None}


def lag_by(board: StatusBoard) -> int | None:
    drains = DrainTracker()
    answer = ClusterObservation({"old": TopicObservation({0: 5})}, "K")
    drains.record(OLD, {"east": ClusterListing(10.0, 10.0, OLD["east"], answer)}, ())
    [state] = drains.states(CommittedProgress(board, {}).documents(), 10.0)
    return state.lag


def test_a_topic_is_not_drained_while_one_source_is_behind() -> None:
    # Given a batch of a self-join, whose second source planned without the slow cluster
    board = StatusBoard(["lake"])
    board.progress(
        "lake", {"batchId": 0, "sources": [source(document("first", 5)), source(document("second", 2))]}, 1.0
    )

    # Then the slower source decides how far the topic is
    assert lag_by(board) == 3


def test_the_metrics_of_a_split_are_those_of_the_slower_source() -> None:
    # Given a self-join, of which the second source is behind, and then advances alone
    board, ends = StatusBoard(["lake"]), {Split("east", "old", 0): 5}
    first, second = document("first", 5), document("second", 2)
    board.progress("lake", {"batchId": 0, "sources": [source(first), source(second)]}, 1.0)

    def samples() -> dict[str, float]:
        collector = AppCollector(
            board,
            ends=lambda: ends,
            discovery=lambda: DiscoveryStatus(None, 0, None, None),
            reads=lambda *_: {},
            named=lambda: (),
            unreachable=dict,
            clock=lambda: 10.0,
        )
        by_name = {sample.name: sample.value for family in collector.collect() for sample in family.samples}
        names = ("split_current_offset", "split_lag", "cluster_lag", "maxOffsetsBehindLatest")
        return {name: by_name[PREFIX + name] for name in (*names, "split_offsets_read_total", "split_idle_seconds")}

    # Then offset and lag are those of the slower one, and the offsets that both have read are added up
    assert list(samples().values()) == [2, 3, 3, 3, 5 + 2, 9]
    following = replace(second, number=2, clusters={"east": ClusterProgress({"old": TopicProgress("orders", {0: 4})})})
    board.progress("lake", {"batchId": 1, "sources": [source(first, first), source(following, second)]}, 7.0)
    assert list(samples().values()) == [4, 1, 1, 1, 5 + 4, 3]


def test_nor_is_it_after_a_restart_before_the_first_batch(tmp_path: Path) -> None:
    # Given Spark's log of such a batch
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
        logged = [json.dumps(encode(progress)) for progress in (document("first", 5), document("second", 2))]
        (tmp_path / folder / "0").write_text("\n".join(["v1", "{}", *logged]))

    # When the board shows it
    board = StatusBoard(["lake"])
    board.restored("lake", Checkpoint(str(tmp_path)).documents(0), 1.0)

    # Then the slower source decides
    assert lag_by(board) == 3


@pytest.mark.parametrize("idle", [False, True])
def test_the_reports_of_both_planners_count(idle: bool) -> None:
    # Given two planners, of which only the second one meets a silent cluster and refuses the metadata
    board = StatusBoard(["lake"])
    first = {"clusters": {"east": {"lag": 0}}, "document": 1, "revision": "17"}
    second = {"clusters": {"east": {"stalled": "no answer"}}, "waiting": {"west": "refused"}, "rejected": "wrong"}
    second |= {"neverReached": ["west"], "document": 1, "revision": "16"}
    sources = [
        {**source(document(name, 5)), "latestOffset": summary} for name, summary in (("1", first), ("2", second))
    ]
    event = {"batchId": 0, "sources": sources, "timestamp": "2026-01-01T00:00:00.000Z"}
    board.idle("lake", event) if idle else board.progress("lake", event, 1.0)

    # Then the status shows what either of them reports
    status = board.sinks()["lake"]
    assert (status.stalled, status.never_reached) == ({"east": "no answer", "west": "refused"}, {"west": "refused"})
    assert [summary["revision"] for summary in status.summaries] == ["17", "16"]
    assert status.triggered_at == event["timestamp"]


@pytest.mark.parametrize("idle", [False, True])
def test_a_planner_without_a_report_counts_as_behind(idle: bool) -> None:
    # Given two planners, of which one has not reported, and a source that is not ours
    board = StatusBoard(["lake"])
    first = {"clusters": {}, "document": 1, "revision": "17"}
    foreign = {"startOffset": None, "endOffset": {"t": {"0": 1}}, "latestOffset": {"t": {"0": 1}}}
    ours = [{**source(document("1", 5)), "latestOffset": first}, source(document("2", 5))]
    event = {"batchId": 0, "sources": [foreign, *ours]}
    board.idle("lake", event) if idle else board.progress("lake", event, 1.0)

    # Then an empty report stands for it, which holds the applied revision back
    assert board.sinks()["lake"].summaries == (first, {})


def test_an_event_without_any_report_keeps_the_last_ones() -> None:
    board = StatusBoard(["lake"])
    before = board.update("lake", summaries=({"revision": "17"},))
    board.idle("lake", {"sources": [source(document("1", 5))]})
    assert board.sinks()["lake"].summaries == before.summaries


def test_a_start_knows_the_ids_of_all_sources_of_the_query(tmp_path: Path) -> None:
    # Given Spark's log of a batch that is planned and not committed
    (tmp_path / "offsets").mkdir()
    logged = [json.dumps(encode(progress)) for progress in (document("first", 5), document("second", 2))]
    (tmp_path / "offsets" / "0").write_text("\n".join(["v1", "{}", *logged, "-", '{"topic": {"0": 1}}']))

    # Then a start has the ids of our sources, and without a batch none
    assert Checkpoint(str(tmp_path)).query_ids() == ["first", "second"]
    assert Checkpoint(str(tmp_path / "none")).query_ids() == []
