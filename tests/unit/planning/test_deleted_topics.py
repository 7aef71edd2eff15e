"""Deleted topics that a pattern on a single cluster matched: a loss, unless all records were read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.questions import run_steps
from dynamic_kafka.planning.sameness.deleted_topics import mark_deleted_topics
from tests.unit.planning.plans import all_logs_begin_at_zero, plan_input

GONE, KEPT = "orders-gone", "orders-kept"
READING = ClusterProgress({name: TopicProgress(name, {0: 3}) for name in (GONE, KEPT)})
SEEN = {KEPT: TopicObservation({0: 9})}


@pytest.mark.parametrize("listed", [False, True], ids=["the list first", "the plan first"])
@pytest.mark.parametrize(
    ("pattern", "ended", "is_loss"),
    [
        ("orders-.*", 4, True),
        ("orders-.*", None, True),  # unknown: the query has just started
        ("orders-.*", 3, False),
        ("other-.*|orders-kept", 4, False),  # the user removed it on purpose
    ],
)
def test_a_deleted_topic_is_lost_in_either_order(pattern: str, ended: int | None, is_loss: bool, listed: bool) -> None:
    listed = listed and pattern.startswith("orders")  # the list has only topics that match the pattern
    cluster = SubscribedCluster({KEPT: KEPT} | ({GONE: GONE} if listed else {}), {})
    answer = ClusterObservation(SEEN, "K", frozenset({GONE} if listed else ()))
    document = OffsetDocument("q", 3, "p", clusters={"default": READING})
    given = replace(
        plan_input(document, {"default": cluster}, {"default": answer}),
        options=parse_options({"kafka.bootstrap.servers": "x:1", "subscribePattern": pattern}, mode="streaming"),
        topic_ends={} if ended is None else {"default": {GONE: {0: ended}}},
    )
    wanted, observed = run_steps(mark_deleted_topics(given), all_logs_begin_at_zero)
    assert observed["default"].missing == (frozenset({GONE}) if is_loss else frozenset())
    assert set(wanted["default"].topics) == ({GONE, KEPT} if is_loss else {KEPT})
