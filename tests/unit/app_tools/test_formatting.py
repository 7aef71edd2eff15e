"""Times and tables in the output of tools."""

from __future__ import annotations

import pytest

from dynamic_kafka.app.tools.audit import stamp
from dynamic_kafka.app.tools.formatting import shown_time, table

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("at", "now", "shown"),
    [
        (0, 0, "1970-01-01 00:00:00Z (in 0 s)"),
        (7 * DAY_MS, 0, "1970-01-08 00:00:00Z (in 7 d)"),
        (7 * DAY_MS, 20_000, "1970-01-08 00:00:00Z (in 7 d)"),
        (DAY_MS, 20_000, "1970-01-02 00:00:00Z (in 1 d)"),
        (0, 3_600_000, "1970-01-01 00:00:00Z (1 h ago)"),
    ],
)
def test_a_time_is_shown_with_its_distance(at: int, now: int, shown: str) -> None:
    assert shown_time(at, now) == shown


def test_stamps_sort_by_time() -> None:
    assert stamp(1_000_000_123_456_789) < stamp(1_000_000_999_999_999) == "19700112T134640.999999Z"


def test_a_table_aligns_numbers_right_and_shows_none_as_a_dash() -> None:
    assert table(("name", "count"), [("a", 7), ("bb", None), ("c", 120)]) == (
        "NAME  COUNT\na         7\nbb        -\nc       120"
    )
