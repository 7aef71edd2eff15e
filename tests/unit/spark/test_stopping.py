"""A bounded query is stopped when all its splits ended."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from dynamic_kafka.planning.codec import encode
from dynamic_kafka.planning.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.spark.stopping import is_finished, stop_when_finished


def document(following: int, *, bounded: bool = True) -> dict[str, Any]:
    topic = TopicProgress("s", {0: following}, stops={0: 10})
    clusters = {"east": ClusterProgress({"t": topic})}
    return encode(OffsetDocument("q", 1, "p", bounded=bounded, clusters=clusters))


def progress(*ends: Any, told: Any = None) -> Any:
    """A progress event as Spark makes it, one source per end; the planner says `told`, by default that it is done."""
    latest = {"finished": True} if told is None else told
    return SimpleNamespace(json=json.dumps({"sources": [{"endOffset": end, "latestOffset": latest} for end in ends]}))


class Query:
    """A query that tells its progress, event by event, and ends by itself when it has no more to tell."""

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
def test_it_is_finished_when_every_split_is() -> None:
    assert finished(document(10))
    assert not finished(document(9))


@pytest.mark.parametrize("told", [{}, {"finished": False}, "finished", {"version": 2, "clusters": {}}])
def test_what_the_last_batch_left_out_is_still_to_be_read(told: Any) -> None:
    assert not is_finished(progress(document(10), told=told))


def test_a_source_whose_planner_says_nothing_is_not_done() -> None:
    event = SimpleNamespace(json=json.dumps({"sources": [{"endOffset": document(10)}]}))
    assert not is_finished(event)


def test_the_planner_alone_does_not_end_a_batch_that_is_not_done() -> None:
    assert not is_finished(progress(document(9), told={"finished": True}))


def test_with_two_sources_both_have_to_be() -> None:
    assert finished(document(10), document(10))
    assert not finished(document(10), document(9))


def test_an_unbounded_query_never_is() -> None:
    assert not finished(document(10, bounded=False))


@pytest.mark.parametrize("end", [None, {"orders": {"0": 42}}, 7, {"version": 2}])
def test_other_sources_do_not_count(end: Any) -> None:
    assert not finished(end)
    assert finished(end, document(10))


def test_without_progress_it_is_not() -> None:
    assert not is_finished(None)


@pytest.mark.parametrize("before", [(), (document(3), document(7))], ids=["at once", "later"])
def test_it_is_stopped_then(before: Iterable[Any]) -> None:
    query = Query(*map(progress, before), progress(document(10)))
    assert stop_when_finished(query)  # type: ignore[arg-type]
    assert query.stopped


def test_a_query_that_ends_by_itself_is_left_alone() -> None:
    query = Query(progress(document(3)))
    assert not stop_when_finished(query)  # type: ignore[arg-type]
    assert not query.stopped


def test_time_runs_out() -> None:
    query = Query(progress(document(3)), ends=False)
    assert not stop_when_finished(query, timeout_s=2)  # type: ignore[arg-type]
    assert not query.stopped
