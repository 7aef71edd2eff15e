"""The marks in a group's commits: another query's recent mark is refused, and clocks may differ."""

from __future__ import annotations

import time

import pytest

from dynamic_kafka.errors import GroupInUseError
from dynamic_kafka.kafka.commit_marks import CommitMark, check_group

MINE = CommitMark("mine", 3, 0)


def check_against(age_s: float) -> None:
    """Check a group in whose two partitions another query committed so many seconds ago, by its own clock."""
    mark = str(CommitMark("another", 7, int((time.time() - age_s) * 1000)))
    check_group("east", "g", {("orders", 0): (5, mark), ("orders", 1): (5, mark)}, MINE, allow_old=False)


@pytest.mark.parametrize(("age_s", "shown"), [(30.5, " 30 s ago: .* wait 30 s"), (-29.5, " 0 s ago: .* wait 90 s")])
def test_a_recent_mark_is_refused_with_the_wait(age_s: float, shown: str) -> None:
    with pytest.raises(GroupInUseError, match=shown):
        check_against(age_s)


def test_a_mark_from_the_future_is_a_warning_about_clocks(caplog: pytest.LogCaptureFixture) -> None:
    check_against(-86_400.5)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "query another" in warning and "86400 s in the future" in warning and "clock" in warning


def test_an_old_mark_is_no_matter(caplog: pytest.LogCaptureFixture) -> None:
    check_against(61.0)
    assert caplog.records == []
