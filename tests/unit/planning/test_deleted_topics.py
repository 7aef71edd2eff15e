"""Topics of one cluster that a pattern chose and that are deleted: a loss, unless all was read."""

from __future__ import annotations

import pytest

from dynamic_kafka.planning.deleted_topics import tell_deleted
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation, WantedCluster
from dynamic_kafka.planning.progress import ClusterProgress, TopicProgress

GONE, KEPT = "orders-gone", "orders-kept"
READING = ClusterProgress({name: TopicProgress(name, {0: 3}) for name in (GONE, KEPT)})
SEEN = {KEPT: TopicObservation({0: 9})}


@pytest.mark.parametrize("listed", [False, True], ids=["the list first", "the plan first"])
@pytest.mark.parametrize(
    ("pattern", "ended", "is_loss"),
    [
        ("orders-.*", 4, True),
        ("orders-.*", None, True),  # nobody knows: the query has just started
        ("orders-.*", 3, False),
        ("other-.*|orders-kept", 4, False),  # it is not chosen any more, on purpose
    ],
)
def test_a_deleted_topic_is_lost_whoever_looks_first(
    pattern: str, ended: int | None, is_loss: bool, listed: bool
) -> None:
    listed = listed and pattern.startswith("orders")  # the list has only what the pattern chooses
    want = WantedCluster({KEPT: KEPT} | ({GONE: GONE} if listed else {}))
    answer = ClusterObservation(SEEN, "K", frozenset({GONE} if listed else ()))
    ends = {} if ended is None else {GONE: {0: ended}}
    wanted, observed = tell_deleted(pattern, READING, want, answer, ends)
    assert observed.missing == (frozenset({GONE}) if is_loss else frozenset())
    assert set(wanted.topics) == ({GONE, KEPT} if is_loss else {KEPT})
