"""`stop_when_finished` stops a bounded query when all its splits have reached their stopping offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from dynamic_kafka.planning.document.codec import encode
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.spark.stopping import is_finished, stop_when_finished


def document(following: int, *, bounded: bool = True) -> dict[str, Any]:
    topic = TopicProgress("s", {0: following}, stops={0: 10})
    clusters = {"east": ClusterProgress({"t": topic})}
    return encode(OffsetDocument("q", 1, "p", bounded=bounded, clusters=clusters))


def progress(*ends: Any, report: Any = None) -> Any:
    """Return a progress event as Spark makes it, one source per end; the planner's report is finished by default."""
    latest = {"finished": True} if report is None else report
    return SimpleNamespace(json=json.dumps({"sources": [{"endOffset": end, "latestOffset": latest} for end in ends]}))


class Query:
    """A query that shows its events one by one, and then ends by itself if `ends` is set."""

    def __init__(self, *events: Any, ends: bool = True) -> None:
        self.events = list(events)
        self.ends = ends
        self.stopped = False
        self.lastProgress: Any = None

    def awaitTermination(self, timeout: float) -> bool:
        if self.events:
            self.lastProgress = self.events.pop(0)
            return False
        return self.ends

    def stop(self) -> None:
        self.stopped = True


def finished(*ends: Any) -> bool:
    return is_finished(progress(*ends))


@pytest.mark.scenario(34)
def test_a_query_is_finished_when_every_split_is() -> None:
    assert finished(document(10))
    assert not finished(document(9))


@pytest.mark.parametrize("report", [{}, {"finished": False}, "finished", {"version": 2, "clusters": {}}])
def test_ranges_left_out_of_the_last_batch_keep_it_unfinished(report: Any) -> None:
    assert not is_finished(progress(document(10), report=report))


def test_a_source_without_a_planner_report_is_not_finished() -> None:
    event = SimpleNamespace(json=json.dumps({"sources": [{"endOffset": document(10)}]}))
    assert not is_finished(event)


def test_a_batch_before_the_stopping_offset_is_not_finished() -> None:
    assert not is_finished(progress(document(9), report={"finished": True}))


def test_two_sources_both_need_to_be_finished() -> None:
    assert finished(document(10), document(10))
    assert not finished(document(10), document(9))


def test_an_unbounded_query_is_never_finished() -> None:
    assert not finished(document(10, bounded=False))


@pytest.mark.parametrize("end", [None, {"orders": {"0": 42}}, 7, {"version": 2}])
def test_other_sources_do_not_count(end: Any) -> None:
    assert not finished(end)
    assert finished(end, document(10))


def test_a_query_without_progress_is_not_finished() -> None:
    assert not is_finished(None)


@pytest.mark.parametrize("before", [(), (document(3), document(7))], ids=["at once", "later"])
def test_a_finished_query_is_stopped(before: Iterable[Any]) -> None:
    query = Query(*map(progress, before), progress(document(10)))
    assert stop_when_finished(query)  # type: ignore[arg-type]
    assert query.stopped


def test_a_query_that_ends_by_itself_is_left_alone() -> None:
    query = Query(progress(document(3)))
    assert not stop_when_finished(query)  # type: ignore[arg-type]
    assert not query.stopped


def test_waiting_ends_after_the_timeout() -> None:
    query = Query(progress(document(3)), ends=False)
    assert not stop_when_finished(query, timeout_s=2)  # type: ignore[arg-type]
    assert not query.stopped


def test_a_query_that_is_over_is_finished() -> None:
    topics = {"t": TopicProgress("s", {0: 7}, ended={0: 7})}
    ended = OffsetDocument("q", 1, "p", clusters={"east": ClusterProgress(topics)})
    over = OffsetDocument("q", 1, "p", clusters=ended.clusters, over=True)
    assert finished(encode(over))
    # Without that mark, a plan still has to find that no cluster has more splits
    assert not finished(encode(ended))
