"""A bounded query is stopped when all its splits ended."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from dynamic_kafka.planning.codec import encode
from dynamic_kafka.planning.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.stopping import is_finished, stop_when_finished


def document(following: int, *, bounded: bool = True) -> dict[str, Any]:
    topic = TopicProgress("s", {0: following}, stops={0: 10})
    clusters = {"east": ClusterProgress({"t": topic})}
    return encode(OffsetDocument("q", 1, "p", bounded=bounded, clusters=clusters))


def progress(*ends: Any) -> Any:
    """A progress event as Spark makes it, one source per end."""
    return SimpleNamespace(json=json.dumps({"sources": [{"endOffset": end} for end in ends]}))


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
