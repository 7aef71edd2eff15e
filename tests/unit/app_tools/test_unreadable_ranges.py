"""A pending batch whose records are gone is found before a restart fails on it."""

from __future__ import annotations

import pytest

from dynamic_kafka.app.tools.preview import find_unreadable, unreadable_error
from dynamic_kafka.planning.observation import TopicObservation
from dynamic_kafka.planning.splits import Split, SplitRange

SPLIT = Split("east", "orders", 0)


@pytest.mark.parametrize(
    ("earliest", "latest", "reason"),
    [
        (0, 16, None),
        (0, 99, None),
        (4, 16, "records 0..4 have expired"),
        (90, 99, "records 0..16 have expired"),
        (0, 9, "records 9..16 are gone: the log ends at 9"),
    ],
)
def test_a_range_has_to_be_there_as_a_whole(earliest: int, latest: int, reason: str | None) -> None:
    seen = TopicObservation({0: latest}, {0: earliest})
    unreadable = find_unreadable([SplitRange(SPLIT, 0, 16)], lambda split: seen)
    assert unreadable == ({} if reason is None else {SPLIT: reason})


def test_records_after_an_open_transactions_start_are_not_gone() -> None:
    part = SplitRange(SPLIT, 0, 16)
    assert find_unreadable([part], lambda split: TopicObservation({0: 9}, {0: 0}, high={0: 16})) == {}
    cut_off = find_unreadable([part], lambda split: TopicObservation({0: 9}, {0: 0}, high={0: 12}))
    assert cut_off == {SPLIT: "records 12..16 are gone: the log ends at 12"}


def test_a_cluster_without_an_answer_has_no_findings() -> None:
    assert find_unreadable([SplitRange(SPLIT, 0, 16)], lambda split: None) == {}


def test_both_commands_that_help_are_named_in_order() -> None:
    reason = str(unreadable_error({SPLIT: "records 0..16 have expired"}))
    assert "have expired: abandon the range" in reason
    assert reason.index("abandon app.yaml east/orders/0") < reason.index("accept app.yaml --data-loss east/orders/0")
